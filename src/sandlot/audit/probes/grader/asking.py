"""Putting answers to a grader without playing: what an earlier trial left, with other last words.

Asked on what an idle agent left, an answer shows what words alone can earn. Asked on what the golden solution left, it shows how
the answer itself is read. One call of `ask` is one trip to the workers, however many answers it carries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sandlot.audit.case import Case, regrade_with_answer
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.probes.choice import choose_tasks
from sandlot.audit.probes.likeness import opening_text
from sandlot.audit.subject import PLAIN, Conditions, Trial
from sandlot.core.task import Task
from sandlot.core.trace import Scored
from sandlot.core.types import Json

EPSILON = 1e-9
_MAX_SHOWN = 4000
_PROBE_S = 6.0
"""About how long one probe may keep a grader busy."""
AGAIN, MOST_AGAIN = 6, 60
NONSENSE = "Zvqx jworth pleffing"
"""An answer to nothing."""


@dataclass(frozen=True, slots=True)
class SolvedTask:
    """A task that can be solved, and what two agents left of it: one that solved it, one that did nothing."""

    task: Task
    golden: Trial
    idle: Trial

    @property
    def answer(self) -> str:
        """What the golden solution said last."""
        assert self.golden.trace is not None
        assert self.golden.trace.evidence is not None
        return self.golden.trace.evidence.answer

    @property
    def prompt(self) -> str:
        """What the agent is told."""
        return opening_text(self.golden) or self.task.prompt

    @property
    def best(self) -> float:
        """What the golden solution got."""
        return self.golden.reward or 0.0


@dataclass(frozen=True, slots=True)
class Question:
    """One answer about one task."""

    field: SolvedTask
    kind: str
    answer: str
    solved: bool
    """True: on what the golden solution left; False: on what an idle agent left."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """A question, and what came back."""

    question: Question
    trial: Trial

    @property
    def reward(self) -> float | None:
        """The score's value, if there is one."""
        return self.trial.reward

    @property
    def inputs(self) -> Json:
        """Enough to ask again."""
        left = "the golden solution" if self.question.solved else "an agent that did nothing"
        return {"task": self.question.field.task.id, "answer": self.question.answer[:_MAX_SHOWN], "on what was left by": left}


async def find_solved_tasks(case: Case, most: int) -> list[SolvedTask]:
    """Tasks whose golden solution was graded, spread over the kinds there are."""
    golden, idle = await case.golden(), await case.idle()
    found = [
        SolvedTask(task, golden[task.id], idle[task.id])
        for task in choose_tasks(case, max(most, len(case.tasks)))
        if _usable(golden.get(task.id)) and _usable(idle.get(task.id)) and golden[task.id].reward is not None
    ]
    wanted = num_affordable(found, most)
    return found if len(found) <= wanted else [found[place * len(found) // wanted] for place in range(wanted)]


def num_affordable(found: Sequence[SolvedTask], most: int, each: int = 1, seconds: float = _PROBE_S) -> int:
    """How many of something that takes `each` gradings there is time for: at least 2."""
    slow = sorted(_grading_s(field.golden) for field in found)
    typical = slow[len(slow) // 2] if slow else 0.0
    return most if typical <= 0 else max(2, min(most, int(seconds / (typical * each))))


async def ask(case: Case, questions: Sequence[Question], conditions: Conditions = PLAIN) -> list[GradedAnswer]:
    """Every question answered, in order; the same answer to the same task is graded once."""
    distinct = {_key(question): question for question in questions}
    requests = [
        regrade_with_answer(question.field.golden if question.solved else question.field.idle, question.answer, question.times)
        for question in distinct.values()
    ]
    trials = dict(zip(distinct, await case.take(requests, conditions), strict=True))
    return [GradedAnswer(question, trials[_key(question)]) for question in questions]


async def keep_reproducible(case: Case, told: Sequence[GradedAnswer]) -> list[GradedAnswer]:
    """What holds when it is asked again: where a judge decides, once is chance."""
    if not case.description.needs_judge or not told:
        return list(told)
    some = told[:MOST_AGAIN]
    again = await ask(case, [replace(one.question, times=AGAIN) for one in some])
    return [
        one
        for one, more in zip(some, again, strict=True)
        if all(isinstance(each, Scored) and abs(each.score.value - (one.reward or 0.0)) < EPSILON for each in more.trial.scores)
    ]


def answer_finding(
    code: str,
    title: str,
    probe: str,
    told: Sequence[GradedAnswer],
    *,
    expected: str,
    severity: Severity,
    sure: bool = True,
    fix: str = "",
) -> Finding:
    """One finding; the witness is the shortest answer that shows it."""
    shown = min(told, key=lambda each: (len(each.question.answer), each.question.field.task.id))
    return Finding(
        code=code,
        title=title,
        layer=Layer.GRADER,
        probe=probe,
        severity=severity,
        standing=Confidence.CONFIRMED if sure else Confidence.LEAD,
        task=shown.question.field.task.id,
        count=len({each.question.field.task.id for each in told}),
        witness=Witness(inputs=shown.inputs, expected=expected, observed=shown.trial.fate),
        fix=fix,
    )


def normalized(text: str) -> str:
    """A text without what few people mean: case, space and the marks around it."""
    return " ".join(text.casefold().split()).strip(" .,;:!?\"'`*()[]{}<>$\\")


def needs_golden(case: Case) -> str | None:
    """Why a probe that starts from golden answers does not apply."""
    return None if case.description.has_golden else "there is no golden solution"


def _usable(trial: Trial | None) -> bool:
    return trial is not None and trial.trace is not None and trial.trace.evidence is not None


def _grading_s(trial: Trial) -> float:
    assert trial.trace is not None
    whole_s = trial.trace.phases.get("grade", trial.seconds + trial.starved_s)
    return max(0.0, whole_s - trial.starved_s)


def _key(question: Question) -> tuple[str, bool, str, int]:
    return (question.field.task.id, question.solved, question.answer, question.times)
