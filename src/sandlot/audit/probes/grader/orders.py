"""The same answers get the same scores in another order, beside each other, and in another process.

`again.py` repeats one grading. Here many different answers are graded after each other: a grader that keeps something from one
call to the next, or that shares it between threads, gives other scores in another order. No right answer is needed.
"""

from random import Random

from sandlot.audit.case import Case, Probe, regrade_with_answer
from sandlot.audit.finding import Finding, Layer, Witness, make_finding
from sandlot.audit.probes.grader.asking import NONSENSE, SolvedTask, find_targets
from sandlot.audit.probes.grader.fuzz import damaged_answers, random_answer
from sandlot.audit.probes.likeness import EPSILON
from sandlot.audit.subject import Conditions, Regrade, Trial

_TASKS, _RANDOM = 5, 3
_ELSEWHERE = Conditions(hash_seed=7, timezone="Asia/Kathmandu", locale="tr_TR.UTF-8")
_ORDERS = {
    "D05.order": ("in another order", Conditions(shuffled=1)),
    "D17.surroundings": ("in another time zone, with another locale and hash seed", _ELSEWHERE),
    "D18.threads": ("beside seven others", Conditions(at_once=8)),
}


async def _look_at_orders(case: Case) -> list[Finding]:
    """Neither order nor neighbours nor the process change a score."""
    some = await find_targets(case, _TASKS, answers=60)
    asked = [(target, answer) for place, target in enumerate(some) for answer in _answers(case, target, some, place)]
    requests: list[Regrade] = [regrade_with_answer(target.golden, answer) for target, answer in asked]
    first, again = await case.take(requests), await case.take(requests)
    steady = [place for place in range(len(asked)) if _same(first[place], again[place])]  # the others are for `same-again`
    for code, (how, conditions) in _ORDERS.items():
        other = await case.take(requests, conditions)
        moved = [place for place in steady if not _same(first[place], other[place])]
        if moved and not await _moves_alone(case, [requests[place] for place in moved[:3]]):
            place = moved[0]
            target, answer = asked[place]
            inputs = {"task": target.task.id, "answer": answer[:2000], "graded": how, "after": len(requests)}
            witness = Witness(inputs=inputs, expected=first[place].fate, observed=other[place].fate)
            title = f"the same answer gets another score {how} ({len(moved)} of {len(steady)} answers)"
            return [
                make_finding(code, title, witness, task=target.task.id, count=len({asked[each][0].task.id for each in moved}))
            ]
    return []


async def _moves_alone(case: Case, requests: list[Regrade]) -> bool:
    """True if the scores change by chance: in processes of their own, the same answers differ."""
    alone = Conditions(alone=True)
    one, other = [await case.take(requests, alone) for _ in range(2)]
    return any(not _same(first, second) for first, second in zip(one, other, strict=True))


def _same(one: Trial, other: Trial) -> bool:
    """True for equal rewards, and if one of them has none: a failure or a lost trial is reported elsewhere."""
    return one.reward is None or other.reward is None or abs(one.reward - other.reward) < EPSILON


def _answers(case: Case, target: SolvedTask, some: list[SolvedTask], place: int) -> list[str]:
    rng = Random(f"{case.seed} {target.task.id}")  # noqa: S311 - seeded, not secret
    other = some[(place + 1) % len(some)].answer
    pieces = [random_answer(rng, [target.answer, target.prompt[:200]]) for _ in range(_RANDOM)]
    found = [target.answer, "", NONSENSE, other, target.prompt, "0", "7", *damaged_answers(target.answer)[:3], *pieces]
    return list(dict.fromkeys(found)) if target.reads_answer else [target.answer]


def _no_judge(case: Case) -> str | None:
    return "a judge decides; `judge-again` tests it" if case.description.needs_judge else None


PROBES = (Probe("any-order", Layer.GRADER, ("D05", "D17", "D18"), _look_at_orders, _no_judge, without_golden=True),)
