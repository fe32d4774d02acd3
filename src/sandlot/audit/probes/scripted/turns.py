"""Every spoken turn varied, with the others as golden's: what an agent says first must matter as much as what it says last.

Probes of the grader layer change the last answer only. Here the whole conversation is played again with one turn replaced: by
nonsense, by what another task's golden solution says there, and by near misses of what golden says.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandlot.audit.attacked import spoken_turns
from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, make_finding
from sandlot.audit.probes.grader.asking import NONSENSE
from sandlot.audit.probes.grader.meanings import other_meaning
from sandlot.audit.probes.likeness import EPSILON, opening_text
from sandlot.audit.probes.plays import choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.floor import needs_golden
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works
from sandlot.audit.reason import difference
from sandlot.audit.subject import Say, Script, Trial

_TASKS, _SANDBOXED, _NEAR = 8, 2, 6
_SHORT = 6
"""With at most so many words, what golden says in a turn is a value that an answer must hold."""
_NOTHING, _OTHER = "nonsense", "what golden says there in another task"


@dataclass(frozen=True, slots=True)
class _Varied:
    """The golden conversation with one turn replaced."""

    work: GoldenWork
    turn: int
    """The number of the spoken turn, from 1."""
    kind: str
    sure: bool
    said: str
    golden: str
    script: Script


async def _look_at_turns(case: Case) -> list[Finding]:
    """No turn may hold anything."""
    works = [
        work for work in await find_works(case, choose_tasks(case, _TASKS, sandboxed=_SANDBOXED)) if not case.may_idle(work.task)
    ]
    works = [work for work in works if len(spoken_turns(work.script.turns)) > 1]
    varied = [each for work in works for each in _variants(work, works)]
    trials = await case.take([request_for(case, each.work.task, each.script) for each in varied])
    groups: dict[tuple[int, str], list[tuple[_Varied, Trial]]] = defaultdict(list)
    for each, trial in zip(varied, trials, strict=True):
        if trial.reward is not None:
            groups[each.turn, each.kind].append((each, trial))
    idle_turns = {turn for (turn, kind), each in groups.items() if kind == _NOTHING and all(_full(*one) for one in each)}
    found = [_unread(case, turn, groups[turn, _NOTHING]) for turn in sorted(idle_turns)]
    near = [
        (turn, kind, full)
        for (turn, kind), each in groups.items()
        if turn not in idle_turns
        and kind != _NOTHING
        and (full := [one for one in each if _full(*one)])
        and 2 * len(full) >= len(each) > 1
    ]
    return found + ([_accepted(case, near)] if near else [])


def _variants(work: GoldenWork, works: Sequence[GoldenWork]) -> Iterator[_Varied]:
    turns = work.script.turns
    for number, place in enumerate(spoken_turns(turns), 1):
        golden = _said(work, place)
        others = [_said(other, place) for other in works if other.task.id != work.task.id]
        other = next((text for text in others if text and text != golden), None)
        near = (
            [each for each in other_meaning(golden, opening_text(work.idle)) if each.strong][:_NEAR] if _is_short(golden) else []
        )
        kinds = [(_NOTHING, NONSENSE, True), *((each.kind, each.text, each.strong) for each in near)]
        kinds += [(_OTHER, other, False)] if other else []
        for kind, text, sure in kinds:
            script = Script(name="one-turn-varied", turns=(*turns[:place], (Say(text),), *turns[place + 1 :]))
            yield _Varied(work, number, kind, sure, text, golden, script)


def _said(work: GoldenWork, place: int) -> str:
    turns = work.script.turns
    said = turns[place][0] if place < len(turns) and turns[place] else None
    return said.text if isinstance(said, Say) else ""


def _is_short(text: str) -> bool:
    return 0 < len(text.split()) <= _SHORT


def _full(varied: _Varied, trial: Trial) -> bool:
    return trial.reward is not None and trial.reward >= (varied.work.golden.reward or 0.0) - EPSILON


def _unread(case: Case, turn: int, each: Sequence[tuple[_Varied, Trial]]) -> Finding:
    """Confirmed if golden says another short value there in each task."""
    varied, trial = each[0]
    golden = {one.golden for one, _ in each}
    answers = len(golden) == len(each) > 1 and all(map(_is_short, golden))
    return make_finding(
        "D21.turn",
        f"what the agent says in turn {turn} changes no score: nonsense there gets what golden gets ({len(each)} tasks)",
        witness_of(case, varied.work.task, varied.script, f"less than with `{varied.golden[:60]}` in turn {turn}", trial.fate),
        severity=Severity.HIGH if answers else Severity.LOW,
        sure=answers,
        task=varied.work.task.id,
        count=len(each),
        fix="grade every answer that the conversation asks for",
    )


def _accepted(case: Case, near: Sequence[tuple[int, str, list[tuple[_Varied, Trial]]]]) -> Finding:
    turn, kind, full = max(near, key=lambda each: (each[2][0][0].sure, len(each[2])))
    varied, trial = full[0]
    return make_finding(
        "D22.near",
        f"a wrong answer in turn {turn} gets full marks: {kind} ({len(full)} tasks)",
        witness_of(case, varied.work.task, varied.script, f"less than with `{varied.golden[:60]}` in turn {turn}", trial.fate),
        sure=varied.sure and len(full) > 1,
        task=varied.work.task.id,
        count=len(full),
        reason=difference(varied.said, varied.golden),
    )


PROBES = (Probe("each-turn", Layer.SCRIPTED, ("D21", "D22"), _look_at_turns, needs_golden),)
