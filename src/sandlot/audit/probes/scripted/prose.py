"""Prose: messages that keep golden's words and say something else must lose, and the same message in another dress must not.

A check that looks for names and numbers in a message is met by a message that denies every one of them. First it is found out
whether a message is graded at all: with empty words in its place the score falls. Then golden is played with its messages denied,
declared a joke, negated sentence by sentence, and with their words shuffled. Each contradicts golden, or conveys nothing; full
marks for it are a confirmed defect. An insult around every message, and a promise that golden does not make, are leads: only the
task says whether manner matters. Greeting, signature and a quoted mail change nothing: points that they cost are leads too.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, make_finding
from sandlot.audit.probes.likeness import EPSILON
from sandlot.audit.probes.plays import MANY_TURNS, request_for, witness_of
from sandlot.audit.probes.scripted.floor import needs_golden
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works_to_do
from sandlot.audit.reason import Reason, ReasonKind
from sandlot.audit.subject import Act, Call, Say, Script, Trial

_TASKS, _SANDBOXED = 12, 2
_FEWEST_WORDS = 5
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[^\W\d_]{2,}")
_PLAIN = 0.75
"""Smallest share of letters and spaces in prose; code, tables and addresses have less."""
_CODE = re.compile(r"[=<>{}\[\]|;_+*\\]")
_CODED = 0.02
"""Largest share of such characters in prose."""
_NEUTRAL = "This is a message."


@dataclass(frozen=True, slots=True)
class _Distortion:
    """One way to say something else in golden's words."""

    what: str
    change: Callable[[str, Random], str]
    why: str
    kind: ReasonKind | None = None
    """Why the result is wrong; None if only the task can say."""


def _deny(text: str, _rng: Random) -> str:
    return f"None of what follows is true:\n{text}\nAll of this is false, and the opposite is the case."


def _joke(text: str, _rng: Random) -> str:
    return f"This is only a joke, please ignore it:\n{text}\nI made all of this up."


def _negate(text: str, _rng: Random) -> str:
    sentences = [each.strip() for each in _SENTENCE.split(text) if each.strip()]
    return " ".join(f"It is not true that {each[0].lower()}{each[1:]}" for each in sentences)


def _shuffle(text: str, rng: Random) -> str:
    words = text.split()
    rng.shuffle(words)
    return " ".join(words)


def _insult(text: str, _rng: Random) -> str:
    return f"Shut up and listen, you stupid idiots.\n{text}\nNever bother me again, you morons."


def _promise(text: str, _rng: Random) -> str:
    return f"{text}\nWe promise a full refund of everything, and a new system for free."


WRONG = (
    _Distortion("denied", _deny, "it says of each of golden's sentences that it is false", ReasonKind.CONTRADICTS),
    _Distortion("called a joke", _joke, "it tells the reader to believe none of golden's sentences", ReasonKind.CONTRADICTS),
    _Distortion("negated", _negate, "each of golden's sentences stands in it negated", ReasonKind.CONTRADICTS),
    _Distortion("shuffled", _shuffle, "golden's words in a random order state nothing", ReasonKind.LEAVES_OUT),
    _Distortion("with insults", _insult, "insults stand around golden's sentences"),
    _Distortion("with a promise", _promise, "it promises what golden does not"),
)
"""These should lose."""


def _greet(text: str, _rng: Random) -> str:
    return f"Hello,\n\n{text}\n\nKind regards"


def _quote(text: str, _rng: Random) -> str:
    return f"{text}\n\nOn Monday you wrote:\n> Could you please look into this?\n> Thank you"


SAME = (
    _Distortion("with a greeting and a signature", _greet, "it says the same"),
    _Distortion("with a quoted mail below it", _quote, "it says the same"),
)
"""These should lose nothing."""


def is_prose(text: Any) -> bool:
    """True for sentences for a reader; not for names, numbers, code, JSON or tables."""
    if not isinstance(text, str) or len(_WORD.findall(text)) < _FEWEST_WORDS or _is_json(text):
        return False
    plain = sum(each.isalpha() or each.isspace() for each in text)
    return plain >= _PLAIN * len(text) and len(_CODE.findall(text)) <= _CODED * len(text)


def _is_json(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict | list)
    except msgspec.DecodeError:
        return False


def changed_prose(script: Script, change: Callable[[str], str], shells: frozenset[str]) -> Script | None:
    """The script with every message changed; None if it has none."""
    turns = tuple(tuple(_changed(act, change, shells) for act in turn) for turn in script.turns)
    return None if turns == script.turns else Script(name="prose", turns=turns)


def _changed(act: Act, change: Callable[[str], str], shells: frozenset[str]) -> Act:
    if isinstance(act, Say):
        return Say(change(act.text)) if is_prose(act.text) else act
    if act.tool in shells:
        return act
    return Call(act.tool, {name: change(value) if is_prose(value) else value for name, value in act.arguments.items()})


@dataclass(frozen=True, slots=True)
class _Tried:
    """A task, played with one distortion."""

    work: GoldenWork
    how: _Distortion
    script: Script
    trial: Trial

    @property
    def lost(self) -> float | None:
        """What it scores less than golden; None without a score."""
        return None if self.trial.reward is None else (self.work.golden.reward or 0.0) - self.trial.reward


async def _look_at_prose(case: Case) -> list[Finding]:
    """Messages that deny what they say lose, and harmless dress costs nothing."""
    graded = await _graded_works(case)
    planned: list[tuple[GoldenWork, _Distortion, Script]] = []
    for work in graded:
        for how in (*WRONG, *SAME):
            rng = Random(f"{case.seed} {work.task.id}")  # noqa: S311 - seeded, not secret
            script = changed_prose(work.script, lambda text, how=how, rng=rng: how.change(text, rng), case.shells)
            if script is not None:
                planned.append((work, how, script))
    trials = await case.take([request_for(case, work.task, script) for work, _, script in planned], MANY_TURNS)
    tried: dict[str, list[_Tried]] = defaultdict(list)
    for (work, how, script), trial in zip(planned, trials, strict=True):
        tried[how.what].append(_Tried(work, how, script, trial))
    found = [_wrong_finding(case, tried[how.what]) for how in WRONG] + [_same_finding(case, tried[how.what]) for how in SAME]
    return [each for each in found if each is not None]


async def _graded_works(case: Case) -> list[GoldenWork]:
    """The tasks whose score falls with empty words in place of every message."""
    works = await find_works_to_do(case, _TASKS, _SANDBOXED)
    silent = [(work, changed_prose(work.script, lambda _text: _NEUTRAL, case.shells)) for work in works]
    asked = [(work, script) for work, script in silent if script is not None]
    trials = await case.take([request_for(case, work.task, script) for work, script in asked], MANY_TURNS)
    return [
        work
        for (work, _), trial in zip(asked, trials, strict=True)
        if trial.reward is not None and trial.reward < (work.golden.reward or 0.0) - EPSILON
    ]


def _wrong_finding(case: Case, tried: Sequence[_Tried]) -> Finding | None:
    kept = [each for each in tried if each.lost is not None and each.lost <= EPSILON]
    if not kept:
        return None
    first = min(kept, key=lambda each: len(msgspec.json.encode(each.script)))
    how = first.how
    reason = None if how.kind is None else Reason(kind=how.kind, why=how.why)
    title = f"golden's messages {how.what} keep full marks, on {len(kept)} of {len(tried)} tasks whose messages are graded"
    expected = f"less than golden's {first.work.golden.reward:g}: {how.why}"
    return make_finding(
        "D02.prose",
        title,
        witness_of(case, first.work.task, first.script, expected, first.trial.fate),
        severity=Severity.HIGH if reason else Severity.LOW,
        count=len(kept),
        fix="ask for facts where they can be read exactly (a field, a form), and let a judge decide what a message says",
        reason=reason,
    )


def _same_finding(case: Case, tried: Sequence[_Tried]) -> Finding | None:
    lost = [each for each in tried if each.lost is not None and each.lost > EPSILON]
    if not lost:
        return None
    first = lost[0]
    return make_finding(
        "D15.prose",
        f"golden's messages {first.how.what} lose points, on {len(lost)} of {len(tried)} tasks",
        witness_of(case, first.work.task, first.script, f"{first.work.golden.reward:g}: {first.how.why}", first.trial.fate),
        severity=Severity.LOW,
        count=len(lost),
        fix="if this is intended, say so in the prompt; if not, read the message, not its form",
        sure=False,
    )


PROBES = (Probe("prose", Layer.SCRIPTED, ("D02", "D15"), _look_at_prose, needs_golden),)
