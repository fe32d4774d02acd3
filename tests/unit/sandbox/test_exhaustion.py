"""Attacks on what the kernel counts for the whole machine or for a user: one sandbox must not take it from the others.

Each is sized so that a sandbox without the limit would take too much, but nothing the machine notices.
"""

import anyio
import pytest

from native_sandboxes import KINDS, backend_of, py, sh
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


async def test_a_crash_inside_starts_no_core_handler_of_the_host(backend):
    """A limit of 1 is the one value at which the kernel runs no program that `core_pattern` names; at 0 it does."""
    script = "import resource as r; r.setrlimit(r.RLIMIT_CORE, (0, 0)); print(r.getrlimit(r.RLIMIT_CORE))"
    async with backend.open("host") as sandbox:
        assert (await py(sandbox, script)).stdout == "(1, 1)\n"
        done = await sh(sandbox, "ulimit -c 0; prlimit --pid $$ --core=0; grep core /proc/self/limits")
        assert done.stdout.split() == ["Max", "core", "file", "size", "1", "1", "bytes"]
