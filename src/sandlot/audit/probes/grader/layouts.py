"""Golden answers of several parts: the same parts with other space, brackets or number formats between them, and other parts."""

import ast
import re
from collections.abc import Sequence
from typing import Any, cast

_CELL = re.compile(r"\S{1,20}")
_MOST_CELLS = 200
_SPELLABLE = re.compile(r"[\[(].*[\])]", re.DOTALL)


def same_layout(value: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each other spelling, and whether it certainly means the same."""
    return [*_same_grid(value), *_same_literal(value)]


def other_layout(value: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each wrong answer, and whether it is certainly wrong."""
    rows = _grid(value)
    if rows:
        turned = [*rows[:-1], rows[-1][::-1]]
        found = [("a grid without its last row", _written(rows[:-1]), True)]
        if turned != rows:
            found.append(("the last row of a grid in reverse order", _written(turned), True))
        return found
    thing = _literal(value)
    parts = cast("list[Any]", thing) if isinstance(thing, list) else []
    if len(parts) > 1 and all(isinstance(each, list | tuple) for each in parts):
        return [("a list without its last part", repr(parts[:-1]), True)]
    return []


def _grid(value: str) -> list[list[str]]:
    """The cells of lines with equally many numbers or signs; empty if the text is anything else."""
    lines = [line for line in value.strip("\n").split("\n") if line.strip()]
    rows = [_CELL.findall(line) for line in lines]
    widths = {len(row) for row in rows}
    if len(rows) < 2 or len(widths) != 1 or widths == {1} or len(rows) * len(rows[0]) > _MOST_CELLS:
        return []
    short = all(len(cell) <= 3 or re.fullmatch(r"-?[\d.]+", cell) for row in rows for cell in row)
    return rows if short else []


def _same_grid(value: str) -> list[tuple[str, str, bool]]:
    rows = _grid(value)
    if not rows or any(mark in value for mark in "[](){},|"):
        return []
    return [
        ("two spaces between cells", "\n".join("  ".join(row) for row in rows), True),
        ("space at the ends of lines", "\n".join(f"{' '.join(row)} " for row in rows), True),
    ]


def _written(rows: list[list[str]]) -> str:
    return "\n".join(" ".join(row) for row in rows)


def _literal(value: str) -> Any:
    """The Python list or tuple in a text; None if it is none, or a plain one of JSON objects."""
    text = value.strip()
    if not _SPELLABLE.fullmatch(text) or len(text) > 2000:
        return None
    try:
        found: Any = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None
    parts = cast("Sequence[Any]", found) if isinstance(found, list | tuple) else ()
    return parts if parts and not any(isinstance(each, dict) for each in parts) else None


def _same_literal(value: str) -> list[tuple[str, str, bool]]:
    thing = _literal(value)
    if thing is None:
        return []
    spaced = re.sub(r",\s*", ", ", value.strip())
    close = re.sub(r",\s*", ",", value.strip())
    wide = re.sub(r"([\[(])\s*", r"\1 ", re.sub(r"\s*([\])])", r" \1", value.strip()))
    texts = [("space after commas", spaced), ("no space after commas", close), ("space inside brackets", wide)]
    same = [(kind, text, True) for kind, text in texts if text != value.strip() and _literal(text) == thing]
    return [*same, ("decimal numbers for whole ones", repr(_floats(thing)), False)] if _floats(thing) is not thing else same


def _floats(thing: Any) -> Any:
    if isinstance(thing, list | tuple):
        parts = [_floats(each) for each in cast("Sequence[Any]", thing)]
        return parts if isinstance(thing, list) else tuple(parts)
    return float(thing) if isinstance(thing, int) and not isinstance(thing, bool) and abs(thing) < 1e9 else thing
