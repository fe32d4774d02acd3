"""Probes that need no golden answer: code that runs answers, order, crashes and range. Real workers, without a sandbox."""

import json
import sys
import textwrap
from pathlib import Path

import pytest

from sandlot.audit.case import Case
from sandlot.audit.finding import Confidence, Layer
from sandlot.audit.layers import AuditSelection, run_probes
from sandlot.audit.probes.panel import GRADER
from sandlot.audit.subjects.foreign.grader import GraderConfig, open_grader
from sandlot.audit.subjects.foreign.worker import Budget
from sandlot.audit.verdict import State
from sandlot.observe.events import ignore_event

LINES = [
    {"prompt": f"What is {at} and {at + 4}? Put it into \\boxed{{}}.", "answer": f"\\boxed{{{2 * at + 4}}}"} for at in range(3, 9)
]
OPEN = [{"prompt": line["prompt"]} for line in LINES]

IN_BOX = """
    import ast, re
    def value(text):
        found = re.findall(r"\\\\boxed\\{([^{}]*)\\}", text)
        return found[-1] if found else ""
"""
EVALUATES = f"""{IN_BOX}
    def grade(answer, golden):
        try:
            return float(eval(value(answer)) == eval(value(golden)))
        except Exception:
            return 0.0
"""
EVALUATES_WITHOUT_NAMES = EVALUATES.replace("eval(value(answer))", "eval(value(answer), {'__builtins__': {}})")
PARSES = f"""{IN_BOX}
    def grade(answer, golden):
        try:
            return float(ast.literal_eval(value(answer)) == ast.literal_eval(value(golden)))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return 0.0
"""
RUNS_A_SHELL = f"""{IN_BOX}
    import subprocess
    def grade(answer, golden):
        said = subprocess.run(f"printf %s {{value(answer)}}", shell=True, capture_output=True, text=True).stdout
        return float(said == value(golden))
"""
ADDS_UP = f"""{IN_BOX}
    seen = dict()
    def grade(answer, golden):
        first = seen.setdefault(golden, answer)
        return float(value(answer) == value(golden) and (first == answer))
"""
CRASHES = """
    def grade(answer, prompt):
        return float(len(answer) % int(answer or "7") == 0) if answer.isdecimal() else 0.0
"""
TOO_MUCH = """
    def grade(answer, prompt):
        return len(answer) / 100
"""
SOUND = """
    def grade(answer, prompt):
        return min(1.0, len(answer.strip()) / 100)
"""


def config_of(tmp_path: Path, code: str, lines: list[dict[str, str]], mapping: str = "{answer} {golden}") -> GraderConfig:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "grader.py").write_text(textwrap.dedent(code))
    (tmp_path / "tasks.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    return GraderConfig(
        grader="grader:grade",
        tasks=str(tmp_path / "tasks.jsonl"),
        map=mapping,
        path=(str(folder),),
        python=sys.executable,
        budget=Budget(trial_s=2),
    )


async def findings(config: GraderConfig, *probes: str) -> tuple[set[str], State]:
    """The codes of what is confirmed, and how the layer of graders went."""
    async with open_grader(config, without_sandbox=True) as subject:
        about = await subject.describe()
        case = Case(subject=subject, description=about, tasks=about.tasks)
        panel = [probe for probe in GRADER if probe.name in probes]
        layers, found = await run_probes(case, panel, AuditSelection(layers=frozenset({Layer.GRADER})), ignore_event)
    states = {report.layer: report.state for report in layers}
    return {each.code for each in found if each.standing is Confidence.CONFIRMED}, states[Layer.GRADER]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (EVALUATES, {"D02.evaluated"}),
        (EVALUATES_WITHOUT_NAMES, {"D02.evaluated"}),
        (RUNS_A_SHELL, {"D02.evaluated"}),
        (PARSES, set()),
    ],
)
async def test_a_grader_that_runs_answers_is_found_and_one_that_parses_them_is_not(tmp_path, code, expected):
    found, _ = await findings(config_of(tmp_path, code, LINES), "evaluated-answers")
    assert found == expected


@pytest.mark.parametrize(("code", "expected"), [(ADDS_UP, {"D05.order"}), (PARSES, set())])
async def test_a_score_that_depends_on_earlier_answers_is_found(tmp_path, code, expected):
    found, _ = await findings(config_of(tmp_path, code, LINES), "any-order")
    assert found == expected


@pytest.mark.parametrize(
    ("code", "expected"), [(CRASHES, {"D09.crash"}), (TOO_MUCH, {"D06.range"}), (SOUND, set()), (EVALUATES, {"D02.evaluated"})]
)
async def test_without_golden_answers_some_probes_run_and_the_layer_stays_unfinished(tmp_path, code, expected):
    mapping = "{answer} {prompt}"
    probes = ("odd-answers", "reward-range", "same-again", "any-order", "evaluated-answers", "near-misses")
    found, state = await findings(config_of(tmp_path, code, OPEN, mapping), *probes)
    assert found == expected
    assert state is State.COULD_NOT_RUN
