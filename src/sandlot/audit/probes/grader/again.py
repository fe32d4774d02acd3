"""The same work gets the same score when it is graded again, also in another process with other random numbers.

Golden work and no work are the easy cases. Half-done work is graded again too, because chance shows there first.
"""

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from sandlot.audit.case import Case, Probe, regrade_with_answer
from sandlot.audit.finding import Finding, Layer, Witness, make_finding
from sandlot.audit.probes.grader.asking import NONSENSE, SolvedTask, find_targets, needs_golden, num_affordable
from sandlot.audit.probes.grader.rungs import rungs
from sandlot.audit.probes.plays import SURE
from sandlot.audit.subject import Conditions, Regrade, Trial
from sandlot.core.errors import ConfigError
from sandlot.core.stats.intervals import wilson
from sandlot.core.trace import Scored

_OTHER = Conditions(hash_seed=1, random_seed=20_240_229)
_FEW = 20


async def _look_at_golden(case: Case) -> list[Finding]:
    """The golden solution gets full marks."""
    golden = await case.golden()
    tried = {task: trial for task, trial in golden.items() if not trial.untried}
    short = {task: trial for task, trial in tried.items() if (trial.scores and not trial.passed) or trial.lost is not None}
    if not short and len(tried) < len(golden):
        why = next(trial.fate for trial in golden.values() if trial.untried)
        raise ConfigError(f"the golden solution was graded on {len(tried)} of {len(golden)} tasks only: {why}; give it more time")
    if not short:
        return []
    task, trial = min(short.items(), key=lambda item: (item[1].reward is None, item[0]))
    answer = trial.trace.answer if trial.trace else ""
    title = f"the golden solution does not get full marks on {len(short)} of {len(tried)} tasks"
    witness = Witness(inputs={"task": task, "answer": answer[:2000]}, expected="full marks", observed=trial.fate)
    return [make_finding("D13.golden", title, witness, task=task, count=len(short))]


async def _look_at_repeats(case: Case) -> list[Finding]:
    """The same evidence gets the same score, also in another process with other random numbers."""
    some = await find_targets(case, 8)
    wanted = [(target, what, request) for target in some for what, request in _variants(target, case.seed)]
    times = min(_FEW, max(3, num_affordable(some, _FEW, each=max(1, len(wanted)))))
    often = SURE if times == _FEW else times  # for the first tasks: no change in so many means that fewer than 5 % change
    first = await case.take([_repeated(request, often if target in some[:2] else times) for target, _, request in wanted])
    other = await case.take([_repeated(request, 1) for _, _, request in wanted], _OTHER)
    found: list[Finding] = []
    shaky = [(*each[:2], trial) for each, trial in zip(wanted, first, strict=True) if len(_values(trial)) > 1]
    if shaky:
        found.append(_flaky_finding(shaky, len(wanted)))
    moved = [
        (target, what, trial, again)
        for (target, what, _), trial, again in zip(wanted, first, other, strict=True)
        if len(_values(trial)) == 1 and trial.scores and again.scores and _values(trial) != _values(again)
    ]
    if moved and not shaky:
        found.append(_process_finding(moved))
    return found


def _variants(target: SolvedTask, seed: int) -> list[tuple[str, Regrade]]:
    """Golden work, no work, a wrong answer if a check reads it, and up to three parts of the work."""
    halves = rungs(target, Random(seed))  # noqa: S311 - seeded, not secret
    middle = halves[len(halves) // 2 : len(halves) // 2 + 3]
    wrong = [("a wrong answer", regrade_with_answer(target.golden, NONSENSE))] if target.reads_answer else []
    golden = (
        [("the golden solution", regrade_with_answer(target.golden, target.answer))] if target.golden is not target.idle else []
    )
    return [
        *golden,
        ("nothing", regrade_with_answer(target.idle, "")),
        *wrong,
        *((f"part of the work: {rung.description}", rung.request) for rung in middle),
    ]


def _repeated(request: Regrade, times: int) -> Regrade:
    return Regrade(trace=request.trace, files=request.files, times=times)


def _values(trial: Trial) -> set[str]:
    """The distinct outcomes of one request."""
    return {
        f"{each.score.value:.9g}" if isinstance(each, Scored) else f"failed ({each.side.value}, {each.kind})"
        for each in trial.scores
    }


def _flaky_finding(shaky: Sequence[tuple[SolvedTask, str, Trial]], num: int) -> Finding:
    target, what, trial = shaky[0]
    values: dict[str, int] = defaultdict(int)
    for each in trial.scores:
        values[f"{each.score.value:.9g}" if isinstance(each, Scored) else "failed"] += 1
    rate = wilson(len(shaky), num)
    share = f"{len(shaky)} of {num} rollouts, {rate.low:.0%}-{rate.high:.0%}"
    title = f"the same work gets different scores when it is graded again ({share})"
    witness = Witness(
        inputs={"task": target.task.id, "graded": what, "times": len(trial.scores)},
        expected="the same score every time",
        observed=", ".join(f"{value} ({count} times)" for value, count in sorted(values.items())),
    )
    count = len({each.task.id for each, _, _ in shaky})
    return make_finding("D10.flaky", title, witness, task=target.task.id, count=count)


def _process_finding(moved: Sequence[tuple[SolvedTask, str, Trial, Trial]]) -> Finding:
    target, what, trial, again = moved[0]
    title = f"the same work gets a different score in another process with other random numbers ({len(moved)} cases)"
    inputs = {"task": target.task.id, "graded": what, "hash_seed": _OTHER.hash_seed, "random_seed": _OTHER.random_seed}
    witness = Witness(inputs=inputs, expected=trial.fate, observed=again.fate)
    count = len({each[0].task.id for each in moved})
    return make_finding("D17.process", title, witness, task=target.task.id, count=count)


def _no_judge(case: Case) -> str | None:
    return "a judge decides; `judge-again` tests it" if case.description.needs_judge else None


PROBES = (
    Probe("golden-passes", Layer.GRADER, ("D13",), _look_at_golden, needs_golden),
    Probe("same-again", Layer.GRADER, ("D10", "D17"), _look_at_repeats, _no_judge, without_golden=True),
)
