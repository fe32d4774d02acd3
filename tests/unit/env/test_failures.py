"""What a failure says: the author's file, line and frames; what a command printed; what an action is."""

import anyio
import msgspec
import pytest

import sandlot
from sandlot.cli.views.play import show_result
from sandlot.cli.views.show import show_trace
from sandlot.core.errors import AuthorError, HarnessError
from sandlot.core.trace import Failed, text_message
from sandlot.core.types import Role, Side
from sandlot.env.session import open_session
from sandlot.env.taskset import tasks_of
from sandlot.sandbox.native.backend import open_native

FILE = """
from sandlot import Environment, Task
from prices import price

env = Environment("shop")

@env.tasks
def tasks(rng):
    yield Task("one", prompt="Buy.")

@env.setup
def setup(world, task):
    {setup}

@env.tool{isolate}
def buy(good: str) -> str:
    "Buy it."
    return {tool}

@env.check(points=1)
def right(evidence, task):
    return {check}

@env.solution
async def solve(agent, task):
    await agent.call("buy", good="tea")
    {solution}
"""
GOOD = {"setup": "pass", "isolate": "", "tool": "'ok'", "check": "True", "solution": "pass"}
LINES = {"setup": (13, "setup"), "tool": (18, "buy"), "check": (22, "right"), "solution": (27, "solve")}


@pytest.mark.parametrize("where", ["setup", "tool", "isolated tool", "check", "solution"])
def test_a_failure_names_the_authors_frames(tmp_path, capsys, where):
    part = where.removeprefix("isolated ")
    parts = GOOD | {part: "price('tea')"} | ({"isolate": "(isolate=True)"} if part != where else {})
    path = tmp_path / "shop.py"
    path.write_text(FILE.format(**parts))
    (tmp_path / "prices.py").write_text("def price(good):\n    return {'oil': 1}[good]\n")
    run = sandlot.run(path, "scripted:golden", runs=tmp_path / "runs")
    (trace,) = run
    line, function = LINES[part]
    if part == "tool":
        (event,) = trace.events
        assert event.detail["signature"] == "KeyError at prices.py:2 in price"
        frames = event.detail["frames"]
    else:
        assert isinstance(trace.outcome, Failed)
        assert trace.outcome.side is (Side.GRADER if part == "check" else Side.ENVIRONMENT)
        frames = list(trace.outcome.frames)
    assert frames[-2].startswith(f"{path}:{line} in {function}: ")
    assert frames[-1] == f"{tmp_path / 'prices.py'}:2 in price: return {{'oil': 1}}[good]"
    assert not [frame for frame in frames if "/sandlot/" in frame]
    show_trace(run.path, "one", 0, json=False)
    show_result(trace)
    assert capsys.readouterr().out.count(f"at {path}:{line} in {function}") == 2
    show_trace(run.path, "one", 0, json=True)
    shown = msgspec.json.decode(capsys.readouterr().out)
    assert frames == (shown["events"][0]["detail"]["frames"] if part == "tool" else shown["outcome"]["frames"])


def test_tasks_that_raise_name_the_line_that_did(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(FILE.format(**GOOD).replace('yield Task("one", prompt="Buy.")', "price('tea')\n    yield Task('one')"))
    (tmp_path / "prices.py").write_text("def price(good):\n    return {'oil': 1}[good]\n")
    with pytest.raises(AuthorError, match=rf"^{tmp_path / 'prices.py'}:2: tasks of `shop`: KeyError: 'tea'$"):
        tasks_of(sandlot.load(path))


def quiz(image=None):
    env = sandlot.Environment("quiz", image=image)
    env.tasks(lambda rng: [sandlot.Task("one", prompt="?")])
    env.check(points=1)(lambda evidence: True)
    return env


@pytest.mark.parametrize("action", ["garbage", None, {"role": "assistant"}, text_message(Role.USER, "hello")])
async def test_a_step_with_what_is_no_action_says_what_one_is(action):
    async with quiz().session("one") as session:
        await session.reset()
        with pytest.raises(HarnessError, match=r"`step` was given .*; give a message from the assistant: `Message\(role="):
            await session.step(action)
        assert (await session.step(text_message(Role.ASSISTANT, "hello"))).end == "done"  # it was no turn


async def test_a_command_that_fails_in_setup_is_the_environments_failure():
    env = quiz("host")

    @env.setup
    async def put(world, task):
        await world.exec("exit 3", check=False)
        assert (await world.exec("true")).code == 0
        await world.exec("echo cannot >&2; exit 7")

    async with open_native() as backend:
        with pytest.raises(
            AuthorError, match=r"the command `echo cannot >&2; exit 7` failed with exit code 7; stderr ends: cannot"
        ):
            async with open_session(env, tasks_of(env)[0], backend=backend):
                pytest.fail("it opened")


async def test_a_command_raises_after_setup_only_where_it_is_asked_to():
    env = quiz("host")
    env.setup(lambda world, task: None)
    async with open_native() as backend, open_session(env, tasks_of(env)[0], backend=backend) as session:
        assert (await session.world.exec("exit 2")).code == 2
        with pytest.raises(AuthorError, match=r"`echo out; exit 2` failed with exit code 2; stdout ends: out$"):
            await session.world.exec("echo out; exit 2", check=True)
        with pytest.raises(AuthorError, match=r"`exit 1` failed with exit code 1; it printed nothing$"):
            await session.world.exec("exit 1", check=True)
        with anyio.fail_after(5):
            assert (await session.world.exec("true", check=True)).code == 0
