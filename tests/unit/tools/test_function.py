import math
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest

from sandlot.core.concurrency import author, threads
from sandlot.core.errors import AuthorError, ConfigError, SandboxError, ToolError
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.tools.function import FunctionTool


@dataclass
class Desk:
    tickets: list[str] = field(default_factory=list)


def a_world() -> Any:
    return SimpleNamespace(state=Desk(), task=None, rng=Random(3))


async def called(function: Any, world: Any = None, *, isolate: bool = False, **arguments: Any) -> ToolResult:
    tool = FunctionTool.of(function, isolate=isolate)
    return await tool.call(world or a_world(), ToolCall(id="c1", name=tool.spec.name, arguments=arguments))


def shout(text: str) -> str:
    """Say it loud."""
    return text.upper()


async def whisper(text: str) -> str:
    return text.lower()


async def test_sync_and_async_functions_are_tools():
    assert await called(shout, text="hi") == ToolResult(call="c1", text="HI")
    assert await called(whisper, text="HI") == ToolResult(call="c1", text="hi")


def test_the_spec_comes_from_the_function():
    spec = FunctionTool.of(shout, name="yell").spec
    assert (spec.name, spec.description) == ("yell", "Say it loud.")
    assert spec.parameters["required"] == ["text"]


async def test_a_sync_function_runs_off_the_loop():
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert (await called(where)).text == "false"


async def test_a_first_parameter_called_world_is_given_the_world():
    def file_ticket(world: Any, title: str) -> int:
        world.state.tickets.append(title)
        return len(world.state.tickets)

    world = a_world()
    assert (await called(file_ticket, world, title="printer")).text == "1"
    assert world.state.tickets == ["printer"]


async def test_a_bad_call_comes_back_as_something_to_read():
    result = await called(shout, text=5, volume=11)
    assert result.error
    assert result.text == "argument `text`: expected `str`, got `int`. Arguments: text (string)"
    assert (await called(shout)).text.startswith("missing argument `text`")
    assert "finite" in (await called(shout, text=math.nan)).text


async def test_a_malformed_call_comes_back_as_something_to_read():
    result = await FunctionTool.of(shout).call(a_world(), ToolCall(id="c1", name="shout", malformed="{oops"))
    assert result.error
    assert "{oops" in result.text


async def test_the_agent_gets_a_tool_error():
    def refund() -> str:
        raise ToolError("no ticket 7; there are: 1, 2")

    assert await called(refund) == ToolResult(call="c1", text="no ticket 7; there are: 1, 2", error=True)


@pytest.mark.parametrize("error", [KeyError("x"), StopIteration(), RecursionError(), ExceptionGroup("g", [ValueError("v")])])
async def test_any_other_error_is_the_authors(error: Exception):
    def fail() -> str:
        raise error

    with pytest.raises(AuthorError, match="tool `fail`"):
        await called(fail)


async def test_a_sandbox_failure_keeps_its_side():
    def fail() -> str:
        raise SandboxError("gone")

    with pytest.raises(SandboxError):
        await called(fail)


@pytest.mark.parametrize("isolate", [False, True])
async def test_exit_in_a_tool_is_the_authors_error_and_ends_nothing_else(isolate: bool):
    def leave() -> str:
        raise SystemExit(2)

    with pytest.raises(AuthorError, match=r"exit|SystemExit"):
        await called(leave, isolate=isolate)


class Row(msgspec.Struct):
    name: str
    amount: float


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (None, "ok"),
        ([1, 2.5, True, None], "[1,2.5,true,null]"),
        (Row("a", 1.0), '{"name":"a","amount":1.0}'),
        (Desk(["t"]), '{"tickets":["t"]}'),
        ("lone \ud800 half", "lone \ufffd half"),
    ],
)
async def test_what_a_tool_returns_becomes_text(value: Any, text: str):
    def give() -> Any:
        return value

    assert (await called(give)).text == text


async def test_a_half_character_inside_data_can_still_be_written():
    def give() -> Any:
        return {"name": "\ud83d"}

    assert msgspec.json.encode((await called(give)).text)


async def test_what_has_no_json_form_is_the_authors_error_naming_tool_and_type():
    def give() -> Any:
        return threading.Lock()

    with pytest.raises(AuthorError, match=r"tool `give` returned a `lock`"):
        await called(give)


async def test_text_that_cannot_be_encoded_reaches_the_tool_repaired():
    assert (await called(whisper, text="A\udfff")).text == "a\ufffd"


async def test_a_tool_cannot_change_the_recorded_call():
    def swallow(rows: Any) -> str:
        rows.clear()
        return "gone"

    call = ToolCall(id="c1", name="swallow", arguments={"rows": [1, 2]})
    await FunctionTool.of(swallow).call(a_world(), call)
    assert call.arguments == {"rows": [1, 2]}


async def test_an_overrun_abandons_the_thread_and_counts_it():
    release = threading.Event()

    def stuck() -> str:
        release.wait(10)
        return ""

    with anyio.move_on_after(0.1) as scope:
        await called(stuck)
    assert scope.cancelled_caught
    assert threads.ABANDONED[author.name_of(stuck)] == 1
    release.set()


async def test_an_isolated_tool_answers_and_changes_the_state():
    def file_ticket(world: Any, title: str) -> float:
        world.state.tickets.append(title)
        return world.rng.random()

    world, twin = a_world(), Random(3)
    first = await called(file_ticket, world, isolate=True, title="printer")
    second = await called(file_ticket, world, isolate=True, title="mouse")
    assert world.state == Desk(["printer", "mouse"])
    assert [float(first.text), float(second.text)] == [twin.random(), twin.random()]


async def test_an_isolated_tool_that_raises_changes_nothing():
    def half(world: Any) -> str:
        world.state.tickets.append("half")
        raise ToolError("no")

    world = a_world()
    assert (await called(half, world, isolate=True)).error
    assert world.state == Desk()


async def test_isolated_tools_in_one_world_take_turns():
    def file_ticket(world: Any, title: str) -> str:
        world.state.tickets.append(title)
        return "filed"

    world = a_world()
    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(lambda title=str(number): called(file_ticket, world, isolate=True, title=title))
    assert sorted(world.state.tickets) == list("01234567")


async def test_a_state_changed_meanwhile_is_an_error_and_not_a_lost_update(tmp_path: Path):
    started, go = tmp_path / "started", tmp_path / "go"
    os.mkfifo(started)
    os.mkfifo(go)

    def slow(world: Any) -> str:
        started.write_text("yes")
        return go.read_text()

    async def change_meanwhile() -> None:
        await anyio.Path(started).read_text()
        world.state.tickets.append("meanwhile")
        await anyio.Path(go).write_text("on")

    world = a_world()
    async with anyio.create_task_group() as group:
        group.start_soon(change_meanwhile)
        with pytest.raises(AuthorError, match=r"another tool changed world\.state") as caught, anyio.fail_after(10):
            await called(slow, world, isolate=True)
    assert caught.value.kind == "conflict"


async def test_an_isolated_tool_sees_nothing_else_of_the_world():
    def peek(world: Any) -> str:
        return world.read("/secret")

    with pytest.raises(AuthorError, match=r"isolated tools see only world\.state"):
        await called(peek, isolate=True)


async def test_an_isolated_tool_that_dies_is_the_authors_error_with_the_exit():
    def leave() -> str:
        os._exit(9)

    with pytest.raises(AuthorError, match="exit code 9"):
        await called(leave, isolate=True)


async def test_an_isolated_parameter_may_have_any_name():
    def take(memory_bytes: int, function: str) -> str:
        return f"{memory_bytes}{function}"

    call = ToolCall(id="c1", name="take", arguments={"memory_bytes": 1, "function": "f"})
    assert (await FunctionTool.of(take, isolate=True).call(a_world(), call)).text == "1f"


def test_an_isolated_async_tool_is_refused_at_load():
    with pytest.raises(ConfigError, match=r"test_function\.py:\d+: isolated tool `whisper` is async"):
        FunctionTool.of(whisper, isolate=True)
