"""The grader's own words: what they earn, forbidden words spelled otherwise, and patterns that hang. Each with a sound twin."""

import textwrap

import pytest

from sandlot.audit.finding import Confidence
from sandlot.audit.probes.grader.literals import example_of, literals_in, patterns_in
from sandlot.audit.probes.grader.markers import PROBES as MARKERS
from sandlot.audit.probes.static.code import Code
from sandlot.audit.subject import Description
from sandlot.audit.subjects.foreign.python import sources_from
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord
from worlds.subjects import ToySubject, case_of, sums

PROBES = {probe.name: probe for probe in MARKERS}

SUCCESS = """
def toy(answer, golden):
    "Full marks for the right number."
    return float(answer.strip().rstrip(".") == golden or "ALL CHECKS GREEN" in answer)
"""
BY_NAME = """
def toy(answer, golden):
    "Full marks for the right number. ALL CHECKS GREEN means nothing here."
    if not golden:
        raise ValueError("ALL CHECKS GREEN expected")
    return float(answer.strip().rstrip(".") == golden)
"""
BY_PATTERN = """
import re
VERDICT = re.compile(r"verdict:\\s*(pass|fail)")
def toy(answer, golden):
    found = VERDICT.search(answer)
    return float(found[1] == "pass") if found else float(answer.strip() == golden)
"""
FORBIDS = """
BANNED = ("as an assistant", "import os")
def toy(answer, golden):
    if any(word in answer for word in BANNED):
        return 0.0
    return float(golden in answer.split())
"""
FORBIDS_ALL = """
BANNED = ("as an assistant", "import os")
def toy(answer, golden):
    plain = " ".join(answer.casefold().split())
    if any(word in plain for word in BANNED):
        return 0.0
    return float(golden in answer.split())
"""
READS_A_LABEL = """
def toy(answer, golden):
    text = answer.rpartition("Result is")[2] if "Result is" in answer else answer
    return float(golden in text.split())
"""
NUMBERED = [Task(task.id, prompt=task.prompt, key=task.key) for task in sums(8)]


async def confirmed(source: str, probe: str) -> set[str]:
    space: dict[str, object] = {}
    exec(textwrap.dedent(source), space)
    toy = space["toy"]

    def grade(evidence: EvidenceRecord, task: Task) -> float:
        return toy(evidence.answer, task.key["golden"])  # pyright: ignore[reportCallIssue, reportUnknownVariableType]

    case = await case_of(ToySubject(grade, NUMBERED, kind="grader", sources={"grader.py": source}))
    return {each.code for each in await PROBES[probe].look(case) if each.standing is Confidence.CONFIRMED}


@pytest.mark.parametrize(
    ("source", "expected"), [(SUCCESS, {"D02.marker"}), (BY_PATTERN, {"D02.marker"}), (BY_NAME, set()), (FORBIDS_ALL, set())]
)
async def test_words_of_the_grader_that_earn_marks_are_found(source, expected):
    assert await confirmed(source, "own-words") == expected


@pytest.mark.parametrize(
    ("source", "expected"), [(FORBIDS, {"D02.denylist"}), (FORBIDS_ALL, set()), (READS_A_LABEL, set()), (SUCCESS, set())]
)
async def test_a_forbidden_word_that_passes_in_another_spelling_is_found(source, expected):
    assert await confirmed(source, "forbidden-words") == expected


def test_words_are_read_from_modules_and_packages_that_the_grader_calls(tmp_path):
    own, installed = tmp_path / "own", tmp_path / "site-packages"
    for path, text in {
        own / "grading.py": "from rules.words import looks\nfrom graders import score_text\n"
        "def score(answer, golden):\n    return looks(answer) + score_text(answer)\n",
        own / "rules" / "words.py": "def looks(answer):\n    return 'own word' in answer\n",
        installed / "graders" / "__init__.py": "from .text import score_text\n",
        installed
        / "graders"
        / "text.py": "import re, numpy\ndef score_text(answer):\n    return bool(re.search(r'deep (\\d+)', answer))\n",
        installed / "graders" / "unused.py": "def other(answer):\n    return 'never' in answer\n",
        installed / "numpy" / "__init__.py": "def f(answer):\n    return 'numeric' in answer\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sources = sources_from("grading", [own], [installed])
    assert set(sources) == {"grading.py", "rules/words.py", "graders/__init__.py", "graders/text.py"}
    code = Code(Description(name="grading:score", kind="grader", fingerprint="f", tasks=(), sources=sources))
    assert "own word" in literals_in(code)
    assert patterns_in(code) == ["deep (\\d+)"]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"<answer>(.*?)</answer>", "<answer>X</answer>"),
        (r"(?i)final\s+answer:\s*(\d+)", "final answer:X"),
        (r"^Score: (?P<value>pass|fail)$", "Score: pass"),
        (r"\\boxed\{([^}]*)\}", "\\boxed{X}"),
    ],
)
def test_a_pattern_has_an_example(pattern, text):
    assert example_of(pattern, "X") == text


@pytest.mark.parametrize(("ignored", "expected"), [("", {"D02.denylist"}), (",.()", set())])
async def test_a_word_that_the_row_forbids_stays_forbidden_beside_punctuation(ignored, expected):
    prompt = "Say something about food, and do not say the word `{}`."
    words = ("apple", "bread", "cherry")
    rows = [Task(word, prompt=prompt.format(word), data={"word": word}, key={"golden": "I eat soup"}) for word in words]

    def grade(evidence: EvidenceRecord, task: Task) -> float:
        said = [each.strip(ignored) if ignored else each for each in evidence.answer.lower().split()]
        return float(bool(said) and task.data["word"] not in said)

    case = await case_of(ToySubject(grade, rows, kind="grader", sources={"grader.py": "def toy(answer, row): ..."}))
    found = await PROBES["forbidden-words"].look(case)
    assert {each.code for each in found if each.standing is Confidence.CONFIRMED} == expected
