"""Attacks on what the kernel counts for the whole machine or for a user: one sandbox must not take it from the others.

Each is sized so that a sandbox without the limit would take too much, but nothing the machine notices.
"""

from contextlib import AsyncExitStack, suppress

import anyio
import pytest

from drive.native_sandboxes import KINDS, backend_of, py, sh
from sandlot.core.errors import SandboxError, SandboxOutOfMemory
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.quota import Quota

MIB = 1 << 20
QUOTA = Quota(memory_bytes=192 * MIB, disk_bytes=32 * MIB, pids=40)

FILL_SOCKETS = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
held, sent = [], 0
for _ in range(12):
    for larger in (False, True):
        client = socket.socket()
        if larger:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        client.connect(listener.getsockname())
        client.setblocking(False)
        held += [client, listener.accept()[0]]
        try:
            while True:
                sent += client.send(bytes(1 << 20))
        except BlockingIOError:
            pass
print(sent)
"""

MANY_SOCKETS = """
import os, socket
made = 0
read, write = os.pipe()
ended, end = os.pipe()
for _ in range(12):
    if os.fork() == 0:
        os.close(end)
        held = []
        try:
            for _ in range(250):
                held.append(socket.socket())
        except OSError:
            pass
        os.write(write, bytes([len(held)]))
        os.read(ended, 1)  # hold them until the parent has ended
        os._exit(0)
for _ in range(12):
    made += os.read(read, 1)[0]
print(made, flush=True)
"""


@pytest.fixture(params=KINDS)
async def backend(request):
    with anyio.fail_after(19):
        async with backend_of(request.param, quota=QUOTA) as opened:
            yield opened


async def test_connections_hold_little_of_the_machines_socket_memory(backend):
    """Without a limit, these 24 connections hold 120 MiB and more."""
    async with backend.open("host") as sandbox:
        done = await py(sandbox, FILL_SOCKETS)
        assert 0 < int(done.stdout) < QUOTA.memory_bytes // 8 + 4 * MIB


async def test_sockets_are_counted_where_no_cgroup_counts_their_memory():
    async with backend_of("ordinary user", quota=QUOTA) as backend, backend.open("host") as sandbox:
        done = await py(sandbox, MANY_SOCKETS)
        assert 1000 < int(done.stdout) <= 2048 + QUOTA.pids  # of 3000; those made at the same moment are not seen yet
        await sandbox.kill_all()
        assert (await py(sandbox, "import socket; socket.socket(); print('made')")).stdout == "made\n"


STOP_OTHERS = """
import os, signal
os.fork()
while True:
    os.kill(-1, signal.SIGSTOP)
"""


async def test_commands_that_are_stopped_at_their_start_do_not_stop_process_1(backend):
    async with backend.open("host") as sandbox:
        await sandbox.spawn(Command(argv=("python3", "-c", STOP_OTHERS)))
        for _ in range(25):
            await sandbox.spawn(Command(argv=("true",)))
        with anyio.fail_after(10):
            await sandbox.freeze()


async def test_a_crash_inside_starts_no_core_handler_of_the_host(backend):
    """A limit of 1 is the one value at which the kernel runs no program that `core_pattern` names; at 0 it does."""
    script = "import resource as r; r.setrlimit(r.RLIMIT_CORE, (0, 0)); print(r.getrlimit(r.RLIMIT_CORE))"
    async with backend.open("host") as sandbox:
        assert (await py(sandbox, script)).stdout == "(1, 1)\n"
        done = await sh(sandbox, "ulimit -c 0; prlimit --pid $$ --core=0; grep core /proc/self/limits")
        assert done.stdout.split() == ["Max", "core", "file", "size", "1", "1", "bytes"]


# -- memory ------------------------------------------------------------------------------------------------------------

TINY = """
import os, signal, subprocess
open("/tmp/tiny.c", "w").write("void _start(void) { for (;;); }")
subprocess.run(["cc", "-nostdlib", "-static", "-o", "/tmp/tiny", "/tmp/tiny.c"], check=True)
while True:
    fd = os.memfd_create("held", 0)
    for _ in range(64):
        os.write(fd, bytes(128 << 10))
    os.kill(subprocess.Popen(["/tmp/tiny"], pass_fds=[fd]).pid, signal.SIGSTOP)
    os.close(fd)
"""

FILES = """
import os
os.makedirs("/many", exist_ok=True)
os.chdir("/many")
open("first", "w").write("kept")
name = "x" * 240
while True:
    os.close(os.open(name + os.urandom(5).hex(), os.O_CREAT))
"""


async def test_memory_held_by_tiny_processes_does_not_end_process_1():
    """Each holds 8 MiB that no size of a process shows, so process 1 is by far the largest."""
    async with backend_of("root", quota=QUOTA) as backend, backend.open("host") as sandbox:
        assert (await py(sandbox, TINY)).code == -9
        await sandbox.write("/large", bytes(16 * MIB))
        assert (await sh(sandbox, "echo alive")).stdout == "alive\n"


async def test_a_process_cannot_ask_to_be_killed_later_than_others(backend):
    script = "cd /proc/self; echo -1 > oom_score_adj; echo 0 > oom_score_adj; cat oom_score_adj /proc/1/oom_score_adj"
    async with backend.open("host") as sandbox:
        own, first = map(int, (await sh(sandbox, script)).stdout.split())
        assert own >= min(first + 200, 1000)


async def test_files_that_fill_the_memory_end_the_sandbox_and_are_still_read():
    quota = Quota(memory_bytes=48 * MIB, disk_bytes=8 * MIB)
    async with backend_of("root", quota=quota) as backend, backend.open("host") as sandbox:
        with suppress(SandboxOutOfMemory):
            while (await py(sandbox, FILES)).code:
                await sandbox.list("/many")
        with pytest.raises(SandboxOutOfMemory, match="used up its memory"):
            await sandbox.read("/etc/hosts")
        snapshot = await sandbox.freeze()
        assert len(await snapshot.list()) > 1000
        assert await snapshot.read("/many/first") == b"kept"


async def test_memory_that_ran_out_around_the_sandbox_is_a_failure_and_not_the_agents_end():
    """The limit of all sandboxes together is reached, and this one is far from its own."""
    quota = Quota(memory_bytes=192 * MIB, disk_bytes=8 * MIB)
    async with backend_of("root", quota=quota) as backend, backend.open("host") as sandbox:
        cgroups = backend.machines.zygote.cgroups
        limit = "memory.limit_in_bytes" if cgroups.version == 1 else "memory.max"
        (cgroups.folders[cgroups.place["memory"]] / limit).write_text(str(40 * MIB))
        with suppress(SandboxError):
            while (await py(sandbox, FILES)).code:
                await sandbox.list("/many")
        with pytest.raises(SandboxError) as raised:
            await sandbox.read("/etc/hosts")
        assert type(raised.value) is SandboxError


async def test_the_next_sandbox_has_all_of_its_memory():
    """What the first one wrote stays charged to its cgroup while a fork stands on it."""
    quota = Quota(memory_bytes=128 * MIB, disk_bytes=64 * MIB)
    async with backend_of("root", quota=quota) as backend, AsyncExitStack() as stack:
        async with backend.open("host") as first:
            await first.write("/large", bytes(60 * MIB))
            await stack.enter_async_context((await first.freeze()).fork())
        await backend.settle(1)
        async with backend.open("host") as second:
            done = await py(second, "x = bytearray(90 << 20); print(len(x))")
            assert (done.code, done.stdout) == (0, f"{90 * MIB}\n")


async def test_semaphores_and_messages_do_not_fill_the_memory(backend):
    script = (
        "import ctypes\nlibc = ctypes.CDLL(None)\nmade = [0, 0]\n"
        "while made[0] < 1000 and libc.semget(0, 250, 0o1600) >= 0: made[0] += 1\n"
        "while made[1] < 1000 and libc.msgget(0, 0o1600) >= 0: made[1] += 1\n"
        "print(*made, libc.semget(0, 32000, 0o1600))"
    )
    async with backend.open("host") as sandbox:
        assert (await py(sandbox, script)).stdout == "128 128 -1\n"


async def test_terminals_of_one_sandbox_are_few(backend):
    script = "import os\nheld = []\ntry:\n while len(held) < 100: held.append(os.openpty())\nexcept OSError: print(len(held))"
    async with backend.open("host") as sandbox:
        assert (await py(sandbox, script)).stdout == "64\n"


# -- what the kernel counts by user ------------------------------------------------------------------------------------

IN_FLIGHT = """
import socket, sys
held, count, refused = [], 0, ""
try:
    while count < int(sys.argv[1]):
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        held.append(pair)
        for _ in range(8):
            socket.send_fds(pair[0], [b"x"], [0] * 100)
            count += 100
except OSError as error:
    refused = error.strerror
print(refused or count, flush=True)
sys.stdin.read()
"""


async def test_descriptors_on_their_way_in_one_sandbox_leave_its_neighbour_its_own():
    """The kernel allows a user as many of them as a process may open. Each of root's sandboxes is a user of its own."""
    async with backend_of("root", quota=QUOTA) as backend, backend.open("host") as greedy, backend.open("host") as neighbour:
        full = await greedy.spawn(Command(argv=("/usr/bin/python3", "-c", IN_FLIGHT, "4000")))
        assert await anext(full.output()) == ("stdout", b"Too many references: cannot splice\n")
        maps = [(await sh(sandbox, "cat /proc/self/uid_map /proc/self/gid_map")).stdout for sandbox in (greedy, neighbour)]
        assert maps[0] != maps[1]
        process = await neighbour.spawn(Command(argv=("/usr/bin/python3", "-c", IN_FLIGHT, "1"), stdin=b""))
        assert await anext(process.output()) == ("stdout", b"800\n")


async def test_owners_are_the_same_in_a_fork_that_is_another_user_outside():
    script = "ls -ldn / /etc/hosts /root /srv/made /srv/theirs | awk '{print $1, $3, $4, $NF}'"
    async with backend_of("root", quota=QUOTA) as backend, backend.open("host") as sandbox:
        await sh(
            sandbox,
            "mkdir /srv/made; touch /srv/theirs; chown 33:1000 /srv/theirs; rm /etc/shells; rm -r /etc/perl; mkdir /etc/perl",
        )
        before = (await sh(sandbox, script)).stdout
        assert "33 1000 /srv/theirs" in before
        async with (await sandbox.freeze()).fork() as fork:
            assert (await sh(fork, "cat /proc/self/uid_map")).stdout != (await sh(sandbox, "cat /proc/self/uid_map")).stdout
            assert (await sh(fork, script)).stdout == before == (await sh(sandbox, script)).stdout
            assert (await sh(fork, "ls -A /etc/perl; rm /srv/theirs; ls /srv")).stdout == "made\n"
        assert (await sandbox.stat("/srv/theirs")).uid == 33
