"""Several criteria about one view in one call: cheaper than one call each, if it gives the same verdicts.

Grading asks one at a time. Whether a judge may be asked several is to be measured (`sandlot judge`), and this is how: the same
data blocks, the criteria numbered after them, and one reply with a verdict for each, in their order, or an error.
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
    """One of several questions."""

    question: str
    choices: tuple[str, ...]


def batch_messages(criteria: Sequence[Criterion], view: Sequence[tuple[str, str]], nonce: str) -> tuple[Message, ...]:
    """The whole prompt, with the criteria after the data."""
    listed = "\n\n".join(
        f"Criterion {number}: {each.question}\nChoices, worst to best: {', '.join(map(json.dumps, each.choices))}"
        for number, each in enumerate(criteria, 1)
    )
    asked = _QUESTIONS.format(blocks=data_blocks(view, nonce), criteria=listed, count=len(criteria), reply=_REPLY)
    return text_message(Role.SYSTEM, system_prompt(nonce, len(criteria), _REPLY)), text_message(Role.USER, asked)


def opinions_of(text: str, criteria: Sequence[Criterion]) -> tuple[Opinion, ...]:
    """The reply as opinions; `GradeError` of kind `unparsable` if it is anything but one for each."""
    if len(text) > MAX_REPLY_CHARS:
        raise GradeError(f"the judge's reply has {len(text):,} characters", kind="unparsable")
    try:
        found: Any = json.loads(without_fence(text), object_pairs_hook=unique_object)
    except (ValueError, RecursionError) as error:
        raise GradeError(f"the judge's reply is not one JSON object ({error})", kind="unparsable") from error
    given: Any = cast("dict[str, Any]", found).get("verdicts") if isinstance(found, dict) and set(found) == {"verdicts"} else None  # pyright: ignore[reportUnknownArgumentType] - whatever a judge wrote
    if not isinstance(given, list) or len(cast("list[Any]", given)) != len(criteria):
        raise GradeError(f"the judge's reply does not hold one verdict for each of {len(criteria)} criteria", kind="unparsable")
    return tuple(
        opinion_of(json.dumps(each), criterion.choices)
        for each, criterion in zip(cast("list[Any]", given), criteria, strict=True)
    )
