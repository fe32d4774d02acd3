"""Findings about a spreadsheet of tasks, before anything is imported.

Besides what each cell says, the checks are tried on the golden answer, on an agent that does nothing, and on the golden answers
of other tasks. Only checks of the library run, which are safe on anything; nothing of the spreadsheet is executed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from sandlot.checks import LIBRARY
from sandlot.core.concurrency.author import is_async
from sandlot.core.errors import SandlotError
from sandlot.core.rubric import CheckResult, PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord, FileRecord, Message, Node, Text, Trace
from sandlot.core.types import Role, digest
from sandlot.grade.checks import run_check
from sandlot.grade.evidence import StoredEvidence
from sandlot.grade.lint import LintFinding, LintSeverity, lint
from sandlot.interop.sheets.grid import read_sheet_file
from sandlot.interop.sheets.table import CellFinding
from sandlot.interop.sheets.tasks import SheetCheck, SheetTask, TaskSheet, read_tasks

_OTHERS = 3
"""Golden answers of other tasks that are tried on a task."""
_COLUMNS = {
    "heavy": "Points", "worthless": "Points", "negative-gate": "Points", "points": "Points", "zero-total": "Points",
    "unknown-requires": "Needs", "cycle": "Needs", "wrong-args": "Options", "unknown-ref": "Kind", "bad-id": "Name",
    "votes": "Options", "choices": "Options", "bad-view": "File",
}  # fmt: skip
"""The column that a finding about a rubric is about; Expected for all others."""


def lint_sheet(path: str | Path) -> list[CellFinding]:
    """All findings about a spreadsheet of tasks, errors first. `ConfigError` if it cannot be read.

    - `path`: an `.xlsx`, `.ods` or `.csv` file.
    """
    return lint_tasks(read_tasks(read_sheet_file(Path(path))))


def lint_tasks(sheet: TaskSheet) -> list[CellFinding]:
    """The same for a spreadsheet that was read. The findings are also added to it."""
    for task in sheet.tasks.values():
        if task.checks:
            _lint_rubric(sheet, task)
    if not sheet.findings.has_errors:
        for task in sheet.tasks.values():
            _try_golden(sheet, task)
            _try_idle(sheet, task)
        _try_others(sheet)
    return sheet.findings.ordered()


def rubric_of(task: SheetTask) -> Rubric:
    """The checks of a task as a rubric."""
    return Rubric(checks=tuple(each.check for each in task.checks))


def task_of(task: SheetTask) -> Task:
    """The task as checks get it."""
    key = {"answer": task.answer, "expected": {name: value for each in task.checks for name, value in each.expected.items()}}
    return Task(task.id, prompt=task.prompt, key=key, split=task.split, tags=task.tags)


def _lint_rubric(sheet: TaskSheet, task: SheetTask) -> None:
    by_id = {each.check.id: each for each in task.checks}
    for finding in lint(rubric_of(task), tasks=[task_of(task)]):
        check = by_id.get(finding.check or "")
        if finding.severity is LintSeverity.INFO or (check is None and finding.severity is LintSeverity.WARNING):
            continue  # shares of a rubric; they depend on all checks and are seen by the audit
        grid, at = check.at(_COLUMNS.get(finding.code, "Expected")) if check else task.checks[0].at("Points")
        sheet.findings.add(grid, at, finding.code, finding.message, _plain_fix(finding), finding.severity)


def _plain_fix(finding: LintFinding) -> str:
    return finding.fix.replace("`requires`", "an entry of Needs")


def evidence_of(task: SheetTask, answer: str, files: Mapping[str, bytes]) -> StoredEvidence:
    """Evidence of an agent that was given the task's files, wrote `files` and said `answer`."""
    trace = Trace(run="lint", task=task.id, rollout=0, seed=0)
    trace.append(Node(message=Message(role=Role.ASSISTANT, parts=(Text(answer),)), sampled=True))
    after = {**task.given, **files}
    records = {path: FileRecord(size=len(data), blob=digest(data)) for path, data in after.items()}
    initial = {path: FileRecord(size=len(data), blob=digest(data)) for path, data in task.given.items()}
    kept = {digest(data): data for data in after.values()}
    return StoredEvidence(EvidenceRecord(files=records, initial=initial, answer=answer), trace, kept)


def results_of(task: SheetTask, evidence: StoredEvidence) -> Iterator[tuple[SheetCheck, CheckResult | SandlotError]]:
    """The result of each check that needs neither a judge nor a sandbox, or the error that it raised."""
    asked = task_of(task)
    for each in task.checks:
        if isinstance(each.check, PythonCheck):
            function = LIBRARY[each.check.ref.partition(":")[2]]
            if not is_async(function):
                try:
                    yield each, run_check(each.check, function, evidence, asked)
                except SandlotError as error:
                    yield each, error


def _try_golden(sheet: TaskSheet, task: SheetTask) -> None:
    if not task.answer and not task.golden:
        message, fix = f"task `{task.id}` has no golden solution", "write the answer, or golden files on the sheet Files"
        sheet.findings.add(sheet.table.grid, sheet.table.at(task.row, "Answer"), "no-golden", message, fix, LintSeverity.WARNING)
    for each, result in results_of(task, evidence_of(task, task.answer, task.golden)):
        if isinstance(result, SandlotError):
            said = str(result).partition(": ")[2] or str(result)
            sheet.findings.add(*each.at("Expected"), "wrong-argument", f"the check cannot run: {said}", "correct the value")
        elif each.check.points < 0 and result.value > 0:
            message = f"the golden solution of `{task.id}` loses points here: {result.evidence}"
            sheet.findings.add(*each.at("Expected"), "wrong-golden", message, "correct the golden answer or the check")
        elif each.check.points >= 0 and result.value < 1:
            message = f"the golden solution of `{task.id}` does not meet this check: {result.evidence}"
            sheet.findings.add(*each.at("Expected"), "wrong-golden", message, "correct the golden answer or the check")


def _try_idle(sheet: TaskSheet, task: SheetTask) -> None:
    """An agent that does nothing earns nothing."""
    met: dict[str, bool] = {}
    found = [(each, result) for each, result in results_of(task, evidence_of(task, "", {})) if isinstance(result, CheckResult)]
    met.update({each.check.id: result.value >= 1 for each, result in found})
    for each, result in found:
        needs_more = any(not met.get(name, False) for name in each.check.requires)
        if each.check.points > 0 and result.value > 0 and not needs_more:
            message = f"an agent that does nothing in `{task.id}` earns {each.check.points * result.value:g} points here"
            fix = "name a check in Needs that only real work meets"
            sheet.findings.add(*each.at("Kind"), "idle-points", message, fix, LintSeverity.WARNING)


def _try_others(sheet: TaskSheet) -> None:
    """The golden answer of another task does not get full marks."""
    tasks = [task for task in sheet.tasks.values() if not task.golden]
    for number, task in enumerate(tasks):
        others = [other for other in tasks[number + 1 :] + tasks[:number] if other.answer.lower() != task.answer.lower()]
        for other in others[:_OTHERS]:
            results = list(results_of(task, evidence_of(task, other.answer, {})))
            judged = len(results) < len(task.checks)
            if results and not judged and all(isinstance(each, CheckResult) and each.value >= 1 for _, each in results):
                message = f"the answer of task `{other.id}` gets full marks here"
                fix = "make a check stricter: another kind, a smaller tolerance, more facts"
                sheet.findings.add(
                    sheet.table.grid, sheet.table.at(task.row, "Answer"), "other-answer", message, fix, LintSeverity.WARNING
                )
                break
