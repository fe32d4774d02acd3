"""The agent as a container engine starts it: with two pipes and no privileges."""

import os
import socket
import subprocess

import anyio
import pytest

from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.defaults import CommandDefaults
from sandlot.sandbox.link.link import Link
from sandlot.sandbox.link.machine import Machine
from sandlot.sandbox.link.process import spawn
from sandlot.sandbox.link.wire import FrameKind, FrameReader, pack_frame
from sandlot.sandbox.program import find_program
from sandlot.sandbox.quota import Quota


class Pipes:
    """Both pipes of a child as one connection."""

    def __init__(self, process):
        self._process = process
        os.set_blocking(process.stdout.fileno(), False)

    def fileno(self):
        return self._process.stdout.fileno()

    def recv(self, size, /):
        return os.read(self._process.stdout.fileno(), size)

    def send(self, data, /):
        return os.write(self._process.stdin.fileno(), data)

    def shutdown(self, how, /):
        self._process.stdin.close()

    def close(self):
        self._process.stdin.close()


@pytest.fixture
def agent():
    with subprocess.Popen([find_program(), "agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env={}) as process:
        yield process
        process.kill()


async def output_of(link, *argv):
    process = await spawn(link, Command(argv=argv, stdin=b""))
    return b"".join([data async for _, data in process.output()]), await process.wait()


async def test_commands_and_files_work_over_two_pipes(agent, tmp_path):
    link = Link(Pipes(agent))
    async with anyio.create_task_group() as group:
        with anyio.fail_after(10):
            await link.read_hello()
            group.start_soon(link.run)
            assert await output_of(link, "sh", "-c", "echo hi; exit 3") == (b"hi\n", 3)
            data = os.urandom(1 << 20)
            machine = Machine(link, Quota(), CommandDefaults())
            await machine.write(f"{tmp_path}/f", data)
            assert await machine.read(f"{tmp_path}/f") == data
            status, _ = await output_of(link, "cat", "/proc/self/status")
            assert b"NoNewPrivs:\t1" in status
            assert b"Seccomp:\t2" in status
            seen, _ = await output_of(link, "sh", "-c", "ls /proc/self/fd | wc -l")
            assert int(seen) == 4  # its own three and the folder it lists: no pipe to the host
        link.close()
        assert agent.wait(5) == 0


def test_when_its_input_ends_the_agent_ends(agent):
    agent.stdin.close()
    assert agent.wait(5) == 0
    assert FrameReader().feed(agent.stdout.read())[0].kind == FrameKind.HELLO


@pytest.mark.parametrize(
    "said", [b"\0\0\0\0", b"\xff\xff\xff\xff", pack_frame(FrameKind.HELLO, 0), pack_frame(FrameKind.SPAWN, 1, b"\0")]
)
def test_an_invalid_frame_of_the_host_ends_the_agent(agent, said):
    agent.stdin.write(said)
    assert agent.wait(5) == 71


def test_a_reader_that_is_gone_ends_it(agent):
    with socket.socket():
        agent.stdout.close()
        agent.stdin.write(
            pack_frame(FrameKind.LIST, 1, b"\2" + (1 << 26).to_bytes(8, "little") + (4).to_bytes(4, "little") + b"/usr")
        )
        assert agent.wait(10) == 0
