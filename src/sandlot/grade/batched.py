"""Several criteria about one view in one call to the judge.

Grading asks one criterion per call. `sandlot judge` measures whether one call for several gives the same verdicts, with the same
data blocks, the criteria numbered after them, and one reply with a verdict for each, in order.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from sandlot.core.errors import GradeError
from sandlot.core.trace import Message, text_message
from sandlot.core.types import Role
from sandlot.grade.prompt import data_blocks, system_prompt
from sandlot.grade.reply import MAX_REPLY_CHARS, Opinion, opinion_of, unique_object, without_fence

_REPLY = '{"verdicts": [{"reason": "one or two sentences", "verdict": "one of its choices"}, ...]}'

_QUESTIONS = """\
{blocks}

{criteria}

Reply with exactly one JSON object that holds one verdict for each of the {count} criteria, in their order: {reply}"""


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """One of several criteria."""

    question: str
    choices: tuple[str, ...]


def batch_messages(criteria: Sequence[Criterion], view: Sequence[tuple[str, str]], nonce: str) -> tuple[Message, ...]:
    """The prompt, with the criteria after the data."""
    listed = "\n\n".join(
        f"Criterion {number}: {each.question}\nChoices, worst to best: {', '.join(map(json.dumps, each.choices))}"
        for number, each in enumerate(criteria, 1)
    )
    asked = _QUESTIONS.format(blocks=data_blocks(view, nonce), criteria=listed, count=len(criteria), reply=_REPLY)
    return text_message(Role.SYSTEM, system_prompt(nonce, len(criteria), _REPLY)), text_message(Role.USER, asked)


def opinions_of(text: str, criteria: Sequence[Criterion]) -> tuple[Opinion, ...]:
    """Parse the reply; `GradeError` of kind `unparsable` if it does not have one verdict per criterion."""
    if len(text) > MAX_REPLY_CHARS:
        raise GradeError(f"the judge's reply has {len(text):,} characters", kind="unparsable")
    try:
        found: Any = json.loads(without_fence(text), object_pairs_hook=unique_object)
    except (ValueError, RecursionError) as error:
        raise GradeError(f"the judge's reply is not one JSON object ({error})", kind="unparsable") from error
    given: Any = cast("dict[str, Any]", found).get("verdicts") if isinstance(found, dict) and set(found) == {"verdicts"} else None  # pyright: ignore[reportUnknownArgumentType] - whatever a judge wrote
    if not isinstance(given, list) or len(cast("list[Any]", given)) != len(criteria):
        raise GradeError(f"the judge's reply does not have one verdict for each of {len(criteria)} criteria", kind="unparsable")
    return tuple(
        opinion_of(json.dumps(each), criterion.choices)
        for each, criterion in zip(cast("list[Any]", given), criteria, strict=True)
    )
