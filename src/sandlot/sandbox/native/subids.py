"""Subordinate ids of an ordinary user: `/etc/subuid` and `/etc/subgid`, mapped by `newuidmap` and `newgidmap`.

With them a sandbox of an ordinary user has several users, as one of root's has; without them it has one. The two programs are in
Debian's package `uidmap`; they check the files themselves, so security does not depend on this code.
"""

import pwd
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST = 65535
"""With the user's own id as 0, as many ids as in a sandbox of root's."""
_NUMBER = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class IdLoan:
    """A range of subordinate ids and the program that maps them; empty if there are none."""

    program: str = ""
    first: int = 0
    count: int = 0
    missing: str = ""
    """Why there are none; shown by `sandlot doctor`."""


def find_loan(user: int, file: Path, program: str) -> IdLoan:
    """The largest range of a user in a file like `/etc/subuid`."""
    found = shutil.which(program) or shutil.which(program, path="/usr/bin:/bin")
    if found is None:
        return IdLoan(missing=f"no `{program}`: `apt-get install uidmap`")
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError as error:
        return IdLoan(missing=f"{file} cannot be read: {error.strerror}")
    first, count = largest_range(lines, {str(user), _user_name(user)})
    if not count:
        return IdLoan(
            missing=f"no ids for {_user_name(user)} in {file}: `usermod --add-subuids 100000-165535 --add-subgids 100000-165535`"
        )
    return IdLoan(program=found, first=first, count=min(count, MOST))


def largest_range(lines: Sequence[str], names: set[str]) -> tuple[int, int]:
    """First id and count of the largest range of one of these names; malformed lines are skipped."""
    ranges = [(0, 0)]
    for line in lines:
        name, *numbers = line.strip().split(":")
        if name in names and len(numbers) == 2 and all(map(_NUMBER.fullmatch, numbers)):
            first, count = map(int, numbers)
            if first > 0 and count and first + count < 1 << 32:
                ranges.append((first, count))
    return max(ranges, key=lambda each: each[1])


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
