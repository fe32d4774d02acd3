"""`sandlot shell`: a rollout's world at a turn, and a person in it."""

import os
import termios
from pathlib import Path

import anyio
import pytest

from drive.native_sandboxes import sh
from sandlot import run
from sandlot.core.errors import ConfigError
from sandlot.run.moment import open_moment
from sandlot.run.results import Run
from sandlot.sandbox.native.backend import open_native
from sandlot.sandbox.terminal import run_shell

SOURCE = '''
from sandlot import Environment, Task
env = Environment("steps", image={image})

@env.tasks
def tasks(rng):
    yield Task("one", prompt="go")

@env.setup
async def put(world, task):
    await world.write("/log", "0\\n")

@env.tool
async def note(world, text: str) -> str:
    """Add a line."""
    await world.write("/log", await world.read("/log") + text.encode() + b"\\n")
    return text

@env.check(points=1)
def fine(evidence):
    return True

@env.solution
async def solve(agent, task):
    for number in "123":
        await agent.call("note", text=number)
    await agent.say("done")
'''


def made(folder: Path, image: str | None = "host") -> Run:
    path = folder / f"steps_{image}.py"
    path.write_text(SOURCE.format(image=repr(image)))
    return run(path, "scripted:golden", runs=folder / "runs")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Run:
    return made(tmp_path_factory.mktemp("moment"))


@pytest.mark.parametrize(("turn", "log"), [(0, b"0\n"), (2, b"0\n1\n2\n"), (None, b"0\n1\n2\n3\n")])
def test_the_files_are_as_they_were_at_that_turn(recorded, turn, log):
    async def look():
        async with open_moment(recorded.path, "one", 0, turn) as moment:
            assert moment.num_different == 0
            assert moment.num_turns == 4
            return await moment.sandbox.read("/log")

    assert anyio.run(look) == log


def test_a_turn_that_is_not_there_is_refused(recorded):
    async def look():
        async with open_moment(recorded.path, "one", 0, 5):
            pass

    with pytest.raises(ConfigError, match="4 turns"):
        anyio.run(look)


def test_a_rollout_without_a_sandbox_cannot_be_stepped_into(tmp_path):
    path = made(tmp_path, None).path

    async def look():
        async with open_moment(path, "one", 0):
            pass

    with pytest.raises(ConfigError, match="--image host"):
        anyio.run(look)


def test_results_that_differ_now_are_counted(recorded):
    path = recorded.path.parent.parent / "other.py"
    path.write_text(SOURCE.format(image="'host'").replace("return text", "return text * 2"))

    async def look():
        async with open_moment(recorded.path, "one", 0, env=str(path)) as moment:
            return moment.num_different

    assert anyio.run(look) == 3


def test_the_command_runs_what_is_piped_in_and_exits_as_the_shell_does(sandlot, recorded):
    script = "cat /log; echo wrong >&2; exit 7\n"
    done = sandlot("shell", f"{recorded.path}/one/0", "--turn", 1, cwd=recorded.path, stdin=script)
    assert (done.code, done.out) == (7, "0\n1\n")
    assert "after turn 1 of 4; processes are not restored" in done.err
    assert "wrong" in done.err


async def test_a_terminal_is_passed_through_and_put_back_as_it_was():
    master, terminal = os.openpty()
    before = termios.tcgetattr(terminal)
    seen = bytearray()
    async with open_native() as backend, backend.open("host") as sandbox:
        os.write(master, b"stty -echo; test -t 0 && echo a terminal > /seen; exit 5\n")
        with anyio.fail_after(10):
            code = await run_shell(sandbox, stdin=terminal, stdout=terminal, stderr=terminal)
            while b"sandbox:" not in seen:  # the kernel passes on what was written a little later
                await anyio.wait_readable(master)
                seen += os.read(master, 65536)
        assert code == 5
        assert await sandbox.read("/seen") == b"a terminal\n"
    assert termios.tcgetattr(terminal) == before
    os.close(master)
    os.close(terminal)


async def test_a_plain_file_of_commands_is_run_to_its_end(tmp_path):
    script, out = tmp_path / "script", tmp_path / "out"
    script.write_bytes(b"echo 1\necho 2 > /two\n")
    async with open_native() as backend, backend.open("host") as sandbox:
        with script.open("rb") as commands, out.open("wb") as output:
            assert await run_shell(sandbox, stdin=commands.fileno(), stdout=output.fileno()) == 0
        assert (await sh(sandbox, "cat /two")).stdout == "2\n"
    assert out.read_text() == "1\n"
