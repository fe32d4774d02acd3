"""Remedies for rubric files: the strict form of a ready check, a smaller tolerance, a check that must be met first."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sandlot.audit.finding import Finding
from sandlot.audit.repair.edits import CodeChange, TextEdit
from sandlot.core.types import Json

_STRICT = {"sandlot:file_contains": "sandlot:file_equals"}
"""Ready checks that search, and the one with the same arguments that compares the whole."""
_FINER = (0.1, 0.01, 1e-4, 1e-6)


def changes_of_rubrics(sources: Mapping[str, str], finding: Finding) -> Iterator[CodeChange]:
    """Changes of the checks that a finding is about, in the rubric files of a folder environment."""
    wanted = {name for name in (finding.check, *finding.paid) if name}
    for file, text in sources.items():
        if not (file.startswith("rubrics/") and file.endswith(".json")):
            continue
        for start, check in _checks_in(text):
            if not wanted or check["id"] in wanted:
                yield from (
                    CodeChange(file, what, (TextEdit(*_bytes(text, start + at, start + end), new),))
                    for what, at, end, new in _changes(check, text[start:])
                )


def required_first(sources: Mapping[str, str], finding: Finding, others: tuple[str, ...]) -> Iterator[CodeChange]:
    """A check pays only where one of the `others` is met, which the wrong work does not meet."""
    wanted = {name for name in (finding.check, *finding.paid) if name}
    for file, text in sources.items():
        if not (file.startswith("rubrics/") and file.endswith(".json")):
            continue
        for start, check in _checks_in(text):
            if check["id"] in wanted and "requires" not in check:
                for other in (name for name in others if name != check["id"]):
                    place = _bytes(text, start + 1, start + 1)
                    yield CodeChange(
                        file, f"`{check['id']}` requires `{other}`", (TextEdit(*place, f'"requires": ["{other}"], '),)
                    )


def _changes(check: Json, text: str) -> Iterator[tuple[str, int, int, str]]:
    """What each change does, where in the check's text, and the new text."""
    ref, args = check.get("ref", ""), check.get("args", {})
    pattern = args.get("pattern") if ref == "sandlot:answer_matches" else None
    if isinstance(pattern, str) and not pattern.startswith("^"):
        old = json.dumps(pattern, ensure_ascii=False)
        if (at := text.find(old)) >= 0:
            new = json.dumps(rf"^\s*(?:{pattern})\.?\s*$", ensure_ascii=False)
            yield f"`{check['id']}` matches the whole answer", at, at + len(old), new
    if ref in _STRICT and (at := text.find(f'"{ref}"')) >= 0:
        yield f"`{check['id']}` uses the ready check `{_STRICT[ref]}`", at, at + len(ref) + 2, f'"{_STRICT[ref]}"'
    tolerance = args.get("tolerance")
    found = re.search(r'"tolerance"\s*:\s*([-+.\deE]+)', text)
    if isinstance(tolerance, int | float) and found:
        for share in _FINER:
            yield f"`{check['id']}` allows a difference of {tolerance * share:.1g}", *found.span(1), f"{tolerance * share:.1g}"


def _checks_in(text: str) -> Iterator[tuple[int, Json]]:
    """Each object with an `id` and a `kind`, and where it begins."""
    decoder = json.JSONDecoder()
    for found in re.finditer(r"\{", text):
        try:
            value: Any = decoder.raw_decode(text, found.start())[0]
        except json.JSONDecodeError:
            continue
        if isinstance(value, dict) and "id" in value and "kind" in value:
            yield found.start(), value


def _bytes(text: str, start: int, end: int) -> tuple[int, int]:
    return len(text[:start].encode()), len(text[:end].encode())
