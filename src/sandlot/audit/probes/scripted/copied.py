"""Copied answers: a tool result has the answer in a field, always the same one.

An agent that makes one call and repeats that field gets full marks; this is played. It can be right where finding the field is
the task. So it is confirmed only if the author computes the answer from other values in the same result and the prompt does not
name the field. Else it is a lead.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, make_finding
from sandlot.audit.probes.grader.asking import NONSENSE
from sandlot.audit.probes.likeness import changes_between, leaves, mentions, observations, opening_text
from sandlot.audit.probes.plays import choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.attacks import one_act_per_turn
from sandlot.audit.probes.scripted.floor import needs_both, needs_golden
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works, required_of
from sandlot.audit.probes.static.code import read_code
from sandlot.audit.probes.static.worked import computed_answers
from sandlot.audit.subject import Call, Say, Script, Trial

_TASKS, _SANDBOXED = 24, 2
_ENOUGH = 6
"""Tasks on which the same field must hold the answer."""
_SEVERAL = 3
"""Different answers among them. One answer for all tasks would be a guess, not a copy."""
_BESIDE = 2
"""Other values in the result that differ between tasks, from which the answer could be computed."""
LINE = re.compile(r"^[ \t]*(?:[-*][ \t]*)?([A-Za-z][\w ./-]{0,40}?)[ \t]*[:=][ \t]*(\S.{0,80}?)[ \t\r]*$", re.MULTILINE)
"""`name: value` on one line. Gaps stay within a line, so that hostile text cannot make the search take hours."""

_Place = tuple[str, str]
"""A tool, and the path of a field in its result."""


@dataclass(frozen=True, slots=True)
class _Copied:
    """A task whose answer is in a field."""

    work: GoldenWork
    call: Call
    value: str

    @property
    def play(self) -> Script:
        """Make the call, then repeat the field."""
        return one_act_per_turn("copy-a-field", [self.call, Say(self.value)])


async def _look_at_copies(case: Case) -> list[Finding]:
    """No field of one tool result is the answer to every task."""
    found = await _works_with_hidden_answers(case)
    looks = [(work, call) for work in found for call in _readers(case, work)]
    trials = await case.take([request_for(case, work.task, one_act_per_turn("look", [call])) for work, call in looks])
    shown: dict[_Place, dict[str, Any]] = defaultdict(dict)
    held: dict[_Place, dict[str, _Copied]] = defaultdict(dict)
    for (work, call), trial in zip(looks, trials, strict=True):
        for path, value in _fields(work, trial).items():
            shown[call.tool, path][work.task.id] = value
            if _same(value, work.last_words):
                held[call.tool, path][work.task.id] = _Copied(work, call, str(value))
    everywhere = {place: list(each.values()) for place, each in held.items() if len(each) == len(found)}
    return [await _copy_finding(case, place, each, shown) for place, each in list(everywhere.items())[:2]]


async def _look_at_replies(case: Case) -> list[Finding]:
    """The reply to a nonsense message does not contain the answer."""
    found = await _works_with_hidden_answers(case)
    nonsense = one_act_per_turn("nonsense", [Say(NONSENSE)])
    trials = await case.take([request_for(case, work.task, nonsense) for work in found])
    leaky = [
        work
        for work, trial in zip(found, trials, strict=True)
        if any(mentions(each.text, work.last_words) for each in observations(trial))
    ]
    plays = [one_act_per_turn("repeat-what-was-said", [Say(NONSENSE), Say(work.last_words)]) for work in leaky]
    again = await case.take([request_for(case, work.task, play) for work, play in zip(leaky, plays, strict=True)])
    passed = [(work, play, trial) for work, play, trial in zip(leaky, plays, again, strict=True) if trial.passed]
    if not passed or len(passed) < len(found):  # a word in common may be chance
        return []
    work, play, trial = passed[0]
    title = f"the reply to a nonsense message contains the answer, on all {len(passed)} tasks tried"
    expected = "less than full marks: the answer was in the reply to nonsense"
    fix = "take the answer out of replies and error messages"
    witness = witness_of(case, work.task, play, expected, trial.fate)
    return [make_finding("D11.reply", title, witness, count=len(passed), fix=fix)]


async def _works_with_hidden_answers(case: Case) -> list[GoldenWork]:
    """Tasks with short answers that the prompt does not contain; none if there are too few to tell a copy from chance."""
    found = [
        work for work in await find_works(case, choose_tasks(case, _TASKS, sandboxed=_SANDBOXED)) if _has_hidden_answer(work)
    ]
    return found if len(found) >= _ENOUGH and len({work.last_words for work in found}) >= _SEVERAL else []


def _has_hidden_answer(work: GoldenWork) -> bool:
    answer = work.last_words.strip()
    return 0 < len(answer) < 80 and answer not in opening_text(work.idle)


def _readers(case: Case, work: GoldenWork) -> list[Call]:
    """One call per tool: without arguments, or golden's call if all its arguments are in the prompt."""
    prompt = opening_text(work.idle)
    bare = [Call(spec.name) for spec in case.description.tools if not required_of(spec)]
    own = [call for call in work.calls if call.arguments and all(str(value) in prompt for value in call.arguments.values())]
    calls = {call.tool: call for call in (*reversed(own), *bare)}
    return [call for name, call in calls.items() if work.shell is None or name != work.shell.tool]


def _fields(work: GoldenWork, trial: Trial) -> dict[str, Any]:
    """The result's values by path (JSON) or by the name before a colon (text); none if the call failed or changed anything."""
    results = [each for each in observations(trial) if each.tool]
    if not results or results[0].error or changes_between(work.idle, trial):
        return {}
    try:
        result = msgspec.json.decode(results[0].text)
    except (msgspec.DecodeError, RecursionError):
        return {name.strip(): value for name, value in LINE.findall(results[0].text)}
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


async def _copy_finding(case: Case, place: _Place, copied: Sequence[_Copied], shown: dict[_Place, dict[str, Any]]) -> Finding:
    trials = await case.take([request_for(case, each.work.task, each.play) for each in copied])
    passed = [(each, trial) for each, trial in zip(copied, trials, strict=True) if trial.passed]
    tool, path = place
    varying = [other for other, values in shown.items() if len({str(value) for value in values.values()}) > 1]
    beside = [other for other in varying if other[0] == tool and other[1] != path]
    asked = any(_names(path, f"{case.description.system}\n{opening_text(each.work.idle)}") for each in copied)
    worked = _computed_name(case, copied)
    sure = len(passed) == len(copied) and len(beside) >= _BESIDE and not asked and bool(worked)
    shortest, trial = min(passed or zip(copied, trials, strict=True), key=lambda pair: len(pair[0].value))
    why = f"; the author computes it as `{worked}` from other values in the same result" if worked else ""
    return make_finding(
        "D11.field",
        f"one call of `{tool}` and copying its field `{path}` gets full marks on {len(passed)} of {len(copied)} tasks{why}",
        witness_of(case, shortest.work.task, shortest.play, "less than full marks: nothing was computed", trial.fate),
        count=len(passed),
        severity=Severity.HIGH if sure else Severity.LOW,
        sure=sure,
        fix=f"remove `{path}` from the result of `{tool}`; if reading it is the task, leave it",
    )


def _computed_name(case: Case, copied: Sequence[_Copied]) -> str | None:
    """The name in the author's code whose computed value is the answer, if the sources show one."""
    names = computed_answers(read_code(case))
    key = copied[0].work.task.key
    return next((name for field, name in names.items() if field in key and _same(key[field], copied[0].value)), None)


def _names(path: str, prompt: str) -> bool:
    """True if the prompt names the field."""
    words = re.findall(r"[a-z]+", path.rpartition(".")[2].lower())
    return bool(words) and all(re.search(rf"(?i)\b{word}", prompt) for word in words)


def _needs_user(case: Case) -> str | None:
    return needs_golden(case) if case.description.has_user else "the environment does not answer messages"


PROBES = (
    Probe("copied-field", Layer.SCRIPTED, ("D11",), _look_at_copies, needs_both),
    Probe("telling-replies", Layer.SCRIPTED, ("D11",), _look_at_replies, _needs_user),
)
