"""Leaked keys, and requirements that the prompt does not mention."""

import base64
from random import Random

import pytest

from builders.static_cases import case_of, codes, found
from sandlot.audit.finding import Confidence, Severity
from sandlot.audit.probes.static import leaks, requirements
from sandlot.audit.subject import Declared
from sandlot.core.ports.world import ToolSpec
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task


def tasks_with(prompt: str = "What is it?", data=lambda value: {}, count: int = 8) -> tuple[Task, ...]:
    rng = Random(3)
    made = [rng.randrange(10_000, 99_999) for _ in range(count)]
    return tuple(
        Task(f"t{at}", prompt=prompt.format(value), data=data(value), key={"total": value}) for at, value in enumerate(made)
    )


async def leaked(tasks: tuple[Task, ...]) -> list[tuple[str, str, str]]:
    findings = await found(leaks.PROBE, case_of(tasks=tasks))
    return [(finding.code, finding.standing.value, finding.severity.value) for finding in findings]


@pytest.mark.parametrize("prompt", ["What is 3? (answer: {})", "Solution = `{}`. What is it?", "The correct answer is {}!"])
async def test_an_answer_announced_in_the_prompt_is_confirmed(prompt):
    assert await leaked(tasks_with(prompt)) == [("D11.prompt", "confirmed", "high")]


@pytest.mark.parametrize(
    "prompt",
    ["Add 1 to {} and take it off again.", "Answer: the number, without {} x 2.", "The expected range is 1 to {}."],
)
async def test_a_key_among_the_inputs_is_no_leak(prompt):
    assert await leaked(tasks_with(prompt)) == []


async def test_a_choice_from_a_few_is_no_leak():
    tasks = tuple(Task(f"t{at}", prompt="Answer: yes or no?", key={"right": ("yes", "no")[at % 2]}) for at in range(10))
    assert await leaked(tasks) == []


async def test_a_key_at_the_same_place_of_every_task_is_a_minor_lead():
    assert await leaked(tasks_with(data=lambda value: {"case": {"decision": value}})) == [("D11.data", "lead", "low")]
    files = tasks_with(data=lambda value: {"files": {"/a/.review": f"it came to {value} in all"}})
    assert await leaked(files) == [("D11.data", "lead", "low")]


async def test_a_key_at_another_place_each_time_is_no_leak():
    rng = Random(5)
    assert await leaked(tasks_with(data=lambda value: {"rows": {str(rng.random()): value, "x": 1}})) == []
    crowd = tasks_with(data=lambda value: {"log": " ".join(str(at) for at in range(10_000, 99_999))}, count=2)
    assert await leaked(crowd) == []


async def test_an_encoded_key_is_a_lead():
    coded = tasks_with(data=lambda value: {"note": "see " + base64.b64encode(f"{value * 1000}".encode()).decode()})
    keyed = tuple(Task(task.id, task.prompt, task.data, {"total": task.key["total"] * 1000}) for task in coded)
    assert await leaked(keyed) == [("D11.encoded", "lead", "high")]


async def test_tasks_without_keys_have_nothing_to_leak():
    assert leaks.PROBE.applies(case_of(tasks=(Task("a"),))) == "tasks have no key"


async def test_a_hostile_key_breaks_nothing():
    deep: object = "end"
    for _ in range(5000):
        deep = [deep]
    task = Task(
        "a", prompt="x" * 10_000, data={"deep": deep, "bytes": b"\xff", "none": None}, key={"deep": deep, "n": float("nan")}
    )
    assert await leaked((task,)) == []


# -- demands


def check(body: str) -> str:
    return f"@env.check(points=1)\ndef right(evidence, task):\n    {body}\n"


ASKED = (Task("a", prompt="Write the total to /out/total.txt."), Task("b", prompt="Write it to /out/total.txt, please."))


async def test_a_required_text_is_confirmed_where_the_prompt_is_the_only_source():
    (finding,) = await found(requirements.PROBE, case_of(check("return evidence.answer == f'REF-7 {task.key}'"), tasks=ASKED))
    assert (finding.code, finding.standing, finding.check) == ("D15.literal", Confidence.CONFIRMED, "right")
    tool = ToolSpec(name="ask", description="Ask.", parameters={})
    (lead,) = await found(
        requirements.PROBE, case_of(check("return evidence.answer == f'REF-7 {task.key}'"), tasks=ASKED, tools=(tool,))
    )
    assert (lead.standing, lead.severity) == (Confidence.LEAD, Severity.HIGH)


async def test_what_a_penalty_looks_for_is_not_required():
    body = check("return 'Total due' in evidence.read_text('/out/total.txt')")
    for points, expected in ((-2, []), (2, ["D15.literal"])):
        checks = (
            PythonCheck(id="right", ref="environment:right", points=points),
            PythonCheck(id="written", ref="sandlot:file_exists", args={"path": "/out/total.txt"}, points=1),
            PythonCheck(id="apology", ref="sandlot:mentions", args={"text": "Sorry"}, points=points),
        )
        case = case_of(body, tasks=ASKED, rubrics={"default": Rubric(checks=checks)})
        assert [finding.code for finding in await found(requirements.PROBE, case)][:1] == expected


@pytest.mark.parametrize(
    "body",
    [
        "return evidence.read_text('/out/sum.csv') == task.key",
        "return evidence.answer.strip().endswith('Yours faithfully')",
        "return 'Total due' in evidence.read_text('/out/total.txt')",
    ],
)
async def test_required_files_and_texts_that_the_prompt_lacks_are_leads(body):
    assert await codes(requirements.PROBE, check(body), tasks=ASKED) == ["D15.literal"]


@pytest.mark.parametrize(
    "body",
    [
        "return evidence.read_text('/out/total.txt') == task.key",
        "return evidence.answer.strip() == task.key['x']",
        "return evidence.answer in ('yes, it is', 'no, it is not')",
        "return evidence.state['status'] == 'resolved'",
        "return evidence.answer.replace('comma ', '') == task.key",
    ],
)
async def test_known_or_optional_literals_are_no_finding(body):
    assert await codes(requirements.PROBE, check(body), tasks=ASKED) == []


async def test_declared_words_and_words_of_tools_count_as_known():
    body = check("return evidence.answer == 'REF-7'")
    assert await codes(requirements.PROBE, body, tasks=ASKED, declared=Declared(discoverable=("ref-7",))) == []
    says = "@env.tool\nasync def ask(world):\n    return 'The code is REF-7.'\n"
    assert await codes(requirements.PROBE, body + says, tasks=ASKED) == []


async def test_arguments_of_rubrics_are_requirements_too():
    rubric = Rubric(checks=(PythonCheck(id="a", ref="sandlot:file_exists", args={"path": "/out/secret.json"}),))
    (finding,) = await found(requirements.PROBE, case_of(rubrics={"default": rubric}, tasks=ASKED))
    assert finding.check == "a"
    told = Rubric(checks=(PythonCheck(id="a", ref="sandlot:file_exists", args={"path": "/out/total.txt"}),))
    assert await found(requirements.PROBE, case_of(rubrics={"default": told}, tasks=ASKED)) == []


async def test_arguments_of_a_rubric_are_searched_in_the_tasks_that_it_grades():
    rubrics = {
        name: Rubric(checks=(PythonCheck(id=name, ref="sandlot:file_exists", args={"path": f"/out/{name}.txt"}),))
        for name in ("letter", "total", "wages")
    }
    told = "Write /out/{}.txt. The wages are not in /out/wages.txt."
    tasks = [Task(f"{name}-{at}", prompt=told.format(name), rubric=name) for name in ("letter", "total") for at in range(3)]
    tasks.append(Task("wages-0", prompt="Add up the wages.", rubric="wages"))
    (finding,) = await found(requirements.PROBE, case_of(rubrics=rubrics, tasks=tuple(tasks)))
    assert (finding.check, finding.count) == ("wages", 1)
