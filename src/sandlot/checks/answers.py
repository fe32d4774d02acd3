"""Checks of the agent's last message."""

import math
import re
import unicodedata
from collections.abc import Iterator

from sandlot.checks.found import Said, pattern_fault, shown, text_of
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence

_MAX_FINAL_CHARS = 2_000
_MARKED = re.compile(r"(?im)^[\s*#>]*(?:the\s+)?(?:final\s+)?answer(?:\s+is)?\s*[:=]?\**\s*[:=]?\s*(\S.*)$")
"""A line that gives the answer: `Answer: 5`, `**Final answer:** 5`, `The answer is 5`."""
_MAX_MATCH_CHARS = 10_000
"""A pattern is matched against this many characters from the end of a text: a slow pattern delays every rollout."""

_NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d{1,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?(?!\w)")


def final_text(evidence: Evidence, path: str | None = None) -> str:
    r"""The final answer inside the last message (or the file), as text; `NotInEvidence` if there is none, or more than one.

    It is the content of `\boxed{}`, or what follows `Answer:` on a line, or the whole of a text of one line.

    >>> final_text(answer("We add them.\n**Answer:** 42 km"))
    '42 km'
    """
    text = text_of(evidence, path)
    boxed = _boxed(text)
    found = boxed or [match[1] for match in _MARKED.finditer(text[-_MAX_MATCH_CHARS:])]
    found = list(dict.fromkeys(each.strip().strip("*").strip() for each in found)) or [text.strip()]
    if len(found) > 1:
        raise NotInEvidence(f"there are {len(found)} different final answers: {shown(found[0])}, {shown(found[1])}")
    if len(found[0]) > _MAX_FINAL_CHARS or (found[0] == text.strip() and "\n" in found[0]):
        raise NotInEvidence("there is no single final answer; write it on a line of its own, after `Answer:`")
    return found[0]


def _boxed(text: str) -> list[str]:
    r"""What is in each `\boxed{}`, with balanced braces."""
    found: list[str] = []
    for piece in text[-_MAX_MATCH_CHARS:].split("\\boxed{")[1:]:
        depth = 1
        for place, char in enumerate(piece):
            depth += (char == "{") - (char == "}")
            if depth == 0:
                found.append(piece[:place])
                break
    return found


def answer_equals(evidence: Evidence, text: str) -> Said:
    """The answer is `text`, ignoring case, white space, a full stop at the end and the Unicode form of characters.

    >>> answer_equals(answer("  PARIS. "), "Paris")
    (True, "the answer is '  PARIS. '")
    """
    return _normal(evidence.answer) == _normal(str(text)), f"the answer is {shown(evidence.answer)}"


def answer_number(evidence: Evidence, value: float, *, tolerance: float = 0.0) -> Said:
    """The answer contains exactly one number, and it is `value`, up to `tolerance`. Several different numbers: not met.

    >>> answer_number(answer("It costs 1,204.50 EUR."), 1204.5)
    (True, "the answer's number is 1204.5")
    """
    found = sorted(set(_numbers(evidence.answer)))
    if len(found) != 1:
        shown = ", ".join(f"{number:g}" for number in found[:5])
        return False, f"the answer has {len(found)} different numbers" + (f": {shown}" if found else "")
    return abs(found[0] - float(value)) <= tolerance, f"the answer's number is {found[0]:g}"


def answer_matches(evidence: Evidence, pattern: str) -> Said:
    r"""The regular expression is found in the answer (in its last 10,000 characters).

    >>> answer_matches(answer("ticket T-17 is closed"), r"T-\d+ is closed")[0]
    True
    """
    fault = pattern_fault(pattern)
    if fault is not None:
        raise ValueError(fault)
    match = re.search(pattern, evidence.answer[-_MAX_MATCH_CHARS:])
    return match is not None, f"found {shown(match.group())}" if match else f"/{pattern}/ is not in {shown(evidence.answer)}"


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).removesuffix(".")


def _numbers(text: str) -> Iterator[float]:
    """Numbers as people write them: `1,204.50`, `-3`, `2e5`. Grouping commas count only in threes."""
    for match in _NUMBER.finditer(text[-_MAX_MATCH_CHARS:].replace("\u2212", "-")):
        number = float(match.group().replace(",", ""))
        if math.isfinite(number):
            yield number
