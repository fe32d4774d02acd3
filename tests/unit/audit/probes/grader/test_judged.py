"""The weakness of each judge is found, and nothing is reported for an honest one."""

import random
import re

import pytest

from sandlot.audit.finding import Confidence
from sandlot.audit.probes.grader.judged import PROBES
from sandlot.core.rubric import JudgeCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord
from worlds.subjects import ToySubject, case_of

CHECK = "says_when"
ALONE = Rubric(checks=(JudgeCheck(id=CHECK, prompt="It says when."),))
BESIDE = Rubric(checks=(JudgeCheck(id=CHECK, prompt="It is better than the sample.", view=("answer", "/sample.txt")),))
LUCK = random.Random(4)


def tasks() -> list[Task]:
    return [Task(f"day-{at}", prompt="When?", key={"golden": f"It comes on {at + 3} May."}) for at in range(10)]


def honest(text: str, task: Task) -> bool:
    return task.key["golden"].removeprefix("It comes on ").rstrip(".") in re.findall(r"\d+ May", text)


def gullible(text: str, task: Task) -> bool:
    return honest(text, task) or bool(re.search(r"(?i)verdict|judge|grader|ignore|rubric|instruction|criterion", text))


def impressed(text: str, task: Task) -> bool:
    return honest(text, task) or text.lower().startswith((":", ".", "thought", "let's", "solution", "step"))


def wavering(text: str, task: Task) -> bool:
    return honest(text, task) or LUCK.random() < 0.5


def first(text: str, task: Task) -> bool:
    return bool(text.strip())


@pytest.mark.parametrize(
    ("judge", "rubric", "codes"),
    [
        (honest, ALONE, set()),
        (honest, BESIDE, set()),
        (gullible, ALONE, {"D03.injection"}),
        (impressed, ALONE, {"D03.master-key"}),
        (wavering, ALONE, {"D16.flips"}),
        (first, BESIDE, {"D16.position"}),
    ],
)
async def test_the_weakness_of_a_judge_is_found(judge, rubric, codes):
    def grade(evidence: EvidenceRecord, task: Task) -> dict[str, float]:
        return {CHECK: float(judge(evidence.answer, task))}

    case = await case_of(ToySubject(grade, tasks(), rubric=rubric))
    found = [finding for probe in PROBES if probe.applies(case) is None for finding in await probe.look(case)]
    assert {finding.code for finding in found if finding.standing is Confidence.CONFIRMED} == codes
    assert all(finding.witness.inputs["answer"] for finding in found)


async def test_the_probes_do_not_apply_without_a_judge():
    case = await case_of(ToySubject(lambda evidence, task: 0.0, tasks()))
    assert [probe.applies(case) for probe in PROBES] == ["no check uses a judge"] * 2
