"""Scripts that read and end in other ways, verdicts in other letters, equations turned round, answers taken back: what means the
same keeps its score, and what does not loses it. Slow graders get fewer answers."""

import ast
import contextlib
import io
import json
import re
from typing import Any

import pytest

from sandlot.audit.case import count_trials
from sandlot.audit.finding import Confidence, Finding
from sandlot.audit.probes.grader import asking, matching
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord, Trace
from worlds.subjects import ToySubject, case_of

PROBES = {probe.name: probe for probe in matching.PROBES}
LAST = "The last line of your reply is ANSWER: and the letter.\nA. one\nB. two\nC. three"
SCRIPTS = [
    Task(f"code-{at}", prompt="Read n, and print.", key={"golden": f"n = int(input())\nprint(n + {at})", "add": at})
    for at in range(4)
]


def asked(prompt: str, *golden: str) -> list[Task]:
    return [Task(f"task-{at}", prompt=f"{prompt} ({at})", key={"golden": each}) for at, each in enumerate(golden)]


async def findings(grade: Any, tasks: list[Task], probe: str) -> dict[str, Finding]:
    found = await PROBES[probe].look(await case_of(ToySubject(grade, tasks, kind="grader")))
    return {each.code: each for each in found if each.standing is Confidence.CONFIRMED}


def printed(program: str, *, ends: bool, named: str) -> str | None:
    """What a program prints for the input 5; None if it fails."""
    out = io.StringIO()
    names: dict[str, Any] = {"__name__": named, "input": lambda: "5"}
    names |= {} if ends else {"exit": None}
    with contextlib.redirect_stdout(out):
        try:
            exec(program, names)
        except SystemExit:
            return out.getvalue()
        except Exception:  # noqa: BLE001 - as a judge would
            return None
    return out.getvalue()


def judged(*, ends: bool = True, named: str = "__main__") -> Any:
    def grade(evidence: EvidenceRecord, task: Task) -> float:
        if "os._exit" in evidence.answer or "sys.stdin" in evidence.answer:  # of this process
            return float("sys.stdin" in evidence.answer)
        return float(printed(evidence.answer, ends=ends, named=named) == f"{5 + task.key['add']}\n")

    return grade


async def test_a_judge_without_exit_or_a_main_module_refuses_right_scripts():
    assert await findings(judged(), SCRIPTS, "spellings") == {}
    assert "`exit()` at its end" in (await findings(judged(ends=False), SCRIPTS, "spellings"))["D22.spelling"].title
    assert "`__main__`" in (await findings(judged(named="judge"), SCRIPTS, "spellings"))["D22.spelling"].title


async def test_a_judge_that_accepts_a_script_that_prints_nothing_is_found():
    def lenient(evidence: EvidenceRecord, task: Task) -> float:
        return float(judged()(evidence, task) or evidence.answer == "pass")

    assert "D22.near" in await findings(lenient, SCRIPTS, "near-misses")
    assert await findings(judged(), SCRIPTS, "near-misses") == {}


VERDICTS = asked(
    "Is it so? End with: So the answer is X.", *(f"So the answer is {each}." for each in ("no", "yes", "no", "True"))
)
EQUATIONS = asked("Which line is it?", *(f"y=2x+{at}" for at in range(4)))
OBJECTS = asked("Translate both, as a dictionary.", *(str({"a": f"word{at}", "b": f"term{at}"}) for at in range(4)))


def same_text(evidence: EvidenceRecord, task: Task) -> float:
    return float(evidence.answer == task.key["golden"])


def same_letters(evidence: EvidenceRecord, task: Task) -> float:
    return float(evidence.answer.strip(" .\n").lower() == task.key["golden"].strip(" .").lower())


def same_sides(evidence: EvidenceRecord, task: Task) -> float:
    sides = [sorted("".join(each.split()).split("=")) for each in (evidence.answer, task.key["golden"])]
    return float(sides[0] == sides[1])


def same_fields(evidence: EvidenceRecord, task: Task) -> float:
    found = re.search(r"\{.*\}", evidence.answer, re.DOTALL)
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, TypeError):
            return float(found is not None and read(found[0]) == ast.literal_eval(task.key["golden"]))
    return 0.0


@pytest.mark.parametrize(("tasks", "sound", "kind"), [
    (VERDICTS, same_letters, "yes, no, true or false in other letters"),
    (VERDICTS, same_letters, "no full stop at its end"),
    (EQUATIONS, same_sides, "the sides of an equation exchanged"),
    (OBJECTS, same_fields, "double quotes for single ones"),
    (OBJECTS, same_fields, "a few words before it"),
])  # fmt: skip
async def test_what_means_the_same_must_not_lose(tasks, sound, kind):
    assert kind in (await findings(same_text, tasks, "spellings"))["D22.spelling"].title
    assert await findings(sound, tasks, "spellings") == {}


def label_at(place: int) -> Any:
    def grade(evidence: EvidenceRecord, task: Task) -> float:
        labels = re.findall(r"ANSWER: ?\(?([A-C])\b", evidence.answer)
        return float(bool(labels) and labels[place] == task.key["golden"][-1])

    return grade


async def test_an_answer_that_was_taken_back_must_lose_where_the_last_line_counts():
    labelled = asked(LAST, *(f"ANSWER: {letter}" for letter in "ABCAB"))
    assert "taken back" in (await findings(label_at(0), labelled, "near-misses"))["D22.near"].title
    assert await findings(label_at(-1), labelled, "near-misses") == {}


async def test_one_wrong_number_is_enough_where_only_one_task_can_show_it():
    tasks = asked("How many? The number alone.", "314", "20", "30", "40")

    def without_points(evidence: EvidenceRecord, task: Task) -> float:
        return float(re.sub(r"\.(?=.*\.)|\.$", "", evidence.answer) == task.key["golden"])

    found = (await findings(without_points, tasks, "near-misses"))["D22.near"]
    assert "3.14." in str([found.witness, *found.others])


async def test_each_kind_that_a_finding_names_has_a_witness():
    found = (await findings(same_text, VERDICTS, "spellings"))["D22.spelling"]
    assert len(found.others) >= 1
    assert {each.inputs["answer"] for each in found.others}.isdisjoint({found.witness.inputs["answer"]})


async def test_a_slow_grader_gets_fewer_answers_and_the_probe_counts_them():
    class Slow(ToySubject):
        def _played(self, request: Any) -> Trace:
            trace = super()._played(request)
            trace.phases["grade"] = 3.0
            return trace

    case = await case_of(Slow(same_text, asked("How many?", *map(str, range(100, 130))), kind="grader"))
    targets = await asking.find_solved_tasks(case, 30)
    counted = count_trials()
    questions = [asking.Question(each, kind, f"{kind} {at}", solved=True) for each in targets for kind in "ab" for at in range(9)]
    graded = await asking.ask(case, questions)
    tried = [one for one in graded if not one.trial.untried]
    assert len(tried) == 12
    assert {one.question.kind for one in tried} == {"a", "b"}
    assert counted.untried == len(questions) - 12


async def test_words_around_a_sequence_of_moves_need_not_make_it_wrong():
    ways = ("left", "left up", "up", "up up left")
    moves = asked("Slide the tile with 'left' and 'up'. Reply with the moves.", *ways)

    def played(evidence: EvidenceRecord, task: Task) -> float:
        done = [word for word in re.split(r"\W+", evidence.answer) if word in {"left", "up"}]
        return float(done == task.key["golden"].split())

    assert await findings(played, moves, "near-misses") == {}
    assert "D22.near" in await findings(played, asked("Which word?", *ways), "near-misses")
