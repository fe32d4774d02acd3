"""The native backend: its pool, leaks, and its end with this process."""

import os
import resource
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import anyio
import pytest

from builders.images import docker_archive, file, tar_of
from drive.native_sandboxes import sh
from drive.running import is_running
from sandlot.core.errors import ConfigError, SandboxError
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox import compile as compile_module
from sandlot.sandbox.native.backend import open_native
from sandlot.sandbox.program import find_program
from sandlot.sandbox.quota import Quota

MANY = """
import anyio, sys
from contextlib import AsyncExitStack
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.command import run_command
from sandlot.sandbox.native.backend import open_native

async def main():
    async with open_native() as backend, AsyncExitStack() as stack:
        for _ in range(int(sys.argv[1])):
            sandbox = await stack.enter_async_context(backend.open("host"))
            await run_command(sandbox, Command(argv=("sh", "-c", "sleep 1000 &")))
        print(backend.machines.zygote.pid, *backend.machines.zygote.cgroups.folders, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def children_of(pid: int) -> list[int]:
    """Everything below a process; some may end meanwhile."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *children_of(int(child))]
    return found


@contextmanager
def ended(process):
    try:
        yield
    finally:
        process.kill()


async def gone(pids):
    with anyio.fail_after(60):
        while any(map(is_running, pids)):  # noqa: ASYNC110 - the kernel sets no event
            await anyio.sleep(0.01)


@pytest.mark.parametrize("count", [30, pytest.param(500, marks=pytest.mark.system)])
async def test_killing_sandlot_leaves_no_process_and_no_cgroup(count):
    command = [sys.executable, "-c", MANY, str(count)]
    sandlot = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - killed below
    with sandlot, ended(sandlot):
        zygote, *folders = (await anyio.to_thread.run_sync(sandlot.stdout.readline)).split()
        below = [int(zygote), *children_of(int(zygote))]
        assert len(below) == 2 * count + 1
        assert all(Path(folder).exists() for folder in folders)
    await gone(below)
    assert not any(Path(folder).exists() for folder in folders)


async def test_killing_the_zygote_ends_every_sandbox_with_an_error():
    async with open_native() as backend, backend.open("host") as sandbox:
        await sh(sandbox, "sleep 1000 &")
        pid = backend.machines.zygote.pid
        below = children_of(pid)
        os.kill(pid, signal.SIGKILL)
        await gone(below)
        with pytest.raises(SandboxError, match="died"):
            await sh(sandbox, "true")


async def test_after_a_killed_zygote_another_one_starts_sandboxes(tmp_path):
    (tmp_path / "other.tar").write_bytes(docker_archive(tar_of(file("of-the-archive", b"its own"))))
    other = f"archive:{tmp_path / 'other.tar'}"
    async with open_native(pool=2) as backend:
        await backend.warm("host")
        async with backend.open(other) as sandbox:
            await sandbox.write("/kept", b"by the first")
            frozen = await sandbox.freeze()
            first = backend.machines.zygote
            below = children_of(first.pid)
            os.kill(first.pid, signal.SIGKILL)
            await gone(below)
            # A layer is a number, which the next zygote gives to another folder: what was frozen is not looked for there.
            async with backend.open(other) as fresh:
                assert await fresh.read("/of-the-archive") == b"its own"
            with pytest.raises(SandboxError, match="died"):
                async with frozen.fork():
                    pass
        async with backend.open("host") as sandbox:
            assert (await sh(sandbox, "echo fresh")).stdout == "fresh\n"
        second = backend.machines.zygote
        assert second.pid != first.pid
    assert not any(folder.exists() for zygote in (first, second) for folder in zygote.cgroups.folders)


async def test_no_sandbox_outlives_its_zygote_also_one_that_was_just_starting():
    random = Random(2)
    for _ in range(15):
        async with open_native(pool=2) as backend:
            await backend.warm("host")
            async with backend.open("host"):  # the pool starts another one now
                await anyio.sleep(random.random() * 0.03)
                zygote = backend.machines.zygote.pid
                below = children_of(zygote)
                os.kill(zygote, signal.SIGKILL)
                await gone(below)


def in_session(session: int) -> list[int]:
    """Processes whose session was begun by this one, also if it has ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, *fields = path.read_text().rpartition(")")[2].split()
            if state != "Z" and int(fields[2]) == session:
                found.append(int(path.parent.name))
    return found


async def test_a_zygote_that_is_killed_at_any_moment_of_a_start_leaves_no_process():
    random = Random(1)
    for _ in range(10):
        async with open_native() as backend:
            zygote = backend.machines.zygote.pid

            async def open_one(backend=backend):
                with suppress(SandboxError):
                    async with backend.open("host"):
                        pass

            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(open_one)
                await anyio.sleep(random.uniform(0, 0.05))
                os.kill(zygote, signal.SIGKILL)
        with anyio.fail_after(10):
            while in_session(zygote):  # noqa: ASYNC110 - the kernel sets no event
                await anyio.sleep(0.01)


async def test_a_killed_zygote_leaves_no_cgroup():
    async with open_native() as backend, AsyncExitStack() as stack:
        for _ in range(20):
            sandbox = await stack.enter_async_context(backend.open("host"))
            await sh(sandbox, "for i in 1 2 3 4 5 6; do sleep 1000 & done")
        folders = backend.machines.zygote.cgroups.folders
        os.kill(backend.machines.zygote.pid, signal.SIGKILL)
    assert not any(folder.exists() for folder in folders)


async def test_a_dead_process_1_ends_the_wait_for_connections():
    async with open_native() as backend, backend.open("host") as sandbox, sandbox.listen(80) as connections:
        process = await sandbox.spawn(Command(argv=("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/80; cat <&3"), stdin=b""))
        stream = await anext(connections)
        os.kill(children_of(backend.machines.zygote.pid)[0], signal.SIGKILL)
        for wait in (connections.__anext__, stream.receive, process.wait):
            with pytest.raises(SandboxError, match="died"):
                await wait()
        await stream.aclose()


async def test_a_pooled_sandbox_that_died_is_not_given_out():
    async with open_native(pool=1) as backend:
        await backend.warm("host")
        (child,) = children_of(backend.machines.zygote.pid)
        os.kill(child, signal.SIGKILL)
        await backend.settle(0)
        async with backend.open("host") as sandbox:
            assert (await sh(sandbox, "echo fresh")).stdout == "fresh\n"


async def test_fifty_sandboxes_at_once_and_none_left():
    async with open_native(quota=Quota(pids=16)) as backend:

        async def one():
            async with backend.open("host") as sandbox:
                assert (await sh(sandbox, "hostname")).stdout == "sandbox\n"

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(one)
        await backend.settle(0)


async def test_two_backends_in_one_process_do_not_share_limits():
    async with open_native() as one, one.open("host") as first:
        async with open_native() as two, two.open("host") as second:
            assert set(one.machines.zygote.cgroups.folders).isdisjoint(two.machines.zygote.cgroups.folders)
            assert (await sh(second, "echo second")).stdout == "second\n"
        assert (await sh(first, "echo first")).stdout == "first\n"


@pytest.mark.parametrize(("limit", "flag"), [(resource.RLIMIT_AS, "v"), (resource.RLIMIT_NOFILE, "n")])
async def test_a_soft_limit_of_the_host_process_is_not_one_of_the_programs_inside(limit, flag):
    """Browsers and provers reserve far more addresses than they use; what a sandbox may use has limits of its own."""
    soft, hard = resource.getrlimit(limit)
    lower = {resource.RLIMIT_AS: 2**44, resource.RLIMIT_NOFILE: 1000}[limit]  # no hindrance to this process
    resource.setrlimit(limit, (lower, hard))
    try:
        async with open_native() as backend, backend.open("host") as sandbox:
            (inside, most) = (await sh(sandbox, f"ulimit -S{flag}; ulimit -H{flag}")).stdout.split()
    finally:
        resource.setrlimit(limit, (soft, hard))
    assert inside == most
    assert inside not in {str(lower), str(lower // 1024)}


async def test_an_error_of_the_caller_comes_out_as_it_was():
    with pytest.raises(KeyError):
        async with open_native() as backend, backend.open("host"):
            raise KeyError("mine")


async def test_forty_freezes_in_a_row_still_add_up():
    async with open_native() as backend, backend.open("host") as sandbox:
        for number in range(40):
            await sandbox.write(f"/f{number}", b"x")
            snapshot = await sandbox.freeze()
        assert len(await snapshot.list()) == 40


def test_a_missing_compiler_is_an_error_with_the_fix(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compile_module.shutil, "which", lambda _: None)
    with pytest.raises(SandboxError, match="apt-get install gcc libc6-dev"):
        find_program()


def test_a_program_others_could_have_written_is_not_run(tmp_path, monkeypatch):
    name = find_program().name
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "sandlot").mkdir()
    (tmp_path / "sandlot" / name).write_text("evil")
    (tmp_path / "sandlot" / name).chmod(0o777)
    with pytest.raises(SandboxError, match="another user"):
        find_program()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"pids": 0}, "`pids` is 0; give a positive, finite number"),
        ({"pids": 3}, "1024 open files, 3 pids; a shell needs at least 64 and 4"),
        ({"open_files": 63}, "63 open files, 512 pids; a shell needs at least 64 and 4"),
        ({"cpus": -1.0}, "`cpus` is -1.0; give a positive"),
        ({"cpus": float("inf")}, "`cpus` is inf; give a positive"),
        ({"cpus": float("nan")}, "`cpus` is nan; give a positive"),
        ({"memory_bytes": 0}, "`memory_bytes` is 0; give a positive"),
        (
            {"memory_bytes": (1024 + 31) << 20},
            "1055 MiB of memory for 1024 MiB of disk; .* at least 32 MiB more memory than disk",
        ),
        ({"disk_bytes": 1 << 40}, "2048 MiB of memory for 1048576 MiB of disk"),
    ],
)
def test_an_invalid_quota_is_refused(fields, complaint):
    with pytest.raises(ConfigError, match=complaint):
        Quota(**fields)


def test_the_least_quota_is_taken():
    assert Quota(pids=4, open_files=64, memory_bytes=33 << 20, disk_bytes=1 << 20).pids == 4


async def test_a_listing_over_the_quota_is_cut_and_the_rest_is_counted():
    async with open_native(quota=Quota(listing_bytes=8192)) as backend, backend.open("host") as sandbox:
        await sh(sandbox, "mkdir /f; for n in $(seq 500); do : > /f/$n; done")
        with pytest.raises(OSError, match="8,192 bytes"):
            await sandbox.changed()
        with pytest.raises(OSError, match="8,192 bytes"):
            await sandbox.list("/f")
        survey = await (await sandbox.freeze()).survey()
        assert 100 < len(survey.sizes) < 200
        assert len(survey.sizes) + len(survey.kinds) + survey.left_out == 501
