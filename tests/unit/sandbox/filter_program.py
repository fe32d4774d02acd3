"""The system call filter of either processor, as the kernel would run it: compiled here, interpreted in Python."""

import functools
import re
import struct
import subprocess
import tempfile
from pathlib import Path

from drive.system_calls import MACHINES, system_calls

ROOT = Path(__file__).parents[3]
AGENT = ROOT / "src/sandlot/sandbox/agent"
PRINTER = ROOT / "tests/unit/sandbox/print_filter.c"

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

Program = list[tuple[int, int, int, int]]


class Killed(Exception):  # noqa: N818 - the answer, not a fault of the test
    """The filter ends the process."""


@functools.cache
def filter_program(machine: str) -> Program:
    """The filter as it is compiled for that processor. Only the numbers differ, so this machine's compiler does for both."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = Path(folder) / "asm/unistd.h"
        numbers.parent.mkdir()
        numbers.write_text("".join(f"#define __NR_{call.name} {call.number}\n" for call in system_calls(machine).values()))
        binary = Path(folder) / "print"
        compile_printer(["cc", f"-DOWN_ARCH={MACHINES[machine]}u", f"-I{folder}"], binary)
        return read_program(subprocess.run([binary], capture_output=True, text=True, check=True).stdout)


def compile_printer(compiler: list[str], binary: Path) -> None:
    subprocess.run([*compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{AGENT}", "-o", binary, PRINTER], check=True)


def read_program(printed: str) -> Program:
    return [tuple(map(int, line.split())) for line in printed.splitlines()]


def header_numbers(compiler: list[str], header: str = "asm/unistd.h") -> dict[str, int]:
    """Every `__NR_name` of the kernel's headers, as this compiler finds them."""
    find = [*compiler, "-E", "-P", "-include", header, "-"]
    defined = subprocess.run([*find[:-1], "-dM", "-"], input="", capture_output=True, text=True, check=True).stdout
    names = re.findall(r"#define __NR_(\w+) ", defined)
    asked = "".join(f"@{name} = __NR_{name}\n".replace(f"@{name}", f"@ {index}") for index, name in enumerate(names))
    valued = subprocess.run(find, input=asked, capture_output=True, text=True, check=True).stdout
    return {names[int(index)]: int(value) for index, value in re.findall(r"@ (\d+) = \(?(\d+)\)?$", valued, re.MULTILINE)}


def answer(program: Program, machine: int, number: int, *arguments: int) -> int:
    """What the kernel does with this call: 0 if it goes through, else its error."""
    words = [argument & (1 << 64) - 1 for argument in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("<iIQ6Q", number, machine, 0, *words)
    at = value = 0
    while True:
        code, yes, no, constant = program[at]
        at += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, constant)
            case 0x54:
                value &= constant
            case 0x15:
                at += yes if value == constant else no
            case 0x25:
                at += yes if value > constant else no
            case 0x35:
                at += yes if value >= constant else no
            case 0x45:
                at += yes if value & constant else no
            case 0x06:
                return _decided(constant)
            case _:
                raise AssertionError(f"the filter has instruction {code:#x} at {at - 1}; teach this interpreter")


def _decided(constant: int) -> int:
    if constant == KILL:
        raise Killed
    if constant == ALLOW:
        return 0
    assert constant & 0xFFFF0000 == ERRNO, hex(constant)
    return constant & 0xFFFF
