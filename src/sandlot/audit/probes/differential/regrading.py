"""Regrading: the same evidence gets the same score in every process, every time."""

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Witness, make_finding
from sandlot.audit.probes.likeness import first_difference, gradings_of
from sandlot.audit.probes.plays import SURE, choose_tasks
from sandlot.audit.subject import Conditions, Regrade, Trial

_SANDBOXED = 6
_TIMES = 3
_PLACES = (Conditions(hash_seed=4), Conditions(hash_seed=5, at_once=8))


async def _look_at_regrading(case: Case) -> list[Finding]:
    """The same evidence gets the same score in other processes, repeatedly and concurrently."""
    tasks = choose_tasks(case, SURE, sandboxed=_SANDBOXED)
    golden, idle = await case.golden(), await case.idle()
    trials = [trials[task.id] for task in tasks for trials in (golden, idle) if task.id in trials]
    trials = [trial for trial in trials if trial.trace and trial.trace.evidence and trial.reward is not None]
    sandboxed = case.description.image is not None
    flaky: list[tuple[Trial, Trial, Conditions]] = []
    for conditions in _PLACES:
        requests = [
            Regrade(trace=trial.trace, files=trial.files, times=1 if sandboxed else _TIMES) for trial in trials if trial.trace
        ]
        again = await case.take(requests, conditions)
        flaky += [(old, new, conditions) for old, new in zip(trials, again, strict=True) if _differs(old, new)]
    return [_finding(case, flaky, len(trials))] if flaky else []


def _differs(old: Trial, new: Trial) -> bool:
    first = gradings_of(old)["gradings"][0]
    return any(grading != first for grading in gradings_of(new).get("gradings", []))


def _finding(case: Case, flaky: list[tuple[Trial, Trial, Conditions]], num_trials: int) -> Finding:
    old, new, conditions = flaky[0]
    assert old.trace is not None
    first, gradings = gradings_of(old)["gradings"][0], gradings_of(new)["gradings"]
    rewards = [grading.get("value", grading) for grading in gradings]
    where = next((each for grading in gradings if (each := first_difference(first, grading))), "")
    witness = Witness(
        inputs={
            "task": old.trace.task,
            "times": len(rewards),
            "hash_seed": conditions.hash_seed,
            "at_once": conditions.at_once,
        },
        expected=f"{old.reward:g} every time ({num_trials} rollouts were graded again)",
        observed=f"{rewards}; {where}",
        seed=case.seed,
    )
    title = "the same rollout gets a different score when it is graded again"
    return make_finding("D10.regrade", title, witness, count=len({each[0].trace.task for each in flaky if each[0].trace}))


PROBES = (Probe("graded-again", Layer.DIFFERENTIAL, ("D10",), _look_at_regrading, without_golden=True),)
