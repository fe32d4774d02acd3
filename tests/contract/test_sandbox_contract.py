"""What every sandbox backend must do."""

import asyncio
import errno
import os
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from drive.native_sandboxes import KINDS, backend_of, py, sh
from fakes.docker_engine import IMAGE as DOCKER_IMAGE
from sandlot.core.errors import ConfigError, SandboxError
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.command import run_command
from sandlot.sandbox.docker.backend import open_docker
from sandlot.sandbox.native.backend import NativeMachines

LISTEN = (
    "import socket,sys; s=socket.create_server(('127.0.0.1',8080)); print('ready',flush=True); c,_=s.accept()\n"
    "while d:=c.recv(65536): c.sendall(d.upper())"
)


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


async def test_a_command_gives_its_output_and_exit_code(sandbox):
    done = await sh(sandbox, "echo out; echo err >&2; exit 3")
    assert (done.code, done.stdout, done.stderr) == (3, "out\n", "err\n")


async def test_a_command_ended_by_a_signal_has_a_negative_code(sandbox):
    assert (await sh(sandbox, "kill -TERM $$")).code == -15


async def test_a_command_that_does_not_exist_ends_as_in_a_shell(sandbox):
    done = await run_command(sandbox, Command(argv=("no-such-program",)))
    assert done.code == 127
    assert "cannot start `no-such-program`" in done.stderr


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ((), "argv is empty"),
        (("echo", "a\0b"), "NUL"),
        (("echo", "x" * 2_000_000), "write them to a file"),
        (("echo", "x" * 200_000), "Argument list too long"),
        (("echo", "\ud800"), "surrogates not allowed"),
    ],
)
async def test_a_command_no_kernel_could_start_gets_an_error_and_harms_nothing(sandbox, argv, why):
    done = await run_command(sandbox, Command(argv=argv))
    assert done.code == 126
    assert why in done.stderr
    assert (await sh(sandbox, "echo alive")).stdout == "alive\n"


async def test_a_folder_that_does_not_exist_is_an_error(sandbox):
    assert "cannot enter `/nowhere`" in (await sh(sandbox, "true", cwd="/nowhere")).stderr


async def test_input_larger_than_every_buffer_comes_back_whole(sandbox):
    data = os.urandom(1 << 20) * 3
    process = await sandbox.spawn(Command(argv=("cat",), stdin=data))
    pieces = [piece async for _, piece in process.output()]
    assert b"".join(pieces) == data
    assert await process.wait() == 0


async def test_a_cancelled_wait_loses_no_input(sandbox):
    data = os.urandom(1 << 20)
    process = await sandbox.spawn(Command(argv=("cat",), stdin=data))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await process.wait()
    assert b"".join([piece async for _, piece in process.output()]) == data


async def test_input_can_be_sent_while_it_runs(sandbox):
    process = await sandbox.spawn(Command(argv=("sh", "-c", "read line; echo got $line; cat")))
    output = process.output()
    await process.send(b"one\n")
    assert await anext(output) == ("stdout", b"got one\n")
    await process.send(b"two")
    await process.send(b"")
    assert await anext(output) == ("stdout", b"two")
    assert await process.wait() == 0


async def test_unread_input_is_dropped_without_harm(sandbox):
    done = await sh(sandbox, "exec <&-; echo fine", stdin=b"x" * 2_000_000)
    assert (done.code, done.stdout) == (0, "fine\n")


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


async def test_nothing_of_our_own_environment_is_inside(backend, monkeypatch, image):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    async with backend.open(image) as sandbox:
        done = await sh(sandbox, "env; cat /proc/1/environ /proc/*/environ /proc/1/cmdline")
    assert "hunter2" not in done.stdout


async def test_background_work_does_not_hold_the_command_and_goes_on(sandbox):
    done = await sh(
        sandbox, "mkfifo /go; (read x < /go; head -c 200000 /dev/zero; echo still here > /proof; echo > /go) & echo started"
    )
    assert done.stdout == "started\n"
    assert (await sh(sandbox, "echo > /go; read x < /go; cat /proof")).stdout == "still here\n"


async def test_output_beyond_the_limit_is_dropped_and_counted(sandbox):
    done = await sh(sandbox, "head -c 1000000 /dev/zero", output_bytes=1000)
    assert (len(done.stdout), done.dropped) == (1000, 999_000)


async def test_killing_a_command_ends_everything_it_started(sandbox):
    process = await sandbox.spawn(Command(argv=("sh", "-c", "setsid sh -c 'sleep 1000 & sleep 1001' & echo up; sleep 1002")))
    assert await anext(process.output()) == ("stdout", b"up\n")
    while (await sh(sandbox, "pgrep -c sleep")).stdout.strip() != "3":
        pass
    await process.kill()
    assert await process.wait() == -9
    assert (await sh(sandbox, "pgrep sleep")).stdout == ""


async def test_a_cancelled_command_is_dead(sandbox):
    with anyio.move_on_after(0.2):
        await sh(sandbox, "sleep 1000")
    assert (await sh(sandbox, "pgrep sleep")).stdout == ""


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_000])
async def test_what_is_written_is_read_again(sandbox, size):
    data = os.urandom(size)
    await sandbox.write("/data/deep/er/file.bin", data)
    assert await sandbox.read("/data/deep/er/file.bin") == data


async def test_writing_again_replaces_the_file(sandbox):
    await sandbox.write("/f", b"long content")
    await sandbox.write("/f", b"short")
    assert await sandbox.read("/f") == b"short"


async def test_reading_what_is_not_a_file_is_an_error_and_never_waits(sandbox):
    await sh(sandbox, "mkfifo /pipe; ln -s /nowhere /broken")
    with pytest.raises(FileNotFoundError):
        await sandbox.read("/missing")
    with pytest.raises(IsADirectoryError):
        await sandbox.read("/etc")
    with pytest.raises(OSError, match="No such device"):
        await sandbox.read("/pipe")
    with pytest.raises(FileNotFoundError):
        await sandbox.read("/broken")
    with pytest.raises(OSError):
        await sandbox.write("/pipe", b"x")


@pytest.mark.parametrize("path", ["relative", "", "/nul\0byte"])
async def test_an_invalid_path_is_refused(sandbox, path):
    with pytest.raises(ValueError, match="not absolute"):
        await sandbox.read(path)


async def test_listing_is_sorted_and_holds_files_only(sandbox):
    await sandbox.write("/data/b", b"")
    await sandbox.write("/data/a/x", b"")
    await sh(sandbox, "mkdir /data/empty; ln -s /data/b /data/link")
    assert await sandbox.list("/data") == ["/data/a/x", "/data/b"]
    assert await sandbox.list("/nowhere") == []


async def test_names_that_are_not_text_survive(sandbox):
    await py(sandbox, "import os; os.mkdir('/odd'); open(b'/odd/\\xff\\n', 'w').write('hi')")
    (path,) = await sandbox.list("/odd")
    assert os.fsencode(path) == b"/odd/\xff\n"
    assert await sandbox.read(path) == b"hi"


async def test_sandboxes_do_not_see_each_other(backend, image):
    async with backend.open(image) as one, backend.open(image) as two:
        await one.write("/same/path", b"one")
        await two.write("/same/path", b"two")
        assert await one.read("/same/path") == b"one"
        await sh(one, "sleep 1000 &")
        assert (await sh(two, "pgrep sleep")).stdout == ""


async def test_a_frozen_sandbox_has_no_processes_and_its_snapshot_never_changes(sandbox):
    await sh(sandbox, "echo before > /f; setsid sh -c 'while :; do echo x >> /daemon; done' & until test -s /daemon; do :; done")
    snapshot = await sandbox.freeze()
    size = (await snapshot.list())["/daemon"]
    await sandbox.write("/f", b"after")
    assert set((await sh(sandbox, "ps -e -o comm=")).stdout.split()) <= {"init", "ps", "sh"}
    assert await snapshot.read("/f") == b"before\n"
    assert (await snapshot.list())["/daemon"] == size
    assert await sandbox.read("/f") == b"after"


async def test_a_snapshot_lists_what_was_left_and_reads_the_image_too(sandbox):
    await sandbox.write("/out/total.txt", b"12")
    snapshot = await sandbox.freeze()
    assert await snapshot.list() == {"/out/total.txt": 2}
    assert b"localhost" in await snapshot.read("/etc/hosts")
    with pytest.raises(FileNotFoundError):
        await snapshot.read("/out/other")


async def test_a_survey_names_what_was_left_by_kind_and_follows_no_link(sandbox):
    await sh(sandbox, "mkdir /out; echo 1 > /out/file; ln -s /etc /out/link; ln -s nowhere /out/gone; mkfifo /out/pipe")
    survey = await (await sandbox.freeze()).survey()
    assert dict(survey.sizes) == {"/out/file": 2}
    assert dict(survey.kinds) == {"/out": "folder", "/out/link": "link", "/out/gone": "link", "/out/pipe": "other"}
    assert survey.left_out == 0


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


async def test_a_port_inside_is_reached_without_a_network(sandbox):
    server = await sandbox.spawn(Command(argv=("/usr/bin/python3", "-c", LISTEN)))
    assert await anext(server.output()) == ("stdout", b"ready\n")
    stream = await sandbox.connect(8080)
    await stream.send(b"hello" * 100_000)
    received = b""
    while len(received) < 500_000:
        received += await stream.receive()
    assert received == b"HELLO" * 100_000
    await stream.aclose()
    assert await server.wait() == 0


async def test_a_unix_socket_inside_is_reached(sandbox):
    script = "import socket; s=socket.socket(1); s.bind('/run/s'); s.listen(); print(1,flush=True); s.accept()[0].send(b'hi')"
    server = await sandbox.spawn(Command(argv=("/usr/bin/python3", "-c", script)))
    await anext(server.output())
    stream = await sandbox.connect("/run/s")
    assert await stream.receive() == b"hi"
    assert await stream.receive() == b""


async def test_no_listener_is_an_error(sandbox):
    with pytest.raises(ConnectionRefusedError):
        await sandbox.connect(9)


async def test_many_commands_at_once_keep_their_own_output(sandbox):
    results = {}

    async def one(number):
        results[number] = (await sh(sandbox, f"echo {number}; echo e{number} >&2")).stdout

    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(one, number)
    assert results == {number: f"{number}\n" for number in range(40)}


async def test_closing_leaves_nothing(backend, image):
    async with backend.open(image) as sandbox:
        await sh(sandbox, "setsid sleep 1000 &")
        await sandbox.freeze()
        await sandbox.write("/x", b"")
        assert await backend.count() == 2
    await backend.settle(0)


async def test_every_use_of_a_closed_sandbox_is_an_error(backend, image):
    async with backend.open(image) as sandbox:
        process = await sandbox.spawn(Command(argv=("sleep", "1000")))
        snapshot = await sandbox.freeze()
    with pytest.raises(SandboxError, match="closed"):
        await snapshot.read("/etc/hosts")
    for use in (sandbox.read("/etc/hosts"), sandbox.write("/x", b""), sandbox.freeze(), sandbox.changed()):
        with pytest.raises(SandboxError, match="closed"):
            await use
    assert await process.wait() == -9
    await backend.settle(0)


async def test_an_unknown_image_or_network_is_refused_by_name(backend, image):
    with pytest.raises(ConfigError, match="no image named 'ubuntu'"):
        await backend.prepare("ubuntu")
    with pytest.raises(ConfigError, match="no image named 'ubuntu'"):
        async with backend.open("ubuntu"):
            pass
    with pytest.raises(ConfigError, match="network 'all'"):
        async with backend.open(image, "all"):
            pass


async def test_the_backend_says_what_it_isolates(backend):
    said = await backend.probe()
    assert {"processes", "files", "network", "memory", "cpu", "pids", "disk", "kernel"} <= set(said)
    assert all(text.startswith(("yes: ", "no: ")) for text in said.values())


async def test_changed_files_are_listed_while_it_runs(sandbox):
    await sandbox.write("/out/a", b"12345")
    assert (await sandbox.changed())["/out/a"] == 5
    assert (await sh(sandbox, "echo still here")).stdout == "still here\n"


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


async def _shout(stream):
    said = b""
    while piece := await stream.receive():
        said += piece
    await stream.send(said.upper())
    await stream.aclose()


@asynccontextmanager
async def _shouting(sandbox, port):
    async with sandbox.listen(port) as connections, anyio.create_task_group() as group:

        async def serve():
            async for stream in connections:
                group.start_soon(_shout, stream)

        group.start_soon(serve)
        yield
        group.cancel_scope.cancel()


async def test_a_program_inside_reaches_the_host_by_a_port_it_stands_behind(sandbox):
    async with _shouting(sandbox, 8123):
        done = await py(sandbox, ASK.format(port=8123), stdin=b"hello" * 200_000)
        assert done.stdout == "HELLO" * 200_000
        assert (await py(sandbox, ASK.format(port=8123), stdin=b"again")).stdout == "AGAIN"


async def test_many_programs_inside_are_answered_at_once(sandbox):
    said = {}

    async def one(number):
        said[number] = (await py(sandbox, ASK.format(port=8123), stdin=b"n%d" % number)).stdout

    async with _shouting(sandbox, 8123), anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(one, number)
    assert said == {number: f"N{number}" for number in range(8)}


async def test_a_port_in_use_is_an_error_and_a_closed_one_is_free_again(sandbox):
    async with sandbox.listen(8123):
        with pytest.raises(OSError, match="port 8123 inside the sandbox") as raised:
            async with sandbox.listen(8123):
                pass
        assert raised.value.errno == errno.EADDRINUSE  # the words depend on the C library
    assert "refused" in (await py(sandbox, ASK.format(port=8123))).stderr
    async with _shouting(sandbox, 8123):
        assert (await py(sandbox, ASK.format(port=8123), stdin=b"hi")).stdout == "HI"
    with pytest.raises(ValueError, match="ports are 1 to 65535"):
        async with sandbox.listen(0):
            pass


async def test_leaving_the_context_ends_its_connections(sandbox):
    script = "import socket; c=socket.create_connection(('127.0.0.1',8123)); print('up',flush=True); print(c.recv(9))"
    process = await sandbox.spawn(Command(argv=("/usr/bin/python3", "-c", script), stdin=b""))
    output = process.output()
    async with sandbox.listen(8123) as connections:
        stream = await anext(connections)
        assert await anext(output) == ("stdout", b"up\n")
    assert await anext(output) == ("stdout", b"b''\n")
    assert await stream.receive() == b""
    await stream.aclose()


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


async def test_a_freeze_ends_the_wait_for_connections(sandbox):
    async with sandbox.listen(8123) as connections:
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.freeze)
            assert [stream async for stream in connections] == []
        assert [stream async for stream in connections] == []


async def test_a_sandbox_that_goes_away_ends_the_wait_with_an_error(sandbox):
    async with sandbox.listen(8123) as connections:
        await sandbox.close()
        with pytest.raises(SandboxError, match="closed"):
            await anext(connections)
