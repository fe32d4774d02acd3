"""Answers made smaller, and built from the prompt: what golden states must be in what scores."""

import difflib
import re

from sandlot.audit.finding import Confidence
from sandlot.audit.probes.search.answers import _look_at_answers
from sandlot.core.task import Task
from worlds.subjects import ToySubject, case_of, number_in, sums


async def found(grade, tasks=None):
    return await _look_at_answers(await case_of(ToySubject(grade, tasks or sums(4), kind="grader")))


def exact(evidence, task) -> float:
    return float(number_in(evidence.answer) == float(task.key["golden"]))


async def test_an_exact_grader_is_not_blamed():
    assert await found(exact) == []


async def test_a_grader_that_compares_the_first_digits_only():
    (finding,) = await found(lambda evidence, task: float(evidence.answer.strip()[:2] == task.key["golden"][:2]))
    assert (finding.code, finding.standing) == ("D22.near-part", Confidence.CONFIRMED)
    assert finding.reason is not None


async def test_a_grader_that_searches_the_answer_in_the_key():
    (finding,) = await found(lambda evidence, task: float(evidence.answer.strip() in task.key["golden"]))
    assert finding.code == "D22.near-part"


async def test_another_spelling_of_the_same_number_is_no_part_of_it():
    def value(evidence, task) -> float:
        try:
            return float(float(evidence.answer) == float(task.key["golden"]))
        except ValueError:
            return 0.0

    assert await found(value, [Task(f"d-{n}", prompt="How much?", key={"golden": f"0.{n}0"}) for n in (18, 37, 59)]) == []


async def test_where_any_words_will_do_the_answer_is_not_what_is_graded():
    assert await found(lambda _evidence, _task: 1.0) == []


CAPITALS = [
    Task(f"c-{number}", prompt=f"The people of {land} like bread. What is the main town of {land}?", key={"golden": town})
    for number, (land, town) in enumerate([("Norland", "Vexby upon the river"), ("Sudland", "Marlow upon the hill")])
]


async def test_what_golden_explains_beside_its_value_may_be_left_out():
    tasks = [
        Task(f"e-{n}", prompt="How many?", key={"golden": f"There are {n} of them, as I counted.\nANSWER: {n}"}) for n in (31, 47)
    ]

    def last_number(evidence, task) -> float:
        numbers = re.findall(r"\d+", evidence.answer)
        return float(bool(numbers) and numbers[-1] == task.key["golden"].rpartition(" ")[2])

    assert await found(last_number, tasks) == []


async def test_words_of_the_prompt_chosen_by_partial_credit():
    def likeness(evidence, task) -> float:
        common = set(evidence.answer.split()) & {"people", "bread", "town", *task.key["golden"].split()}
        return min(1.0, len(common) / 3)

    (finding,) = [each for each in await found(likeness, CAPITALS) if each.code == "D02.built"]
    assert finding.standing is Confidence.CONFIRMED


async def test_a_little_partial_credit_is_no_finding():
    def close(evidence, task) -> float:
        return round(difflib.SequenceMatcher(None, evidence.answer, task.key["golden"]).ratio() ** 4, 3)

    assert [each for each in await found(close, CAPITALS) if each.code == "D02.built"] == []
