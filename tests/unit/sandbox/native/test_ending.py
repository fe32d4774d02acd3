"""Ending what an agent left running: by process 1, and from outside when process 1 gets no time for it."""

import os
import signal
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from drive.native_sandboxes import KINDS, backend_of, sh
from drive.running import is_running
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.backend import open_backend
from sandlot.sandbox.native import backend as native
from sandlot.sandbox.native.cgroup import find_cgroups
from sandlot.sandbox.native.zygote import open_zygote
from sandlot.sandbox.program import find_program
from sandlot.sandbox.quota import Quota

QUOTA = Quota(memory_bytes=192 << 20, disk_bytes=32 << 20, pids=24)

BOMB = "setsid sh -c 'while :; do sh -c \"sleep 1000 &\"; done' >/dev/null 2>&1 &"
"""Starts processes without end; with the 24 that the quota allows it makes no load that a machine would notice."""


@pytest.fixture(params=KINDS)
async def backend(request):
    with anyio.fail_after(19):
        async with backend_of(request.param, quota=QUOTA) as opened:
            yield opened


def below(pid: int) -> list[int]:
    """The children of a process."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


@asynccontextmanager
async def stopped(pid: int):
    """A process that gets no time."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def end_a_bomb(backend):
    """Freeze a sandbox whose process 1 can do nothing, with what a bomb left in it."""
    async with backend.open("host") as sandbox:
        await sh(sandbox, f"echo kept > /kept; {BOMB}")
        (first,) = below(backend.machines.zygote.pid)
        left = below(first)
        assert left
        async with stopped(first):
            snapshot = await sandbox.freeze()
            assert [pid for pid in (first, *left) if is_running(pid)] == []
        assert await snapshot.read("/kept") == b"kept\n"
        assert await snapshot.list() == {"/kept": 5}
        assert (await sh(sandbox, "set -- /proc/[0-9]*; echo $# $(cat /kept)")).stdout == "2 kept\n"


async def test_what_was_left_is_ended_though_process_1_gets_no_time(backend):
    await end_a_bomb(backend)
    await backend.settle(0)


async def test_processes_are_ended_by_the_cgroup_where_there_is_one():
    async with backend_of("root") as backend:
        assert backend.machines.zygote.cgroups.ending


async def test_without_cgroup_kill_they_are_frozen_and_killed(tmp_path):
    """As on a machine that has only version 1, or a kernel before 5.14."""
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(Path("/proc/self/cgroup").read_text())
    mounts = Path("/proc/self/mountinfo").read_text().splitlines(keepends=True)
    (proc / "self/mountinfo").write_text("".join(line for line in mounts if " - cgroup2 " not in line))
    (proc / str(os.getpid())).mkdir()
    (proc / str(os.getpid()) / "stat").write_text(Path(f"/proc/{os.getpid()}/stat").read_text())
    cgroups = find_cgroups(proc)
    if cgroups.version != 1:
        pytest.skip("this machine has no cgroups of version 1")
    assert cgroups.ending == "freezer"
    async with open_zygote(find_program(), cgroups) as zygote:

        async def renew():
            return zygote

        async with open_backend(lambda tasks: native.NativeMachines(zygote, renew, tasks, QUOTA), 0) as backend:
            await end_a_bomb(backend)
            await backend.settle(0)


async def test_a_command_that_runs_when_the_kernel_ends_it_was_killed(backend):
    async with backend.open("host") as sandbox:
        running = await sandbox.spawn(Command(argv=("sh", "-c", f"{BOMB} echo ready; sleep 1000"), stdin=b""))
        output = running.output()
        assert await anext(output) == ("stdout", b"ready\n")
        async with stopped(below(backend.machines.zygote.pid)[0]):
            await sandbox.freeze()
        assert [piece async for piece in output] == []
        assert await running.wait() == -signal.SIGKILL


async def test_closing_a_sandbox_ends_what_was_left_though_process_1_gets_no_time(backend):
    async with backend.open("host") as sandbox:
        await sh(sandbox, BOMB)
        (first,) = below(backend.machines.zygote.pid)
        os.kill(first, signal.SIGSTOP)
    await backend.settle(0)


# -- who gets the processor --------------------------------------------------------------------------------------------


async def test_what_is_left_when_nobody_waits_runs_only_when_no_other_wants_to():
    async with backend_of("root", quota=QUOTA) as backend, backend.open("host") as sandbox:
        cgroups = backend.machines.zygote.cgroups
        (folder,) = cgroups.folders[cgroups.place["cpu"]].glob("s*/")
        idle = folder / "cpu.idle"

        async def becomes(value: str) -> None:
            with anyio.fail_after(10):
                while idle.read_text() != value:  # noqa: ASYNC110 - the kernel sets no event
                    await anyio.sleep(0.001)

        await sh(sandbox, "true")
        assert idle.read_text() == "0\n"
        await sh(sandbox, "sleep 1000 &")
        await becomes("1\n")
        running = await sandbox.spawn(Command(argv=("cat",)))
        await becomes("0\n")
        await running.send(b"")
        await running.wait()
        await becomes("1\n")
        await sandbox.read("/etc/hosts")
        await becomes("1\n")


async def test_the_next_sandbox_in_a_slot_has_the_usual_weight_and_limit():
    async with backend_of("root", quota=QUOTA) as backend:
        cgroups = backend.machines.zygote.cgroups
        cpu = cgroups.folders[cgroups.place["cpu"]]
        async with backend.open("host") as sandbox:
            await sh(sandbox, "sleep 1000 &")
        await backend.settle(0)
        async with backend.open("host") as sandbox:
            await sh(sandbox, "true")
            assert [folder.name for folder in cpu.glob("s*/")] == ["s0"]
            assert (cpu / "s0/cpu.idle").read_text() == "0\n"
            limits = {file: value for index, file, value in cgroups.lines(QUOTA) if cgroups.folders[index] == cpu}
            assert {file: (cpu / "s0" / file).read_text().strip() for file in limits} == limits


async def test_commands_are_nicer_than_process_1(backend):
    async with backend.open("host") as sandbox:
        own, first = (await sh(sandbox, "nice; awk '{print $19}' /proc/1/stat")).stdout.split()
        assert int(own) == min(int(first) + 10, 19)


@pytest.mark.system
async def test_a_command_that_forks_without_end_is_killed_when_its_time_is_over(backend):
    async with backend.open("host") as sandbox:
        with anyio.move_on_after(1):
            await sh(sandbox, "while :; do (sleep 1000 &) ; done")
        assert (await sh(sandbox, "set -- /proc/[0-9]*; echo $#")).stdout == "2\n"
