"""The package of the guide: built, installed into a fresh Python, found and run by its name. And ready environments, likewise."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

REPOSITORY = Path(__file__).parents[2]
GUIDE = REPOSITORY / "docs" / "guides" / "share-an-environment.md"
BLOCK = re.compile(r"^```(\w+) (acme-words/[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def ran(*argv: str | Path, cwd: Path) -> str:
    done = subprocess.run(list(map(str, argv)), cwd=cwd, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_the_guides_package_is_found_and_run_by_its_name(tmp_path: Path):
    for _, name, body in BLOCK.findall(GUIDE.read_text()):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)
    home, elsewhere = tmp_path / "venv", tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran(sys.executable, "-m", "venv", home, cwd=tmp_path)
    python = home / "bin" / "python"
    ran(python, "-m", "pip", "install", "--quiet", "--no-deps", tmp_path / "acme-words", cwd=tmp_path)
    site = Path(ran(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=tmp_path).strip())
    (site / "sandlot.pth").write_text(
        "\n".join([str(REPOSITORY / "src"), *(path for path in sys.path if "site-packages" in path)])
    )
    ran(python, "-m", "sandlot", "run", "words", "--model", "scripted:golden", cwd=elsewhere)
    shown = msgspec.json.decode(ran(python, "-m", "sandlot", "show", "words", "--json", cwd=elsewhere))
    assert (len(shown["tasks"]), shown["files"]) == (4, ["__init__.py", "environment.py", "words.json"])
    ran(python, "-m", "sandlot", "run", "arithmetic", "--model", "scripted:golden", cwd=elsewhere)
