"""The filter of both processors against the table of expected answers, whichever processor runs the tests."""

import errno
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from drive.system_calls import MACHINES, NEWEST_KNOWN, system_calls
from unit.sandbox.filter_program import Killed, answer, compile_printer, filter_program, header_numbers, read_program

FAR_NUMBERS = (0x40000000, 0x40000027, 0x7FFFFFFF, -1)
AARCH64_WANTS = ("RENAMEAT", "NEW_STAT", "SET_GET_RLIMIT", "SYS_CLONE3", "MEMFD_SECRET")
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DATAGRAM, RAW, SEQUENCED = 1, 2, 3, 5
CLOSE_ON_EXEC = 0o2000000
SCHEDULING = ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler")

BY_ARGUMENTS = [
    (("clone", 0x11), 0),
    (("clone", 0x3D0F00), 0),  # a thread
    (("clone", 0x10000011), errno.EPERM),
    (("clone", 0x00020011), errno.EPERM),
    (("clone", 0x40000011), errno.EPERM),
    (("clone", 0x02000011), errno.EPERM),
    (("clone", 0x04000011), errno.EPERM),
    (("clone", 0x08000011), errno.EPERM),
    (("clone", 0x20000011), errno.EPERM),
    (("personality", 0), 0),
    (("personality", 0x40000), 0),
    (("personality", 0xFFFFFFFF), 0),
    (("personality", 8), errno.EPERM),
    (("ioctl", 0, 0x5401), 0),
    (("ioctl", 0, 0x5412), errno.EPERM),
    (("ioctl", 0, 0x541C), errno.EPERM),
    (("ioctl", 0, 0x5423), errno.EPERM),  # TIOCSETD: another line discipline
    (("ioctl", 0, 0x5424), 0),
    (("ioctl", 0, 0x1_0000_5412), errno.EPERM),  # the kernel looks at the low half only
    (("prlimit64", 0, 7, 0x1000, 0), 0),
    (("prlimit64", 2, 7, 0x1000, 0), 0),
    (("prlimit64", 1, 7, 0, 0x1000), 0),  # only asks
    (("prlimit64", 1, 7, 0x1000, 0), errno.EPERM),
    (("prlimit64", 1, 7, 0x7F00_0000_0000, 0x1000), errno.EPERM),
    *[((call, who), errno.EPERM if who == 1 else 0) for call in SCHEDULING for who in (0, 1, 2)],
    (("setpriority", 0, 0), 0),
    (("setpriority", 0, 2), 0),
    (("setpriority", 0, 1), errno.EPERM),
    (("setpriority", 1, 1), errno.EPERM),  # its process group
    (("setpriority", 2, 0), errno.EPERM),  # all processes of a user
    (("socket", UNIX, STREAM, 0), 0),
    (("socket", UNIX, SEQUENCED | CLOSE_ON_EXEC, 0), 0),
    (("socket", INET, STREAM, 0), 0),
    (("socket", INET, STREAM | CLOSE_ON_EXEC, 6), 0),
    (("socket", INET6, STREAM, 6), 0),
    (("socket", INET, DATAGRAM, 0), 0),
    (("socket", INET6, DATAGRAM, 17), 0),
    (("socket", INET, STREAM, 262), errno.EPROTONOSUPPORT),  # MPTCP
    (("socket", INET6, STREAM, 262), errno.EPROTONOSUPPORT),
    (("socket", INET, STREAM, 132), errno.EPROTONOSUPPORT),  # SCTP
    (("socket", INET, STREAM, 256), errno.EPROTONOSUPPORT),  # SMC
    (("socket", INET, STREAM, 17), errno.EPROTONOSUPPORT),
    (("socket", INET, DATAGRAM, 136), errno.EPROTONOSUPPORT),  # UDP-Lite
    (("socket", INET6, DATAGRAM, 136), errno.EPROTONOSUPPORT),
    (("socket", INET, DATAGRAM, 1), errno.EPROTONOSUPPORT),  # ping
    (("socket", INET, DATAGRAM, 6), errno.EPROTONOSUPPORT),
    (("socket", INET, SEQUENCED, 132), errno.EPROTONOSUPPORT),
    (("socket", INET, 6, 33), errno.EPROTONOSUPPORT),  # DCCP
    (("socket", INET, RAW, 1), errno.EPERM),
    (("socket", INET6, RAW, 58), errno.EPERM),
    (("socket", INET, RAW | CLOSE_ON_EXEC, 255), errno.EPERM),
    (("socket", NETLINK, RAW, 0), 0),
    (("socket", NETLINK, RAW, 9), errno.EAFNOSUPPORT),
    *[(("socket", family, DATAGRAM, 0), errno.EAFNOSUPPORT) for family in (0, *range(3, 10), *range(11, 16), *range(17, 50))],
    (("socketpair", UNIX, STREAM, 0), 0),
    (("socketpair", UNIX, DATAGRAM | CLOSE_ON_EXEC, 0), 0),
    *[(("socketpair", family, STREAM, 0), errno.EOPNOTSUPP) for family in (0, *range(2, 50))],
]


@pytest.fixture(params=MACHINES)
def machine(request):
    return request.param


def ask(machine, name, *arguments):
    return answer(filter_program(machine), MACHINES[machine], system_calls(machine)[name].number, *arguments)


def test_every_call_has_the_answer_of_the_table(machine):
    program = filter_program(machine)
    wrong = {
        call.name: (found, call.error)
        for call in system_calls(machine).values()
        if call.error is not None and (found := answer(program, MACHINES[machine], call.number)) != call.error
    }
    assert wrong == {}


def test_numbers_without_a_call_are_refused(machine):
    taken = {call.number for call in system_calls(machine).values()}
    program = filter_program(machine)
    beside = {number + step for number in taken for step in (-1, 1)}  # a filter compares: what is in a gap is as the gap's ends
    for number in {*beside, *range(NEWEST_KNOWN - 1, NEWEST_KNOWN + 3), *range(0, 1200, 25), *FAR_NUMBERS} - taken:
        refused = errno.EPERM if 0 <= number <= NEWEST_KNOWN else errno.ENOSYS
        assert answer(program, MACHINES[machine], number) == refused, number


def test_calls_of_another_processor_end_the_process(machine):
    for other in (0x40000003, 0x40000028, *(set(MACHINES.values()) - {MACHINES[machine]})):  # i386, 32-bit ARM, the other one
        with pytest.raises(Killed):
            answer(filter_program(machine), other, 0)


def test_calls_decided_by_their_arguments(machine):
    wrong = {call: (found, error) for call, error in BY_ARGUMENTS if (found := ask(machine, *call)) != error}
    assert wrong == {}


def test_the_table_has_the_numbers_of_this_machines_headers():
    _compare(header_numbers(["cc"]), platform.machine())


def test_the_table_has_aarch64s_numbers_of_the_generic_header():
    wants = [f"-D__ARCH_WANT_{name}" for name in AARCH64_WANTS]
    _compare(header_numbers(["cc", "-D__BITS_PER_LONG=64", *wants], "asm-generic/unistd.h"), "aarch64")


def test_the_filter_compiled_with_this_machines_headers_is_the_same_program(tmp_path: Path):
    compile_printer(["cc"], tmp_path / "print")
    printed = subprocess.run([tmp_path / "print"], capture_output=True, text=True, check=True).stdout
    assert read_program(printed) == filter_program(platform.machine())


@pytest.mark.system
@pytest.mark.parametrize("other", sorted(set(MACHINES) - {platform.machine()}))
def test_the_filter_of_the_other_processor_by_its_own_compiler(other: str, tmp_path: Path):
    compiler, emulator = f"{other}-linux-gnu-gcc", f"qemu-{other}-static"
    assert shutil.which(compiler), f"`sh tests/install/cross.sh` installs {compiler}"
    assert shutil.which(emulator), f"`sh tests/install/cross.sh` installs {emulator}"
    _compare(header_numbers([compiler]), other)
    compile_printer([compiler, "-static"], tmp_path / "print")
    printed = subprocess.run([emulator, tmp_path / "print"], capture_output=True, text=True, check=True).stdout
    assert read_program(printed) == filter_program(other)


def _compare(headers: dict[str, int], machine: str) -> None:
    """Headers may be older than the table, or newer: then what they add is newer than the filter too."""
    table = {call.name: call.number for call in system_calls(machine).values()}
    found = {name: number for name, number in headers.items() if name not in {"syscalls", "arch_specific_syscall"}}
    assert len(found) > 250
    assert {name: number for name, number in found.items() if name in table and table[name] != number} == {}
    assert {name: number for name, number in found.items() if name not in table and number <= NEWEST_KNOWN} == {}
