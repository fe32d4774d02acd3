"""Text that a person typed, as a safe query for SQLite's full-text search."""

import re

_MAX_WORDS = 32
_AROUND = 120
"""Characters of an excerpt on each side of the first word found."""


def match_expression(text: str, *, column: str = "") -> str | None:
    """An FTS5 expression that finds rows with all these words; None if there are none.

    Words become quoted strings, so nothing in the text is syntax for FTS5. `"two words"` is a phrase, and a word that ends in
    `*` is
    a prefix, as in the search boxes of most products.
    """
    parts: list[str] = []
    for phrase, word in re.findall(r'"([^"]*)"|(\S+)', text):
        pieces = re.findall(r"\w+", phrase or word)
        if not pieces:
            continue
        prefix = "*" if not phrase and word.endswith("*") else ""
        joined = " ".join(pieces)
        parts.append(f'"{joined}"{prefix}')
        if len(parts) == _MAX_WORDS:
            break
    if not parts:
        return None
    expression = " AND ".join(parts)
    return f"{column} : ({expression})" if column else expression


def excerpt(text: str, query: str) -> str:
    """A few words around the first place where a word of the query stands, or the beginning of the text."""
    found = [place for word in re.findall(r"\w+", query) if (place := text.lower().find(word.lower())) >= 0]
    start = max(0, min(found, default=0) - _AROUND)
    shown = " ".join(text[start : start + 2 * _AROUND].split())
    return f"{'...' if start else ''}{shown}{'...' if start + 2 * _AROUND < len(text) else ''}"


def fits_wildcard(text: str, pattern: str) -> bool:
    """True if the whole text fits a pattern: `*` stands for any characters, `?` for one. Never slow: it keeps one way back."""
    place, star, kept, at = 0, -1, 0, 0
    while at < len(text):
        if place < len(pattern) and pattern[place] != "*" and pattern[place] in {"?", text[at]}:
            place, at = place + 1, at + 1
        elif place < len(pattern) and pattern[place] == "*":
            star, kept, place = place, at, place + 1
        elif star >= 0:
            kept += 1
            place, at = star + 1, kept
        else:
            return False
    return all(each == "*" for each in pattern[place:])


def fits_glob(path: str, pattern: str) -> bool:
    """True if a relative path fits a glob: `*` within one name, `**` over any number of folders."""
    names, parts = path.split("/"), pattern.split("/")
    reached = {0}
    for part in parts:
        if part == "**":
            reached = set(range(min(reached, default=len(names) + 1), len(names) + 1))
        else:
            reached = {place + 1 for place in reached if place < len(names) and fits_wildcard(names[place], part)}
    return len(names) in reached
