"""A terminal in a real sandbox: typed into, read, resized, signalled, recorded."""

import json
from contextlib import asynccontextmanager

import pytest

from drive.leftovers import no_leftovers
from sandlot.core.errors import ConfigError, ToolError
from sandlot.core.task import Task
from sandlot.core.trace import RECORDING, Message, ToolCall, Trace
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.run.recording import asciicast_of, has_terminal, recorded_events
from sandlot.store.blobs import MemoryBlobs
from sandlot.store.gc import references
from sandlot.tools.terminal import MAX_SESSIONS, key_bytes
from sandlot.wiring.parts import open_backend

ENV = Environment("typing", image="host", tools=["terminal"])


class AtTerminal:
    """Calls the tool and gives the text of its result."""

    def __init__(self, session):
        self.session = session
        self.error = False

    async def __call__(self, text="", **arguments) -> str:
        call = ToolCall("c", "terminal", {"text": text} | arguments)
        step = await self.session.step(Message(role=Role.ASSISTANT, parts=(call,)))
        (result,) = step.messages[0].results
        self.error = result.error
        return result.text


@asynccontextmanager
async def at_terminal(blobs=None):
    async with (
        open_backend() as backend,
        open_session(ENV, Task("t", prompt="?", limits={"turns": 99}), backend=backend, blobs=blobs) as session,
    ):
        await session.reset()
        yield AtTerminal(session)


async def test_what_is_typed_runs_and_the_session_stays_open():
    async with at_terminal() as typed:
        shown = await typed("cd /tmp && export WORD=kept\n")
        assert "[session main, 24 rows, 80 columns, cursor at row" in shown
        assert "kept in /tmp" in await typed("echo $WORD in $PWD\n", wait_for="kept in /tmp\n")


async def test_sessions_leave_nothing_for_the_garbage_collector():
    async with open_backend() as backend:

        async def typed_once():
            async with open_session(ENV, Task("t", prompt="?"), backend=backend) as session:
                await session.reset()
                await AtTerminal(session)("true\n")

        await typed_once()
        with no_leftovers():
            await typed_once()


async def test_a_prompt_without_echo_and_a_full_screen_program():
    async with at_terminal() as typed:
        await typed(
            "stty -echo; printf 'Pass''word: '; read p; stty echo; printf '\\ng''ot <%s>\\n' \"$p\"\n", wait_for="Password: "
        )
        shown = await typed("secret\n", wait_for="got <")
        assert "got <secret>" in shown
        program = "printf '\\033[?1049h\\033[2J\\033[5;3Hme''nu'; read x; printf '\\033[?1049l'; echo back"
        assert "full-screen program" in await typed(f"clear; {program}\n", wait_for="menu")
        after = await typed(keys=["Enter"], wait_for="back\n")
        assert "full-screen" not in after
        assert "\n  menu" not in after


async def test_resize_signal_and_lines_above():
    async with at_terminal() as typed:
        await typed("seq 200\n", wait_for="\n200")
        assert "\n160\n" in await typed(back=50)
        assert "40 120" in await typed("stty size\n", rows=40, columns=120, wait_for="40 120")
        await typed("sleep 1000\n")
        assert not typed.error
        shown = await typed("echo code $?\n", signal="TERM", wait_for="code 143")
        assert "code 143" in shown


async def test_several_sessions_and_their_limit():
    async with at_terminal() as typed:
        for number in range(MAX_SESSIONS):
            assert f"session s{number}," in await typed(f"N={number}; echo 'o'k\n", session=f"s{number}", wait_for="ok")
        assert "is 3" in await typed("echo is $N\n", session="s3", wait_for="is 3")
        assert "8 sessions are open" in await typed(session="more")
        assert typed.error
        assert await typed(session="s0", close=True) == "[session s0 is closed]"
        assert "no session 's0' is open" in await typed(session="s0", close=True)
        assert "use 1 to 32 letters" in await typed(session="../x")


async def test_a_shell_that_ended_says_so_and_the_next_call_opens_another():
    async with at_terminal() as typed:
        assert "ended, exit code 3" in await typed("exit 3\n", wait_for="never", wait_s=20)
        assert "ended" not in await typed("echo again\n", wait_for="again\n")


async def test_a_program_that_prints_without_end_can_be_stopped():
    async with at_terminal() as typed:
        shown = await typed("yes '\x16\x1b[2J\x16\x1b[6n'\n", wait_s=1.0)
        for _ in range(20):  # a busy machine may give it no time for so long that it seems to wait
            if "still printing" in shown:
                break
            shown = await typed(wait_s=1.0)
        assert "still printing" in shown
        await typed(signal="INT", wait_s=1.0)
        assert "\nalive" in await typed("\x15echo; echo al''ive\n", wait_for="\nalive", wait_s=30)


async def test_wrong_arguments_are_errors_that_the_agent_reads():
    async with at_terminal() as typed:
        assert "unknown key 'Entr'" in await typed(keys=["Entr"])
        assert "wait_s" in await typed(wait_s=10_000)
        assert "signal" in await typed(signal="STOP_IT")
        assert typed.error


async def test_a_session_is_recorded_without_escapes_of_its_programs():
    blobs = MemoryBlobs()
    async with at_terminal(blobs) as typed:
        await typed("printf '\\033]0;owned\\007\\033[31mred\\033[0m\\n'; echo do''ne\n", wait_for="done")
        await typed.session.gather("")
        events = await typed.session.store_recordings()
    trace = Trace(run="r", task="t", rollout=0, seed=0, end=End.DONE, events=events)
    assert has_terminal(trace)
    assert list(references(trace)) == [events[0].detail["artifact"]]
    assert (events[0].kind, events[0].detail["session"]) == (RECORDING, "main")
    cast = asciicast_of(trace, blobs._kept.__getitem__)
    head, *lines = [json.loads(line) for line in cast.splitlines()]
    assert head["version"] == 2
    assert lines == [list(event) for event in recorded_events(trace, blobs._kept.__getitem__)]
    assert "red\r\ndone" in lines[-1][2]
    for at, kind, text in lines:
        assert (kind, at >= 0) == ("o", True)
        assert text.startswith("\x1b[H\x1b[2J")
        assert text.count("\x1b") == 3  # home, clear, and where the cursor is: all ours
    assert b"owned\\u0007" not in cast


async def test_it_needs_a_sandbox():
    with pytest.raises(ConfigError, match="needs a sandbox"):
        async with open_session(Environment("none", tools=["terminal"]), Task("t", prompt="?")):
            raise AssertionError("it opened")
    with pytest.raises(ConfigError, match="'terminal' for a terminal"):
        Environment("none", tools=["terminl"])


def test_an_environment_offers_it_in_one_line():
    both = Environment("both", image="host", tools=["bash", "terminal"])
    assert [tool.spec.name for tool in both.tools] == ["bash", "terminal"]
    assert [tool.spec.name for tool in Environment("plain", image="host").tools] == ["bash"]
    assert both.tools[1].spec.parameters["properties"]["keys"]["items"] == {"type": "string"}


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("Enter", b"\r"),
        ("C-c", b"\x03"),
        ("C-[", b"\x1b"),
        ("^D", b"\x04"),
        ("M-x", b"\x1bx"),
        ("F1", b"\x1bOP"),
        ("F12", b"\x1b[24~"),
        ("Up", b"\x1b[A"),
        ("x", b"x"),
        ("é", "é".encode()),
        ("C-?", b"\x7f"),
        ("PageUp", b"\x1b[5~"),
    ],
)
def test_a_key_is_sent_as_a_terminal_sends_it(key, sent):
    assert key_bytes(key) == sent
    assert key_bytes("Up", app_cursor=True) == b"\x1bOA"
    with pytest.raises(ToolError):
        key_bytes("C-cc")
