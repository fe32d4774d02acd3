from pathlib import Path
import msgspec
from sandlot.rubric import Rubric
def load_rubric(path: Path) -> Rubric:
    return msgspec.json.decode(path.read_bytes(), type=Rubric)
