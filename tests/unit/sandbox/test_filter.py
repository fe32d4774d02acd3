"""The system call filter alone, with every capability kept: the rule itself must be what stops the attack.

Calls are made by name, with this processor's numbers. Arguments are chosen so that a hole in the filter would do no harm to the
machine.
"""

import errno
import os
import subprocess
import sys

import pytest

from drive.system_calls import MAKE_CALLS, NUMBERS
from sandlot.sandbox.program import find_program

MAKE_EACH = f"""{MAKE_CALLS}
for line in sys.stdin:
    arguments = eval(line)
    starter = os.getpid()
    if os.fork() == 0:
        forked = os.getpid()
        error = call(*arguments)
        if os.getpid() == forked and os.getppid() == starter:  # not the child of a clone that worked
            os.write(1, b"%d\\n" % error)
        os._exit(0)
    os.wait()
"""

DANGEROUS = {
    "ptrace": ("ptrace", 0x4206, 0, 0, 0),
    "syslog": ("syslog", 10, 0, 0),
    "pivot_root": ("pivot_root", b"/nowhere", b"/nowhere"),
    "adjtimex": ("adjtimex", b"\0" * 208),
    "acct": ("acct", b"/nowhere"),
    "settimeofday": ("settimeofday", 0, 0),
    "mount": ("mount", b"none", b"/nowhere", b"tmpfs", 0, 0),
    "umount2": ("umount2", b"/nowhere", 0),
    "swapon": ("swapon", b"/nowhere", 0),
    "swapoff": ("swapoff", b"/nowhere"),
    "reboot": ("reboot", 0, 0, 0, 0),
    "sethostname": ("sethostname", 0, -1),
    "setdomainname": ("setdomainname", 0, -1),
    "iopl": ("iopl", 9),
    "ioperm": ("ioperm", -1, -1, 1),
    "init_module": ("init_module", 0, 0, b""),
    "delete_module": ("delete_module", b"no-such-module", 0),
    "quotactl": ("quotactl", -1, 0, 0, 0),
    "kexec_load": ("kexec_load", 0, 17, 0, -1),
    "add_key": ("add_key", b"user", b"", 0, 0, -4),
    "request_key": ("request_key", b"user", b"x", 0, 0),
    "keyctl": ("keyctl", 0, -4, 0),
    "unshare": ("unshare", 0x10000000),
    "move_pages": ("move_pages", 0, 0, 0, 0, 0, 0),
    "perf_event_open": ("perf_event_open", 0, 0, -1, -1, 0),
    "fanotify_init": ("fanotify_init", -1, -1),
    "name_to_handle_at": ("name_to_handle_at", -1, 0, 0, 0, 0),
    "open_by_handle_at": ("open_by_handle_at", -1, 0, 0),
    "setns": ("setns", -1, 0),
    "process_vm_readv": ("process_vm_readv", -1, 0, 0, 0, 0, 0),
    "process_vm_writev": ("process_vm_writev", -1, 0, 0, 0, 0, 0),
    "kcmp": ("kcmp", -1, -1, 0, 0, 0),
    "finit_module": ("finit_module", -1, b"", 0),
    "kexec_file_load": ("kexec_file_load", -1, -1, 0, 0, 0),
    "bpf": ("bpf", -1, 0, 0),
    "userfaultfd": ("userfaultfd", -1),
    "io_uring_setup": ("io_uring_setup", 0, 0),
    "io_uring_enter": ("io_uring_enter", -1, 0, 0, 0, 0),
    "open_tree": ("open_tree", -1, b"nowhere", 0),
    "move_mount": ("move_mount", -1, b"", -1, b"", 0),
    "fsopen": ("fsopen", b"no-such-fs", 0),
    "fsconfig": ("fsconfig", -1, 0, 0, 0, 0),
    "fsmount": ("fsmount", -1, 0, 0),
    "fspick": ("fspick", -1, b"nowhere", 0),
    "clock_settime": ("clock_settime", 0, 0),
    "clock_adjtime": ("clock_adjtime", 0, 0),
    "pidfd_getfd": ("pidfd_getfd", -1, 0, 0),
    "mount_setattr": ("mount_setattr", -1, b"nowhere", 0, 0, 0),
    "memfd_secret": ("memfd_secret", -1),
    "clone with a user namespace": ("clone", 0x10000011, 0, 0, 0, 0),
    "clone with a mount namespace": ("clone", 0x00020011, 0, 0, 0, 0),
    "clone with a network namespace": ("clone", 0x40000011, 0, 0, 0, 0),
    "personality of another system": ("personality", 0x0008),
    "raw socket": ("socket", 2, 3, 1),
    "raw IPv6 socket": ("socket", 10, 3, 58),
    "set a console's selection": ("ioctl", -1, 0x541C, 0),
    "type into a terminal": ("ioctl", -1, 0x5412, 0),
    "choose a line discipline": ("ioctl", -1, 0x5423, 0),
}


def errors(calls: list[tuple], *, filtered: bool) -> list[int]:
    command = [sys.executable, "-c", MAKE_EACH]
    if filtered:
        command = [str(find_program()), "filter", *command]
    done = subprocess.run(command, input="\n".join(map(repr, calls)), capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.splitlines()]


def test_every_dangerous_call_is_stopped_by_the_filter_and_by_nothing_else():
    here = {name: call for name, call in DANGEROUS.items() if call[0] in NUMBERS}
    assert set(DANGEROUS) - set(here) <= {"iopl", "ioperm"}  # of x86 only
    free = dict(zip(here, errors(list(here.values()), filtered=False), strict=True))
    held = dict(zip(here, errors(list(here.values()), filtered=True), strict=True))
    assert {name for name, error in held.items() if error != errno.EPERM} == set()
    # Without the filter each of them fails differently or succeeds, if root asks: what was measured above is the filter.
    same = {name for name, error in free.items() if error == errno.EPERM}
    if os.geteuid() == 0:
        assert same <= {"ptrace", "acct", "swapon", "swapoff"}, same  # refused to everyone on this machine


@pytest.mark.parametrize("family", [3, 4, 5, 9, 15, 17, 21, 26, 29, 30, 31, 38, 40, 44])
def test_only_unix_inet_and_route_sockets_exist(family):
    calls = [("socket", family, 2, 0), ("socketpair", family, 2, 0, b"\0" * 8)]
    assert errors(calls, filtered=True) == [errno.EAFNOSUPPORT, errno.EOPNOTSUPP]


def test_netlink_is_for_routes_only():
    calls = [("socket", 16, 3, 0), ("socket", 16, 3, 9), ("socket", 16, 3, 15)]
    assert errors(calls, filtered=True) == [0, errno.EAFNOSUPPORT, errno.EAFNOSUPPORT]


def test_inet_sockets_speak_tcp_and_udp_only():
    odd = [(1, 262), (1, 132), (2, 136), (2, 1), (5, 132), (6, 33)]  # MPTCP, SCTP, UDP-Lite, ping, SCTP, DCCP
    calls = [("socket", family, *each) for family in (2, 10) for each in odd]
    assert errors(calls, filtered=True) == [errno.EPROTONOSUPPORT] * len(calls)


def test_the_calls_programs_need_still_work(tmp_path):
    for name in ("a", "c", "e"):
        (tmp_path / name).touch()
    a, b, c, d, e, f = (str(tmp_path / name).encode() for name in "abcdef")
    needed = [
        ("getpid",),
        ("socket", 2, 1, 0),
        ("socket", 2, 1, 6),
        ("socket", 1, 1, 0),
        ("socket", 10, 2, 0),
        ("socket", 10, 2, 17),
        ("socketpair", 1, 1, 0, b"\0" * 8),
        ("personality", 0xFFFFFFFF),
        ("memfd_create", b"x", 0),
        ("renameat", -100, a, -100, b),
        ("renameat2", -100, c, -100, d, 0),
        ("rename", e, f),
    ]
    calls = [call for call in needed if call[0] in NUMBERS]
    assert len(calls) >= len(needed) - 1  # aarch64 has no `rename`
    assert errors(calls, filtered=True) == [0] * len(calls)


def test_a_call_this_list_allows_reaches_the_kernel_even_where_headers_did_not_know_it():
    free, held = (errors([("fchmodat2", -1, b"x", 0, 0), ("mseal", 1, 1, 0)], filtered=filtered) for filtered in (False, True))
    assert held == free
    assert errno.EPERM not in held


def test_what_is_newer_than_the_list_and_clone3_are_not_implemented():
    assert errors([("clone3", 0, 0), (463,), (999,), (0x40000027,)], filtered=True) == [errno.ENOSYS] * 4


def test_kernel_aio_is_not_implemented():
    assert errors([("io_setup", 8, b"\0" * 8)], filtered=True) == [errno.ENOSYS]
