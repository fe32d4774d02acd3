"""What the agent and the grader will see of a task in a spreadsheet, before it is imported."""

from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import CheckResult, JudgeCheck
from sandlot.grade.checks import substitute_values
from sandlot.grade.rules import possible_points
from sandlot.interop.sheets.importer import settings_of
from sandlot.interop.sheets.lint import evidence_of, results_of, rubric_of, task_of
from sandlot.interop.sheets.tasks import SheetTask, TaskSheet


class CheckPreview(msgspec.Struct, frozen=True, kw_only=True):
    """One check as the grader sees it."""

    id: str
    points: float
    gate: bool
    requires: tuple[str, ...]
    check: str
    """The check of the library, or `judge`."""
    args: dict[str, Any]
    golden: str
    """`met`, `not met`, or why it is not known yet."""
    reason: str = ""


class TaskPreview(msgspec.Struct, frozen=True, kw_only=True):
    """One task as the agent and the grader see it."""

    id: str
    system: str
    prompt: str
    tools: tuple[str, ...]
    given: dict[str, int]
    """Files that the agent finds, with their bytes."""
    turns: int
    answer: str
    """The golden answer; the agent does not see it."""
    golden: dict[str, str]
    """The golden files; the agent does not see them."""
    points: float
    """The points possible."""
    checks: tuple[CheckPreview, ...]


def preview_tasks(sheet: TaskSheet, name: str | None = None) -> list[TaskPreview]:
    """The tasks as they will be; only one with `name`. `ConfigError` if there is none of that name."""
    if name is not None and name not in sheet.tasks:
        raise ConfigError(f"`{sheet.file.path}` has no task `{name}`; it has: {', '.join(list(sheet.tasks)[:10])}")
    settings = settings_of(sheet)
    return [_preview(task, settings) for task in sheet.tasks.values() if name in {None, task.id}]


def _preview(task: SheetTask, settings: dict[str, Any]) -> TaskPreview:
    results = {each.check.id: result for each, result in results_of(task, evidence_of(task, task.answer, task.golden))}
    return TaskPreview(
        id=task.id,
        system=settings["system"] or "",
        prompt=task.prompt,
        tools=tuple(settings["tools"]),
        given={path: len(data) for path, data in task.given.items()},
        turns=settings["limits"]["turns"],
        answer=task.answer,
        golden={path: data.decode(errors="replace") for path, data in task.golden.items()},
        points=possible_points(rubric_of(task)) if task.checks else 0.0,
        checks=tuple(_check(task, number, results) for number in range(len(task.checks))),
    )


def _check(task: SheetTask, number: int, results: dict[str, Any]) -> CheckPreview:
    check = task.checks[number].check
    result = results.get(check.id)
    if isinstance(check, JudgeCheck):
        what, args, golden = "judge", {"prompt": check.prompt, "view": check.view}, "a judge decides"
    else:
        what, args, golden = check.ref, substitute_values(check.args, task_of(task)), "runs in a sandbox"
    if isinstance(result, CheckResult):
        golden = "met" if result.value >= 1 else "not met"
    elif result is not None:
        golden = "cannot run"
    reason = result.evidence if isinstance(result, CheckResult) else str(result or "")
    return CheckPreview(
        id=check.id,
        points=check.points,
        gate=check.gate,
        requires=check.requires,
        check=what,
        args=dict(args),
        golden=golden,
        reason=reason,
    )
