"""One look and a copied field: a reader whose result holds, always in the same place, the very answer that was to be worked out.

An agent that calls the reader once and says what stands in that field gets full marks: that is played. Where finding the field is
the task this is as it should be, so it counts against an environment only if its author works the answer out from other values
that the same result shows, and the prompt does not ask for the field by name. Else it is a lead.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.probes.choice import choose_tasks
from sandlot.audit.probes.grader.asking import NONSENSE
from sandlot.audit.probes.likeness import changes_between, leaves, mentions, observations, opening_text
from sandlot.audit.probes.plays import request_for, witness_inputs
from sandlot.audit.probes.scripted.attacks import one_act_per_turn
from sandlot.audit.probes.scripted.floor import needs_both, needs_golden
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works, required_of
from sandlot.audit.probes.static.code import Code
from sandlot.audit.probes.static.worked import computed_answers
from sandlot.audit.subject import Call, Say, Script, Trial

TASKS, SANDBOXED = 24, 2
_ENOUGH = 6
"""Tasks on which the same field must hold the answer."""
_SEVERAL = 3
"""Different answers among them: one answer for all is guessed, not read."""
_BESIDE = 2
"""Other values in the result that differ from task to task: what the answer could be worked out from."""
LINE = re.compile(r"^[ \t]*(?:[-*][ \t]*)?([A-Za-z][\w ./-]{0,40}?)[ \t]*[:=][ \t]*(\S.{0,80}?)[ \t\r]*$", re.MULTILINE)
"""A name and a value on one line. No gap reaches over a line's end: a subject could make that search take hours."""

Place = tuple[str, str]
"""A tool, and the path of a field in its result."""


@dataclass(frozen=True, slots=True)
class _Copied:
    """One task whose answer stands in a field."""

    work: GoldenWork
    call: Call
    value: str

    @property
    def play(self) -> Script:
        """Look once, and say what is there."""
        return one_act_per_turn("copy-a-field", [self.call, Say(self.value)])


async def look_at_copies(case: Case) -> list[Finding]:
    """No field of a single reading is the answer to every task."""
    found = [work for work in await find_works(case, choose_tasks(case, TASKS, sandboxed=SANDBOXED)) if _has_hidden_answer(work)]
    if len(found) < _ENOUGH or len({work.last_words for work in found}) < _SEVERAL:
        return []
    looks = [(work, call) for work in found for call in _readers(case, work)]
    trials = await case.take([request_for(case, work.task, one_act_per_turn("look", [call])) for work, call in looks])
    shown: dict[Place, dict[str, Any]] = defaultdict(dict)
    held: dict[Place, dict[str, _Copied]] = defaultdict(dict)
    for (work, call), trial in zip(looks, trials, strict=True):
        for path, value in _fields(work, trial).items():
            shown[call.tool, path][work.task.id] = value
            if _same(value, work.last_words):
                held[call.tool, path][work.task.id] = _Copied(work, call, str(value))
    everywhere = {place: list(each.values()) for place, each in held.items() if len(each) == len(found)}
    return [await _copy_finding(case, place, each, shown) for place, each in list(everywhere.items())[:2]]


async def look_at_replies(case: Case) -> list[Finding]:
    """What the environment says to nonsense does not hold the answer."""
    found = [work for work in await find_works(case, choose_tasks(case, TASKS, sandboxed=SANDBOXED)) if _has_hidden_answer(work)]
    if len(found) < _ENOUGH or len({work.last_words for work in found}) < _SEVERAL:
        return []
    nonsense = one_act_per_turn("nonsense", [Say(NONSENSE)])
    trials = await case.take([request_for(case, work.task, nonsense) for work in found])
    told = [
        work
        for work, trial in zip(found, trials, strict=True)
        if any(mentions(each.text, work.last_words) for each in observations(trial))
    ]
    plays = [one_act_per_turn("repeat-what-was-said", [Say(NONSENSE), Say(work.last_words)]) for work in told]
    again = await case.take([request_for(case, work.task, play) for work, play in zip(told, plays, strict=True)])
    passed = [(work, play, trial) for work, play, trial in zip(told, plays, again, strict=True) if trial.passed]
    if len(passed) < len(found):  # a word in common may be chance
        return []
    work, play, trial = passed[0]
    return [
        Finding(
            code="D11.reply",
            title=f"the reply to a nonsense message contains the answer, on all {len(passed)} tasks tried",
            layer=Layer.SCRIPTED,
            probe="telling-replies",
            severity=Severity.HIGH,
            standing=Confidence.CONFIRMED,
            count=len(passed),
            witness=Witness(
                inputs=witness_inputs(work.task, play),
                expected="less than full marks: the answer was in the reply to nonsense",
                observed=trial.fate,
                seed=case.seed,
            ),
        )
    ]


def _has_hidden_answer(work: GoldenWork) -> bool:
    """True if the answer is a value of its own, which the prompt does not say."""
    answer = work.last_words.strip()
    return 0 < len(answer) < 80 and answer not in opening_text(work.idle)


def _readers(case: Case, work: GoldenWork) -> list[Call]:
    """One call a tool: without arguments, or as golden makes it with what the prompt says."""
    told = opening_text(work.idle)
    bare = [Call(spec.name) for spec in case.description.tools if not required_of(spec)]
    own = [call for call in work.calls if call.arguments and all(str(value) in told for value in call.arguments.values())]
    calls = {call.tool: call for call in (*reversed(own), *bare)}
    return [call for name, call in calls.items() if work.shell is None or name != work.shell.tool]


def _fields(work: GoldenWork, trial: Trial) -> dict[str, Any]:
    """The result leaf by leaf, if the call only looked: of JSON by path, of text by what stands before a colon."""
    heard = [each for each in observations(trial) if each.tool]
    if not heard or heard[0].error or changes_between(work.idle, trial):
        return {}
    try:
        result = msgspec.json.decode(heard[0].text)
    except (msgspec.DecodeError, RecursionError):
        return {name.strip(): value for name, value in LINE.findall(heard[0].text)}
    return leaves(result) if isinstance(result, dict | list) else {}


def _same(value: Any, answer: str) -> bool:
    if isinstance(value, bool | None):
        return False
    if isinstance(value, int | float):
        try:
            return float(answer.replace(",", "")) == value
        except ValueError:
            return False
    return isinstance(value, str) and value.strip() == answer.strip()


async def _copy_finding(case: Case, place: Place, copied: Sequence[_Copied], shown: dict[Place, dict[str, Any]]) -> Finding:
    trials = await case.take([request_for(case, each.work.task, each.play) for each in copied])
    passed = [(each, trial) for each, trial in zip(copied, trials, strict=True) if trial.passed]
    tool, path = place
    beside = [other for other, values in shown.items() if other[0] == tool and other[1] != path and _varies(values)]
    asked = any(_names(path, f"{case.description.system}\n{opening_text(each.work.idle)}") for each in copied)
    worked = _computed_name(case, copied)
    sure = len(passed) == len(copied) and len(beside) >= _BESIDE and not asked and bool(worked)
    shortest, trial = min(passed or zip(copied, trials, strict=True), key=lambda pair: len(pair[0].value))
    why = f"; its author works out `{worked}` from values beside it" if worked else ""
    return Finding(
        code="D11.field",
        title=f"one call of `{tool}` and a copied field, `{path}`, earns full marks on {len(passed)} of {len(copied)} tasks{why}",
        layer=Layer.SCRIPTED,
        probe="copied-field",
        severity=Severity.HIGH if sure else Severity.LOW,
        standing=Confidence.CONFIRMED if sure else Confidence.LEAD,
        count=len(passed),
        witness=Witness(
            inputs=witness_inputs(shortest.work.task, shortest.play),
            expected="less than full marks: nothing was worked out",
            observed=trial.fate,
            seed=case.seed,
        ),
        fix=f"take `{path}` out of what `{tool}` shows; if reading it is the task, leave it",
    )


def _computed_name(case: Case, copied: Sequence[_Copied]) -> str | None:
    """The name of what the author works out and hands over as the answer, as far as the sources tell."""
    names = computed_answers(Code(case.description))
    key = copied[0].work.task.key
    return next((name for field, name in names.items() if field in key and _same(key[field], copied[0].value)), None)


def _varies(values: dict[str, Any]) -> bool:
    return len({str(value) for value in values.values()}) > 1


def _names(path: str, prompt: str) -> bool:
    """True if the prompt asks for the field by its name."""
    words = re.findall(r"[a-z]+", path.rpartition(".")[2].lower())
    return bool(words) and all(re.search(rf"(?i)\b{word}", prompt) for word in words)


def _needs_user(case: Case) -> str | None:
    return needs_golden(case) if case.description.has_user else "the environment does not answer messages"


PROBES = (
    Probe("copied-field", Layer.SCRIPTED, ("D11",), look_at_copies, needs_both),
    Probe("telling-replies", Layer.SCRIPTED, ("D11",), look_at_replies, _needs_user),
)
