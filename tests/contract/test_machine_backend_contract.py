"""What our backends promise beyond the port `Backend`: pools, forks, differences, resets, and what their errors say."""

import asyncio
from contextlib import AsyncExitStack

import anyio
import pytest

from drive.native_sandboxes import KINDS, backend_of, sh
from fakes.docker_engine import IMAGE as DOCKER_IMAGE
from sandlot.core.errors import ConfigError, SandboxError
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.command import run_command
from sandlot.sandbox.docker.backend import open_docker
from sandlot.sandbox.native.backend import NativeMachines

DOCKER = pytest.param("docker", marks=[pytest.mark.system, pytest.mark.xdist_group("docker")])


@pytest.fixture(params=[*KINDS, DOCKER])
async def backend(request):
    with anyio.fail_after(50):
        async with _opened(request) as opened:
            yield opened


def _opened(request, pool=0):
    if request.param in KINDS:
        return backend_of(request.param, pool=pool)
    return open_docker(request.getfixturevalue("docker_socket"), pool=pool)


@pytest.fixture(params=[*KINDS, DOCKER])
async def pooled(request):
    with anyio.fail_after(50):
        async with _opened(request, pool=2) as opened:
            yield opened


def image_of(backend):
    return "host" if isinstance(backend.machines, NativeMachines) else DOCKER_IMAGE


@pytest.fixture
def image(backend):
    return image_of(backend)


@pytest.fixture
async def sandbox(backend, image):
    async with backend.open(image) as opened:
        yield opened


async def test_errors_say_what_happened(backend, image, sandbox):
    for argv, why in (
        ((), "argv is empty"),
        (("echo", "a\0b"), "NUL"),
        (("echo", "x" * 2_000_000), "write them to a file"),
        (("echo", "x" * 200_000), "Argument list too long"),
        (("echo", "\ud800"), "surrogates not allowed"),
        (("no-such-program",), "cannot start `no-such-program`"),
    ):
        assert why in (await run_command(sandbox, Command(argv=argv))).stderr
    assert "cannot enter `/nowhere`" in (await sh(sandbox, "true", cwd="/nowhere")).stderr
    async with sandbox.listen(8123):
        with pytest.raises(OSError, match="port 8123 inside the sandbox"):
            async with sandbox.listen(8123):
                pass
    with pytest.raises(ValueError, match="ports are 1 to 65535"):
        async with sandbox.listen(0):
            pass
    with pytest.raises(ConfigError, match="no image named 'ubuntu'"):
        await backend.prepare("ubuntu")
    with pytest.raises(ConfigError, match="network 'all'"):
        async with backend.open(image, "all"):
            pass


async def test_a_terminal_is_a_terminal(sandbox):
    done = await sh(sandbox, "test -t 0 && test -t 1 && tty", pty=True)
    assert (done.code, done.stdout) == (0, "/dev/pts/0\r\n")


async def test_environment_and_folder_are_as_asked(sandbox):
    done = await sh(sandbox, 'echo "$COLOUR $PWD $HOME"', env={"COLOUR": "blue"}, cwd="/usr")
    assert done.stdout == "blue /usr /root\n"


async def test_every_sandbox_has_the_same_environment(backend, image):
    seen = set()
    for _ in range(2):
        async with backend.open(image) as sandbox:
            seen.add((await sh(sandbox, "env | sort; hostname; id; date +%Z; locale 2>/dev/null; cat /etc/hostname")).stdout)
    assert len(seen) == 1
    assert "sandbox\n" in next(iter(seen))


async def test_the_difference_names_what_was_added_changed_and_deleted(sandbox):
    await sh(
        sandbox,
        "echo new > /new; echo more >> /etc/passwd; rm /etc/group; rm -r /etc/skel; mkdir /etc/skel; echo x > /etc/skel/x",
    )
    changes = await (await sandbox.freeze()).diff()
    assert (changes["/new"].before, changes["/new"].after, changes["/new"].size) == ("nothing", "file", 4)
    assert changes["/etc/passwd"].size == changes["/etc/passwd"].size_before + 5
    assert (changes["/etc/group"].before, changes["/etc/group"].after) == ("file", "nothing")
    assert changes["/etc/skel/x"].before == "nothing"
    assert changes["/etc/skel/.profile"].after == "nothing"
    assert "/etc/hostname" not in changes


async def test_forks_go_on_from_one_moment_and_do_not_see_each_other(sandbox):
    await sh(sandbox, "echo start > /f; rm /etc/group")
    snapshot = await sandbox.freeze()
    async with snapshot.fork() as one, snapshot.fork() as two:
        await sh(one, "echo one >> /f")
        assert (await sh(two, "cat /f; ls /etc/group")).stdout == "start\n"
        assert await one.read("/f") == b"start\none\n"
        async with (await one.freeze()).fork() as grandchild:
            assert await grandchild.read("/f") == b"start\none\n"
    assert await snapshot.list() == {"/f": 6}


async def test_a_fork_of_a_fork_outlives_both_and_goes_back_to_its_opening(backend, image):
    async with AsyncExitStack() as stack:
        async with backend.open(image) as first:
            await first.write("/f", b"first")
            async with (await first.freeze()).fork() as second:
                await second.write("/g", b"second")
                third = await stack.enter_async_context((await second.freeze()).fork())
        await backend.settle(1)
        await third.write("/f", b"third")
        await third.reset()
        assert (await third.read("/f"), await third.read("/g")) == (b"first", b"second")
    await backend.settle(0)


async def test_a_pool_gives_out_ready_sandboxes_and_fills_up_again(pooled):
    image = image_of(pooled)
    await pooled.warm(image)
    assert (pooled.pooled(), await pooled.count()) == (2, 2)
    async with pooled.open(image) as one, pooled.open(image) as two:
        await one.write("/x", b"1")
        with pytest.raises(FileNotFoundError):
            await two.read("/x")
        assert (await sh(two, "echo ready")).stdout == "ready\n"
    while pooled.pooled() < 2:  # noqa: ASYNC110 - the pool is filled in the background, and the fixture has a deadline
        await anyio.sleep(0.005)
    await pooled.settle(2)
    assert (pooled.pooled(), await pooled.count()) == (2, 2)


async def test_opening_that_is_cancelled_leaves_nothing(backend, image):
    for seconds in (0, 0.001, 0.02, 0.1):
        with anyio.move_on_after(seconds):
            async with backend.open(image):
                pass
    await backend.settle(0)


async def test_a_reset_sandbox_is_byte_for_byte_as_it_was(sandbox):
    look = "find . -xdev -path ./proc -prune -o -printf '%p %y %m %U %G %s %l\\n' | sort"
    everything = f"cd /; {look}; cat $(find etc -type f | sort)"
    before = (await sh(sandbox, everything)).stdout
    await sh(sandbox, "rm -rf /etc/*; echo > /new; chmod 777 /opt; mkdir /tmp/x; (sleep 1000 &)")
    assert (await sh(sandbox, everything)).stdout != before
    await sandbox.reset()
    assert (await sh(sandbox, everything)).stdout == before
    assert (await sh(sandbox, "pgrep sleep")).stdout == ""


async def test_a_reset_goes_back_to_the_opening_whatever_was_frozen_since(sandbox):
    await sandbox.write("/f", b"one")
    snapshot = await sandbox.freeze()
    async with snapshot.fork() as fork:
        await fork.write("/g", b"two")
        await fork.freeze()
        await fork.write("/g", b"three")
        await fork.reset()
        assert await fork.read("/f") == b"one"
        with pytest.raises(FileNotFoundError):
            await fork.read("/g")
    await sandbox.write("/f", b"two")
    await sandbox.reset()
    with pytest.raises(FileNotFoundError):
        await sandbox.read("/f")
    assert (await sh(sandbox, "echo fresh > /f; cat /f")).stdout == "fresh\n"


async def test_closing_leaves_nothing(backend, image):
    async with backend.open(image) as sandbox:
        await sh(sandbox, "setsid sleep 1000 &")
        await sandbox.freeze()
        await sandbox.write("/x", b"")
        assert await backend.count() == 2
    await backend.settle(0)


ASK = (
    "import socket,sys; c=socket.create_connection(('127.0.0.1',{port})); c.sendall(sys.stdin.buffer.read())\n"
    "c.shutdown(socket.SHUT_WR); out=b''\n"
    "while d:=c.recv(65536): out+=d\n"
    "sys.stdout.buffer.write(out)"
)
CONNECT_MANY = (
    "import socket,sys; held=[]; failed=0\n"
    "for _ in range({count}):\n"
    "    c=socket.socket(); c.settimeout(0.2)\n"
    "    try: c.connect(('127.0.0.1',{port})); held.append(c)\n"
    "    except OSError: break\n"
    "print(len(held),flush=True); sys.stdin.read()"
)


async def test_a_flood_of_connections_is_bounded_and_harms_nothing(sandbox):
    async with sandbox.listen(8123) as connections:
        process = await sandbox.spawn(Command(argv=("/usr/bin/python3", "-c", CONNECT_MANY.format(port=8123, count=5000))))
        taken = []
        with anyio.move_on_after(1):
            async for stream in connections:
                taken.append(stream)
        (_, count) = await anext(process.output())
        assert len(taken) <= 256
        assert 256 < int(count) <= 256 + 520  # what is held, and what waits in the kernel
        assert (await sh(sandbox, "echo alive")).stdout == "alive\n"
        await process.kill()
        for stream in taken:
            assert await stream.receive() == b""
            await stream.aclose()
        with anyio.fail_after(10):
            stream = await anext(connections)  # what waited in the queue is there, though whoever made it is gone
            assert await stream.receive() == b""


async def test_a_wait_for_a_connection_that_is_cancelled_loses_none(sandbox):
    async with sandbox.listen(8123) as connections:
        with anyio.CancelScope() as scope:
            asyncio.get_running_loop().call_soon(scope.cancel)  # just before the agent is asked for a connection
            await anext(connections)
        with anyio.move_on_after(0.01):
            await anext(connections)
        process = await sandbox.spawn(Command(argv=("/usr/bin/python3", "-c", ASK.format(port=8123)), stdin=b"x"))
        stream = await anext(connections)
        assert await stream.receive() == b"x"
        await stream.send(b"y")
        await stream.aclose()
        assert [piece async for piece in process.output()] == [("stdout", b"y")]


async def test_a_sandbox_that_goes_away_ends_the_wait_with_an_error(sandbox):
    async with sandbox.listen(8123) as connections:
        await sandbox.close()
        with pytest.raises(SandboxError, match="closed"):
            await anext(connections)
