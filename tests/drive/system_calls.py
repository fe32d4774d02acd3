"""Linux's system calls by name on x86-64 and aarch64, and what the sandbox's filter answers to each.

The numbers stand in `system_calls.txt`; `unit/sandbox/test_filter_program.py` checks them against the kernel's headers. Tests
that make calls by number take them from here, so that the same call is tested on every processor.
"""

import errno
import platform
from dataclasses import dataclass
from pathlib import Path

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The processors the filter knows, each with the kernel's name of its ABI (`AUDIT_ARCH_...`)."""
NEWEST_KNOWN = 462
ANSWERS = {"allow": 0, "EPERM": errno.EPERM, "ENOSYS": errno.ENOSYS, "arguments": None}


@dataclass(frozen=True)
class SystemCall:
    """One call of one processor."""

    name: str
    number: int
    error: int | None
    """What the filter answers: 0 lets the call through, None depends on its arguments."""


def system_calls(machine: str = platform.machine()) -> dict[str, SystemCall]:
    """The calls this processor has, by name."""
    column = 1 + list(MACHINES).index(machine)
    lines = Path(__file__).with_suffix(".txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {row[0]: SystemCall(row[0], int(row[column]), ANSWERS[row[3]]) for row in rows if row[column] != "-"}


NUMBERS = {call.name: call.number for call in system_calls().values()}
"""By name, on this machine."""

MAKE_CALLS = f"""
import ctypes, os, sys, socket
numbers = {NUMBERS!r}
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    "Makes the call; returns its error, 0 if it worked."
    ctypes.set_errno(0)
    done = libc.syscall(numbers[name] if isinstance(name, str) else name, *arguments)
    return ctypes.get_errno() if done == -1 else 0
def show(name, *arguments):
    print(name, os.strerror(call(name, *arguments)))
"""
"""Python source for the other side of a filter: `call` and `show` by name."""
