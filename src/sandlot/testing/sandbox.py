"""What every sandbox backend promises, for its sandboxes too.

Your fixtures are `backend`, your opened backend, and `image`, the name of an image that has `sh`, the usual small programs
(`cat`, `env`, `grep`, `head`, `mkfifo`, `sort`) and `python3`.

Tests of isolation are skipped where the backend's `probe()` says `no: ...` for that capability, with its words as the reason:
`pytest -rs` prints them.
"""

import errno
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from sandlot.core.errors import ConfigError, SandboxError
from sandlot.core.limits import Limits
from sandlot.core.ports.sandbox import Backend, Command, Completed, Sandbox, Stream
from sandlot.sandbox.command import run_command
from sandlot.testing.running import anyio_backend as anyio_backend
from sandlot.testing.running import deadline as deadline
from sandlot.testing.running import free_port
from sandlot.testing.running import pytestmark as pytestmark

_CAPABILITIES = {"processes", "files", "network", "memory", "cpu", "pids", "disk", "kernel"}
_SLEEPERS = "cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^sleep$'"
_ALIVE = "for file in {files}; do grep -qs . /proc/$(cat $file)/cmdline && echo $file; done"
"""A process that has ended and that nobody has waited for has no command line."""


@asynccontextmanager
async def _opened(backend: Backend, image: str) -> AsyncGenerator[Sandbox]:
    async with backend.open(image, "none", Limits()) as sandbox:
        assert isinstance(sandbox, Sandbox), "it has every method of a `Sandbox`, in its class"
        yield sandbox


@pytest.fixture
async def sandbox(deadline: None, backend: Backend, image: str) -> AsyncGenerator[Sandbox]:
    """A fresh sandbox of your backend."""
    async with _opened(backend, image) as opened:
        yield opened


async def _require(backend: Backend, capability: str) -> None:
    """Skip a test if the backend says that it does not isolate this."""
    said = (await backend.probe())[capability]
    if said.startswith("no: "):
        pytest.skip(f"the backend does not isolate {capability}: {said.removeprefix('no: ')}")


async def _sh(sandbox: Sandbox, script: str, cwd: str = "/", **fields: Any) -> Completed:
    """In `/`, so that relative paths lead to the sandbox's files even if it does not isolate them."""
    return await run_command(sandbox, Command(argv=("sh", "-c", script), cwd=cwd, **fields))


# -- what it says about itself


async def test_the_backend_says_what_it_isolates(backend: Backend) -> None:
    said = await backend.probe()
    assert set(said) >= _CAPABILITIES
    assert [text for text in said.values() if not text.startswith(("yes: ", "no: "))] == []


async def test_an_unknown_image_or_network_is_refused_by_name(backend: Backend, image: str) -> None:
    """Nothing is used instead of what was asked for."""
    with pytest.raises(ConfigError, match="no-such-image"):
        await backend.prepare("no-such-image")
    for other, network in (("no-such-image", "none"), (image, "no-such-network")):
        with pytest.raises(ConfigError, match="no-such-"):
            async with backend.open(other, network, Limits()):
                pass


async def test_preparing_an_image_twice_harms_nothing(backend: Backend, image: str) -> None:
    await backend.prepare(image)
    await backend.prepare(image)


# -- commands


async def test_a_command_gives_its_output_and_exit_code(sandbox: Sandbox) -> None:
    done = await _sh(sandbox, "echo out; echo err >&2; exit 3")
    assert (done.code, done.stdout, done.stderr) == (3, "out\n", "err\n")


async def test_a_command_ended_by_a_signal_has_a_negative_code(sandbox: Sandbox) -> None:
    assert (await _sh(sandbox, "kill -TERM $$")).code == -15


async def test_a_command_that_does_not_exist_ends_as_in_a_shell(sandbox: Sandbox) -> None:
    done = await run_command(sandbox, Command(argv=("no-such-program",)))
    assert done.code == 127
    assert "no-such-program" in done.stderr


@pytest.mark.parametrize(
    "argv",
    [(), ("echo", "a\0b"), ("echo", "x" * 2_000_000), ("echo", "x" * 200_000), ("echo", "\ud800")],
    ids=["empty", "NUL", "too large", "too long", "no text"],
)
async def test_a_command_no_kernel_could_start_gets_an_error_and_harms_nothing(sandbox: Sandbox, argv: tuple[str, ...]) -> None:
    done = await run_command(sandbox, Command(argv=argv))
    assert done.code == 126
    assert done.stderr
    assert (await _sh(sandbox, "echo alive")).stdout == "alive\n"


async def test_a_folder_that_does_not_exist_is_an_error(sandbox: Sandbox) -> None:
    done = await _sh(sandbox, "true", cwd="/nowhere")
    assert done.code != 0
    assert "/nowhere" in done.stderr


async def test_variables_and_folder_are_as_asked(sandbox: Sandbox) -> None:
    await sandbox.write("/work/here", b"")
    done = await _sh(sandbox, 'echo "$COLOUR"; echo *', env={"COLOUR": "blue"}, cwd="/work")
    assert done.stdout == "blue\nhere\n"


async def test_nothing_of_our_own_variables_is_inside(backend: Backend, image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    async with _opened(backend, image) as sandbox:
        assert "hunter2" not in (await _sh(sandbox, "env; cat /proc/self/environ")).stdout


async def test_nothing_of_our_own_processes_is_inside(backend: Backend, image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await _require(backend, "processes")
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    async with _opened(backend, image) as sandbox:
        done = await _sh(sandbox, "cat /proc/1/environ /proc/*/environ /proc/1/cmdline")
    assert "hunter2" not in done.stdout


async def test_every_sandbox_has_the_same_surroundings(backend: Backend, image: str) -> None:
    await _require(backend, "files")
    seen: set[str] = set()
    for _ in range(2):
        async with _opened(backend, image) as sandbox:
            seen.add((await _sh(sandbox, "env | sort; hostname; id; date +%Z; cat /etc/hostname")).stdout)
    assert len(seen) == 1


async def test_input_larger_than_every_buffer_comes_back_whole(sandbox: Sandbox) -> None:
    data = os.urandom(3 << 20)
    process = await sandbox.spawn(Command(argv=("cat",), stdin=data))
    assert b"".join([piece async for _, piece in process.output()]) == data
    assert await process.wait() == 0


async def test_a_cancelled_wait_loses_no_input(sandbox: Sandbox) -> None:
    data = os.urandom(1 << 20)
    process = await sandbox.spawn(Command(argv=("cat",), stdin=data))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await process.wait()
    assert b"".join([piece async for _, piece in process.output()]) == data


async def test_input_can_be_sent_while_it_runs(sandbox: Sandbox) -> None:
    process = await sandbox.spawn(Command(argv=("sh", "-c", "read line; echo got $line; cat")))
    output = process.output()
    await process.send(b"one\n")
    assert await anext(output) == ("stdout", b"got one\n")
    await process.send(b"two")
    await process.send(b"")
    assert await anext(output) == ("stdout", b"two")
    assert await process.wait() == 0


async def test_unread_input_is_dropped_without_harm(sandbox: Sandbox) -> None:
    done = await _sh(sandbox, "exec <&-; echo fine", stdin=b"x" * 2_000_000)
    assert (done.code, done.stdout) == (0, "fine\n")


async def test_a_terminal_is_a_terminal(sandbox: Sandbox) -> None:
    done = await _sh(sandbox, "test -t 0 && test -t 1 && echo yes", pty=True)
    assert (done.code, done.stdout) == (0, "yes\r\n")


async def test_background_work_does_not_hold_the_command_and_goes_on(sandbox: Sandbox) -> None:
    work = "mkfifo go; (read x < go; head -c 200000 /dev/zero; echo still here > proof; echo > go) & echo started"
    assert (await _sh(sandbox, work)).stdout == "started\n"
    assert (await _sh(sandbox, "echo > go; read x < go; cat proof")).stdout == "still here\n"


async def test_output_beyond_the_limit_is_dropped_and_counted(sandbox: Sandbox) -> None:
    done = await _sh(sandbox, "head -c 1000000 /dev/zero", output_bytes=1000)
    assert (len(done.stdout), done.dropped) == (1000, 999_000)


async def test_many_commands_at_once_keep_their_own_output(sandbox: Sandbox) -> None:
    results: dict[int, str] = {}

    async def one(number: int) -> None:
        results[number] = (await _sh(sandbox, f"echo {number}; echo e{number} >&2")).stdout

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    assert results == {number: f"{number}\n" for number in range(20)}


async def test_killing_a_command_ends_everything_it_started(sandbox: Sandbox) -> None:
    daemon = "setsid sh -c 'echo $$ > one; sleep 1000 & echo $! > two; echo > up; wait'"
    script = f"mkfifo up; {daemon} & read x < up; echo up; sleep 1002"
    process = await sandbox.spawn(Command(argv=("sh", "-c", script), cwd="/"))
    assert await anext(process.output()) == ("stdout", b"up\n")
    assert (await _sh(sandbox, _ALIVE.format(files="one two"))).stdout == "one\ntwo\n"
    await process.kill()
    assert await process.wait() == -9
    assert await _are_dead(sandbox, "one two")


async def test_a_cancelled_command_is_dead(sandbox: Sandbox) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_sh, sandbox, "mkfifo up; echo $$ > number; echo > up; exec sleep 1000")
        await _sh(sandbox, "until test -p up; do :; done; read x < up")
        group.cancel_scope.cancel()
    assert await _are_dead(sandbox, "number")


async def _are_dead(sandbox: Sandbox, files: str) -> bool:
    """Processes whose numbers are in these files. One that was killed a moment ago may still be dying."""
    with anyio.move_on_after(10):
        while (await _sh(sandbox, _ALIVE.format(files=files))).stdout:
            pass
        return True
    return False


# -- files


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_000])
async def test_what_is_written_is_read_again(sandbox: Sandbox, size: int) -> None:
    data = os.urandom(size)
    await sandbox.write("/data/deep/er/file.bin", data)
    assert await sandbox.read("/data/deep/er/file.bin") == data


async def test_commands_and_the_outside_see_the_same_files(sandbox: Sandbox) -> None:
    await sandbox.write("/data/in", b"from outside")
    assert (await _sh(sandbox, "cat data/in; printf inside > data/out")).stdout == "from outside"
    assert await sandbox.read("/data/out") == b"inside"


async def test_writing_again_replaces_the_file(sandbox: Sandbox) -> None:
    await sandbox.write("/f", b"long content")
    await sandbox.write("/f", b"short")
    assert await sandbox.read("/f") == b"short"


async def test_reading_what_is_not_a_file_is_an_error_and_never_waits(sandbox: Sandbox) -> None:
    await _sh(sandbox, "mkdir folder; mkfifo pipe; ln -s nowhere broken")
    for path in ("/missing", "/broken"):
        with pytest.raises(FileNotFoundError):
            await sandbox.read(path)
    with pytest.raises(IsADirectoryError):
        await sandbox.read("/folder")
    with pytest.raises(OSError, match="No such device"):
        await sandbox.read("/pipe")
    with pytest.raises(OSError, match=r"."):
        await sandbox.write("/pipe", b"x")


@pytest.mark.parametrize("path", ["relative", "", "/nul\0byte"])
async def test_an_invalid_path_is_refused(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(ValueError, match="not absolute"):
        await sandbox.read(path)


async def test_listing_is_sorted_and_holds_files_only(sandbox: Sandbox) -> None:
    await sandbox.write("/data/b", b"")
    await sandbox.write("/data/a/x", b"")
    await _sh(sandbox, "mkdir data/empty; ln -s data/b data/link")
    assert list(await sandbox.list("/data")) == ["/data/a/x", "/data/b"]
    assert list(await sandbox.list("/nowhere")) == []


async def test_names_that_are_not_text_survive(sandbox: Sandbox) -> None:
    await _sh(sandbox, "mkdir odd; printf hi > \"$(printf 'odd/\\377\\n.')\"")
    (path,) = await sandbox.list("/odd")
    assert os.fsencode(path) == b"/odd/\xff\n."
    assert await sandbox.read(path) == b"hi"


async def test_changed_files_are_listed_while_it_runs(sandbox: Sandbox) -> None:
    await sandbox.write("/out/a", b"12345")
    assert (await sandbox.changed())["/out/a"] == 5
    assert (await _sh(sandbox, "echo still here")).stdout == "still here\n"


async def test_sandboxes_do_not_see_each_others_files(backend: Backend, image: str) -> None:
    async with _opened(backend, image) as one, _opened(backend, image) as two:
        await one.write("/same/path", b"one")
        await two.write("/same/path", b"two")
        await one.write("/other", b"")
        assert await one.read("/same/path") == b"one"
        assert (await _sh(two, "cat same/path; cat other 2>&1 | tail -c 10")).stdout.startswith("two")
        with pytest.raises(FileNotFoundError):
            await two.read("/other")


async def test_sandboxes_do_not_see_each_others_processes(backend: Backend, image: str) -> None:
    await _require(backend, "processes")
    async with _opened(backend, image) as one, _opened(backend, image) as two:
        await _sh(one, f"sleep 1000 & until {_SLEEPERS}; do :; done")
        assert (await _sh(one, _SLEEPERS)).stdout == "1\n"
        assert (await _sh(two, _SLEEPERS)).stdout == "0\n"


# -- what is left


async def test_a_frozen_sandbox_runs_nothing_and_its_snapshot_never_changes(sandbox: Sandbox) -> None:
    daemon = "echo $$ > number; echo x > daemon; echo > up; while :; do echo x >> daemon; done"
    await _sh(sandbox, f"echo before > f; mkfifo up; setsid sh -c '{daemon}' & read x < up")
    snapshot = await sandbox.freeze()
    size = (await snapshot.list())["/daemon"]
    assert await _are_dead(sandbox, "number")
    await sandbox.write("/f", b"after")
    assert await snapshot.read("/f") == b"before\n"
    assert (await snapshot.list())["/daemon"] == size
    assert await sandbox.read("/f") == b"after"


async def test_a_snapshot_lists_what_was_left_and_only_that(sandbox: Sandbox) -> None:
    await sandbox.write("/out/total.txt", b"12")
    snapshot = await sandbox.freeze()
    assert dict(await snapshot.list()) == {"/out/total.txt": 2}
    with pytest.raises(FileNotFoundError):
        await snapshot.read("/out/other")


async def test_a_snapshot_reads_the_image_too(backend: Backend, image: str) -> None:
    await _require(backend, "files")
    async with _opened(backend, image) as sandbox:
        assert (await (await sandbox.freeze()).read("/etc/passwd")).startswith(b"root:")


async def test_a_survey_names_what_was_left_by_kind_and_follows_no_link(sandbox: Sandbox) -> None:
    await _sh(sandbox, "mkdir out; echo 1 > out/file; ln -s /etc out/link; ln -s nowhere out/gone; mkfifo out/pipe")
    survey = await (await sandbox.freeze()).survey()
    assert dict(survey.sizes) == {"/out/file": 2}
    assert dict(survey.kinds) == {"/out": "folder", "/out/link": "link", "/out/gone": "link", "/out/pipe": "other"}
    assert survey.left_out == 0


async def test_every_use_of_a_closed_sandbox_is_an_error(backend: Backend, image: str) -> None:
    async with _opened(backend, image) as sandbox:
        await sandbox.write("/f", b"")
        process = await sandbox.spawn(Command(argv=("sleep", "1000")))
        snapshot = await sandbox.freeze()
    with pytest.raises(SandboxError, match="closed"):
        await snapshot.read("/f")
    for use in (sandbox.read("/f"), sandbox.write("/x", b""), sandbox.freeze(), sandbox.changed()):
        with pytest.raises(SandboxError, match="closed"):
            await use
    assert await process.wait() == -9


# -- connections

_LISTEN = (
    "import socket; s=socket.create_server(('127.0.0.1',{port})); print('ready',flush=True); c,_=s.accept()\n"
    "while d:=c.recv(65536): c.sendall(d.upper())"
)
_LISTEN_AT_PATH = "import socket; s=socket.socket(1); s.bind('s'); s.listen(); print(1,flush=True); s.accept()[0].send(b'hi')"
_ASK = (
    "import socket,sys; c=socket.create_connection(('127.0.0.1',{port})); c.sendall(sys.stdin.buffer.read())\n"
    "c.shutdown(socket.SHUT_WR); out=b''\n"
    "while d:=c.recv(65536): out+=d\n"
    "sys.stdout.buffer.write(out)"
)
_HOLD = "import socket; c=socket.create_connection(('127.0.0.1',{port})); print('up',flush=True); print(c.recv(9))"


def _python(script: str, **fields: Any) -> Command:
    return Command(argv=("python3", "-c", script), cwd="/", **fields)


async def test_a_port_inside_is_reached_without_a_network(sandbox: Sandbox) -> None:
    port = free_port()
    server = await sandbox.spawn(_python(_LISTEN.format(port=port)))
    assert await anext(server.output()) == ("stdout", b"ready\n")
    stream = await sandbox.connect(port)
    await stream.send(b"hello" * 100_000)
    received = b""
    while len(received) < 500_000:
        received += await stream.receive()
    assert received == b"HELLO" * 100_000
    await stream.aclose()
    assert await server.wait() == 0


async def test_a_unix_socket_inside_is_reached(sandbox: Sandbox) -> None:
    server = await sandbox.spawn(_python(_LISTEN_AT_PATH))
    await anext(server.output())
    stream = await sandbox.connect("/s")
    assert await stream.receive() == b"hi"
    assert await stream.receive() == b""
    await stream.aclose()


async def test_no_listener_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(ConnectionRefusedError):
        await sandbox.connect(free_port())


async def _shout(stream: Stream) -> None:
    said = b""
    while piece := await stream.receive():
        said += piece
    await stream.send(said.upper())
    await stream.aclose()


@asynccontextmanager
async def _shouting(sandbox: Sandbox, port: int) -> AsyncGenerator[None]:
    async with sandbox.listen(port) as connections, anyio.create_task_group() as group:

        async def serve() -> None:
            async for stream in connections:
                group.start_soon(_shout, stream)

        group.start_soon(serve)
        yield
        group.cancel_scope.cancel()


async def test_programs_inside_reach_the_host_by_a_port_it_stands_behind(sandbox: Sandbox) -> None:
    said: dict[int, str] = {}
    port = free_port()

    async def one(number: int) -> None:
        said[number] = (await run_command(sandbox, _python(_ASK.format(port=port), stdin=b"n%d" % number * 50_000))).stdout

    async with _shouting(sandbox, port), anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(one, number)
    assert said == {number: f"N{number}" * 50_000 for number in range(4)}


async def test_a_port_in_use_is_an_error_and_a_closed_one_is_free_again(sandbox: Sandbox) -> None:
    port = free_port()
    async with sandbox.listen(port):
        with pytest.raises(OSError, match=r".") as raised:
            async with sandbox.listen(port):
                pass
        assert raised.value.errno == errno.EADDRINUSE  # the words depend on the C library
    assert "refused" in (await run_command(sandbox, _python(_ASK.format(port=port)))).stderr
    async with _shouting(sandbox, port):
        assert (await run_command(sandbox, _python(_ASK.format(port=port), stdin=b"hi"))).stdout == "HI"


async def test_leaving_the_context_ends_its_connections(sandbox: Sandbox) -> None:
    port = free_port()
    process = await sandbox.spawn(_python(_HOLD.format(port=port), stdin=b""))
    output = process.output()
    async with sandbox.listen(port) as connections:
        stream = await _next(connections)
        assert await anext(output) == ("stdout", b"up\n")
    assert await anext(output) == ("stdout", b"b''\n")
    assert await stream.receive() == b""
    await stream.aclose()


async def _next(connections: AsyncIterator[Stream]) -> Stream:
    return await anext(connections)


async def test_a_freeze_ends_the_wait_for_connections(sandbox: Sandbox) -> None:
    async with sandbox.listen(free_port()) as connections:
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.freeze)
            assert [stream async for stream in connections] == []
        assert [stream async for stream in connections] == []
