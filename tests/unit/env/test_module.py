"""Modules beside an environment: imported as users write it, each environment's own, by one thread at a time."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

import sandlot
from sandlot.core.concurrency import isolate
from sandlot.core.errors import ConfigError
from sandlot.env.module import load_module

ENVIRONMENT = """
from sandlot import Environment, Task
{top}
env = Environment("{name}")

@env.tasks
def tasks(rng):
    yield Task("one", prompt="Say it.")

@env.check(points=1)
def right(evidence):
    {late}
    return evidence.answer == word()

@env.solution
async def solve(agent, task):
    {late}
    await agent.say(word())
"""


def written(folder, name="env", top="", late="pass", **modules):
    folder.mkdir(parents=True, exist_ok=True)
    for module, text in modules.items():
        path = folder / f"{module.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    path = folder / f"{name}.py"
    path.write_text(ENVIRONMENT.format(name=name, top=top, late=late))
    return path


def scores(path, runs):
    return [trace.outcome for trace in sandlot.run(path, "scripted:golden", runs=runs)]


HELPER = "def word(): return 'mine'"


@pytest.mark.parametrize(
    "line",
    [
        "from helper import word",
        "import helper; word = helper.word",
        "import helper as other; word = other.word",
        "from . import helper; word = helper.word",
        "from .helper import word",
        "import pack.inner; word = pack.inner.word",
        "from pack.inner import word",
        "from pack import inner; word = inner.word",
        "import bare.inner; word = bare.inner.word",
    ],
)
@pytest.mark.parametrize("when", ["top", "late"])
def test_a_module_beside_a_file_is_imported_as_users_write_it(tmp_path, line, when):
    modules = {"helper": HELPER, "pack____init__": "", "pack__inner": "from helper import word", "bare__inner": HELPER}
    path = written(tmp_path / "place", **{when: line}, **modules)
    before = list(sys.path)
    assert [str(outcome.score) for outcome in scores(path, tmp_path / "runs")] == ["1/1"]
    assert sys.path == before
    assert not {"helper", "pack", "pack.inner", "bare"} & sys.modules.keys()


def test_two_environments_have_each_their_own_module_of_one_name(tmp_path):
    words = {}
    for name in ("first", "second"):
        path = written(
            tmp_path / name, top="import helper", late="from helper import word", helper=f"def word(): return '{name}'"
        )
        env = sandlot.load(path)
        words[name] = env.marked.solution.__globals__["helper"].word()
        assert [str(outcome.score) for outcome in scores(path, tmp_path / "runs" / name)] == ["1/1"]
    assert words == {"first": "first", "second": "second"}


async def test_an_isolated_function_has_its_own_module(tmp_path):
    for name in ("first", "second"):
        path = written(tmp_path / name, late="from helper import word", helper=f"def word(): return '{name}'\nclass Thing: pass")
        module = load_module(written(tmp_path / name, name="late", late="pass"))
        exec("def ask():\n    import helper\n    return helper.word()", vars(module))
        assert await isolate.call(module.ask) == name
        assert sandlot.load(path).name == "env"


def test_a_fresh_process_gives_each_environment_its_own_module(tmp_path):
    paths = [written(tmp_path / name, top="import helper", helper=f"def word(): return '{name}'") for name in ("first", "second")]
    code = "import sys, sandlot\nfor path in sys.argv[1:]: print(sandlot.load(path).marked.solution.__globals__['helper'].word())"
    done = subprocess.run([sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["first", "second"]


def test_two_files_of_one_folder_do_not_share_what_a_module_keeps(tmp_path):
    helper = "seen = []\ndef word(): return 'x'"
    one, two = (
        sandlot.load(written(tmp_path, name, top=f"import helper; helper.seen.append('{name}')", helper=helper))
        for name in ("one", "two")
    )
    assert one.marked.solution.__globals__["helper"].seen == ["one"]
    assert two.marked.solution.__globals__["helper"].seen == ["two"]


def test_the_standard_library_and_the_file_itself_are_not_shadowed(tmp_path):
    path = written(tmp_path, "numpy", top="import json, numpy; word = lambda: str(numpy.add(1, 1))", json="raise ValueError")
    assert [str(outcome.score) for outcome in scores(path, tmp_path / "runs")] == ["1/1"]


def test_a_missing_module_is_named_with_the_line(tmp_path):
    path = written(tmp_path, top="import helpr", helper=HELPER)
    with pytest.raises(ConfigError, match=rf"{path}:3: ModuleNotFoundError: No module named 'helpr'"):
        sandlot.load(path)


MEETING = """
import threading
barrier = threading.Barrier(2)
def meet():
    try:
        barrier.wait(0.2)
    except threading.BrokenBarrierError:
        pass
"""


@pytest.mark.parametrize("trial", range(5))
def test_modules_that_import_each_other_are_imported_by_one_thread_at_a_time(tmp_path, trial):
    """Without the lock, threads that begin at both ends of a circle see a half-done module in most trials."""
    path = written(
        tmp_path,
        top="import gate\ndef begin_a():\n    import a\n    a.one()\ndef begin_b():\n    import b\n    b.two()\n",
        gate=MEETING,
        a="import gate\ngate.meet()\nimport b\ndef one(): return b.two",
        b="import gate\ngate.meet()\nimport a\ndef two(): return a.one",
    )
    module = load_module(path)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(function) for function in (module.begin_a, module.begin_b)]
    assert [future.exception() for future in asked] == [None, None]


async def test_loading_one_file_in_several_threads_gives_one_whole_module(tmp_path):
    path = written(tmp_path, top="import threading; threading.Event().wait(0.05)")
    found = []

    async def load():
        found.append(await anyio.to_thread.run_sync(sandlot.load, path))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(load)
    assert len({id(env) for env in found}) == 1


@pytest.mark.parametrize("name", ["env", "environment"])
def test_a_file_that_was_changed_is_loaded_as_it_is_now(tmp_path, name):
    path = written(tmp_path, name=name, top="from helper import word, want", helper="def word(): return 'a'\nwant = 'a'")
    path.write_text(path.read_text().replace("== word()", "== want"))
    first = sandlot.load(path)
    assert [score.score.value for score in scores(path, tmp_path / "runs")] == [1.0]
    assert sandlot.load(path) is first
    (tmp_path / "helper.py").write_text("def word(): return 'a'\nwant = 'b'")  # the same size, within the same second
    assert [score.score.value for score in scores(path, tmp_path / "runs")] == [0.0]
    assert sandlot.load(path) is not first


def test_a_folder_that_was_changed_is_loaded_as_it_is_now(tmp_path):
    (tmp_path / "environment.toml").write_text('name = "notes"')
    (tmp_path / "tasks.py").write_text("from sandlot import Task\ndef tasks(rng): yield Task('one', prompt='a')")
    (tmp_path / "checks.py").write_text("def right(evidence, task): return True")
    (tmp_path / "rubrics").mkdir()
    (tmp_path / "rubrics/default.json").write_text(
        '{"format": 1, "checks": [{"kind": "python", "id": "right", "ref": "checks:right", "points": 1}]}'
    )
    assert [trace.reward for trace in sandlot.run(tmp_path, "scripted:noop", runs=tmp_path / "runs")] == [1.0]
    (tmp_path / "checks.py").write_text("def right(evidence, task): return not 1")
    assert [trace.reward for trace in sandlot.run(tmp_path, "scripted:noop", runs=tmp_path / "runs")] == [0.0]
