"""Answers inside the form that a grader reads, and answers that mean the same or something else: found in a flawed grader, and
nothing in its sound twin."""

import ast
import json
import re
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from sandlot.audit.finding import Confidence
from sandlot.audit.probes.grader import choices, inside, matching, padding, restated
from sandlot.audit.probes.grader.forms import own_form, split_answer
from sandlot.audit.probes.grader.meanings import other_meaning, same_meaning
from sandlot.core.syntax import parse_python
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord
from worlds.subjects import ToySubject, case_of, sums

PROBES = {probe.name: probe for probe in (*inside.PROBES, *restated.PROBES, *padding.PROBES, *choices.PROBES, *matching.PROBES)}


def boxed(count: int = 12) -> list[Task]:
    return sums(count, form=lambda number: f"\\boxed{{{number}}}")


def asked(prompt: str, *golden: str) -> list[Task]:
    return [Task(f"task-{at}", prompt=f"{prompt} ({at})", key={"golden": each}) for at, each in enumerate(golden)]


def options(count: int = 16, *, longest: bool = False, golden: str = "{letter}") -> list[Task]:
    rng, tasks = Random(4), []
    for at in range(count):
        right = rng.randrange(4)
        texts = [f"choice {at * 4 + place} {'x' * rng.randrange(1, 9)}" for place in range(4)]
        texts[right] += " and more words than the others have" if longest else ""
        lines = "\n".join(f"{letter}. {text}" for letter, text in zip("ABCD", texts, strict=True))
        answer = golden.format(letter="ABCD"[right], text=texts[right])
        tasks.append(
            Task(f"choice-{at}", prompt=f"Which one is it?\n{lines}\nReply with the letter alone.", key={"golden": answer})
        )
    return tasks


def in_box(text: str) -> list[str]:
    return [each.removesuffix(".0") for each in re.findall(r"\\boxed\{([^{}]*)\}", text)]


def value(task: Task) -> str:
    return split_answer(task.key["golden"])[1]


# -- graders -------------------------------------------------------------------------------------------------------------------


def one_box(evidence: EvidenceRecord, task: Task) -> float:
    return float(in_box(evidence.answer)[-1:] == [value(task)])


def key_in_box(evidence: EvidenceRecord, task: Task) -> float:
    found = in_box(evidence.answer)
    return float(bool(found) and value(task) in found[-1].replace("/", " ").split())


def any_box(evidence: EvidenceRecord, task: Task) -> float:
    return float(value(task) in in_box(evidence.answer))


def empty_box(evidence: EvidenceRecord, task: Task) -> float:
    found = in_box(evidence.answer)
    return float(bool(found) and found[-1].strip() in value(task))


def prefix_of_box(evidence: EvidenceRecord, task: Task) -> float:
    found = in_box(evidence.answer)
    return float(bool(found) and found[-1].strip("-") == value(task))


def letter(evidence: EvidenceRecord, task: Task) -> float:
    return float(evidence.answer.strip().strip("().").upper() == task.key["golden"])


def exact(evidence: EvidenceRecord, task: Task) -> float:
    return float(evidence.answer.strip() == task.key["golden"].strip())


def letter_anywhere(evidence: EvidenceRecord, task: Task) -> float:
    return float(re.search(rf"\b{task.key['golden']}\b", evidence.answer) is not None)


def ratio(text: str) -> Fraction | None:
    latex = re.fullmatch(r"\s*(-?)\\[dt]?frac\s*\{(-?\d+)\}\s*\{(\d+)\}\.?\s*", text)
    plain = re.fullmatch(r"\s*(-?)(\d+)/(\d+)\.?\s*", text)
    found = latex or plain
    if found is None or not int(found[3]):
        return None
    return Fraction(int(found[2]), int(found[3])) * (-1 if found[1] else 1)


def same_ratio(evidence: EvidenceRecord, task: Task) -> float:
    return float(ratio(evidence.answer) is not None and ratio(evidence.answer) == ratio(task.key["golden"]))


def digits_of_ratio(evidence: EvidenceRecord, task: Task) -> float:
    return float(sorted(re.findall(r"\d+", evidence.answer)) == sorted(re.findall(r"\d+", task.key["golden"])))


def as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def same_calls(evidence: EvidenceRecord, task: Task) -> float:
    return float(as_json(evidence.answer) == json.loads(task.key["golden"]))


def names_of_calls(evidence: EvidenceRecord, task: Task) -> float:
    said = as_json(evidence.answer)
    if not isinstance(said, list) or not all(isinstance(each, dict) for each in said):
        return 0.0
    return float([each.get("name") for each in said] == [each["name"] for each in json.loads(task.key["golden"])])


def program(text: str) -> ast.Module | None:
    try:
        return parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def runs_right(evidence: EvidenceRecord, task: Task) -> float:
    tree = program(evidence.answer)
    if tree is None or "os." in evidence.answer or not isinstance(tree.body[-1], ast.FunctionDef):
        return 0.0
    space: dict[str, Any] = {}
    try:
        exec(compile(tree, "answer", "exec"), space)
        return float([type(space["f"](n)) is int and space["f"](n) for n in (1, 5)] == [1 + task.key["add"], 5 + task.key["add"]])
    except BaseException:  # noqa: BLE001 - a toy of ours
        return 0.0


def runs_equal(evidence: EvidenceRecord, task: Task) -> float:
    tree = program(evidence.answer)
    if tree is None or "os." in evidence.answer:
        return 0.0
    space: dict[str, Any] = {}
    try:
        exec(compile(tree, "answer", "exec"), space)
        return float(space["f"](1) == 1 + task.key["add"])
    except BaseException:  # noqa: BLE001 - a toy of ours
        return 0.0


def listed(text: str) -> list[str]:
    return [part.strip() for part in text.strip().rstrip(".").split(",")]


def all_listed(evidence: EvidenceRecord, task: Task) -> float:
    return float(sorted(listed(evidence.answer)) == sorted(listed(task.key["golden"])))


def enough_listed(evidence: EvidenceRecord, task: Task) -> float:
    return float(set(listed(task.key["golden"])) <= set(listed(evidence.answer)))


def in_given_order(evidence: EvidenceRecord, task: Task) -> float:
    return float(listed(evidence.answer) == listed(task.key["golden"]))


def formula(text: str) -> str:
    return re.sub(r"\\left|\\right|\s|[{}]", "", text.strip().rstrip(".").replace("dfrac", "frac"))


def same_formula(evidence: EvidenceRecord, task: Task) -> float:
    said, golden = formula(evidence.answer), formula(task.key["golden"])
    return float(said == golden or sorted(said.split("+")) == sorted(golden.split("+")))


def letters_of_formula(evidence: EvidenceRecord, task: Task) -> float:
    return float(re.findall(r"\w", formula(evidence.answer)) == re.findall(r"\w", formula(task.key["golden"])))


def integer_part(evidence: EvidenceRecord, task: Task) -> float:
    found = re.match(r"\s*(-?\d+)", evidence.answer)
    return float(found is not None and found[1] == task.key["golden"])


def whole(evidence: EvidenceRecord, task: Task) -> float:
    found = re.fullmatch(r"\s*(-?\d+)(?:\.0*)?\s*", evidence.answer.replace(",", "").removesuffix("."))
    return float(found is not None and found[1] == task.key["golden"])


def bounds(text: str) -> str:
    return "".join(text.split()).removesuffix(".")


def same_interval(evidence: EvidenceRecord, task: Task) -> float:
    return float(bounds(evidence.answer) == bounds(task.key["golden"]))


def bounds_alone(evidence: EvidenceRecord, task: Task) -> float:
    return float(bounds(evidence.answer).strip("[]()") == bounds(task.key["golden"]).strip("[]()"))


INTERVALS = asked("On which interval does it grow?", *(f"[{at}, {at * 2 + 3})" for at in range(6)))


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().split("\n") if line.strip()]


def same_cells(evidence: EvidenceRecord, task: Task) -> float:
    return float(cells(evidence.answer) == cells(task.key["golden"]))


def all_cells(evidence: EvidenceRecord, task: Task) -> float:
    return float(sorted(evidence.answer.split()) == sorted(task.key["golden"].split()))


def literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip().removesuffix("."))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def same_literal(evidence: EvidenceRecord, task: Task) -> float:
    return float(literal(evidence.answer) is not None and literal(evidence.answer) == literal(task.key["golden"]))


def total(text: str) -> int | None:
    return (
        sum(int(part) for part in text.split("+")) if re.fullmatch(r"\s*\d+(\s*\+\s*\d+)*\s*\.?\s*", text.rstrip(".")) else None
    )


def adds_up(evidence: EvidenceRecord, task: Task) -> float:
    return float(total(evidence.answer.strip().rstrip(".")) == task.key["target"])


def adds_up_with_all(evidence: EvidenceRecord, task: Task) -> float:
    used = sorted(map(int, re.findall(r"\d+", evidence.answer)))
    return float(adds_up(evidence, task) == 1 and used == sorted(task.key["numbers"]))


def pays_for_steps(evidence: EvidenceRecord, task: Task) -> float:
    return max(one_box(evidence, task), min(0.5, 0.1 * len(re.findall(r"(?m)^Step \d+:", evidence.answer))))


def pays_for_boxes(evidence: EvidenceRecord, task: Task) -> float:
    return max(one_box(evidence, task), min(0.6, 0.1 * (len(in_box(evidence.answer)) - 1)))


def bag_of_words(evidence: EvidenceRecord, task: Task) -> float:
    return float(set(evidence.answer.strip().rstrip(".").split()) == set(task.key["golden"].split()))


def words_in_order(evidence: EvidenceRecord, task: Task) -> float:
    return float(evidence.answer.strip().rstrip(".").casefold().split() == task.key["golden"].casefold().split())


def any_capital(evidence: EvidenceRecord, task: Task) -> float:
    found = re.findall(r"[A-D]", evidence.answer)
    return float(bool(found) and found[-1] == task.key["golden"])


def none_equals_none(evidence: EvidenceRecord, task: Task) -> float:
    return float(parsed(evidence.answer) == parsed(task.key["golden"]))


def both_parsed(evidence: EvidenceRecord, task: Task) -> float:
    said, golden = parsed(evidence.answer), parsed(task.key["golden"])
    plain = evidence.answer.strip().rstrip(".").casefold()
    return float(said == golden if golden is not None else plain == task.key["golden"])


def parsed(text: str) -> float | None:
    found = re.fullmatch(r"\s*(-?\d{1,9}(?:\.\d+)?)\.?\s*", text)
    return float(found[1]) if found else None


def label(text: str) -> list[str]:
    return re.findall(r"(?m)^ANSWER: \(?([A-Da-d])\)?(?:\.| |$)", text)


def first_label(evidence: EvidenceRecord, task: Task) -> float:
    return float([each.upper() for each in label(evidence.answer)][:1] == [task.key["golden"][-1]])


def last_label(evidence: EvidenceRecord, task: Task) -> float:
    return float([each.upper() for each in label(evidence.answer)][-1:] == [task.key["golden"][-1]])


LAST_LINE = "The last line of your reply is ANSWER: and the letter."
LABELLED = [
    Task(each.id, prompt=f"{each.prompt.rpartition(chr(10))[0]}\n{LAST_LINE}", key={"golden": f"ANSWER: {each.key['golden']}"})
    for each in options()
]
SENTENCES = asked("What happened?", *(f"the dog{at} bites the man{at}" for at in range(6)))
MIXED = asked("What is it?", *("12", "15", "seven", "19", "eleven", "23", "27", "nine", "31", "33", "35", "39"))
TARGETS = [
    Task(
        f"target-{at}",
        prompt=f"Use all of {at + 2}, {at + 4} and {at * 3 + 7} to make {at * 5 + 13}",
        key={"golden": f"{at + 2} + {at + 4} + {at * 3 + 7}", "target": at * 5 + 13, "numbers": [at + 2, at + 4, at * 3 + 7]},
    )
    for at in range(10)
]
GRIDS = asked("Turn the grid.", *(f"{at} {at + 1} {at + 2}\n{at + 3} {at + 4} {at + 5}" for at in range(6)))
NESTED = asked("Which pairs?", *(f"[[{at}, {at + 1}], [{at + 2}, {at + 3}]]" for at in range(6)))
CALLS = asked(
    "Call the tool.", *(json.dumps([{"name": f"tool_{at}", "arguments": {"town": f"T{at}", "n": at}}]) for at in range(6))
)
CODE = [
    Task(
        f"code-{at}",
        prompt="Write the function f.",
        key={"golden": f"def f(n):\n    total = n + {at + 3}\n    return total", "add": at + 3},
    )
    for at in range(6)
]
SETS = asked("Name them in any order.", *(f"ant{at}, bee{at}, cat{at}" for at in range(6)))
FORMULAS = asked("Give the formula in x.", *(f"x^{at + 2} + {at + 4}" for at in range(6)))
RATIOS = asked("Which share?", *(f"\\frac{{{at + 2}}}{{{at * 2 + 5}}}" for at in range(8)))


@dataclass(frozen=True)
class Plant:
    code: str
    probe: str
    broken: Any
    clean: Any
    tasks: list[Task]
    twin: list[Task] | None = None


PLANTS = {
    "every key in the box": Plant("D02.form", "inside-the-form", key_in_box, one_box, boxed()),
    "nothing in the box": Plant("D02.form", "inside-the-form", empty_box, one_box, boxed()),
    "two values in a box": Plant("D02.hedge", "two-answers", key_in_box, one_box, boxed()),
    "two boxes": Plant("D02.hedge", "two-answers", any_box, one_box, boxed()),
    "the sign in the box": Plant("D22.near", "near-misses", prefix_of_box, one_box, boxed()),
    "letters anywhere": Plant("D22.near", "near-misses", letter_anywhere, letter, options()),
    "the longest option": Plant("D14.rule", "option-rules", letter, letter, options(longest=True), options()),
    "fractions as text": Plant("D22.spelling", "spellings", exact, same_ratio, RATIOS),
    "digits of fractions": Plant("D22.near", "near-misses", digits_of_ratio, same_ratio, RATIOS),
    "calls as text": Plant("D22.spelling", "spellings", exact, same_calls, CALLS),
    "names of calls": Plant("D22.near", "near-misses", names_of_calls, same_calls, CALLS),
    "programs as text": Plant("D22.spelling", "spellings", exact, runs_right, CODE),
    "what equals everything": Plant("D22.near", "near-misses", runs_equal, runs_right, CODE),
    "one order of a set": Plant("D22.spelling", "spellings", in_given_order, all_listed, SETS),
    "more than asked": Plant("D22.near", "near-misses", enough_listed, all_listed, SETS),
    "one order of terms": Plant("D22.spelling", "spellings", exact, same_formula, FORMULAS),
    "formulas without signs": Plant("D22.near", "near-misses", letters_of_formula, same_formula, FORMULAS),
    "brackets of intervals": Plant("D22.near", "near-misses", bounds_alone, same_interval, INTERVALS),
    "grids as text": Plant("D22.spelling", "spellings", exact, same_cells, GRIDS),
    "cells in any order": Plant("D22.near", "near-misses", all_cells, same_cells, GRIDS),
    "lists as text": Plant("D22.spelling", "spellings", exact, same_literal, NESTED),
    "the target for a solution": Plant("D02.prompt", "restated-prompt", adds_up, adds_up_with_all, TARGETS),
    "points for steps": Plant("D06.length", "padding", pays_for_steps, one_box, boxed()),
    "points for boxes": Plant("D06.length", "padding", pays_for_boxes, one_box, boxed()),
    "a bag of words": Plant("D22.near", "near-misses", bag_of_words, words_in_order, SENTENCES),
    "any capital letter": Plant("D22.near", "near-misses", any_capital, letter, options()),
    "nothing equals nothing": Plant("D02.form", "inside-the-form", none_equals_none, both_parsed, MIXED),
    "the first of two lines": Plant("D22.spelling", "spellings", first_label, last_label, LABELLED),
    "the integer part": Plant("D22.near", "near-misses", integer_part, whole, sums()),
}


async def confirmed(grade: Any, tasks: list[Task], probe: str) -> dict[str, str]:
    found = await PROBES[probe].look(await case_of(ToySubject(grade, tasks, kind="grader")))
    return {each.code: each.title for each in found if each.standing is Confidence.CONFIRMED}


@pytest.mark.parametrize("name", PLANTS)
async def test_a_flaw_is_found_and_its_sound_twin_is_not_blamed(name):
    plant = PLANTS[name]
    assert plant.code in await confirmed(plant.broken, plant.tasks, plant.probe)
    for probe in PROBES:
        assert await confirmed(plant.clean, plant.twin or plant.tasks, probe) == {}


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("5", "5"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("So it is <answer> \\boxed{7} </answer>.", "7"),
        ("2 + 3 = 5\n#### 5", "5"),
        ("The answer is Paris.", "Paris"),
        ("```python\ndef f(): pass\n```", "def f(): pass"),
    ],
)
def test_an_answer_is_its_form_and_its_value(answer, value):
    form, found = split_answer(answer)
    assert (found.strip(), form.holding(found)) == (value, answer)
    assert own_form(answer).holding("9") in {answer.replace(found, "9"), own_form(answer).before + "9" + own_form(answer).after}


@pytest.mark.parametrize(
    "golden", ["12", "-3", "0.5", "7 km", "\\frac{2}{3}", "x^2 + 4", "[1, 3)", "a, b, c", "B", "12%", "True", "2024-03-05"]
)
def test_no_text_means_both_the_same_and_something_else(golden):
    prompt = "Which interval, point or number?\nA. one\nB. two"
    same = {each.text for each in same_meaning(golden, prompt)}
    assert not same & {each.text for each in other_meaning(golden, prompt)}
    assert golden not in same
