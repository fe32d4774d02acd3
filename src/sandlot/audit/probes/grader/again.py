"""The same work, graded again: the same score, however often, in another process, with other random numbers.

Golden work and no work are the easy cases; half-done work is where luck decides, so that is graded again too.
"""

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from sandlot.audit.case import Case, Probe, regrade_with_answer
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.probes.choice import SURE
from sandlot.audit.probes.grader.asking import NONSENSE, SolvedTask, find_solved_tasks, needs_golden, num_affordable
from sandlot.audit.probes.grader.rungs import rungs
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
    return [
        Finding(
            code="D13.golden",
            title=f"the golden solution does not get full marks on {len(short)} of {len(tried)} tasks",
            layer=Layer.GRADER,
            probe="golden-passes",
            severity=Severity.HIGH,
            standing=Confidence.CONFIRMED,
            task=task,
            count=len(short),
            witness=Witness(inputs={"task": task, "answer": answer[:2000]}, expected="full marks", observed=trial.fate),
        )
    ]


async def _look_at_repeats(case: Case) -> list[Finding]:
    """Grade the same evidence many times, and once more in another process with other random numbers."""
    some = await find_solved_tasks(case, 8)
    wanted = [(field, what, request) for field in some for what, request in _variants(field, case.seed)]
    times = min(_FEW, max(3, num_affordable(some, _FEW, each=max(1, len(wanted)))))
    often = SURE if times == _FEW else times  # for the first tasks: no flip in so many means fewer than 5 % of gradings flip
    first = await case.take([_repeated(request, often if field in some[:2] else times) for field, _, request in wanted])
    other = await case.take([_repeated(request, 1) for _, _, request in wanted], _OTHER)
    found: list[Finding] = []
    shaky = [(*each[:2], trial) for each, trial in zip(wanted, first, strict=True) if len(_values(trial)) > 1]
    if shaky:
        found.append(_flaky_finding(shaky, len(wanted)))
    moved = [
        (field, what, trial, again)
        for (field, what, _), trial, again in zip(wanted, first, other, strict=True)
        if len(_values(trial)) == 1 and trial.scores and again.scores and _values(trial) != _values(again)
    ]
    if moved and not shaky:
        found.append(_process_finding(moved))
    return found


def _variants(field: SolvedTask, seed: int) -> list[tuple[str, Regrade]]:
    """Work of several kinds: golden, none, with a wrong answer, and up to three halves."""
    halves = rungs(field, Random(seed))  # noqa: S311 - seeded, not secret
    middle = halves[len(halves) // 2 : len(halves) // 2 + 3]
    return [
        ("the golden solution", regrade_with_answer(field.golden, field.answer)),
        ("nothing", regrade_with_answer(field.idle, "")),
        ("a wrong answer", regrade_with_answer(field.golden, NONSENSE)),
        *((f"part of the work: {rung.told}", rung.request) for rung in middle),
    ]


def _repeated(request: Regrade, times: int) -> Regrade:
    return Regrade(trace=request.trace, files=request.files, times=times)


def _values(trial: Trial) -> set[str]:
    """The different outcomes of one request."""
    return {
        f"{each.score.value:.9g}" if isinstance(each, Scored) else f"failed ({each.side.value}, {each.kind})"
        for each in trial.scores
    }


def _flaky_finding(shaky: Sequence[tuple[SolvedTask, str, Trial]], num: int) -> Finding:
    field, what, trial = shaky[0]
    values: dict[str, int] = defaultdict(int)
    for each in trial.scores:
        values[f"{each.score.value:.9g}" if isinstance(each, Scored) else "failed"] += 1
    rate = wilson(len(shaky), num)
    return Finding(
        code="D10.flaky",
        title=f"graded again, the same work gets another score ({len(shaky)} of {num} rollouts, {rate.low:.0%}-{rate.high:.0%})",
        layer=Layer.GRADER,
        probe="same-again",
        severity=Severity.HIGH,
        standing=Confidence.CONFIRMED,
        task=field.task.id,
        count=len({each.task.id for each, _, _ in shaky}),
        witness=Witness(
            inputs={"task": field.task.id, "graded": what, "times": len(trial.scores)},
            expected="one score, every time",
            observed=", ".join(f"{value} ({count} times)" for value, count in sorted(values.items())),
        ),
    )


def _process_finding(moved: Sequence[tuple[SolvedTask, str, Trial, Trial]]) -> Finding:
    field, what, trial, again = moved[0]
    return Finding(
        code="D17.process",
        title=f"the same work gets another score in another process with other random numbers ({len(moved)} works)",
        layer=Layer.GRADER,
        probe="same-again",
        severity=Severity.HIGH,
        standing=Confidence.CONFIRMED,
        task=field.task.id,
        count=len({each[0].task.id for each in moved}),
        witness=Witness(
            inputs={"task": field.task.id, "graded": what, "hash_seed": _OTHER.hash_seed, "random_seed": _OTHER.random_seed},
            expected=trial.fate,
            observed=again.fate,
        ),
    )


def _no_judge(case: Case) -> str | None:
    return "a judge decides; `judge-again` asks it twice" if case.description.needs_judge else needs_golden(case)


PROBES = (
    Probe("golden-passes", Layer.GRADER, ("D13",), _look_at_golden, needs_golden),
    Probe("same-again", Layer.GRADER, ("D10", "D17"), _look_at_repeats, _no_judge),
)
