"""The environments in which the hostile plays are played: one for each kind, and a sound rollout beside every ten of them."""

import asyncio
from pathlib import Path
from typing import Any

from sandlot import Environment, Limits, McpServer, Task, World
from sandlot.apps.tool import tools_of
from sandlot.core.errors import ConfigError
from worlds.all_apps import ALL_APPS, REAL, fill
from worlds.hostile_plays import Play, shell_plays
from worlds.hostile_turns import app_plays, history_plays, own_plays, seat_plays, server_plays, tried_app_plays
from worlds.office_suite import ADA
from worlds.web_server import HTTP

RAW_SERVER = Path(__file__).parents[1] / "unit/tools/raw_server.py"
SOUND = "sound"
SOUND_IN = 10
EVERY = 5
"""Of the apps' tools, which are many, every so many is played."""
APP_TOOLS = [tool.spec for tool in tools_of(ALL_APPS)][::EVERY]
PLAYS = [
    *(*tried_app_plays(), *app_plays(APP_TOOLS, REAL), *own_plays()),
    *(*shell_plays(), *server_plays(), *history_plays(), *seat_plays()),
]


def sound_beside(plays: list[Play]) -> list[str]:
    """The names of the tasks of a run: the plays, and a sound one before every ten of them."""
    names = [play.task for play in plays]
    for number in range(0, len(plays), SOUND_IN):
        names.insert(number + number // SOUND_IN, f"{SOUND}-{number // SOUND_IN}")
    return names


FEWER = 7
"""Plays of a run in which every one makes the author's own tool crash: one more, and such a run stops (`run/breaker.py`)."""


def batches() -> dict[str, list[Play]]:
    """The plays of each run, by the name of the run."""
    crashing = [play for play in PLAYS if play.name.startswith("own tool")]
    found: dict[str, list[Play]] = {}
    for play in PLAYS:
        found.setdefault(f"{play.kind}-crash" if play in crashing else play.kind, []).append(play)
    for name in [name for name in found if name.endswith("-crash")]:
        plays = found.pop(name)
        found |= {f"{name}-{at // FEWER + 1}": plays[at : at + FEWER] for at in range(0, len(plays), FEWER)}
    return found


def environment_of(name: str, plays: list[Play], sound: Any, solve: Any = None, **options: Any) -> Environment:
    """An environment whose golden solution plays them."""
    env = Environment(name, **{"limits": Limits(turns=6, tool_s=2.0), **options})
    turns = {play.task: play.turns for play in plays}

    @env.tasks
    def tasks(rng):
        for task in sound_beside(plays):
            yield Task(task, prompt=f"Play {task}")

    async def play(agent, task):
        for calls in turns.get(task.id, sound):
            await agent.call_all(*calls)
        await agent.say("done")

    env.solution(solve or play)
    return env


def shell(command: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    return (("bash", {"command": command}),)


def shell_environment(plays: list[Play]) -> Environment:
    env = environment_of("shell", plays, [shell("echo 42 > /answer; echo a > /out/a")], image="host")

    @env.setup
    async def prepare(world, task):
        await world.exec("mkdir /out")

    @env.check(points=1)
    def right(evidence, task):
        evidence.list("/out")
        evidence.diff()
        return evidence.read_text("/answer").strip() == "42"

    @env.check(points=1)
    def kept(evidence, task):
        evidence.exists("/out"), evidence.kind("/answer"), evidence.exists("/out/no")
        return evidence.read_text("/out/a") == "a\n"

    return env


def server_environment(plays: list[Play]) -> Environment:
    both = (("raw_work", {"n": 1}), ("web_work", {"n": 3}))
    env = environment_of("servers", plays, [shell("echo 42 > /answer"), both], image="host")
    env.mcp(McpServer(name="raw", command=("python3", "/srv/server.py", "honest"), inside=True, prefix="raw_"))
    env.mcp(McpServer(name="web", url="http://127.0.0.1:8080/mcp", inside=True, prefix="web_"))

    @env.setup
    async def prepare(world, task):
        await world.write("/srv/server.py", RAW_SERVER.read_bytes())
        await world.write("/srv/web.py", HTTP)
        await world.start("python3 /srv/web.py", ready=8080)

    @env.check(points=1)
    def right(evidence, task):
        results = [result for node in evidence.trace.nodes for result in node.message.results]
        return evidence.read_text("/answer").strip() == "42" and results[-1].text == "xxx"

    return env


def seat_environment(plays: list[Play]) -> Environment:
    """Ada writes 42 into her home and reads it a turn later. Between, bob does what he likes."""
    turns = {play.task: play.turns for play in plays}

    async def solve(agent, task):
        if agent.seat == "ada":
            await agent.call("bash", command="echo 42 > answer")
            await agent.call("bash", command="cat answer")
        else:
            for calls in turns.get(task.id, [shell("echo hi > note")]):
                await agent.call_all(*calls)
        await agent.say("done")

    env = environment_of("seats", plays, (), solve, image="host", seats=["ada", "bob"])

    @env.check(points=1, seat="ada")
    def answered(evidence):
        return evidence.read_text("/home/ada/answer").strip() == "42"

    @env.check(points=1, seat="bob")
    def there(evidence):
        return evidence.exists("/home/ada/answer")

    return env


def looking(env: Environment) -> Environment:
    """With the tool that sound agents call."""

    @env.tool
    def look(world: World, text: str = "") -> str:
        """Look."""
        return text or "nothing"

    @env.check(points=1)
    def looked(evidence, task):
        results = [result.text for node in evidence.trace.nodes for result in node.message.results]
        return evidence.answer == "done" and results[-1:] == ["x"]

    return env


def history_environment(plays: list[Play]) -> Environment:
    return looking(environment_of("history", plays, (), image="host", tools=["bash", "terminal"]))


def app_environment(plays: list[Play]) -> Environment:
    env = looking(environment_of("arguments", plays, (), apps=ALL_APPS, state=lambda: {"kept": 1}))
    env.base(lambda apps, rng: fill(apps))

    @env.setup
    def prepare(world, task):
        world.apps.actor = ADA

    @env.tool
    async def break_tool(world: World, way: str) -> str:
        """Break."""
        return await _break(world, way)

    return env


class Panic(BaseException):
    """As a panic of code in Rust, which is no `Exception`."""


class Speechless(Exception):  # noqa: N818 - a test's
    def __str__(self) -> str:
        raise ValueError("nothing to say")

    __repr__ = __str__


def _deep(number: int) -> int:
    return _deep(number + 1) + 1


async def _break(world: World, way: str) -> Any:
    state: Any = world.state
    match way:
        case "memory":
            return "x" * 10**15
        case "recursion":
            return str(_deep(0))
        case "result surrogate":
            return "\ud800"
        case "result number":
            return 1
        case "result cycle":
            return (loop := []).append(loop) or loop
        case "state cycle":
            state["self"] = state
        case "state number":
            state["x"] = 10**400
        case "state gone":
            state.clear()
        case "slow":
            await asyncio.sleep(60)
    raise {
        "key": KeyError("x"),
        "zero": ZeroDivisionError(),
        "cancelled": asyncio.CancelledError(),
        "panic": Panic("index out of bounds"),
        "closed": GeneratorExit(),
        "stop": StopIteration(1),
        "stop async": StopAsyncIteration(),
        "group": BaseExceptionGroup("", [asyncio.CancelledError(), ValueError("x")]),
        "exit": SystemExit(1),
        "speechless": Speechless(),
        "surrogate": ValueError("\ud800\0"),
        "huge": ValueError("x" * 10**7),
        "sandlot": ConfigError("x"),
        "state cycle": ValueError("x"),
        "state number": ValueError("x"),
        "state gone": ValueError("x"),
    }[way]
