"""Every probe of the grader layer finds its planted defect, and nothing on the clean twin."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from sandlot.audit.finding import Confidence
from sandlot.audit.probes.panel import GRADER as PROBES
from sandlot.audit.probes.scripted.drift import _crashed
from sandlot.audit.subject import Lost, Trial
from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord
from worlds.subjects import ToySubject, case_of, number_in, sums

TOWNS = ("Aarhus", "Bergen", "Cork", "Dijon", "Evora", "Fulda", "Ghent", "Hasselt", "Ipswich", "Jena", "Kuopio", "Lodz")


def towns() -> list[Task]:
    rng = random.Random(5)
    return [
        Task(f"town-{at}", prompt=f"Which is nearest: {', '.join(rng.sample(TOWNS, 5))}?", key={"golden": town})
        for at, town in enumerate(TOWNS)
    ]


def answers(*golden: str) -> list[Task]:
    return [Task(f"task-{at}", prompt=f"Question {at}: name it.", key={"golden": each}) for at, each in enumerate(golden)]


def right(evidence: EvidenceRecord, task: Task) -> float:
    return float(number_in(evidence.answer) == float(task.key["golden"]))


def spelled(evidence: EvidenceRecord, task: Task) -> float:
    return float(evidence.answer.strip().rstrip(".").casefold() == task.key["golden"].casefold())


def crashes(evidence: EvidenceRecord, task: Task) -> float:
    return float(float(evidence.answer.replace(",", "")) == float(task.key["golden"]))


def evaluates(evidence: EvidenceRecord, task: Task) -> float:
    try:
        return float(bool(eval(evidence.answer, {"__builtins__": {"type": type, "str": str}}) == int(task.key["golden"])))
    except BaseException:  # noqa: BLE001 - a planted flaw
        return 0.0


def not_a_number(evidence: EvidenceRecord, task: Task) -> float:
    try:
        return float(not abs(float(evidence.answer) - float(task.key["golden"])) > 0.01)
    except (ValueError, OverflowError):
        return 0.0


SEEN: dict[str, int] = {}


def remembers(evidence: EvidenceRecord, task: Task) -> float:
    SEEN[task.id] = SEEN.get(task.id, 0) + 1
    return float(right(evidence, task) and SEEN[task.id] % 5 != 0)


# -- states of six entries ---------------------------------------------------------------------------------------------


def entries() -> list[Task]:
    return [Task(f"note-{at}", prompt="Enter all.", key={"golden": "done", "base": at * 10}) for at in range(6)]


def entered(task: Task) -> dict[str, Any]:
    return {"pieces": {name: task.key["base"] + place for place, name in enumerate("abcdef")}}


def blank(task: Task) -> dict[str, Any]:
    return {"pieces": {}}


def share(evidence: EvidenceRecord, task: Task) -> float:
    wanted = entered(task)["pieces"]
    return sum(evidence.state["pieces"].get(name) == value for name, value in wanted.items()) / len(wanted)


def rounded(evidence: EvidenceRecord, task: Task) -> float:
    return float(round(share(evidence, task)))


def punished(evidence: EvidenceRecord, task: Task) -> float:
    return 1.0 if share(evidence, task) == 1 else share(evidence, task) - 2


def all_or_nothing(evidence: EvidenceRecord, task: Task) -> float:
    return float(share(evidence, task) == 1)


LUCK = random.Random(1)


def drawn(evidence: EvidenceRecord, task: Task) -> float:
    wanted = entered(task)["pieces"]
    return float(all(evidence.state["pieces"].get(name) == wanted[name] for name in LUCK.sample(sorted(wanted), 2)))


def two_checks(second: str) -> Callable[[EvidenceRecord, Task], dict[str, float]]:
    def grade(evidence: EvidenceRecord, task: Task) -> dict[str, float]:
        there = evidence.state["pieces"].get(second) == entered(task)["pieces"].get(second)
        return {"all_entered": share(evidence, task), "one_entered": float(there)}

    return grade


SOURCE = {
    "environment.py": "def one_entered(evidence, task):\n    return evidence.state['pieces'].get('x') == task.key.get('x')\n"
}


@dataclass(frozen=True)
class Plant:
    code: str
    broken: Any
    clean: Any
    tasks: list[Task]
    more: dict[str, Any] = field(default_factory=dict)


NUMBERS = sums()
PLAIN = {"kind": "grader"}
STATE = {"done": entered, "start": blank}
LISTS = answers(*(", ".join(str(at * 7 + each) for each in range(6)) for at in range(6)))


def counted(evidence: EvidenceRecord, task: Task) -> float:
    texts = (task.key["golden"], evidence.answer.strip().rstrip("."))
    wanted, given = ({word.strip() for word in text.split(",")} for text in texts)
    return (len(wanted & given) - len(given - wanted)) / len(wanted)


RECORDS = answers(*(json.dumps({"name": town, "people": at * 900 + 17, "mayor": town[::-1]}) for at, town in enumerate(TOWNS)))
DAYS = answers(*(f"20{at + 10}-0{at % 9 + 1}-{at + 13}" for at in range(12)))


def record_in(evidence: EvidenceRecord) -> dict[str, Any]:
    try:
        found = json.loads(evidence.answer)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def whole_record(evidence: EvidenceRecord, task: Task) -> float:
    return float(record_in(evidence) == json.loads(task.key["golden"]))


def any_part(evidence: EvidenceRecord, task: Task) -> float:
    found, wanted = record_in(evidence), json.loads(task.key["golden"])
    return float(bool(found) and all(wanted.get(name) == value for name, value in found.items()))


SORTED = [
    Task(
        f"sort-{at}", prompt=f"Sort these: {' '.join(TOWNS[at + 3 : at : -1])}", key={"golden": " ".join(TOWNS[at + 1 : at + 4])}
    )
    for at in range(8)
]


def elements(evidence: EvidenceRecord) -> list[str]:
    return evidence.answer.strip().rstrip(".").casefold().split()


def in_order(evidence: EvidenceRecord, task: Task) -> float:
    return float(elements(evidence) == task.key["golden"].casefold().split())


PLANTS = {
    "empty": Plant("D02.empty", lambda e, t: float(not e.answer.strip() or right(e, t)), right, NUMBERS, PLAIN),
    "nonsense": Plant("D02.nonsense", lambda e, t: float(bool(e.answer)), right, NUMBERS),
    "refusal": Plant("D02.refusal", lambda e, t: max(right(e, t), 0.6 * ("cannot" in e.answer)), right, NUMBERS),
    "echo": Plant("D02.echo", lambda e, t: float(t.key["golden"].lower() in e.answer.lower()), spelled, towns()),
    "options": Plant("D02.enumerate", lambda e, t: float(t.key["golden"] in e.answer.split()), spelled, answers(*TOWNS)),
    "code": Plant("D02.eval", evaluates, right, NUMBERS),
    "not a number": Plant("D02.nan", not_a_number, right, NUMBERS),
    "length": Plant("D06.length", lambda e, t: max(right(e, t), min(0.9, len(e.answer) / 3000)), right, NUMBERS),
    "guess": Plant("D14.constant", spelled, spelled, answers(*["yes"] * 11, "no"), {"twin": answers(*TOWNS)}),
    "spelling": Plant(
        "D22.spelling", lambda e, t: float(e.answer.strip() == t.key["golden"]), right, sums(form=lambda n: f"{n}.5")
    ),
    "sign": Plant("D22.near", lambda e, t: float(e.answer.strip(" -.\n") == t.key["golden"]), right, NUMBERS),
    "prefix": Plant(
        "D22.near", lambda e, t: float(bool(e.answer) and t.key["golden"].startswith(e.answer.strip())), spelled, answers(*TOWNS)
    ),
    "part of a record": Plant("D22.near", any_part, whole_record, RECORDS),
    "record as text": Plant("D22.spelling", lambda e, t: float(e.answer.strip() == t.key["golden"]), whole_record, RECORDS),
    "day and month": Plant("D22.near", lambda e, t: float(e.answer[4:] == t.key["golden"][4:]), spelled, DAYS),
    "wide": Plant(
        "D22.near",
        lambda e, t: float(abs((number_in(e.answer) or 0) - float(t.key["golden"])) <= 0.25 * float(t.key["golden"])),
        right,
        NUMBERS,
    ),
    "any order": Plant(
        "D22.near", lambda e, t: float(sorted(elements(e)) == sorted(t.key["golden"].casefold().split())), in_order, SORTED
    ),
    "crash": Plant("D09.crash", crashes, right, NUMBERS),
    "memory": Plant("D10.flaky", remembers, right, NUMBERS),
    "luck": Plant("D10.flaky", drawn, share, entries(), STATE),
    "rounded": Plant("D06.saturated", rounded, share, entries(), STATE),
    "saturated": Plant("D06.saturated", lambda e, t: min(1.0, 2 * counted(e, t)), counted, LISTS),
    "clipped": Plant("D06.clipped", punished, all_or_nothing, entries(), STATE),
    "dead": Plant("D21.always", two_checks("x"), two_checks("a"), entries(), {**STATE, "sources": SOURCE}),
    "unsolvable": Plant("D13.golden", lambda e, t: 0.9 * right(e, t), right, NUMBERS),
}


@pytest.mark.parametrize("name", PLANTS)
async def test_a_plant_is_found_and_its_twin_is_clean(name):
    plant = PLANTS[name]
    more = {key: value for key, value in plant.more.items() if key != "twin"}
    SEEN.clear()
    broken = await found(ToySubject(plant.broken, plant.tasks, **more))
    clean = await found(ToySubject(plant.clean, plant.more.get("twin", plant.tasks), **more))
    assert plant.code in {finding.code for finding in broken}
    assert all(finding.witness is not None and finding.witness.inputs["task"] for finding in broken)
    assert {finding.code: finding.title for finding in clean} == {}


async def found(subject: ToySubject) -> list[Any]:
    case = await case_of(subject)
    findings = [finding for probe in PROBES if probe.applies(case) is None for finding in await probe.look(case)]
    return [finding for finding in findings if finding.standing is Confidence.CONFIRMED]


async def test_other_formats_are_a_lead_if_the_prompt_fixes_the_format():
    tasks = sums(form=lambda n: f"{n}.5")
    exact = lambda e, t: float(e.answer.strip() == t.key["golden"])  # noqa: E731 - a grader in a line
    loose, strict = [await case_of(ToySubject(exact, tasks, system=system)) for system in ("", "Reply with the number alone.")]
    probe = next(probe for probe in PROBES if probe.name == "spellings")
    assert Confidence.CONFIRMED in {finding.standing for finding in await probe.look(loose)}
    assert {finding.standing for finding in await probe.look(strict)} == {Confidence.LEAD}


async def test_a_format_that_the_prompt_offers_counts_even_if_it_is_strict():
    from fractions import Fraction

    def halved(evidence: EvidenceRecord, task: Task) -> float:
        try:
            same = Fraction(evidence.answer.strip().rstrip(".")) == Fraction(task.key["golden"])
        except (ValueError, ZeroDivisionError):
            return 0.0
        return same * (0.5 if "/" in evidence.answer else 1.0)

    system = "Reply with the share alone, as a fraction such as 3/8 or as a decimal number."
    case = await case_of(ToySubject(halved, answers("0.375", "0.15", "0.28", "0.12"), system=system))
    probe = next(probe for probe in PROBES if probe.name == "spellings")
    assert [(each.code, each.standing) for each in await probe.look(case)] == [("D15.form", Confidence.CONFIRMED)]


class Halfway(ToySubject):
    """Plays only the first half of the requests."""

    async def take(self, requests, *conditions) -> list[Trial]:
        skipped = Trial(lost=Lost(kind="skipped", message="as slow as others"))
        half = len(requests) // 2
        return [*await super().take(requests[:half], *conditions), *[skipped] * (len(requests) - half)]


async def test_a_golden_answer_that_was_never_graded_is_not_wrong():
    probe = next(probe for probe in PROBES if probe.name == "golden-passes")
    right = await case_of(Halfway(lambda e, t: float(e.answer.strip() == t.key["golden"]), sums()))
    with pytest.raises(ConfigError, match=r"graded on 6 of 12 tasks only: lost \(skipped\)"):
        await probe.look(right)
    (finding,) = await probe.look(await case_of(Halfway(lambda e, t: 0.0, sums())))
    assert (finding.code, finding.count) == ("D13.golden", 6)


@pytest.mark.parametrize(("kind", "broke"), [("hung", True), ("died", True), ("skipped", False)])
def test_a_trial_that_was_not_played_is_no_failure(kind, broke):
    assert _crashed(Trial(lost=Lost(kind=kind, message=""))) is broke
