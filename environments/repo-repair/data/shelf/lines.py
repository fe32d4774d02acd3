"""Lines: wrapping, numbering, fields."""

from .words import truncate


def wrap(text, width):
    """Lines of at most `width` characters, broken between words; a longer word has a line of its own."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        lines.append(line)
    return lines


def number(lines, start=1):
    """Every line with its number, the numbers as wide as the widest."""
    width = len(str(start + len(lines) - 1))
    return [f"{place:>{width}} {line}" for place, line in enumerate(lines, start)]


def field(line, name):
    """The value in a line like `a=1; b=x=y`; None if the name is not there."""
    for piece in line.split(";"):
        key, equals, value = piece.partition("=")
        if equals and key.strip() == name:
            return value.strip()
    return None


def preview(text, limit=20, lines=2):
    """The first lines that are not blank, each cut to `limit`."""
    full = [line.strip() for line in text.splitlines() if line.strip()]
    return [truncate(line, limit) for line in full[:lines]]


def decoded(data, fallback="latin-1"):
    """Bytes as text: UTF-8 with or without a byte order mark, else the fallback."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode(fallback)
