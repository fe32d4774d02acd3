"""What the shell completes, by the protocol that the installed completion speaks."""

import pytest


@pytest.fixture
def folder(tmp_path):
    for name in ("add", "subtract"):
        (tmp_path / "environments" / name).mkdir(parents=True)
        (tmp_path / "environments" / name / "environment.py").touch()
    (tmp_path / "adder.py").touch()
    (tmp_path / "runs" / "add-1").mkdir(parents=True)
    (tmp_path / "runs" / "add-1" / "manifest.json").touch()
    (tmp_path / "runs" / "no-run").mkdir()
    return tmp_path


def completed(sandlot, folder, line: str) -> list[str]:
    words = line.split(" ")
    done = sandlot(cwd=folder, _SANDLOT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    return done.out.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("sandlot comp", ["compare"]),
        ("sandlot run environments/a", ["environments/add"]),
        ("sandlot run ad", ["adder.py"]),
        ("sandlot compare ", ["add-1", "runs/add-1"]),
        ("sandlot show ad", ["add-1", "adder.py"]),
        ("sandlot run adder.py --model scripted:g", ["scripted:golden"]),
    ],
)
def test_commands_environments_runs_and_models_are_completed(sandlot, folder, line, names):
    assert completed(sandlot, folder, line) == names
