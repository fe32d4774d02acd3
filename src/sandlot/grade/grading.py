"""Grading: run every check of a rubric on the evidence, and add up.

Start with `grade`. Checks run in rounds: all plain functions that can run go to one worker thread together, then async ones,
then, when no Python check is left that can run, those of the judge. A check does not run (*suppressed*) if a check it requires is
not fully met; a judge check does not run either once a gate is not met, since the score is 0 anyway.

Any error means there is no score. The time limit is the caller's cancel scope; just before it ends, grading raises an error that
names the running check.
"""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
import msgspec

from sandlot.checks import LIBRARY
from sandlot.core.concurrency.author import name_of
from sandlot.core.concurrency.limited import gather_limited
from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import GradeError, NotInEvidence, SandlotError, boundary
from sandlot.core.ports.grading import Evidence, Judge, Judgement
from sandlot.core.rubric import Check, CheckResult, JudgeCheck, JudgeRecord, PythonCheck, Rubric, RubricScore
from sandlot.core.seats import seat_trace
from sandlot.core.task import Task
from sandlot.core.types import digest
from sandlot.grade.checks import Function, binding, result_of, result_without, run_check, run_check_async, suppressed_result
from sandlot.grade.rules import ordered, require_sound
from sandlot.grade.score import score_of
from sandlot.grade.view import images_for, view_of

_AT_ONCE = 8
"""Async checks and judge calls at once for one rollout."""
_MARGIN_S = 0.5
"""How long before the caller's deadline grading stops, to name the running check."""

Functions = Callable[[str], Function]
"""From a check's `ref` to its function; `ConfigError` or `LookupError` if there is none."""


async def grade(rubric: Rubric, evidence: Evidence, task: Task, functions: Functions, judge: Judge | None = None) -> RubricScore:
    """The score of a rollout. `GradeError` if a check fails to run: then there is no score."""
    require_sound(rubric)
    if rubric.needs_judge and judge is None:
        raise GradeError("the rubric has judge checks, but no judge is given; name one with `--judge`", kind="no_judge")
    named = {check.id: _function_of(check, functions) for check in rubric.checks if isinstance(check, PythonCheck)}
    asking = _RunningChecks(evidence, task, named, judge)
    waiting: Sequence[Check] = ordered(rubric.checks)
    with _named_deadline(asking):
        while waiting:
            await asking.round(waiting)
            waiting = [check for check in waiting if check.id not in asking.results]
    return score_of(rubric, asking.results, evidence.penalties)


def resolve(ref: str, functions: Functions) -> Function:
    """The function that a `ref` names: `sandlot:NAME` is a built-in check, anything else is in the environment."""
    module, _, name = ref.partition(":")
    if module != "sandlot":
        return functions(ref)
    if name not in LIBRARY:
        raise LookupError(f"no built-in check `{name}`; there are: {', '.join(LIBRARY)}")
    return LIBRARY[name]


def _function_of(check: PythonCheck, functions: Functions) -> Function:
    try:
        with boundary(GradeError, f"`{check.ref}`"):
            function = resolve(check.ref, functions)
            binding(function, frozenset(check.args))  # wrong arguments are reported before any check runs
            return function
    except SandlotError as error:
        raise GradeError(f"check `{check.id}`: {error}", kind="no_function") from error


@dataclass(slots=True)
class _RunningChecks:
    """The state of one grading: results so far, and running checks."""

    evidence: Evidence
    task: Task
    functions: Mapping[str, Function]
    judge: Judge | None
    results: dict[str, CheckResult] = field(default_factory=dict[str, CheckResult])
    running: dict[str, str] = field(default_factory=dict[str, str])
    """Check id -> the function or judge that is running."""
    stopped: bool = False
    closed_gate: str | None = None

    async def round(self, waiting: Sequence[Check]) -> None:
        """Run as many checks as possible of the first kind that can run: plain, then async and isolated, then judge checks."""
        batch = self._sync_batch(waiting)
        if batch:
            await off_loop(lambda: next(iter(self.running.values()), "checks"), partial(self._ask_batch, batch))
            return
        ready = [check for check in waiting if all(name in self.results for name in check.requires)]
        chosen = [check for check in ready if isinstance(check, PythonCheck)] or ready
        await gather_limited([partial(self._ask_one, check) for check in chosen], _AT_ONCE)

    def _sync_batch(self, waiting: Sequence[Check]) -> list[PythonCheck]:
        """Every plain check whose requirements have results or come before it in the batch."""
        batch: dict[str, PythonCheck] = {}
        for check in waiting:
            if not isinstance(check, PythonCheck) or check.isolate:
                continue
            if binding(self.functions[check.id], frozenset(check.args)).on_loop:
                continue
            if all(name in self.results or name in batch for name in check.requires):
                batch[check.id] = check
        return list(batch.values())

    def _ask_batch(self, batch: Sequence[PythonCheck]) -> None:
        """In the worker thread: run one check after the other, until one raises or the thread is abandoned."""
        for check in batch:
            if self.stopped:
                return
            function = self.functions[check.id]
            self.running = {check.id: name_of(function)}
            self._settle(check, self._unasked(check) or run_check(check, function, self._seen_by(check), self.task))
        self.running = {}

    async def _ask_one(self, check: Check) -> None:
        result = self._unasked(check)
        if result is None:
            self.running[check.id] = "the judge" if isinstance(check, JudgeCheck) else name_of(self.functions[check.id])
            if isinstance(check, JudgeCheck):
                result = await self._ask_judge(check)
            else:
                result = await run_check_async(check, self.functions[check.id], self._seen_by(check), self.task)
            del self.running[check.id]
        self._settle(check, result)

    def _seen_by(self, check: Check) -> Evidence:
        """The evidence; for a check of one seat, with that seat's answer."""
        if not check.seat or check.seat not in self.evidence.trace.seats:
            return self.evidence
        return self.evidence.with_answer(seat_trace(self.evidence.trace, check.seat).answer)

    def _settle(self, check: Check, result: CheckResult) -> None:
        self.results[check.id] = result
        if check.gate and result.value < 1.0:
            self.closed_gate = self.closed_gate or check.id

    def _unasked(self, check: Check) -> CheckResult | None:
        """The result of a check that need not run, or None."""
        crashed = self.evidence.crashed.get("") or self.evidence.crashed.get(check.seat)
        if crashed:
            return result_without(check, NotInEvidence(f"the rollout is lost by a crash: {crashed}", kind="cut"))
        missing = next((name for name in check.requires if self.results[name].value < 1.0), None)
        if missing is not None:
            return suppressed_result(check, f"did not run: `{missing}` was not met")
        if self.closed_gate is not None and isinstance(check, JudgeCheck):
            return suppressed_result(check, f"did not run: gate `{self.closed_gate}` was not met")
        return None

    async def _ask_judge(self, check: JudgeCheck) -> CheckResult:
        if self.judge is None:
            raise GradeError(f"check `{check.id}`: there is no judge")
        try:
            with _as_grade_error(check):
                seen = self._seen_by(check)
                view, images = view_of(check, seen), images_for(check, seen)
        except NotInEvidence as error:
            return result_without(check, error)
        if not images and not any(text.strip() for text in view.values()):
            return result_of(check, 0.0, "nothing to judge: " + ", ".join(f"`{name}` is empty" for name in view))
        with _as_grade_error(check):
            shown = {"images": images} if images else {}  # a judge that takes text only need not know the argument
            said = await self.judge.ask(question_of(check), check.choices, view, check.votes, **shown)
        return _judged(check, said, self.judge.name)


def question_of(check: JudgeCheck) -> str:
    """The question for the judge: the prompt, then the author's examples."""
    examples = "".join(f"\n\nExample:\n{example.view}\nVerdict: {example.verdict}" for example in check.examples)
    return check.prompt + examples


def rank_of(verdicts: Sequence[str], choices: Sequence[str]) -> int:
    """The rank of several votes: the lower median. With two choices, the majority; a tie gives the worse one."""
    ranks = sorted(choices.index(verdict) for verdict in verdicts)
    return ranks[(len(ranks) - 1) // 2]


def _judged(check: JudgeCheck, said: Judgement, model: str) -> CheckResult:
    if len(said.verdicts) != check.votes or not set(said.verdicts) <= set(check.choices):
        raise GradeError(
            f"check `{check.id}`: judge `{model}` gave {list(said.verdicts)} for {check.votes} votes on {list(check.choices)}",
            kind="unparsable",
        )
    rank = rank_of(said.verdicts, check.choices)
    winner = check.choices[rank]
    reason = next((reason for verdict, reason in zip(said.verdicts, said.reasons, strict=False) if verdict == winner), "")
    count = f" ({said.verdicts.count(winner)} of {check.votes} votes)" if check.votes > 1 else ""
    result = result_of(check, rank / (len(check.choices) - 1), f"{winner}{count}: {reason}" if reason else f"{winner}{count}")
    digest_of = said.prompt_digest or digest(question_of(check).encode(errors="backslashreplace"))
    record = JudgeRecord(model=model, prompt_digest=digest_of, verdicts=said.verdicts, cached=said.cached)
    return msgspec.structs.replace(result, judge=record)


@contextmanager
def _as_grade_error(check: JudgeCheck) -> Generator[None]:
    """Turn any error of a judge check into `GradeError`, whatever its own side."""
    try:
        with boundary(GradeError, "judge"):
            yield
    except NotInEvidence:
        raise
    except SandlotError as error:
        raise GradeError(f"check `{check.id}`: {error}", kind=error.kind) from error


@contextmanager
def _named_deadline(asking: _RunningChecks) -> Generator[None]:
    """Raise an error that names the running check just before the caller's deadline. Other cancellation passes through."""
    outer = anyio.current_effective_deadline()
    left_s = outer - anyio.current_time()
    inner = outer - min(_MARGIN_S, left_s / 4) if math.isfinite(outer) and left_s > 0 else math.inf
    try:
        with anyio.CancelScope(deadline=inner) as scope:
            yield
    finally:
        asking.stopped = True  # an abandoned thread must run no further check
    if scope.cancelled_caught:
        names = ", ".join(f"`{check}` ({what})" for check, what in asking.running.items()) or "no check"
        raise GradeError(f"grading took longer than {left_s:.3g} s; still running: {names}", kind="timeout")
