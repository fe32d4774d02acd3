"""`sandlot audit --fix`: a change is proposed only if the witness loses and right work does not; files stay as they are."""

import json
from pathlib import Path

import pytest

from sandlot.audit.finding import Confidence
from sandlot.audit.repair.copies import base_of
from sandlot.audit.repair.repair import Repair, repair_async
from sandlot.audit.subjects.named import SubjectOptions
from sandlot.core.errors import ConfigError

pytestmark = pytest.mark.timeout(300)
TASKS = [("What is 2 + 3?", "5"), ("What is 10 + 7?", "17"), ("What is 20 + 22?", "42"), ("What is 8 + 1?", "9")]
INSIDE = """def score(answer: str, expected: str) -> float:
    return 1.0 if expected in answer else 0.0
"""
CRASHES = """def score(answer: str, expected: str) -> float:
    return 1.0 if float(answer) == float(expected) else 0.0
"""
RANDOM = """import random


def score(answer: str, expected: str) -> float:
    return float(answer.strip() == expected and random.random() < 0.5)
"""


def written(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> SubjectOptions:
    (folder / "grading.py").write_text(text)
    lines = [json.dumps({"prompt": f"{prompt} Reply with the number alone.", "answer": answer}) for prompt, answer in TASKS]
    (folder / "tasks.jsonl").write_text("\n".join(lines))
    monkeypatch.chdir(folder)
    return SubjectOptions(grader="grading:score", tasks="tasks.jsonl", without_sandbox=True)


async def repaired(subject: SubjectOptions, *probes: str, write: bool = False) -> Repair:
    audit, repair = await repair_async(subject, probes=probes, write=write, runs=None)
    assert any(finding.standing is Confidence.CONFIRMED for finding in audit.findings)
    return repair


async def test_a_key_that_was_searched_for_is_compared_and_nothing_is_written(tmp_path, monkeypatch):
    repair = await repaired(written(tmp_path, INSIDE, monkeypatch), "hollow-answers", "spellings", "near-misses")
    assert [kept.code for kept in repair.kept] != []
    assert "-    return 1.0 if expected in answer else 0.0\n" in repair.diff
    assert repair.left == ()
    assert (tmp_path / "grading.py").read_text() == INSIDE


async def test_a_crash_becomes_not_met_and_is_written_on_request(tmp_path, monkeypatch):
    repair = await repaired(written(tmp_path, CRASHES, monkeypatch), "odd-answers", "spellings", write=True)
    assert repair.written
    assert "except ValueError:" in (tmp_path / "grading.py").read_text()


async def test_what_no_change_removes_is_left_to_a_person(tmp_path, monkeypatch):
    repair = await repaired(written(tmp_path, RANDOM, monkeypatch), "same-again")
    assert (repair.kept, repair.diff) == ((), "")
    assert "a person must decide which rule replaces chance" in repair.left[0].decide


def test_what_is_installed_is_not_changed():
    with pytest.raises(ConfigError, match="is installed"):
        base_of(SubjectOptions(env="arithmetic"))
