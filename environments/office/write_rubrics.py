"""Write `rubrics/*.json` from the families: `python environments/office/write_rubrics.py`. A test holds them equal."""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def rubric_text(checks: list[dict[str, Any]]) -> str:
    lines = ",\n    ".join(json.dumps(check) for check in checks)
    return f'{{\n  "format": 1,\n  "checks": [\n    {lines}\n  ]\n}}\n'


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    from office.catalogue import FAMILIES

    for path in (HERE / "rubrics").glob("*.json"):
        path.unlink()
    for name, (_, checks) in FAMILIES.items():
        (HERE / "rubrics" / f"{name}.json").write_text(rubric_text(checks), encoding="utf-8")
