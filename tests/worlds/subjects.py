"""Subjects of a few lines, in this process: a grading function, prompts with golden answers, perhaps a state."""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from sandlot.audit.case import Case
from sandlot.audit.subject import PLAIN, Conditions, Declared, Description, NamedPlay, Regrade, Request, Say, Trial
from sandlot.core.rubric import CheckResult, CheckVerdict, RubricScore
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord, Failed, Node, Scored, Trace, text_message
from sandlot.core.types import End, Role, Side

Grade = Callable[[EvidenceRecord, Task], "float | dict[str, float]"]


class ToySubject:
    """Grades in this process (port `Subject`): author code here is the test's own."""

    def __init__(
        self,
        grade: Grade,
        tasks: Sequence[Task],
        *,
        system="",
        kind="environment",
        rubric=None,
        done=None,
        start=None,
        sources=None,
        reads_answer=lambda: True,
    ) -> None:
        self._kind = kind
        self._rubrics = {"default": rubric} if rubric is not None else {}
        self._grade = grade
        self._tasks = {task.id: task for task in tasks}
        self._system = system
        self._done: Callable[[Task], Any] = done or (lambda task: None)
        self._start: Callable[[Task], Any] = start or (lambda task: None)
        self._sources = sources or {}
        self._reads_answer: Callable[[], bool] = reads_answer
        self.graded = list[Trace]()

    async def describe(self) -> Description:
        return Description(
            name="toy",
            kind=self._kind,
            fingerprint="toy",
            tasks=tuple(self._tasks.values()),
            system=self._system,
            has_golden=True,
            declared=Declared(),
            sources=self._sources,
            rubrics=self._rubrics,
            needs_judge=bool(self._rubrics),
        )

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        return [self._trial(request) for request in requests]

    def _trial(self, request: Request) -> Trial:
        if isinstance(request, Regrade):
            trace, times = request.trace, request.times
        else:
            trace, times = self._played(request), 1
        self.graded.append(trace)
        scores = tuple(self._scored(trace) for _ in range(times))
        traced = msgspec.structs.replace(trace, outcome=scores[0])
        return Trial(trace=traced, scores=scores, answer_was_read=self._reads_answer())

    def _played(self, request: Any) -> Trace:
        task = self._tasks[request.task]
        golden = isinstance(request.play, NamedPlay)
        spoken = "" if golden else "".join(act.text for turn in request.play.turns for act in turn if isinstance(act, Say))
        answer = str(task.key["golden"]) if golden else spoken
        state = self._done(task) if golden else self._start(task)
        nodes = [
            Node(message=text_message(Role.USER, task.prompt)),
            Node(message=text_message(Role.ASSISTANT, answer), parent=0, sampled=True),
        ]
        evidence = EvidenceRecord(answer=answer, state=state)
        return Trace(run="toy", task=task.id, rollout=0, seed=0, nodes=nodes, end=End.DONE, evidence=evidence)

    def _scored(self, trace: Trace) -> Scored | Failed:
        try:
            value = self._grade(trace.evidence, self._tasks[trace.task])
        except Exception as error:  # noqa: BLE001 - as a worker would
            return Failed(side=Side.GRADER, kind="crash", message=f"{type(error).__name__}: {error}")
        checks = value if isinstance(value, dict) else {}
        points = sum(checks.values()) if checks else float(value)
        possible = float(max(1, len(checks)))
        results = tuple(
            CheckResult(
                id=name, verdict=CheckVerdict.MET if each == 1 else CheckVerdict.NOT_MET, value=each, points=each, worth=1.0
            )
            for name, each in checks.items()
        )
        return Scored(RubricScore(points=points, possible=possible, value=min(1.0, max(0.0, points / possible)), checks=results))


async def case_of(subject: ToySubject) -> Case:
    """An audit of it, about to begin."""
    about = await subject.describe()
    return Case(subject=subject, description=about, tasks=about.tasks, judge="toy" if about.needs_judge else None)


def sums(count: int = 12, form: Callable[[int], str] = str) -> list[Task]:
    """Tasks of adding, each with an answer of its own."""
    rng = Random(3)
    pairs = [(rng.randrange(100, 900), 17 + 31 * place) for place in range(count)]
    return [Task(f"sum-{at}", prompt=f"What is {a} and {b}?", key={"golden": form(a + b)}) for at, (a, b) in enumerate(pairs)]


def number_in(text: str) -> float | None:
    """The number that is all of a text."""
    found = re.fullmatch(r"\s*([+-]?\d{1,9}(?:,\d{3})*(?:\.\d{1,9})?)\.?\s*", text)
    return float(found[1].replace(",", "")) if found else None
