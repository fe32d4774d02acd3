"""Controls: correct solutions get full marks, with room to spare.

Played are the golden solution of every task (five times on a few), golden with harmless differences (extra reads, a polite
sentence, another order of calls), and the author's own controls. Golden must also stay well within the turn and time limits,
because agents are slower.
"""

from collections import defaultdict
from collections.abc import Sequence

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.likeness import EPSILON, changes_between, observations
from sandlot.audit.probes.plays import GOLDEN, MANY_TURNS, choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.floor import needs_both, needs_golden
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works, required_of
from sandlot.audit.subject import Call, NamedPlay, Play, Say, Script, Trial
from sandlot.core.groups import group_by_key
from sandlot.core.task import Task

_REPEATS = 5
_TURNS, _TIME = 0.7, 0.5
"""Largest share of a limit that golden may use."""
_SLOW_S = 1.0
"""Shorter times are not compared with the limit."""


# -- golden itself -----------------------------------------------------------------------------------------------------


async def _look_at_golden(case: Case) -> list[Finding]:
    """The golden solution gets full marks on every task, every time."""
    golden = await case.golden()
    bad = [(task, golden[task.id]) for task in case.tasks if not golden[task.id].passed]
    found: list[Finding] = []
    if bad:
        lost = sum(1.0 - (trial.reward or 0.0) for _, trial in bad) / len(case.tasks)
        title = f"the golden solution does not get full marks on {len(bad)} of {len(case.tasks)} tasks"
        found.append(make_finding("D13.golden", title, _shortfall(case, *bad[0], "full marks"), count=len(bad), effect=lost))
    fine = [task for task in choose_tasks(case, 6, sandboxed=2) if golden[task.id].passed]
    again = await case.take([request_for(case, task, GOLDEN) for task in fine for _ in range(_REPEATS - 1)])
    missed = [
        (fine[place // (_REPEATS - 1)], trial) for place, trial in enumerate(again) if trial.lost is None and not trial.passed
    ]
    if missed:
        title = f"the golden solution does not get full marks every time ({len(missed)} of {len(again)} repeats)"
        witness = _shortfall(case, *missed[0], "full marks every time")
        found.append(make_finding("D13.flaky", title, witness, count=len({task.id for task, _ in missed})))
    return found


def _shortfall(case: Case, task: Task, trial: Trial, expected: str) -> Witness:
    return witness_of(case, task, GOLDEN, expected, _describe_outcome(trial))


def _describe_outcome(trial: Trial) -> str:
    """The outcome, with how it ended and the last error the agent saw."""
    end = trial.trace.end.value if trial.trace and trial.trace.end else "?"
    errors = [shown.text for shown in observations(trial) if shown.error]
    return f"{trial.fate}; end: {end}" + (f"; last tool error: {errors[-1][:200]}" if errors else "")


# -- room to spare -----------------------------------------------------------------------------------------------------


async def _look_at_margins(case: Case) -> list[Finding]:
    """The golden solution stays well within the turn and time limits."""
    golden = await case.golden()
    worst: dict[str, list[tuple[float, Task, str]]] = defaultdict(list)
    for task in case.tasks:
        trial, limits = golden[task.id], case.description.limits.but(task.limits)
        if trial.trace is None or not trial.passed:
            continue
        used_s = max(0.0, sum(trial.trace.phases.get(phase, 0.0) for phase in ("model", "tools")) - trial.starved_s)
        turns = trial.trace.num_turns
        for what, share, limit, words in (
            ("turns", turns / limits.turns, _TURNS, f"{turns} of {limits.turns} turns"),
            ("time", used_s / limits.time_s, _TIME, f"{used_s:.1f} of {limits.time_s:g} s"),
        ):
            if share > limit and (what == "turns" or used_s > _SLOW_S) and not (what == "turns" and turns <= 1):
                worst[what].append((share, task, words))
    return [_margin(case, what, sorted(each, key=lambda one: -one[0])) for what, each in worst.items()]


def _margin(case: Case, what: str, worst: Sequence[tuple[float, Task, str]]) -> Finding:
    share, task, words = worst[0]
    expected = f"at most {_TURNS if what == 'turns' else _TIME:.0%} of the limit"
    return make_finding(
        "D13.margin",
        f"the golden solution uses {share:.0%} of the {what} limit: an agent that explores first cannot finish",
        witness_of(case, task, GOLDEN, expected, words),
        severity=Severity.LOW,
        task=task.id,
        count=len(worst),
        fix=f"raise the {what} limit, or shorten the task",
    )


# -- harmless differences ----------------------------------------------------------------------------------------------


async def _look_at_variants(case: Case) -> list[Finding]:
    """Harmless differences from the golden solution cost no points."""
    found = await find_works(case, choose_tasks(case, 8, sandboxed=1))
    readers = await _readers(case, found)
    plays = [(work, what, play) for work in found for what, play in _harmless_variants(work, readers)]
    trials = await case.take([request_for(case, work.task, play) for work, _, play in plays], MANY_TURNS)
    lost: dict[str, list[tuple[GoldenWork, Script, Trial]]] = defaultdict(list)
    for (work, what, play), trial in zip(plays, trials, strict=True):
        same = what != "order" or not changes_between(work.golden, trial)
        if same and trial.reward is not None and trial.reward < (work.golden.reward or 0.0) - EPSILON:
            lost[what].append((work, play, trial))
    return [_variant_finding(case, what, each) for what, each in lost.items()]


async def _readers(case: Case, found: Sequence[GoldenWork]) -> list[Call]:
    """Calls without arguments that change nothing."""
    if not found or case.description.image is not None:
        return []
    calls = [Call(spec.name) for spec in case.description.tools if not required_of(spec)]
    play = [request_for(case, found[0].task, Script(name="look", turns=((call,),))) for call in calls]
    trials = await case.take(play)
    return [
        call
        for call, trial in zip(calls, trials, strict=True)
        if not changes_between(found[0].idle, trial) and not any(shown.error for shown in observations(trial))
    ]


def _harmless_variants(work: GoldenWork, readers: Sequence[Call]) -> list[tuple[str, Script]]:
    turns = work.script.turns
    twins: list[tuple[str, Script]] = []
    if readers:
        looks = tuple((call,) for call in readers)
        twins.append(("looks", Script(name="golden-with-looks", turns=(*looks, *turns))))
    if work.last_words and work.calls and isinstance(turns[-1][0], Say):
        polite = f"I have finished the work. {work.last_words}"
        twins.append(("words", Script(name="golden-more-politely", turns=(*turns[:-1], (Say(polite),)))))
    for place in range(len(turns) - 1):
        one, other = turns[place], turns[place + 1]
        if isinstance(one[0], Call) and isinstance(other[0], Call) and one[0].tool != other[0].tool:
            swapped = (*turns[:place], other, one, *turns[place + 2 :])
            twins.append(("order", Script(name="golden-in-another-order", turns=swapped)))
            break
    return twins


_WORDS = {
    "looks": ("D15.looks", "extra reads that change nothing cost points"),
    "words": ("D15.words", "a polite sentence before the final answer costs points"),
    "order": ("D15.order", "the same result scores less when the calls come in another order"),
}


def _variant_finding(case: Case, what: str, lost: Sequence[tuple[GoldenWork, Script, Trial]]) -> Finding:
    code, title = _WORDS[what]
    work, play, trial = lost[0]
    witness = witness_of(case, work.task, play, f"{work.golden.reward:g}, as the golden solution gets", trial.fate)
    count = len({each[0].task.id for each in lost})
    fix = "if this is intended, say so in the prompt; if not, grade the result only"
    return make_finding(code, title, witness, count=count, severity=Severity.LOW, sure=False, fix=fix)


# -- the author's own --------------------------------------------------------------------------------------------------


async def _look_at_own(case: Case) -> list[Finding]:
    """The author's controls get full marks."""
    tasks = choose_tasks(case, 16, sandboxed=3)
    plays: list[tuple[Task, Play]] = [(task, NamedPlay(name=name)) for name in case.description.controls for task in tasks]
    trials = await case.take([request_for(case, task, play) for task, play in plays])
    played = [(task, play, trial) for (task, play), trial in zip(plays, trials, strict=True)]
    missed = group_by_key((play.name, (task, play, trial)) for task, play, trial in played if not trial.passed)
    return [
        make_finding(
            "D15.control",
            f"the author's control `{name}` does not get full marks",
            witness_of(case, *each[0][:2], "full marks", _describe_outcome(each[0][2])),
            count=len(each),
        )
        for name, each in missed.items()
    ]


def _needs_own(case: Case) -> str | None:
    return None if case.description.controls else "the author wrote no controls"


PROBES = (
    Probe("golden", Layer.SCRIPTED, ("D13",), _look_at_golden, needs_golden),
    Probe("margins", Layer.SCRIPTED, ("D13",), _look_at_margins, needs_golden),
    Probe("golden-otherwise", Layer.SCRIPTED, ("D15",), _look_at_variants, needs_both),
    Probe("own-controls", Layer.SCRIPTED, ("D15",), _look_at_own, _needs_own),
)
