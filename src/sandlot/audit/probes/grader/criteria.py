"""Checks that are always met, whatever the agent did.

Each check grades golden work, no work, part of the work, every value of the state altered, every file garbled and a wrong
answer. A check that all of these meet reads none of it. Traces are not altered, so a check that reads the trace stays a lead.
"""

import ast
import copy
from random import Random
from typing import Any, cast

from sandlot.audit.case import Case, Probe, regrade_changed, regrade_with_answer
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.grader.asking import NONSENSE, SolvedTask, find_solved_tasks, needs_golden
from sandlot.audit.probes.grader.objects import map_values
from sandlot.audit.probes.grader.rungs import rungs
from sandlot.audit.probes.likeness import EPSILON
from sandlot.audit.subject import Regrade, Trial
from sandlot.core.rubric import CheckResult, CheckVerdict, PythonCheck
from sandlot.core.syntax import parse_python
from sandlot.core.trace import FileRecord
from sandlot.core.types import digest

_ENOUGH = 4
"""Fewest works that a check must have graded."""


async def _look_at_criteria(case: Case) -> list[Finding]:
    """Every check fails for some work."""
    some = await find_solved_tasks(case, 6)
    works = [(target, request) for target in some for request in _spoiled_works(target, Random(case.seed))]  # noqa: S311 - seeded
    trials = await case.take([request for _, request in works])
    graded: dict[str, list[Trial]] = {target.task.id: [target.golden, target.idle] for target in some}
    for (target, _), trial in zip(works, trials, strict=True):
        graded[target.task.id].append(trial)
    seen: dict[str, list[CheckResult] | None] = {}
    for each in graded.values():
        for check in each[0].score.checks if each[0].score else ():
            results = _results(check.id, each)
            before = seen.get(check.id, [])
            seen[check.id] = None if results is None or before is None else [*before, *results]
    enough = [results for results in seen.values() if results and len(results) >= _ENOUGH]
    return [
        _finding(case, some, results)
        for results in enough
        if all(result.worth > 0 and result.value >= 1 - EPSILON for result in results)
    ]


def _results(check: str, trials: list[Trial]) -> list[CheckResult] | None:
    """A check's results for every work of a task; None if one is missing because grading failed or skipped it."""
    found: list[CheckResult] = []
    for trial in trials:
        result = next((each for each in (trial.score.checks if trial.score else ()) if each.id == check), None)
        if result is None or result.verdict is CheckVerdict.SUPPRESSED:
            return None
        found.append(result)
    return found


def _spoiled_works(target: SolvedTask, rng: Random) -> list[Regrade]:
    """The golden work, spoiled in several ways. An answer that no check reads is not changed alone: the trials are there."""
    golden = target.golden
    garbage = b"\x00garbled\xff"
    garbled = {path: FileRecord(size=len(garbage), blob=digest(garbage)) for path in golden.evidence.files}
    answers = [regrade_with_answer(golden, NONSENSE), regrade_with_answer(target.idle, "")] if target.reads_answer else []
    return [
        *answers,
        regrade_changed(golden, files={}),
        regrade_changed(golden, {digest(garbage): garbage}, files=garbled, answer=NONSENSE),
        *(regrade_changed(golden, state=state) for state in _altered_states(golden.evidence.state)),
        *(rung.request for rung in rungs(target, rng)[-2:]),
    ]


def _altered_states(state: Any) -> list[Any]:
    """The state with every value changed, with every value blank, and with every collection empty."""
    if not isinstance(state, dict | list):
        return []
    return [map_values(state, other) for other in (_other_value, _empty_value)] + [_without_content(state)]


def _other_value(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1_000_003
    return "Zvqx" if isinstance(value, str) else value


def _empty_value(value: Any) -> Any:
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return -1
    return "" if isinstance(value, str) else value


def _without_content(state: Any) -> Any:
    if isinstance(state, list):
        return []
    emptied = copy.copy(cast("dict[Any, Any]", state))
    for name, value in emptied.items():
        if isinstance(value, dict | list):
            emptied[name] = type(cast("Any", value))()
    return emptied


def _finding(case: Case, some: list[SolvedTask], results: list[CheckResult]) -> Finding:
    check = results[0]
    idle = next((target for target in some if _met(target.idle, check.id)), some[0])
    possible = idle.golden.score.possible if idle.golden.score else 1.0
    graded = "golden work with every value of the state, every file and the answer altered"
    witness = Witness(
        inputs={"task": idle.task.id, "graded": graded},
        expected=f"`{check.id}` is not met by some of them",
        observed=f"met by all {len(results)}",
    )
    return make_finding(
        "D21.always",
        f"check `{check.id}` is always met: by golden, idle and spoiled work ({len(results)} tried)",
        witness,
        severity=Severity.HIGH if check.worth / possible > 0.05 else Severity.LOW,
        sure=not _reads_conduct(case, check.id),
        task=idle.task.id,
        check=check.id,
        count=len(results),
    )


def _met(trial: Trial, check: str) -> bool:
    return any(result.id == check and result.value >= 1 - EPSILON for result in (trial.score.checks if trial.score else ()))


def _reads_conduct(case: Case, check: str) -> bool:
    """True if the check's code reads the trace, or cannot be found."""
    names = {check}
    for rubric in case.description.rubrics.values():
        names |= {each.ref.rpartition(":")[2] for each in rubric.checks if isinstance(each, PythonCheck) and each.id == check}
    texts: list[str] = []
    for source in case.description.sources.values():
        try:
            tree = parse_python(source)
        except SyntaxError:
            continue
        texts += [
            ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in names
        ]
    return not texts or any("trace" in text or "penalties" in text for text in texts)


def _has_checks(case: Case) -> str | None:
    if case.description.kind == "grader":
        return "a grader function has no checks"
    return needs_golden(case)


PROBES = (Probe("dead-criteria", Layer.GRADER, ("D21",), _look_at_criteria, _has_checks),)
