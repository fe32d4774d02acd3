"""Grade answers without playing: the evidence of an earlier trial, with another final answer.

On the evidence of an idle agent, an answer shows what words alone can earn. On the evidence of the golden solution, it shows how
the answer itself is read. One call of `ask` sends all its answers to the workers at once.

Where no check reads the answer, all answers get the score of one: that is the only one graded. Hidden tests of a package take
seconds, and probes have hundreds of answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sandlot.audit.case import Case, note_spared, note_untried, regrade_with_answer
from sandlot.audit.finding import Finding, Severity, Witness, make_finding
from sandlot.audit.probes.likeness import EPSILON, changes_between, opening_text
from sandlot.audit.probes.plays import choose_tasks
from sandlot.audit.reason import Reason, ReasonKind, omission
from sandlot.audit.subject import PLAIN, Conditions, Lost, Trial
from sandlot.core.groups import group_by_key
from sandlot.core.task import Task
from sandlot.core.trace import Scored
from sandlot.core.types import Json

_MAX_SHOWN = 4000
_PROBE_S = 6.0
"""About how long one probe may use a grader."""
_ASK_S, _FEWEST = 24.0, 12
"""About how long the answers of one call of `ask` may use a grader, and how many are graded however long it takes."""
_UNTRIED = Trial(lost=Lost(kind="skipped", message="grading takes too long for all answers of this kind"))
_AGAIN, _MOST_AGAIN = 6, 60
_MOST_OTHERS = 12
"""Further witnesses of one finding."""
_Key = tuple[str, bool, int, str]
"""What a grading depends on: the task, whose evidence, how often, and the answer."""
NONSENSE = "Zvqx jworth pleffing"
"""An answer that is wrong for every task."""


@dataclass(frozen=True, slots=True)
class SolvedTask:
    """A task with the graded trials of its golden solution and of an agent that did nothing."""

    task: Task
    golden: Trial
    idle: Trial

    @property
    def answer(self) -> str:
        """The golden solution's final answer."""
        return self.golden.evidence.answer

    @property
    def prompt(self) -> str:
        """The messages that the agent gets at the start."""
        return opening_text(self.golden) or self.task.prompt

    @property
    def best(self) -> float:
        """The golden solution's reward."""
        return self.golden.reward or 0.0

    @property
    def reads_answer(self) -> bool:
        """False if grading read the answer neither of the golden solution nor of an agent that did nothing."""
        return self.golden.answer_was_read or self.idle.answer_was_read


@dataclass(frozen=True, slots=True)
class Question:
    """One answer to one task, to be graded."""

    target: SolvedTask
    kind: str
    answer: str
    solved: bool
    """True: on the golden solution's evidence; False: on the evidence of an idle agent."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """An answer and its grading."""

    question: Question
    trial: Trial

    @property
    def reward(self) -> float | None:
        """The reward, if there is a score."""
        return self.trial.reward

    @property
    def inputs(self) -> Json:
        """The witness inputs."""
        left = "the golden solution" if self.question.solved else "an agent that did nothing"
        return {"task": self.question.target.task.id, "answer": self.question.answer[:_MAX_SHOWN], "on what was left by": left}


async def find_solved_tasks(case: Case, most: int, answers: int = 1) -> list[SolvedTask]:
    """Up to `most` tasks whose golden solution was graded, spread over the kinds of tasks.

    Fewer if grading is slow and a probe has many `answers` for each.
    """
    golden, idle = await case.golden(), await case.idle()
    found = [
        SolvedTask(task, golden[task.id], idle[task.id])
        for task in choose_tasks(case, max(most, len(case.tasks)))
        if _usable(golden.get(task.id)) and _usable(idle.get(task.id)) and golden[task.id].reward is not None
    ]
    wanted = num_affordable(found, most, each=answers)
    return found if len(found) <= wanted else [found[place * len(found) // wanted] for place in range(wanted)]


async def find_targets(case: Case, most: int, answers: int = 1) -> list[SolvedTask]:
    """Solved tasks; without any, tasks that an idle agent left, whose work then also stands for the golden solution's.

    For probes that need no right answer: crashes, range and repetition.
    """
    if solved := await find_solved_tasks(case, most, answers):
        return solved
    idle = await case.idle()
    found = [SolvedTask(task, idle[task.id], idle[task.id]) for task in choose_tasks(case, len(case.tasks))]
    return [target for target in found if _usable(target.idle)][: num_affordable(found, most, each=answers)]


def num_affordable(found: Sequence[SolvedTask], most: int, each: int = 1, seconds: float = _PROBE_S) -> int:
    """How many units of `each` gradings fit into the time, at least 2 and at most `most`."""
    slow = sorted(_grading_s(target.golden) for target in found if target.golden.trace is not None)
    typical = slow[len(slow) // 2] if slow else 0.0
    return most if typical <= 0 else max(2, min(most, int(seconds / (typical * each))))


async def ask(case: Case, questions: Sequence[Question], conditions: Conditions = PLAIN) -> list[GradedAnswer]:
    """Grade every answer, in order; the same answer to the same task is graded once, and so are all that no check reads.

    Where grading takes long, some answers of each kind are graded, and the others count as not tried.
    """
    distinct = _thinned({_key(question): question for question in questions})
    unread = group_by_key((_without_answer(key), key) for key, each in distinct.items() if not each.target.reads_answer)
    spared = {key: keys[0] for keys in unread.values() for key in keys[1:]}
    trials = await _grade(case, {key: each for key, each in distinct.items() if key not in spared}, conditions)
    # a check may read at random: then every answer is graded after all
    missed = [key for key, graded in spared.items() if trials[graded].answer_was_read]
    trials |= await _grade(case, {key: distinct[key] for key in missed}, conditions)
    note_spared(len(spared) - len(missed))
    trials |= {key: trials[graded] for key, graded in spared.items() if key not in trials}
    return [GradedAnswer(question, trials.get(_key(question), _UNTRIED)) for question in questions]


def _thinned(distinct: Mapping[_Key, Question]) -> dict[_Key, Question]:
    """As many answers as can be graded in the time: all controls, and of every other kind the same number, spread evenly."""
    targets = {question.target.task.id: question.target for question in distinct.values()}
    most = num_affordable(list(targets.values()), len(distinct), seconds=_ASK_S)
    if len(distinct) <= max(most, _FEWEST):
        return dict(distinct)
    kinds = group_by_key((each.kind, key) for key, each in distinct.items())
    kept = set(kinds.pop("control", []))
    left = max(most, _FEWEST) - len(kept)
    for place, keys in enumerate(sorted(kinds.values(), key=len)):
        num = min(len(keys), max(1, left // (len(kinds) - place)))
        kept |= {keys[at * len(keys) // num] for at in range(num)}
        left -= num
    note_untried(len(distinct) - len(kept))
    return {key: each for key, each in distinct.items() if key in kept}


async def _grade(case: Case, questions: Mapping[_Key, Question], conditions: Conditions) -> dict[_Key, Trial]:
    requests = [
        regrade_with_answer(question.target.golden if question.solved else question.target.idle, question.answer, question.times)
        for question in questions.values()
    ]
    return dict(zip(questions, await case.take(requests, conditions), strict=True))


async def keep_reproducible(case: Case, graded: Sequence[GradedAnswer]) -> list[GradedAnswer]:
    """The answers that get the same reward when graded again. Only judges are asked again."""
    if not case.description.needs_judge or not graded:
        return list(graded)
    some = graded[:_MOST_AGAIN]
    again = await ask(case, [replace(one.question, times=_AGAIN) for one in some])
    return [
        one
        for one, more in zip(some, again, strict=True)
        if all(isinstance(each, Scored) and abs(each.score.value - (one.reward or 0.0)) < EPSILON for each in more.trial.scores)
    ]


def answer_finding(  # noqa: PLR0913 - the fields of a finding, all but three by keyword
    code: str,
    title: str,
    graded: Sequence[GradedAnswer],
    *,
    expected: str,
    severity: Severity,
    sure: bool = True,
    fix: str = "",
    reason_of: Callable[[GradedAnswer], Reason | None] = lambda _one: None,
    of: int = 0,
) -> Finding:
    """One finding; its witness is the shortest of these answers, of those with a reason if any has one, and so for other kinds.

    `of` is the number of tasks tried, if the answers gain or lose a measurable share of the reward.
    """
    ordered = sorted(graded, key=lambda each: (len(each.question.answer), each.question.target.task.id))
    shown, reason = next(((each, why) for each in ordered if (why := reason_of(each))), (ordered[0], None))
    kinds = {each.question.kind: each for each in reversed(ordered) if reason is None or reason_of(each)}
    others = [each for kind, each in kinds.items() if kind != shown.question.kind][::-1][:_MOST_OTHERS]
    tasks = {each.question.target.task.id for each in graded}
    task = shown.question.target.task.id
    return make_finding(
        code,
        title,
        _witness(shown, expected),
        severity=severity,
        sure=sure,
        task=task,
        count=len(tasks),
        fix=fix,
        reason=reason,
        effect=_effect_of(graded, of) if of else None,
        paid=shown.trial.paid,
        others=tuple(_witness(each, expected) for each in others),
    )


def _witness(one: GradedAnswer, expected: str) -> Witness:
    return Witness(inputs=one.inputs, expected=expected, observed=one.trial.fate)


def _effect_of(graded: Sequence[GradedAnswer], num_tasks: int) -> float:
    """What right answers lose, or wrong ones gain over an idle agent: the largest of each task, averaged over those tried."""
    sizes: dict[str, float] = {}
    for one in graded:
        target, reward = one.question.target, one.reward or 0.0
        idle = 0.0 if one.question.solved else target.idle.reward or 0.0
        lost = target.best - reward
        size = lost if one.question.solved and lost > EPSILON else reward - idle
        sizes[target.task.id] = max(size, sizes.get(target.task.id, 0.0))
    return sum(sizes.values()) / max(num_tasks, len(sizes))


def empty_reason(one: GradedAnswer) -> Reason | None:
    """Why an answer without work is wrong: it leaves out what golden's answer states, or golden's work is undone."""
    target = one.question.target
    if not target.golden.passed:
        return None
    if target.answer.strip() and target.reads_answer:
        return omission(one.question.answer, target.answer, target.task.key)
    changed = () if one.question.solved else sorted(changes_between(target.idle, target.golden))
    if not changed:
        return None
    return Reason(kind=ReasonKind.LEAVES_OUT, why=f"golden changes `{changed[0]}`, and here it is as at the start")


def normalized(text: str) -> str:
    """The text without case, extra space and surrounding punctuation."""
    return " ".join(text.casefold().split()).strip(" .,;:!?\"'`*()[]{}<>$\\")


def needs_golden(case: Case) -> str | None:
    """Why a probe that needs golden answers does not apply; None if it does."""
    return None if case.description.has_golden else "there is no golden solution"


def _usable(trial: Trial | None) -> bool:
    return trial is not None and trial.trace is not None and trial.trace.evidence is not None


def _grading_s(trial: Trial) -> float:
    assert trial.trace is not None
    whole_s = trial.trace.phases.get("grade", trial.seconds + trial.starved_s)
    return max(0.0, whole_s - trial.starved_s)


def _key(question: Question) -> _Key:
    return (question.target.task.id, question.solved, question.times, question.answer)


def _without_answer(key: _Key) -> tuple[str, bool, int]:
    return key[:3]
