import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest

from sandlot.core.concurrency.garbage import resident_bytes
from sandlot.core.errors import AuthorError, ConfigError, ModelError
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.tools.mcp import McpServer
from sandlot.tools.stdio import MAX_MESSAGE_BYTES

RAW = str(Path(__file__).parent / "raw_server.py")
WORLD: Any = SimpleNamespace(state=None)


def raw(mode: str, *more: str, **options: Any) -> McpServer:
    return McpServer(name="raw", command=(sys.executable, RAW, mode, *more), **options)


async def called(mode: str, arguments: Any = None, **options: Any) -> ToolResult:
    async with raw(mode, **options).open(WORLD) as tools:
        return await tools[0].call(WORLD, ToolCall(id="c1", name="work", arguments=arguments or {}))


async def refused(mode: str, **options: Any) -> AuthorError:
    with pytest.raises(AuthorError) as caught:
        async with raw(mode, **options).open(WORLD):
            raise AssertionError("it opened")
    return caught.value


async def died(mode: str, **options: Any) -> AuthorError:
    with pytest.raises(AuthorError) as caught:
        await called(mode, **options)
    return caught.value


async def test_a_servers_tool_is_a_tool():
    async with raw("honest").open(WORLD) as tools:
        assert [tool.spec.name for tool in tools] == ["work"]
        assert tools[0].spec.description == "Do it."
        assert tools[0].spec.parameters["properties"] == {"n": {"type": "integer"}}
    assert await called("honest", {"n": 1}) == ToolResult(call="c1", text="worked {'n': 1}")


async def test_many_calls_at_once_each_get_their_own_answer():
    async with raw("honest").open(WORLD) as tools, anyio.create_task_group() as group:

        async def one(number: int) -> None:
            result = await tools[0].call(WORLD, ToolCall(id=str(number), name="work", arguments={"n": number}))
            assert result == ToolResult(call=str(number), text=f"worked {{'n': {number}}}")

        for number in range(50):
            group.start_soon(one, number)


# -- calls that the agent reads about ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "error", "text"),
    [
        ("tool_error", True, "no such row"),
        ("protocol_error", True, "n must be positive"),
        ("huge", True, "the response is larger than 8388608 bytes; request less in one call"),
        ("huge_id_last", True, "the response is larger than 8388608 bytes; request less in one call"),
        ("garbage", False, "worked {}"),
        ("noisy", False, "worked {}"),
        ("wrong_id", False, "yours"),
        ("asks_back", False, "done"),
        ("image", False, "[image image/png, 3 bytes, not shown]"),
        ("structured", False, '{"total":5}'),
        ("recursive", False, "worked {}"),
        ("deep_schema", False, "worked {}"),
        ("lying_output", False, "not what was promised"),
    ],
)
async def test_the_agent_gets_the_servers_response(mode: str, error: bool, text: str):
    assert await called(mode) == ToolResult(call="c1", text=text, error=error)


async def test_bad_arguments_never_reach_the_server():
    result = await called("exit_in_call", {"n": float("nan")})
    assert result.error
    assert "finite" in result.text


async def test_the_server_goes_on_after_a_call_was_given_up():
    async with raw("honest").open(WORLD) as tools:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await tools[0].call(WORLD, ToolCall(id="c1", name="work"))
        assert (await tools[0].call(WORLD, ToolCall(id="c2", name="work"))).text == "worked {}"


# -- servers that fail the environment ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("exit_in_call", "exit code 3; it wrote: about to fall over"),
        ("killed_in_call", "killed by SIGKILL"),
        ("close_output_in_call", "it closed its output"),
        ("wrong_shape", "ValidationError"),
        ("null_result", "MCP server `raw` failed in `work`"),
        ("deep_answer", "the response is not JSON-RPC"),
        ("bad_utf8", "the response is not JSON-RPC"),
        ("half_character", "the response is not JSON-RPC"),
    ],
)
async def test_a_server_that_breaks_in_a_call_fails_the_environment(mode: str, said: str):
    error = await died(mode)
    assert "MCP server `raw` failed in `work`" in str(error)
    assert said in str(error)


async def test_every_later_call_fails_too():
    async with raw("exit_in_call").open(WORLD) as tools:
        for _ in range(3):
            with pytest.raises(AuthorError, match="exit code 3"):
                await tools[0].call(WORLD, ToolCall(id="c1", name="work"))


async def test_a_hanging_call_ends_with_its_cancel_scope():
    with anyio.move_on_after(1) as scope:
        await called("hang_in_call")
    assert scope.cancelled_caught


def children() -> set[str]:
    """The processes that this one has started."""
    found = set[str]()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has ended meanwhile
            found |= {*(task / "children").read_text().split()}
    return found


def written_by(pids: set[str]) -> int:
    """Bytes that these processes have written so far."""
    return sum(int(re.search(r"wchar: (\d+)", Path(f"/proc/{pid}/io").read_text())[1]) for pid in pids)


async def test_an_endless_line_does_not_fill_the_memory():
    before, others, answers = resident_bytes(), children(), []

    async def call() -> None:
        answers.append(await called("endless_line"))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        with anyio.fail_after(40):
            while written_by(children() - others) < 16 * MAX_MESSAGE_BYTES:  # noqa: ASYNC110 - the kernel counts them
                await anyio.sleep(0.01)
        grown = resident_bytes() - before
        group.cancel_scope.cancel()
    assert answers == []
    assert grown < 8 * MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("exit_at_start", "exit code 1; it wrote: no config file"),
        ("duplicate", "offers two tools named `work`"),
        ("many", "offers more than 1024 tools; list those to use in `tools`"),
        ("huge_schema", "offers `work` with a schema of 131"),
        ("array_schema", "inputSchema.type"),
        ("no_schema", "did not start"),
        ("endless_pages", "more than 100 pages"),
    ],
)
async def test_a_server_with_no_usable_tools_is_refused_at_the_start(mode: str, said: str):
    error = await refused(mode)
    assert "MCP server `raw`" in str(error)
    assert said in str(error)


@pytest.mark.parametrize(
    ("mode", "said"), [("hang_at_start", "waiting for a licence"), ("only_garbage", "Welcome to my server!")]
)
async def test_a_server_that_hangs_at_the_start_is_given_up_with_what_it_said(mode: str, said: str):
    error = await refused(mode, start_s=1.0)
    assert error.kind == "timeout"
    assert "did not start within 1 s" in str(error)
    assert said in str(error)


async def test_a_command_that_does_not_exist_is_named():
    with pytest.raises(AuthorError, match="no-such-program"):
        async with McpServer(name="raw", command=("no-such-program",)).open(WORLD):
            pass


async def test_some_of_many_tools_can_be_taken():
    async with raw("many", tools=("tool7", "tool1090"), prefix="raw_").open(WORLD) as tools:
        assert [tool.spec.name for tool in tools] == ["raw_tool7", "raw_tool1090"]
        assert (await tools[0].call(WORLD, ToolCall(id="c1", name="raw_tool7"))).text == "worked {}"
    assert "no tool `tool1101`" in str(await refused("many", tools=("tool1101",)))


async def test_a_long_description_is_cut_and_marked():
    async with raw("long_description").open(WORLD) as tools:
        assert tools[0].spec.description.endswith("xx [cut: 1000000 characters]")
        assert len(tools[0].spec.description) < 8100


async def test_a_server_without_tools_has_none():
    async with raw("empty").open(WORLD) as tools:
        assert list(tools) == []


async def test_the_command_runs_in_its_folder(tmp_path: Path):
    assert (await called("folder", cwd=str(tmp_path))).text == str(tmp_path)


# -- lifetime and secrets ----------------------------------------------------------------------------------------------


def processes_with(marker: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_stubborn_server_and_what_it_started_are_gone_with_the_world(tmp_path: Path, cancelled: bool):
    marker = str(tmp_path)
    with anyio.CancelScope() as scope:
        async with raw("stubborn", marker).open(WORLD):
            running = [os.pidfd_open(int(pid)) for pid in processes_with(marker)]
            assert len(running) == 2
            if cancelled:
                scope.cancel()
                await anyio.sleep_forever()
    for pidfd in running:
        with anyio.fail_after(5):  # killed before the context ended; the kernel may take a moment to be done with it
            await anyio.wait_readable(pidfd)
        os.close(pidfd)
    assert processes_with(marker) == []


async def test_an_error_in_the_world_comes_out_as_it_is():
    cause = ValueError("429")
    with pytest.raises(ModelError, match="rate limit") as caught:
        async with raw("honest").open(WORLD):
            raise ModelError("rate limit") from cause
    assert caught.value.__cause__ is cause


async def test_a_server_sees_only_the_variables_it_is_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("WANTED", "yes")
    seen = msgspec.json.decode((await called("environment", pass_env=("WANTED",), env={"MODE": "test"})).text)
    assert "OPENAI_API_KEY" not in seen
    assert (seen["WANTED"], seen["MODE"], seen["PATH"]) == ("yes", "test", os.environ["PATH"])


async def test_a_secret_is_not_repeated_in_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("THE_KEY", "sk-very-secret")
    error = await died("says_secret", pass_env=("THE_KEY",))
    assert "my key is [redacted]" in str(error)
    assert "sk-very-secret" not in str(error)


async def test_a_missing_variable_is_named():
    assert "needs the environment variable `NO_SUCH_KEY`" in str(await refused("honest", pass_env=("NO_SUCH_KEY",)))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"command": ("a",), "url": "http://127.0.0.1"},
        {"url": "http://127.0.0.1", "env": {"A": "b"}},
        {"command": ("a",), "headers": {"A": "B"}},
        {"command": ("a",), "start_s": 0.0},
    ],
)
def test_an_invalid_server_is_refused(fields: dict[str, Any]):
    with pytest.raises(ConfigError, match="MCP server `x`"):
        McpServer(name="x", **fields)
