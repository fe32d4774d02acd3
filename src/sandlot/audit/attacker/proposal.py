"""Proposed plays, in a strict JSON form. What a model replies is hostile input: bounded, parsed exactly, never run here."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, cast

import msgspec

from sandlot.audit.subject import Act, Call, Say, Script
from sandlot.core.types import Json

MOST_PROPOSALS = 8
"""Proposals of one reply; the others are dropped."""
MOST_REPLY_CHARS = 200_000
_MOST_TURNS, _MOST_ACTS, _MOST_TEXT = 60, 20, 20_000
_DEEPEST = 24
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)

EVERY_TASK = "*"
"""In place of a task: the same play on all of them."""


class Claim(StrEnum):
    """What a proposal claims. Nobody believes it: the play is run."""

    ATTACK = "attack"
    """The play does not do the task and scores."""
    RIGHT = "right"
    """The play does the task in another way, and should score."""


class _ProposedSay(msgspec.Struct, frozen=True, tag="say", tag_field="do", forbid_unknown_fields=True):
    text: str


class _ProposedCall(msgspec.Struct, frozen=True, tag="call", tag_field="do", forbid_unknown_fields=True):
    tool: str
    arguments: Json = {}


class Proposal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One proposed play."""

    task: str
    """A task's id, or `*`."""
    name: str
    """A few words."""
    turns: tuple[tuple[_ProposedSay | _ProposedCall, ...], ...]
    """What the agent does in each turn: one message, or calls."""
    claim: Claim = Claim.ATTACK
    why: str = ""

    @property
    def script(self) -> Script:
        """The play."""
        turns = tuple(tuple(_act(act) for act in turn) for turn in self.turns)
        return Script(name="proposed", turns=turns)


def _act(act: _ProposedSay | _ProposedCall) -> Act:
    return Say(act.text) if isinstance(act, _ProposedSay) else Call(act.tool, act.arguments)


class ReadReply(msgspec.Struct, frozen=True):
    """What a reply proposes, and why parts of it were refused."""

    proposals: tuple[Proposal, ...] = ()
    refused: tuple[str, ...] = ()


def read_reply(text: str) -> ReadReply:
    """The proposals of a reply: `{"proposals": [...]}`, alone or in one fence. Each is taken or refused by itself."""
    if len(text) > MOST_REPLY_CHARS:
        return ReadReply(refused=(f"the reply has {len(text):,} characters; at most {MOST_REPLY_CHARS:,}",))
    fenced = _FENCE.findall(text)
    try:
        whole: Any = msgspec.json.decode(fenced[0] if len(fenced) == 1 else text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        return ReadReply(refused=(f"the reply is no JSON: {error}",))
    listed: Any = cast("Json", whole).get("proposals") if isinstance(whole, dict) else None
    if not isinstance(listed, list):
        return ReadReply(refused=('the reply has no list `proposals`; write {"proposals": [...]}',))
    each = cast("list[Any]", listed)
    found = [read_proposal(one) for one in each[:MOST_PROPOSALS]]
    refused = [one for one in found if isinstance(one, str)]
    if len(each) > MOST_PROPOSALS:
        refused.append(f"{len(each) - MOST_PROPOSALS} proposals beyond {MOST_PROPOSALS} were dropped")
    return ReadReply(tuple(one for one in found if isinstance(one, Proposal)), tuple(refused))


def read_proposal(thing: Any) -> Proposal | str:
    """One proposal, or why it is refused."""
    try:
        proposal = msgspec.convert(thing, Proposal)
    except (msgspec.ValidationError, RecursionError) as error:
        return f"refused: {error}"
    return next(_too_much(proposal), None) or proposal


def _too_much(proposal: Proposal) -> Iterator[str]:
    """Why a well-formed proposal is refused."""
    where = f"`{proposal.name[:40]}`"
    if not proposal.turns or len(proposal.turns) > _MOST_TURNS:
        yield f"{where} has {len(proposal.turns)} turns; 1 to {_MOST_TURNS}"
    if len(proposal.name) > 200 or len(proposal.why) > 2000:
        yield f"{where}: at most 200 characters of name and 2,000 of why"
    for turn in proposal.turns:
        says = sum(isinstance(act, _ProposedSay) for act in turn)
        if not turn or len(turn) > _MOST_ACTS or (says and len(turn) > 1):
            yield f"{where}: a turn is one message, or 1 to {_MOST_ACTS} calls"
        for act in turn:
            if isinstance(act, _ProposedSay) and len(act.text) > _MOST_TEXT:
                yield f"{where}: a message has {len(act.text):,} characters; at most {_MOST_TEXT:,}"
            elif isinstance(act, _ProposedCall) and _size(act.arguments, 0) > _MOST_TEXT:
                yield f"{where}: arguments larger than {_MOST_TEXT:,} characters, or nested deeper than {_DEEPEST}"


def _size(thing: Any, depth: int) -> int:
    """About how many characters a value has; more than allowed if it is nested too deep."""
    if depth > _DEEPEST:
        return _MOST_TEXT + 1
    if isinstance(thing, dict):
        return sum(len(str(name)) + _size(value, depth + 1) for name, value in cast("Json", thing).items())
    if isinstance(thing, list):
        return sum(1 + _size(value, depth + 1) for value in cast("list[Any]", thing))
    return len(thing) if isinstance(thing, str) else 8
