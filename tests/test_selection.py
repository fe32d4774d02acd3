"""What a change can reach, on repositories of a few files."""

from pathlib import Path

import pytest

from selection import Selector, describe

FILES = {
    "Makefile": "",
    "requirements/dev.txt": "",
    "pyproject.toml": '[project]\nentry-points = {"sandlot.importers" = {bottles = "sandlot.interop.bottles:Importer"}}\n',
    "README.md": "",
    "src/sandlot/__init__.py": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
        "    from sandlot.run.run import run as run\n    from sandlot.core.task import Task as Task\n"
    ),
    "src/sandlot/core/__init__.py": "",
    "src/sandlot/core/task.py": "",
    "src/sandlot/run/__init__.py": "",
    "src/sandlot/run/run.py": "def run():\n    from sandlot.core.task import Task\n",
    "src/sandlot/run/templates/page.html": "",
    "src/sandlot/run/worker.py": "",
    "src/sandlot/run/starting.py": 'PROGRAM = "sandlot.run.worker"\n',
    "src/sandlot/interop/bottles.py": "",
    "src/sandlot/cli/main.py": "from sandlot.cli.commands import show, control\n",
    "src/sandlot/cli/commands/show.py": "from sandlot.cli.views import table\n",
    "src/sandlot/cli/commands/control.py": 'NAMES = ("pause", "resume")\n',
    "src/sandlot/cli/views/table.py": "",
    "src/sandlot/checks/__init__.py": '_CHECKS = {"same_text": "words"}\n',
    "src/sandlot/checks/words.py": "",
    "environments/sums/environment.py": "from sandlot import run\n",
    "environments/sums/data/numbers.csv": "",
    "environments/sums/tests/test_sums.py": 'FOLDER = "environments/sums"\n',
    "tests/conftest.py": "def engine():\n    from sandlot.run.worker import main\n",
    "tests/drive/command_line.py": "",
    "tests/worlds/notes.py": "",
    "tests/e2e/conftest.py": "def sandlot():\n    from drive.command_line import start\n",
    "tests/e2e/test_show.py": 'def test(sandlot):\n    sandlot("show")\n',
    "tests/e2e/test_resume.py": 'def test(sandlot):\n    sandlot("resume")\n',
    "tests/e2e/test_any.py": "def test(sandlot):\n    sandlot(word())\n",
    "tests/unit/cli/conftest.py": "from drive.command_line import start\n\ndef command():\n    return start\n",
    "tests/unit/cli/test_table.py": 'def test(command):\n    command("show")\n',
    "tests/unit/test_task.py": "from sandlot import Task\n",
    "tests/unit/test_run.py": "import sandlot\n\ndef test():\n    sandlot.run()\n",
    "tests/unit/test_door.py": "import sandlot\n",
    "tests/unit/test_engine.py": "def test(engine):\n    pass\n",
    "tests/unit/test_starting.py": "from sandlot.run.starting import PROGRAM\n",
    "tests/unit/test_import.py": 'SOURCE = "bottles:ten"\n',
    "tests/unit/test_check.py": 'CHECK = "same_text"\n',
    "tests/unit/test_notes.py": 'NOTES = HERE / "worlds" / "notes.py"\n',
    "tests/test_docs.py": "",
}


@pytest.fixture(scope="module")
def selector(tmp_path_factory) -> Selector:
    root = tmp_path_factory.mktemp("repository")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Selector(root, [*FILES])


def chosen(selector: Selector, *changed: str) -> set[str]:
    return {Path(path).stem.removeprefix("test_") for path in selector.select([*changed]).chosen}


@pytest.mark.parametrize(
    ("changed", "reached"),
    [
        ("src/sandlot/core/task.py", {"task", "run", "door", "sums"}),
        ("src/sandlot/run/run.py", {"run", "door", "sums"}),
        ("src/sandlot/run/worker.py", {"engine", "starting"}),
        ("src/sandlot/interop/bottles.py", {"import"}),
        ("src/sandlot/checks/words.py", {"check"}),
        ("src/sandlot/cli/views/table.py", {"show", "table", "any"}),
        ("src/sandlot/cli/commands/control.py", {"resume", "any"}),
        ("src/sandlot/cli/main.py", {"show", "table", "resume", "any"}),
        ("environments/sums/data/numbers.csv", {"sums"}),
        ("environments/sums/environment.py", {"sums"}),
        ("tests/worlds/notes.py", {"notes"}),
        ("tests/drive/command_line.py", {"show", "table", "resume", "any"}),
        ("tests/unit/test_task.py", {"task"}),
        ("README.md", {"docs"}),
        ("CHANGELOG.md", set()),
        ("tests/unit/test_removed.py", set()),
    ],
)
def test_a_change_reaches_the_tests_that_need_it(selector, changed, reached):
    assert chosen(selector, changed) == reached


def test_a_file_that_is_no_module_stands_for_the_modules_of_its_folder(selector):
    assert chosen(selector, "src/sandlot/run/templates/page.html") == {"run", "door", "sums", "engine", "starting"}


@pytest.mark.parametrize(
    "unmapped", ["pyproject.toml", "Makefile", "src/sandlot/removed.py", "requirements/dev.txt", "tests/conftest.py"]
)
def test_what_cannot_be_mapped_reaches_everything(selector, unmapped):
    selection = selector.select(["CHANGELOG.md", unmapped])
    assert selection.left_out == []
    assert unmapped in selection.why


def test_what_is_left_out_is_counted_by_room(selector):
    said = describe(selector.select(["src/sandlot/checks/words.py"]))
    assert said.startswith("1 of 14 test files run (1 changed files)")
    assert said.endswith("environments/sums/tests, tests, tests/e2e 3, tests/unit 7, tests/unit/cli")


def test_the_way_from_a_test_to_the_change_is_shown(selector):
    way = selector.way_to("tests/e2e/test_show.py", ["src/sandlot/cli/views/table.py"])
    assert way == ["tests/e2e/test_show.py", "src/sandlot/cli/commands/show.py", "src/sandlot/cli/views/table.py"]
    assert selector.way_to("tests/unit/test_task.py", ["src/sandlot/cli/views/table.py"]) == []
