"""The environment's files for a worker on a machine that does not have them."""

from pathlib import Path

import anyio
import msgspec
import pytest

from sandlot.core.errors import ConfigError, HarnessError, SandboxError
from sandlot.core.trace import Scored
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.run.executors import setup as sending
from sandlot.run.executors import worker
from sandlot.run.executors.executor import ExecutorPlan
from sandlot.run.executors.messages import (
    EvidenceStored,
    GradeRollout,
    RolloutDone,
    RolloutRaised,
    SentFiles,
    SetUp,
    TakeRollout,
    WorkerReady,
)
from sandlot.run.executors.setup import describe_difference, pack_files, setup_of, task_digest, unpack_files
from sandlot.run.executors.worker import serve_run
from worlds.executors import CHORES, config_of

ENVIRONMENT = """
from sandlot import Environment, Task
from helper import answer_of

env = Environment("adder")

@env.tasks
def tasks(rng):
    yield Task("one", prompt="1 + 1?", key={"answer": "2"})

@env.check(points=1)
def right(evidence, task):
    return evidence.answer == answer_of(task)

@env.solution
async def solve(agent, task):
    await agent.say(answer_of(task))
"""


def moved_away(tmp_path, name: str) -> SetUp:
    """The setup of a run whose environment is not where it was, as on another machine."""
    home = tmp_path / "home"
    home.mkdir()
    (home / name).write_text(ENVIRONMENT)
    (home / "helper.py").write_text("def answer_of(task):\n    return task.key['answer']\n")
    (home / "unused.py").write_text("")
    env = load(home / name)
    plan = ExecutorPlan(
        env=env,
        config=msgspec.structs.replace(config_of(), env=str(home / name)),
        fingerprint=environment_fingerprint(env),
        cache=home / "judge",
        stop=print,
    )
    setup = msgspec.structs.replace(setup_of(plan, 1), sent=pack_files(env))
    home.rename(tmp_path / "elsewhere")
    return setup


async def said_by_worker(setup: SetUp, *orders) -> list:
    said = []
    giving, given = anyio.create_memory_object_stream(10)
    for order in orders:
        giving.send_nowait(order)

    def note(message) -> None:
        said.append(message)
        if isinstance(message, EvidenceStored):
            giving.send_nowait(GradeRollout(number=message.number))
        if isinstance(message, RolloutDone):
            giving.close()

    async def each():
        async for order in given:
            yield order

    with giving, given:
        await serve_run(setup, each(), note)
    return said


def order_of(setup: SetUp, **changed) -> TakeRollout:
    [task] = tasks_of(load(Path(setup.config.env.replace("home", "elsewhere"))))
    return TakeRollout(**{"number": 1, "task": task.id, "digest": task_digest(task), "rollout": 0, "run": "r"} | changed)


@pytest.mark.parametrize("changed", [{"task": "two"}, {"digest": "of another task with this name"}])
async def test_a_task_that_a_worker_does_not_have_is_refused_and_the_worker_goes_on(tmp_path, changed):
    setup = moved_away(tmp_path, "adder.py")
    _, refusal, *_, done = await said_by_worker(setup, order_of(setup, **changed), order_of(setup, number=2))
    assert isinstance(refusal, RolloutRaised)
    assert "is not the same for this worker" in refusal.error
    assert (done.number, done.trace.reward) == (2, 1.0)


@pytest.mark.parametrize("name", ["adder.py", "environment.py"])
async def test_a_worker_without_the_files_uses_those_that_are_sent(tmp_path, name):
    setup = moved_away(tmp_path, name)
    assert "helper.py" in setup.sent.files
    said = await said_by_worker(setup, order_of(setup))
    assert isinstance(said[0], WorkerReady)
    assert isinstance(said[-1].trace.outcome, Scored)
    assert said[-1].trace.reward == 1.0


async def test_files_that_changed_on_the_way_are_refused(tmp_path):
    setup = moved_away(tmp_path, "adder.py")
    sent = msgspec.structs.replace(setup.sent, files={**setup.sent.files, "helper.py": b"answer_of = str\n"})
    (refusal,) = await said_by_worker(msgspec.structs.replace(setup, sent=sent))
    assert "differs from the one that the run began with" in refusal.reason


async def test_files_that_are_there_and_differ_are_refused_too(tmp_path):
    setup = moved_away(tmp_path, "adder.py")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "adder.py").write_text(ENVIRONMENT.replace("1 + 1?", "2 + 0?"))
    (tmp_path / "home" / "helper.py").write_text("def answer_of(task):\n    return task.key['answer']\n")
    (refusal,) = await said_by_worker(setup)
    assert "differs from the one that the run began with" in refusal.reason


@pytest.mark.parametrize(("kind", "error"), [("died", HarnessError), ("config", ConfigError)])
async def test_what_died_while_a_worker_was_opened_ends_that_worker_and_not_the_run(tmp_path, monkeypatch, kind, error):
    async def open_nothing(*_args):
        raise SandboxError("the sandbox zygote died", kind=kind)

    monkeypatch.setattr(worker, "open_everything", open_nothing)
    (refusal,) = await said_by_worker(moved_away(tmp_path, "adder.py"))
    assert isinstance(refusal.as_error(), error)
    assert str(refusal.as_error()) == "the sandbox zygote died"


def test_a_difference_is_named():
    wanted = {"`a.py`": "1", "`b.py`": "2", "image x": "3"}
    assert describe_difference(wanted, wanted) == ""
    assert describe_difference(wanted, wanted | {"`b.py`": "9"}) == "`b.py` differs"
    found = {"`a.py`": "1", "image x": "4", "`c.py`": "5"}
    assert describe_difference(wanted, found) == "image x differs; `b.py` is missing here; `c.py` is not in the run's"
    many = {f"`{number}`": "" for number in range(9)}
    assert describe_difference(many, {}) == "`0`, `1`, `2` and 6 others are missing here"


def test_files_outside_the_folder_are_not_written(tmp_path):
    sent = SentFiles(source="/x", entry="a.py", files={"../b.py": b""})
    with pytest.raises(ConfigError, match=r"`\.\./b\.py` is not below"):
        unpack_files(sent, tmp_path)
    assert not (tmp_path.parent / "b.py").exists()


def test_an_environment_that_is_installed_or_too_large_is_not_sent(tmp_path, monkeypatch):
    env = load(CHORES)
    assert pack_files(env).entry == "chores.py"
    monkeypatch.setattr(sending, "_MOST_SENT_BYTES", 10)
    assert pack_files(env) is None
    monkeypatch.undo()
    monkeypatch.setattr(env, "package", CHORES.parent)
    assert pack_files(env) is None
