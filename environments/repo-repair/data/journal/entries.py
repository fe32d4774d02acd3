"""Entries: one a line, fields separated by tabs, escaped so that any text fits."""

ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n"}


def escape(text):
    """A field as it is written."""
    return "".join(ESCAPES.get(char, char) for char in text)


def unescape(text):
    """The field again."""
    result, place = [], 0
    plain = {written: char for char, written in ESCAPES.items()}
    while place < len(text):
        pair = text[place : place + 2]
        result.append(plain.get(pair, text[place]))
        place += 2 if pair in plain else 1
    return "".join(result)


def written(fields):
    """A line, with its end."""
    return "\t".join(map(escape, fields)) + "\n"


def read(line):
    """The fields of a line."""
    return [unescape(field) for field in line.rstrip("\n").split("\t")]
