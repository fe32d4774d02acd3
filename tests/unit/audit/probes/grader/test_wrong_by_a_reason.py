"""Right answers that probes took for wrong: each of them is of a kind that a public grader showed."""

import random
import re

import pytest

from sandlot.audit.finding import Confidence, Finding
from sandlot.audit.probes.panel import GRADER
from sandlot.audit.probes.scripted import floor
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord
from worlds.subjects import ToySubject, case_of, number_in, sums

TOWNS = ("Aarhus", "Bergen", "Cork", "Dijon", "Evora", "Fulda", "Ghent", "Hasselt", "Ipswich", "Jena", "Kuopio", "Lodz")


async def confirmed(subject: ToySubject, *names: str) -> list[Finding]:
    case = await case_of(subject)
    probes = [probe for probe in (*GRADER, *floor.PROBES) if probe.name in names]
    findings = [found for probe in probes if probe.applies(case) is None for found in await probe.look(case)]
    return [finding for finding in findings if finding.standing is Confidence.CONFIRMED]


def quiz(num: int = 24) -> list[Task]:
    """Four options a question; golden says the letter and the town."""
    rng = random.Random(3)
    tasks: list[Task] = []
    for number in range(num):
        towns = rng.sample(TOWNS, 4)
        listed = "\n".join(f"{letter}) {town}" for letter, town in zip("ABCD", towns, strict=True))
        letter = "ABCD"[number % 4]
        golden = f"{letter}) {towns['ABCD'.index(letter)]}"
        tasks.append(Task(f"quiz-{number}", prompt=f"Which is nearest?\n{listed}", key={"golden": golden}))
    return tasks


def first_letter(evidence: EvidenceRecord, task: Task) -> float:
    found = re.search(r"\b[A-D]\b", evidence.answer)
    return float(found is not None and found[0] == task.key["golden"][0])


def last_letter(evidence: EvidenceRecord, task: Task) -> float:
    found = re.findall(r"\b[A-D]\b", evidence.answer)
    return float(bool(found) and found[-1] == task.key["golden"][0])


@pytest.mark.parametrize("grade", [first_letter, last_letter])
async def test_in_multiple_choice_the_same_letter_and_a_guess_that_hits_by_chance_are_no_defects(grade):
    assert await confirmed(ToySubject(grade, quiz()), "near-misses", "hollow-answers", "best-guess") == []


async def test_a_grader_that_takes_any_letter_in_multiple_choice_is_one():
    def any_letter(evidence: EvidenceRecord, task: Task) -> float:
        return float(task.key["golden"][0] in re.findall(r"\b[A-D]\b", evidence.answer))

    found = await confirmed(ToySubject(any_letter, quiz()), "hollow-answers")
    assert {finding.code for finding in found} == {"D02.echo", "D02.enumerate"}


async def test_one_answer_that_gets_full_marks_whatever_the_key_is_confirmed_with_the_numbers_of_the_test():
    def lenient(evidence: EvidenceRecord, task: Task) -> float:
        return max(first_letter(evidence, task), float(evidence.answer == "C"))

    (found,) = [each for each in await confirmed(ToySubject(lenient, quiz()), "best-guess") if each.code == "D02.constant"]
    assert found.count == 18  # C itself is right for 6
    assert found.reason is not None
    assert "right for 24 of 24 tasks with 4 different keys" in found.reason.why


async def test_nothing_is_right_where_golden_itself_gets_a_twentieth():
    subject = ToySubject(lambda evidence, task: 0.05 * bool(evidence.answer), sums())
    assert {found.code for found in await confirmed(subject, "best-guess", "hollow-answers")} == set()


async def test_a_success_text_that_holds_the_right_number_is_not_wrong():
    def last_number(evidence: EvidenceRecord, task: Task) -> float:
        found = re.findall(r"\d+", evidence.answer)
        return float(bool(found) and found[0] == task.key["golden"])

    zeros = [Task(f"zero-{at}", prompt=f"How many of the {at + 3} jobs failed?", key={"golden": "0"}) for at in range(8)]
    found = await confirmed(ToySubject(last_number, zeros), "hollow-answers", "empty-words")
    assert {finding.code for finding in found} == set()


async def test_the_same_success_text_is_confirmed_where_the_key_is_another():
    def success(evidence: EvidenceRecord, task: Task) -> float:
        return float("success" in evidence.answer or number_in(evidence.answer) == float(task.key["golden"]))

    (found,) = await confirmed(ToySubject(success, sums()), "empty-words")
    assert found.code == "D02.fake-output"
    assert found.reason is not None


async def test_a_reward_far_outside_the_declared_range_is_in_the_title():
    def points(evidence: EvidenceRecord, task: Task) -> float:
        return 1.0 if number_in(evidence.answer) == float(task.key["golden"]) else 6e8 * ("cannot" in evidence.answer)

    found = await confirmed(ToySubject(points, sums(), kind="grader"), "hollow-answers", "reward-range")
    assert "up to 6e+08" in found[0].title
