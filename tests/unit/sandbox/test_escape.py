"""Attacks from inside a sandbox. Each one must be contained, and the host and the neighbours must keep going.

Every attack runs as the sandbox's root, in a sandbox made by root and in one made by an ordinary user.
"""

import os
import platform
import signal
import socket
import struct
import subprocess
from pathlib import Path

import anyio
import pytest

from drive.native_sandboxes import KINDS, backend_of, py, sh
from drive.system_calls import MAKE_CALLS, NUMBERS
from sandlot.core.errors import SandboxError
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.command import run_command
from sandlot.sandbox.quota import Quota

MIB = 1 << 20
SMALL = Quota(memory_bytes=192 * MIB, disk_bytes=32 * MIB, inodes=2000, pids=40, open_files=128, file_bytes=8 * MIB, cpus=0.5)


@pytest.fixture(params=KINDS)
async def backend(request):
    with anyio.fail_after((request.config.getoption("timeout") or 20) - 1):  # `--timeout` is longer on slow machines
        async with backend_of(request.param, quota=SMALL) as opened:
            opened.kind = request.param
            yield opened


@pytest.fixture
async def sandbox(backend):
    async with backend.open("host") as opened:
        yield opened


def small_program() -> bytes:
    """A 32-bit program of this processor's family that asks for its process id and exits with 0."""
    machine, code = {
        "x86_64": (3, "b814000000cd80b80100000031dbcd80"),  # mov eax, 20; int 0x80; mov eax, 1; xor ebx, ebx; int 0x80
        "aarch64": (40, "1470a0e3000000ef0170a0e30000a0e3000000ef"),  # mov r7, #20; svc 0; mov r7, #1; mov r0, #0; svc 0
    }[platform.machine()]
    start, size = 0x10000, 52 + 32 + len(code) // 2
    elf = b"\x7fELF\x01\x01\x01" + bytes(9)
    elf += struct.pack("<HHIIIIIHHHHHH", 2, machine, 1, start + 84, 52, 0, 0x05000000 * (machine == 40), 52, 32, 1, 0, 0, 0)
    return elf + struct.pack("<IIIIIIII", 1, 0, start, start, size, size, 5, 0x1000) + bytes.fromhex(code)


async def still_works(sandbox):
    return (await sh(sandbox, "echo alive")).stdout == "alive\n"


# -- using up the machine ----------------------------------------------------------------------------------------------


async def test_a_fork_bomb_is_stopped_by_the_process_limit_and_can_be_killed(sandbox, backend):
    async with backend.open("host") as neighbour:
        bomb = await sandbox.spawn(Command(argv=("sh", "-c", "b() { b | b & }; b; sleep 1000"), stdin=b"", output_bytes=0))
        assert await still_works(neighbour)
        await sandbox.kill_all()
        assert await bomb.wait() != 0  # killed, or a shell that gave up when it could not fork
        assert await still_works(sandbox)


async def test_a_fork_bomb_of_threads_and_processes_never_passes_the_limit(sandbox):
    script = (
        "import os,time\ncount=0\ntry:\n while count < 500:\n  if os.fork() == 0: time.sleep(1000)\n  count += 1\n"
        "except BlockingIOError: print(count)\n"
    )
    done = await py(sandbox, script)
    assert 10 < int(done.stdout) < SMALL.pids


async def test_a_memory_hog_is_killed_and_its_sandbox_lives(sandbox, backend):
    done = await py(sandbox, "x = []\nwhile True: x.append(bytearray(8 << 20))")
    assert done.code == -9 or "MemoryError" in done.stderr  # by the cgroup, or by the process limit of an ordinary user
    assert await still_works(sandbox)


async def test_shared_memory_does_not_outlive_its_processes(sandbox):
    script = (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\n"
        "for key in range(1, 4):\n"
        " p = libc.shmat(libc.shmget(key, 32 << 20, 0o1600), None, 0)\n ctypes.memset(p, 1, 32 << 20)\n"
        "print(open('/proc/sysvipc/shm').read().count('\\n'))"
    )
    assert (await py(sandbox, script)).stdout == "4\n"  # a headline and three segments
    assert (await sh(sandbox, "wc -l < /proc/sysvipc/shm")).stdout == "1\n"


async def test_a_command_in_a_sandbox_full_of_processes_gets_an_error(sandbox):
    fill = "import os,time\ntry:\n while os.fork(): pass\nexcept OSError: print('full', flush=True)\ntime.sleep(1000)"
    filler = await sandbox.spawn(Command(argv=("/usr/bin/python3", "-c", fill)))
    assert await anext(filler.output()) == ("stdout", b"full\n")
    done = await sh(sandbox, "true")
    assert (done.code, done.stdout) == (126, "")
    assert "Resource temporarily unavailable" in done.stderr
    await sandbox.kill_all()
    assert await still_works(sandbox)


async def test_filling_the_disk_stops_at_its_size(sandbox):
    done = await sh(
        sandbox, "head -c 100000000 /dev/zero > /big; echo; head -c 100000000 /dev/zero > /dev/shm/big; df -k / | tail -1"
    )
    assert "No space left on device" in done.stderr
    assert (await sandbox.stat("/big")).size <= SMALL.disk_bytes
    assert await still_works(sandbox)


async def test_filling_the_inodes_stops_at_their_number(sandbox):
    done = await py(sandbox, "import os\nos.mkdir('/many')\nfor i in range(10000): open(f'/many/{i}', 'w').close()")
    assert "No space left on device" in done.stderr
    assert len(await sandbox.list("/many")) < SMALL.inodes


async def test_open_files_stop_at_their_number(sandbox):
    done = await py(sandbox, "f = []\ntry:\n while True: f.append(open('/dev/null'))\nexcept OSError as e: print(len(f), e)")
    assert int(done.stdout.split()[0]) < SMALL.open_files
    assert "Too many open files" in done.stdout


async def test_limits_cannot_be_raised_from_inside(sandbox):
    script = (
        "import resource\nfor w in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):\n"
        " try: resource.setrlimit(w, (100000, 100000)); print('raised')\n except (ValueError, OSError): print('refused')"
    )
    assert (await py(sandbox, script)).stdout.split() == ["refused", "refused"]


async def test_an_output_flood_is_dropped_where_it_is_made(sandbox, backend):
    async with backend.open("host") as neighbour:
        flood = await sandbox.spawn(Command(argv=("yes",), stdin=b"", output_bytes=10_000))
        assert await still_works(neighbour)
        assert await still_works(sandbox)
        output = flood.output()
        heard = len((await anext(output))[1])
        await flood.kill()
        heard += sum([len(data) async for _, data in output])
        assert heard <= 10_000


async def test_unread_output_waits_inside(sandbox):
    flood = await sandbox.spawn(Command(argv=("yes",), stdin=b""))
    for _ in range(20):
        assert await still_works(sandbox)
    assert sum(len(data) for _, data in flood._channel._pieces) <= 1 << 20
    await flood.kill()


async def test_a_giant_sparse_file_is_refused_by_size_not_by_running_out_of_memory(sandbox):
    await sh(sandbox, "truncate -s 10T /sparse")
    with pytest.raises(OSError, match="File too large"):
        await sandbox.read("/sparse")


async def test_a_very_deep_tree_is_cut_and_said(sandbox):
    await py(sandbox, "import os\nfor i in range(600): os.mkdir('d'); os.chdir('d')", cwd="/tmp")
    snapshot = await sandbox.freeze()
    assert "too deep" in {change.after for change in (await snapshot.diff()).values()}


@pytest.mark.parametrize("share", [0.2])
async def test_processor_time_is_rationed(share):
    async with backend_of("root", quota=Quota(cpus=share)) as backend, backend.open("host") as sandbox:
        spin = (
            "import time\nt, used = time.monotonic(), time.process_time()\n"
            "while time.process_time() < used + 0.2: pass\nprint(time.monotonic() - t)"
        )
        assert float((await py(sandbox, spin)).stdout) > 0.5  # a fifth of a processor: about a second


# -- looking at the host -----------------------------------------------------------------------------------------------


async def test_nothing_of_the_host_is_visible_but_usr(sandbox, tmp_path):
    (tmp_path / "secret").write_text("hunter2")
    look = f"ls -A /root /home/* /var/lib /srv /opt /mnt /run /sys; cat /etc/shadow {tmp_path}/secret; ls {Path.cwd()}"
    done = await sh(sandbox, look)
    assert "hunter2" not in done.stdout
    assert all(line == "" or line.endswith(":") for line in done.stdout.splitlines())  # every folder is empty
    assert "/etc/shadow: No such file" in done.stderr


async def test_mounts_tell_nothing_of_the_host(sandbox):
    mounts = (await sh(sandbox, "cat /proc/self/mountinfo /proc/mounts")).stdout
    for path in ("/root", "/home", ".cache", "/work", "/tmp", "vda", "ext4", str(Path.home())):
        assert path not in mounts, path


async def test_processes_of_the_host_are_not_visible(sandbox):
    assert set((await sh(sandbox, "ps -e -o comm=")).stdout.split()) <= {"init", "sh", "ps"}


async def test_kernel_secrets_are_hidden_or_refused(sandbox):
    paths = ("kcore", "kmsg", "keys", "timer_list", "kallsyms", "sysrq-trigger", "vmallocinfo", "kpagecount")
    for path in paths:
        done = await sh(sandbox, f"head -c 100 /proc/{path} | grep -v '^00000000' | wc -c")
        assert done.stdout.strip() == "0", path


async def test_what_the_whole_machine_does_is_hidden_where_no_program_needs_it(sandbox):
    assert (await sh(sandbox, "cat /proc/vmstat /proc/zoneinfo | wc -c; ls /proc/pressure | wc -l")).stdout.split() == ["0", "0"]
    assert (await sh(sandbox, "grep -c . /proc/meminfo /proc/stat /proc/loadavg")).code == 0


async def test_kernel_settings_cannot_be_written(sandbox):
    attempts = (
        "kernel/hostname kernel/core_pattern vm/drop_caches net/ipv4/ip_forward user/max_user_namespaces kernel/ns_last_pid"
    )
    assert (await sh(sandbox, f"for f in {attempts}; do echo 1 > /proc/sys/$f && echo wrote $f; done")).stdout == ""


async def test_the_sysrq_trigger_is_not_there_or_dev_null_in_disguise(sandbox):
    assert (await sh(sandbox, "test ! -e /proc/sysrq-trigger || test -c /proc/sysrq-trigger")).code == 0


# -- gaining power -----------------------------------------------------------------------------------------------------

NAMESPACE_FLAGS = [0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x2000000]


async def test_no_new_namespace_by_any_road(sandbox):
    script = MAKE_CALLS + (
        f"for flag in {NAMESPACE_FLAGS}:\n show('unshare', flag)\n show('clone', flag | 17, 0, 0, 0, 0)\n"
        "show('clone3', 0, 88)\n"
        "for n in ('mnt', 'net', 'pid', 'user'):\n show('setns', os.open(f'/proc/self/ns/{n}', 0), 0)\n"
    )
    lines = (await py(sandbox, script)).stdout.splitlines()
    assert len(lines) == 2 * len(NAMESPACE_FLAGS) + 1 + 4
    assert all("Operation not permitted" in line or "Function not implemented" in line for line in lines)


async def test_mounting_is_refused_by_every_call(sandbox):
    script = MAKE_CALLS + (
        "show('mount', b'none', b'/mnt', b'tmpfs', 0, 0)\nshow('umount2', b'/proc', 2)\nshow('pivot_root', b'/', b'/mnt')\n"
        "show('open_tree', -100, b'/', 1)\nshow('move_mount', -1, b'', -100, b'/mnt', 4)\nshow('fsopen', b'tmpfs', 0)\n"
        "show('fsmount', 0, 0, 0)\nshow('mount_setattr', -100, b'/', 0, 0, 0)\n"
    )
    lines = (await py(sandbox, script)).stdout.splitlines()
    assert len(lines) == 8
    assert all(line.endswith("Operation not permitted") for line in lines), lines


DANGEROUS = (
    ("ptrace", 16, 1, 0, 0),
    ("process_vm_readv", 1, 0, 0, 0, 0, 0),
    ("add_key", b"user", b"x", b"y", 1, -4),
    ("keyctl", 0, -4),
    ("init_module", 0, 0, b""),
    ("finit_module", 0, b"", 0),
    ("kexec_load", 0, 0, 0, 0),
    ("bpf", 0, 0, 0),
    ("perf_event_open", 0, 0, -1, -1, 0),
    ("userfaultfd", 0),
    ("io_uring_setup", 1, 0),
    ("open_by_handle_at", -100, 0, 0),
    ("settimeofday", 0, 0),
    ("clock_settime", 0, 0),
    ("adjtimex", 0),
    ("reboot", 0xFEE1DEAD, 672274793, 0, 0),
    ("swapon", b"/x", 0),
    ("sethostname", b"x", 1),
    ("iopl", 3),
    ("syslog", 3, 0, 0),
    ("acct", 0),
    ("quotactl", 0, 0, 0, 0),
    ("pidfd_getfd", 0, 0, 0),
    ("fanotify_init", 0, 0),
)


@pytest.mark.parametrize("arguments", [call for call in DANGEROUS if call[0] in NUMBERS], ids=lambda call: call[0])
async def test_a_dangerous_call_is_refused(arguments):
    async with backend_of("root", quota=SMALL) as backend, backend.open("host") as sandbox:
        assert (await py(sandbox, f"{MAKE_CALLS}show(*{arguments!r})")).stdout == f"{arguments[0]} Operation not permitted\n"


async def test_setuid_programs_and_file_capabilities_give_nothing(sandbox):
    done = await sh(sandbox, "grep '^overlay ' /proc/mounts; grep NoNewPrivs /proc/self/status")
    assert done.stdout.count("overlay") == 2 * done.stdout.count("nosuid")
    assert "NoNewPrivs:\t1" in done.stdout


async def test_device_nodes_cannot_be_made(sandbox):
    done = await sh(sandbox, "mknod /tmp/disk b 254 0; mknod /tmp/mem c 1 1; mkfifo /tmp/pipe && echo fifo")
    assert done.stdout == "fifo\n"
    assert done.stderr.count("Operation not permitted") == 2


async def test_raw_packet_vsock_and_other_odd_sockets_are_refused(sandbox):
    odd = "(2,3,1), (10,3,58), (17,3,768), (40,1,0), (38,5,0), (16,3,9), (31,3,0), (2,1,262), (2,2,136)"
    script = (
        f"{MAKE_CALLS}for f, t, p in ({odd}): show('socket', f, t, p)\n"
        "for f in (2, 10, 30, 40): show('socketpair', f, 1, 0, b'12345678')"
    )
    lines = (await py(sandbox, script)).stdout.splitlines()
    assert len(lines) == 13
    assert all("Operation not permitted" in line or "not supported" in line for line in lines), lines


async def test_typing_into_a_terminal_from_inside_is_refused(sandbox):
    done = await py(
        sandbox, "import fcntl\ntry: fcntl.ioctl(0, 0x5412, b'x')\nexcept PermissionError: print('refused')", pty=True
    )
    assert done.stdout.strip() == "refused"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction is x86's")
async def test_a_32_bit_call_ends_the_process(sandbox):
    # mov eax, 20 (getpid of i386); int 0x80; ret
    script = (
        "import mmap, ctypes\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(bytes.fromhex('b814000000cd80c3'))\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))())"
    )
    assert (await py(sandbox, script)).code == -signal.SIGSYS


async def test_a_32_bit_program_ends_at_its_first_call(sandbox):
    """It does not start at all on a processor or a kernel that runs 64-bit programs only."""
    await sandbox.write("/tmp/other", small_program())
    await sh(sandbox, "chmod 755 /tmp/other")
    done = await run_command(sandbox, Command(argv=("/tmp/other",)))
    assert done.code == -signal.SIGSYS or (done.code == 126 and "Exec format error" in done.stderr), done


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is an ABI of x86-64")
async def test_an_x32_call_is_not_implemented(sandbox):
    assert "Function not implemented" in (await py(sandbox, f"{MAKE_CALLS}show(0x40000000 | 39)")).stdout


async def test_files_are_renamed_by_every_road(sandbox):
    await sandbox.write("/tmp/a", b"kept")
    script = (
        'mv /tmp/a /tmp/b && perl -e \'rename("/tmp/b", "/tmp/c") or die $!\' && cd /tmp && git init -q made && ls made/.git/HEAD'
    )
    done = await sh(sandbox, script)
    assert (done.code, done.stdout) == (0, "made/.git/HEAD\n"), done
    done = await py(
        sandbox, "import os; os.rename('/tmp/c', '/tmp/d'); os.replace('/tmp/d', '/tmp/e'); print(open('/tmp/e').read())"
    )
    assert (done.code, done.stdout) == (0, "kept\n"), done


# -- reaching out ------------------------------------------------------------------------------------------------------


async def test_there_is_no_way_out_to_the_network(sandbox):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    script = (
        f"import socket\nfor a in (('127.0.0.1', {port}), ('10.0.0.1', 80), ('169.254.169.254', 80), ('8.8.8.8', 53)):\n"
        " try: socket.create_connection(a, 1); print('connected')\n except OSError as e: print(e.errno)"
    )
    assert (await py(sandbox, script)).stdout.split() == ["111", "101", "101", "101"]
    listener.close()


async def test_abstract_sockets_of_the_host_are_out_of_reach(sandbox):
    name = f"\0sandlot-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        done = await py(
            sandbox, f"import socket\ntry: socket.socket(socket.AF_UNIX).connect({name!r})\nexcept OSError as e: print(e)"
        )
    assert "Connection refused" in done.stdout


async def test_signals_reach_nothing_outside_and_not_process_1(sandbox):
    bystander = subprocess.Popen(["sleep", "1000"], user=65534)  # noqa: ASYNC220 - starts at once, and is waited for below
    try:
        await sh(sandbox, f"kill -9 {bystander.pid} {os.getpid()} 1; kill -9 -1; kill -15 1; kill -STOP 1")
        assert bystander.poll() is None
        assert await still_works(sandbox)
    finally:
        bystander.kill()
        bystander.wait()


async def test_links_cannot_lead_the_host_out(sandbox, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    await sh(sandbox, f"ln -s {secret} /link; ln -s / /root2; ln -s ../../../../../../.. /up; ln -s /proc/1/root /one")
    for path in ("/link", f"/root2{secret}", f"/up{secret}", f"/one{secret}"):
        with pytest.raises(OSError):
            await sandbox.read(path)
    await sh(sandbox, f"mkdir -p {tmp_path}")
    await sandbox.write("/link", b"owned")
    assert secret.read_text() == "hunter2"
    snapshot = await sandbox.freeze()
    with pytest.raises(OSError):
        await snapshot.read("/one/etc/shadow")


async def test_changing_a_folder_of_the_image_changes_only_the_sandbox(sandbox):
    before = Path("/usr/bin/env").read_bytes()
    await sh(sandbox, "echo owned > /usr/bin/env; rm -f /usr/bin/id; echo x > /usr/owned")
    assert Path("/usr/bin/env").read_bytes() == before
    assert Path("/usr/bin/id").exists()
    assert not Path("/usr/owned").exists()


async def test_process_1_cannot_be_looked_into(sandbox):
    look = "ls /proc/1/fd; cat /proc/1/mem /proc/1/maps /proc/1/environ /proc/1/syscall; ls /proc/1/root/; echo x > /proc/1/fd/3"
    done = await sh(sandbox, look)
    assert done.stdout == ""
    assert done.stderr.count("ermission denied") >= 6


LAME = """
import os, resource
refused = 0
limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
acts = [lambda limit=limit: resource.prlimit(1, limit, (0, 0)) for limit in limits]
acts += [lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)), lambda: os.sched_setparam(1, os.sched_param(0))]
acts += [lambda: os.sched_setaffinity(1, [0]), lambda: os.setpriority(os.PRIO_PROCESS, 1, 19)]
acts += [lambda: os.setpriority(os.PRIO_PGRP, 1, 19), lambda: os.setpriority(os.PRIO_USER, 0, 19)]
for act in acts:
    try:
        act()
    except PermissionError:
        refused += 1
print(len(acts) - refused, resource.prlimit(1, resource.RLIMIT_NOFILE) > (0, 0))
"""


async def test_process_1_cannot_be_starved_by_limits_and_priorities(sandbox):
    """Without memory and descriptors it died: the agent's own act was `Failed(sandbox)`."""
    assert (await py(sandbox, LAME)).stdout == "0 True\n"
    assert await still_works(sandbox)
    await sh(sandbox, "echo kept > /kept; sh -c 'renice -n 19 -p $$; prlimit --pid $$ --nofile=64' >/kept2")
    snapshot = await sandbox.freeze()
    assert await snapshot.read("/kept") == b"kept\n"
    assert b"new priority 19" in await snapshot.read("/kept2")


async def test_commands_inherit_nothing_of_the_agents_descriptors(sandbox):
    assert (await sh(sandbox, "ls /proc/self/fd")).stdout.split() == ["0", "1", "2", "3"]  # 3 is ls's own


async def test_output_that_looks_like_the_protocol_is_only_output(sandbox):
    forged = b"\x0c\0\0\0\x42\x01\0\0\0" + b"\0" * 12 + b"\x05\0\0\0\x46\x01\0\0\0"
    done = await py(sandbox, f"import os; os.write(1, {forged!r}); os.write(2, {forged!r}); raise SystemExit(7)")
    assert done.code == 7
    assert done.stdout.encode("utf-8", "replace").startswith(b"\x0c")


async def test_no_process_survives_a_freeze_to_write_the_graders_inputs(sandbox):
    await sh(
        sandbox,
        "for i in 1 2 3; do setsid sh -c 'trap \"\" TERM HUP INT; while :; do echo cheat > /out; done' & done;"
        "until test -s /out; do :; done",
    )
    snapshot = await sandbox.freeze()
    first = await snapshot.read("/out")
    assert await snapshot.read("/out") == first
    assert await sandbox._frozen[-1].files.machine.machine.kill_all(freeze=True) == 0


async def test_a_frozen_machine_refuses_writes_and_commands(sandbox):
    await sandbox.freeze()
    machine = sandbox._frozen[-1].files.machine.machine
    with pytest.raises(OSError, match="Read-only"):
        await machine.write("/x", b"")


async def test_a_sandbox_whose_process_1_is_killed_from_outside_is_an_infrastructure_failure(backend):
    async with backend.open("host") as sandbox:
        process = await sandbox.spawn(Command(argv=("sleep", "1000")))
        children = Path(f"/proc/{backend.machines.zygote.pid}/task/{backend.machines.zygote.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        with pytest.raises(SandboxError, match="died"):
            await process.wait()
        with pytest.raises(SandboxError, match="died"):
            await sandbox.read("/etc/hosts")
