"""Journals on disk: always UTF-8, always with plain line ends."""

from pathlib import Path

from .entries import read, written


def append(path, *entries):
    """Add entries at the end."""
    with Path(path).open("a", encoding="utf-8", newline="\n") as file:
        file.writelines(written(fields) for fields in entries)


def entries(path):
    """All entries; a journal that does not exist has none."""
    if not Path(path).exists():
        return []
    with Path(path).open(encoding="utf-8", newline="\n") as file:
        return [read(line) for line in file]


def last(path, count=1):
    """The newest entries, oldest of them first."""
    found = entries(path)
    return found[-count:] if count > 0 else []


def total(paths):
    """Entries in several journals together."""
    return sum(len(entries(path)) for path in paths)


class Reader:
    """Reads journals one after the other and remembers how many lines each had."""

    def __init__(self):
        self.lines = {}

    def read(self, path):
        """The first field of every entry."""
        with Path(path).open(encoding="utf-8", newline="\n") as file:
            found = [read(line)[0] for line in file]
        self.lines[path] = len(found)
        return found


def rotate(path, keep=2):
    """Move the journal to `.1`, that to `.2` and so on; no more than `keep` old ones stay."""
    for number in range(keep, 0, -1):
        older = f"{path}.{number}"
        newer = path if number == 1 else f"{path}.{number - 1}"
        if Path(newer).exists():
            Path(newer).replace(older)
