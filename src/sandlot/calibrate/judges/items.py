"""The items that a judge is measured with: a question, what the judge sees, and people's labels if there are any.

Items come from a file of labels, from the examples in a rubric, or from the evidence of a run. A rubric's examples are part of
its question, so an example is left out of the question that asks about it.
"""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sandlot.calibrate.judges.label_file import read_labelled
from sandlot.core.errors import ConfigError, GradeError, NotInEvidence
from sandlot.core.rubric import JudgeCheck, Rubric
from sandlot.env.environment import Environment
from sandlot.env.grading import load_evidence, rubric_for
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.grade.grading import question_of
from sandlot.grade.loading import load_rubric
from sandlot.grade.view import view_of
from sandlot.run.results import Run


class JudgedItem(msgspec.Struct, frozen=True, kw_only=True):
    """One question about one view."""

    check: str
    """Id of the check; items with the same id form one category."""
    question: str
    choices: tuple[str, ...]
    view: dict[str, str]
    labels: tuple[str, ...] = ()
    """People's verdicts, one per rater; each is one of the choices."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file of labels."""

    view: str | dict[str, str]
    labels: tuple[str, ...] = ()
    check: str = ""
    question: str | None = None
    choices: tuple[str, ...] = ("no", "yes")


def labelled_items(path: Path, checks: dict[str, JudgeCheck]) -> list[JudgedItem]:
    """The items of a JSON Lines file; a line without a question names one of `checks`."""
    return read_labelled(path, _Line, lambda line: _item(line, checks), with_what="a view, a question or check, and labels")


def _item(line: _Line, checks: dict[str, JudgeCheck]) -> JudgedItem:
    view = {"answer": line.view} if isinstance(line.view, str) else line.view
    check = checks.get(line.check)
    if line.question is None and check is None:
        known = f"there are: {', '.join(checks)}" if checks else "name the rubric or environment it is in, or write `question`"
        raise ConfigError(f"no judge check `{line.check}`; {known}")
    question = line.question if line.question is not None or check is None else question_of(check)
    choices = line.choices if line.question is not None or check is None else check.choices
    wrong = [label for label in line.labels if label not in choices]
    if wrong or len(set(choices)) < 2:
        raise ConfigError(
            f"labels {list(line.labels)} must be among the choices {list(choices)}, and there must be two or more choices"
        )
    return JudgedItem(check=line.check, question=question or "", choices=choices, view=view, labels=line.labels)


def example_items(checks: dict[str, JudgeCheck]) -> Iterator[JudgedItem]:
    """The examples of judge checks, labelled with their authors' verdicts."""
    for name, check in checks.items():
        for example in check.examples:
            others = tuple(other for other in check.examples if other is not example)
            asked = question_of(msgspec.structs.replace(check, examples=others))
            view = {check.view[0] if check.view else "answer": example.view}
            yield JudgedItem(check=name, question=asked, choices=check.choices, view=view, labels=(example.verdict,))


def checks_of(what: str | Path) -> dict[str, JudgeCheck]:
    """The judge checks of a rubric file or an environment, by id; by `rubric/id` where two rubrics use the same id."""
    path = Path(what)
    if path.suffix == ".json" and path.is_file():
        return _judge_checks(load_rubric(path))
    found: dict[str, JudgeCheck] = {}
    for name, rubric in _rubrics(load(what)).items():
        for check, judged in _judge_checks(rubric).items():
            found[check if check not in found or found[check] == judged else f"{name}/{check}"] = judged
    return found


async def run_items(path: Path, most: int) -> AsyncGenerator[JudgedItem]:
    """The evidence of a run's rollouts, with the questions of its judge checks; missing evidence is skipped."""
    run = Run(path)
    env = load(run.manifest.source).in_image(run.manifest.config.image)
    tasks = {task.id: task for task in tasks_of(env)}
    given = 0
    for trace in run:
        if trace.task not in tasks or trace.evidence is None:
            continue
        evidence: Any = await load_evidence(env, tasks[trace.task], trace, run.reader.blobs)
        for name, check in _judge_checks(rubric_for(env, tasks[trace.task], run.manifest.config.rubric)).items():
            try:
                view = dict(view_of(check, evidence))
            except (NotInEvidence, GradeError):
                continue
            if any(text.strip() for text in view.values()):
                yield JudgedItem(check=name, question=question_of(check), choices=check.choices, view=view)
                given += 1
                if given == most:
                    return


def _rubrics(env: Environment) -> dict[str, Rubric]:
    marked = {"default": Rubric(checks=tuple(env.marked.checks))} if env.marked.checks else {}
    return {**marked, **env.marked.rubrics}


def _judge_checks(rubric: Rubric) -> dict[str, JudgeCheck]:
    return {check.id: check for check in rubric.checks if isinstance(check, JudgeCheck)}
