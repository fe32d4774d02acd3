"""Untrusted text made safe to print and to store: agents, models, servers and files may send terminal escapes.

Control characters (C0 and C1), bidirectional overrides, invisible characters and lone surrogates fail `str.isprintable`. They
are written as escapes, so that a reader sees that something was there.
"""

import re

_DOUBTFUL = re.compile("[^\n\t\x20-\x7e]")
"""Characters outside printable ASCII."""
_NOT_ASCII = re.compile("[^\x00-\x7e]+")


def printable(text: str, most: int | None = None) -> str:
    """Text without terminal escapes and other control characters; newlines and tabs stay. At most `most` characters."""
    return _DOUBTFUL.sub(_spelled, text[:most])[:most]


def _spelled(found: re.Match[str]) -> str:
    char = found.group()
    return char if char.isprintable() else f"\\x{ord(char):02x}"


def one_line(text: str, most: int | None = None) -> str:
    """Printable text on one line: each run of white space becomes one blank. At most `most` characters."""
    return " ".join(printable(text, most).split())


def encodable(text: str) -> str:
    """Text that can be written as UTF-8: lone surrogates, which an agent can send or name a file with, become escapes."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def printable_json(data: bytes) -> bytes:
    """The same JSON with every character escaped that is not printable. It decodes to the same values."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _NOT_ASCII.sub(lambda match: "".join(map(_escaped, match.group())), data.decode()).encode()


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
