"""Text that others wrote, made safe to print: agents, models, servers and files may hold what a terminal or a page obeys.

Control characters (C0 and C1), bidirectional overrides, invisible characters and lone surrogates are what `str.isprintable`
says no to. They are spelled out, so that a reader sees that something was there.
"""

import re

_NOT_ASCII = re.compile("[^\x00-\x7e]+")


def printable(text: str, most: int | None = None) -> str:
    """Text without terminal escapes and other control characters; newlines and tabs stay. At most `most` characters."""
    safe = "".join(char if char in "\n\t" or char.isprintable() else f"\\x{ord(char):02x}" for char in text[:most])
    return safe[:most]


def one_line(text: str, most: int | None = None) -> str:
    """A name or a sentence for one line: printable, blanks and newlines joined to one blank, at most `most` characters."""
    return " ".join(printable(text, most).split())


def printable_json(data: bytes) -> bytes:
    """The same JSON, with everything in its strings escaped that is not printable. A reader gets the same values."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _NOT_ASCII.sub(lambda match: "".join(map(_escaped, match.group())), data.decode()).encode()


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
