"""Parsing a judge's reply: exactly one JSON object, or an error.

A verdict in prose, a second object, a repeated key or a word that only resembles a choice is *unparsable*: the grader's failure,
which does not count as a no.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from sandlot.core.errors import GradeError
from sandlot.core.ports.model import Reply
from sandlot.core.text import encodable
from sandlot.core.trace import Reasoning, Text

MAX_REPLY_CHARS = 20_000

_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(.*?)\r?\n?```", re.DOTALL)


class Opinion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One vote: the reason, then the verdict."""

    reason: str
    verdict: str


def reply_text(reply: Reply) -> str:
    """The text of a reply, without reasoning; `GradeError` if it has anything else, such as a tool call."""
    odd = [type(part).__name__ for part in reply.parts if not isinstance(part, Text | Reasoning)]
    if odd:
        raise GradeError(f"the judge replied with a {odd[0]} instead of text", kind="unparsable")
    return "".join(part.text for part in reply.parts if isinstance(part, Text))


def opinion_of(text: str, choices: Sequence[str]) -> Opinion:
    """Parse a reply; `GradeError` of kind `unparsable` if it is not exactly the one object asked for."""
    if len(text) > MAX_REPLY_CHARS:
        raise GradeError(
            f"the judge's reply has {len(text):,} characters; a verdict has at most {MAX_REPLY_CHARS:,}", kind="unparsable"
        )
    try:
        found: Any = json.loads(without_fence(text), object_pairs_hook=unique_object)
    except (ValueError, RecursionError) as error:
        raise GradeError(f"the judge's reply is not one JSON object: {_short(text)} ({error})", kind="unparsable") from error
    if not isinstance(found, dict) or set(cast("dict[str, Any]", found)) != {"reason", "verdict"}:
        raise GradeError(f"the judge's reply is not {{reason, verdict}}: {_short(text)}", kind="unparsable")
    reason, verdict = (cast("dict[str, Any]", found)[name] for name in ("reason", "verdict"))
    if not isinstance(reason, str) or not isinstance(verdict, str) or verdict not in choices:
        raise GradeError(f"the judge's verdict is {_short(repr(verdict))}; the choices are {list(choices)}", kind="unparsable")
    return Opinion(reason=encodable(reason), verdict=verdict)


def without_fence(text: str) -> str:
    """A reply without the code fence that models often put around JSON."""
    body = text.strip(" \t\r\n")
    fenced = _FENCED.fullmatch(body)
    return fenced.group(1) if fenced else body


def unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; `ValueError` if a key appears twice."""
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def _short(text: str) -> str:
    return encodable(text if len(text) <= 200 else f"{text[:200]}...")
