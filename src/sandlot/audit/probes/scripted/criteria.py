"""Dead checks: checks with the same verdict whatever was done.

A check that pays every agent, idle and destructive ones too, is dead. A penalty that was never given may simply not have been
earned; it is dead if it reads only state that no agent can change. What a check reads is found by changing one value of the
stored state at a time and grading again.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from sandlot.audit.case import Case, regrade_changed
from sandlot.audit.finding import Finding, Witness, make_finding
from sandlot.audit.probes.likeness import leaves
from sandlot.audit.probes.scripted.reach import GoldenWork
from sandlot.audit.subject import Play, Regrade, Trial
from sandlot.core.rubric import CheckResult
from sandlot.core.types import Json

_MIN_TRIALS = 10
_MAX_LEAVES = 60

_Seen = Sequence[tuple[GoldenWork, Play, Trial]]


async def find_dead_checks(case: Case, everything: _Seen) -> list[Finding]:
    """Findings for checks that have one verdict in all these trials."""
    values: dict[tuple[str, str], list[CheckResult]] = defaultdict(list)
    for work, _, trial in everything:
        for check in trial.score.checks if trial.score else ():
            values[work.task.rubric, check.id].append(check)
    found: list[Finding] = []
    changed: dict[str, list[Trial]] = {}
    for (rubric, check), results in values.items():
        if len(results) < _MIN_TRIALS or len({(each.verdict, each.value) for each in results}) > 1 or not results[0].worth:
            continue
        trials = [each for each in everything if each[0].task.rubric == rubric and each[2].score is not None]
        pays = results[0].worth > 0
        if pays or await _reads_only_fixed_state(case, check, trials, changed):
            found.append(_dead_finding(case, check, results[0], trials))
    return found


def _dead_finding(case: Case, check: str, result: CheckResult, trials: _Seen) -> Finding:
    word = f"gives {result.points:g} points to" if result.points > 0 else "has the same verdict for"
    title = f"check `{check}` {word} every agent: golden, mutated, destructive and idle ({result.verdict.value})"
    witness = Witness(
        inputs={"task": trials[0][0].task.id, "plays": sorted({play.name for _, play, _ in trials})},
        expected="different verdicts for different agents",
        observed=f"`{result.verdict.value}` in all {len(trials)} trials",
        seed=case.seed,
    )
    return make_finding("D21.dead", title, witness, check=check, count=len(trials))


async def _reads_only_fixed_state(case: Case, check: str, trials: _Seen, changed: dict[str, list[Trial]]) -> bool:
    """True if the check reads only parts of the state that no trial changed.

    `changed` holds the gradings of each task with one value changed: they are the same for all its checks.
    """
    work, _, golden = next(each for each in trials if each[2] is each[0].golden)
    state: Any = golden.evidence.state
    if not isinstance(state, dict):
        return False
    places = list(leaves(state))[:_MAX_LEAVES] if state else []
    if places and work.task.id not in changed:
        changed[work.task.id] = await case.take([_with_leaf_changed(golden, place) for place in places])
    again = changed.get(work.task.id, [])
    before = _value(golden, check)
    looked_at = {place for place, trial in zip(places, again, strict=True) if _value(trial, check) not in {before, None}}
    moved = {place for other, _, trial in trials if other.task.id == work.task.id for place in _changed_places(work.idle, trial)}
    return bool(looked_at) and not any(one.startswith(other) or other.startswith(one) for one in looked_at for other in moved)


def _changed_places(idle: Trial, trial: Trial) -> set[str]:
    one, other = (leaves(each.evidence.state) for each in (idle, trial))
    return {place for place in {*one, *other} if one.get(place) != other.get(place)}


def _value(trial: Trial, check: str) -> float | None:
    return next((each.value for each in trial.score.checks if each.id == check), None) if trial.score else None


def _with_leaf_changed(trial: Trial, place: str) -> Regrade:
    """The trial's evidence with one value of its state changed."""
    state: Any = msgspec.json.decode(msgspec.json.encode(trial.evidence.state))
    holder: Any = state
    steps = place.split(".")
    for step in steps[:-1]:
        holder = _child(holder, step)
    last: Any = int(steps[-1]) if isinstance(holder, list) else steps[-1]
    if isinstance(holder, list) or (isinstance(holder, dict) and last in holder):
        holder[last] = _other(cast("Any", holder)[last])
    return regrade_changed(trial, state=state)


def _child(holder: Any, step: str) -> Any:
    if isinstance(holder, list):
        return cast("list[Any]", holder)[int(step)]
    return cast("Json", holder).get(step, {})


def _other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return ["x"]
    other: Json = {"x": "x"}
    return other
