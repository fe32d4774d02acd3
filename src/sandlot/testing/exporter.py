"""What every exporter of the entry point group `sandlot.exporters` promises.

Your fixture is `exporter`, your exporter. The environment that it writes has sums to do: prompts, keys and a check, in a folder
with one file. If your format cannot express that, replace the fixture `env` below the import, by an environment with at least two
tasks.
"""

from pathlib import Path

import pytest

from sandlot.core.errors import ConfigError
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.interop.exporting import EnvironmentExport, Exporter

_SUMS = """\
from sandlot import Environment, Task

env = Environment("sums")


@env.tasks
def tasks(rng):
    for number in range(4):
        a, b = rng.randrange(100), rng.randrange(100)
        yield Task(f"sum-{number}", prompt=f"What is {a}+{b}?", key={"answer": str(a + b)})


@env.check(points=1)
def is_right(evidence, task):
    return evidence.answer.strip() == task.key["answer"]


@env.solution
async def solve(agent, task):
    await agent.say(task.key["answer"])
"""


def make_sums(home: Path) -> Environment:
    """The environment of this suite, in a new folder."""
    home.mkdir(parents=True)
    (home / "environment.py").write_text(_SUMS)
    return load(home)


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    """The environment that is exported."""
    return make_sums(tmp_path / "home" / "sums")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, among folders of others; the current one is another."""
    for name in ("out", "here"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.txt").write_text("mine")
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "out" / "new").mkdir()
    return tmp_path / "out" / "new"


def _bytes_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _others(folder: Path) -> dict[str, bytes]:
    """All files around, but for those of the export and the compiled ones of Python."""
    around = _bytes_below(folder.parents[1])
    return {path: data for path, data in around.items() if not path.startswith("out/new/") and "__pycache__" not in path}


def test_what_was_written_is_said_and_what_was_not_has_a_reason(exporter: Exporter, env: Environment, folder: Path) -> None:
    written = exporter.write(env, folder, limit=None)
    assert isinstance(written, EnvironmentExport)
    assert written.kind == exporter.kind
    assert written.tasks
    assert len(set(written.tasks)) == len(written.tasks), "a task is written once"
    ids = {task.id for task in tasks_of(env)}
    assert set(written.tasks) <= ids, "tasks have their own ids"
    assert all(each.what and each.why for each in written.left_out)
    assert set(written.tasks) == ids or written.left_out, "what is missing has a reason"
    assert _bytes_below(folder)


def test_nothing_outside_its_folder_is_touched(exporter: Exporter, env: Environment, folder: Path) -> None:
    before, place = _others(folder), folder.stat().st_ino
    (folder.parent / env.name).mkdir()
    (folder.parent / env.name / "mine.txt").write_text("mine")
    before[f"out/{env.name}/mine.txt"] = b"mine"
    exporter.write(env, folder, limit=None)
    assert _others(folder) == before
    assert folder.stat().st_ino == place, "the folder is written into, not replaced"


def test_the_same_environment_is_written_as_the_same_bytes_anywhere(exporter: Exporter, env: Environment, folder: Path) -> None:
    """So what is written does not say where: the folder is moved to its place when it is whole."""
    again = folder.parent / "again"
    again.mkdir()
    written = [exporter.write(env, place, limit=None) for place in (folder, again)]
    assert written[0].tasks == written[1].tasks
    assert _bytes_below(folder) == _bytes_below(again)
    assert [path for path, data in _bytes_below(folder).items() if str(folder).encode() in data] == []


def test_a_limit_is_kept_or_refused(exporter: Exporter, env: Environment, folder: Path) -> None:
    try:
        num_written = len(exporter.write(env, folder, limit=1).tasks)
    except ConfigError:
        num_written = None
    assert num_written in {1, None}


def test_the_environment_is_as_it_was(exporter: Exporter, env: Environment, folder: Path) -> None:
    before = tasks_of(env), vars(env).copy()
    exporter.write(env, folder, limit=None)
    assert (tasks_of(env), vars(env)) == before


def test_an_environment_that_cannot_be_written_is_a_config_error(exporter: Exporter, folder: Path) -> None:
    """An environment without tasks and files, for example."""
    with pytest.raises(ConfigError):
        exporter.write(Environment("empty"), folder, limit=None)


def test_its_kind_can_be_typed(exporter: Exporter) -> None:
    assert exporter.kind
    assert exporter.kind.isprintable()
    assert " " not in exporter.kind
