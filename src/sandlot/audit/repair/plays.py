"""The plays of an audit, kept so that a changed version can be given the same ones."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field

import msgspec

from sandlot.audit.case import current_probe
from sandlot.audit.effect import Direction, direction_of
from sandlot.audit.finding import Confidence, Finding
from sandlot.audit.statement import leaves_out, numbers_in, same_core
from sandlot.audit.subject import PLAIN, Conditions, Description, NamedPlay, Regrade, Request, Subject, Take, Trial

_EPSILON = 1e-9
_RIGHT = frozenset({"spellings", "golden-otherwise", "own-controls", "golden", "golden-passes", "margins", "repeats"})
"""Probes whose plays are right: what they were paid in full for must stay so."""


@dataclass(frozen=True, slots=True)
class StoredPlay:
    """One request of an audit, and what it earned."""

    probe: str
    request: Request
    earned: float | None
    """None for no score."""
    full: bool
    met: frozenset[str]
    """The checks that gave points."""

    @property
    def task(self) -> str:
        """The task it is about."""
        return self.request.task if isinstance(self.request, Take) else self.request.trace.task

    @property
    def answer(self) -> str | None:
        """The answer that is graded, if it is known before."""
        if isinstance(self.request, Regrade):
            left = self.request.trace.evidence
            return left.answer if left is not None else self.request.trace.answer
        if isinstance(self.request.play, NamedPlay) or len(self.request.play.turns) != 1:
            return None
        (turn,) = self.request.play.turns
        return getattr(turn[-1], "text", None)

    @property
    def is_golden(self) -> bool:
        """True for the golden solution itself."""
        return isinstance(self.request, Take) and self.request.play == NamedPlay(name="golden")

    @property
    def is_right(self) -> bool:
        """True if it was accepted as right work, which no change may refuse."""
        return self.full and (self.is_golden or self.probe in _RIGHT)


@dataclass(slots=True)
class PlayRecord:
    """What an audit played under ordinary conditions."""

    plays: list[StoredPlay] = field(default_factory=list[StoredPlay])
    golden: dict[str, str] = field(default_factory=dict[str, str])
    """Golden's answer by task."""
    description: Description | None = None

    def add(self, requests: Sequence[Request], trials: Sequence[Trial]) -> None:
        """Keep what was played."""
        for request, trial in zip(requests, trials, strict=True):
            if trial.lost is not None:
                continue
            play = _stored(request, trial, current_probe())
            self.plays.append(play)
            if play.is_golden:
                self.golden[play.task] = trial.evidence.answer


@dataclass(slots=True)
class RecordingSubject:
    """A subject (port `Subject`) whose plays are kept."""

    inner: Subject
    record: PlayRecord

    async def describe(self) -> Description:
        """As the subject itself."""
        self.record.description = await self.inner.describe()
        return self.record.description

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        """As the subject itself."""
        trials = await self.inner.take(requests, conditions)
        if msgspec.structs.replace(conditions, shuffled=None) == PLAIN:
            self.record.add(requests, trials)
        return trials


def recording(
    start: Callable[[], AbstractAsyncContextManager[Subject]], record: PlayRecord
) -> Callable[[], AbstractAsyncContextManager[Subject]]:
    """The same subject, with its plays kept in `record`."""

    @asynccontextmanager
    async def open_recorded() -> AsyncGenerator[Subject]:
        async with start() as subject, subject if isinstance(subject, AbstractAsyncContextManager) else nullcontext():
            yield RecordingSubject(subject, record)

    return open_recorded


# -- what may change ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A play that earns something else from a changed version."""

    play: StoredPlay
    earned: float | None

    def __str__(self) -> str:
        other = "the golden solution" if self.play.is_golden else f"a play of `{self.play.probe}`"
        shown = f"answer {self.play.answer[:60]!r}" if self.play.answer is not None else other
        return f"{shown} on task `{self.play.task}` would score {_shown(self.earned)} instead of {_shown(self.play.earned)}"


def score_changes(plays: Sequence[StoredPlay], trials: Sequence[Trial]) -> list[ScoreChange]:
    """The plays that earn something else now."""
    changed: list[ScoreChange] = []
    for play, trial in zip(plays, trials, strict=True):
        now = trial.reward
        same = now is None if play.earned is None else now is not None and abs(now - play.earned) <= _EPSILON
        if not same:
            changed.append(ScoreChange(play, now))
    return changed


def witness_plays(plays: Iterable[StoredPlay], finding: Finding) -> list[StoredPlay]:
    """The plays that a finding shows, as far as they are recognised by their answer or their play."""
    shown = list(finding.witness.inputs.values()) if finding.witness else []
    found: list[StoredPlay] = []
    for play in plays:
        if play.probe == finding.probe and finding.task in {None, play.task}:
            script = msgspec.to_builtins(play.request.play) if isinstance(play.request, Take) else None
            known = {play.answer} - {None, ""}
            if any(value == script or (isinstance(value, str) and value in known) for value in shown):
                found.append(play)
    return found


def unexplained(change: ScoreChange, finding: Finding, accusers: frozenset[str], record: PlayRecord) -> str | None:  # noqa: PLR0911 - one for each kind of change
    """Why a change of a score is a reason to refuse the change of the code; None if the finding explains it.

    `accusers` are the probes that have confirmed, each with a reason, that a play of theirs is wrong and was paid.
    """
    play, before, now = change.play, change.play.earned, change.earned
    direction, golden = direction_of(finding), record.golden.get(play.task)
    if play.is_right:
        return f"right work would lose: {change}"
    if now is None:
        explained = finding.code.startswith("D04") and play.probe == finding.probe
        return None if explained else f"grading would raise: {change}"
    if before is None:
        return None if now <= _EPSILON or _is_right(play, golden) else f"what failed before would be paid: {change}"
    if finding.code.startswith("D06") and not play.full:
        return None  # steps between nothing and everything are what the finding is about
    if now > before:
        helped = direction is Direction.REFUSES_RIGHT and play.probe == finding.probe
        return None if helped or _is_right(play, golden) else f"what lost before would be paid: {change}"
    if play.probe in accusers or play.probe == finding.probe or _is_wrong(play, golden, record):
        return None
    return f"nothing shows that it is wrong: {change}"


def accusers_of(findings: Iterable[Finding]) -> frozenset[str]:
    """The probes with a confirmed finding that wrong work is paid."""
    return frozenset(each.probe for each in findings if each.standing is Confidence.CONFIRMED and each.reason is not None)


def _is_right(play: StoredPlay, golden: str | None) -> bool:
    return play.answer is not None and golden is not None and same_core(play.answer, golden)


def _is_wrong(play: StoredPlay, golden: str | None, record: PlayRecord) -> bool:
    """True if the answer leaves out what golden states, or names another task's answer beside it."""
    answer = play.answer
    if answer is None or golden is None:
        return False
    if leaves_out(answer, golden) is not None:
        return True
    if len(set(numbers_in(answer))) > len(set(numbers_in(golden))) and numbers_in(golden):
        return True
    others = {other for other in record.golden.values() if not same_core(other, golden)}
    return any(len(other) > 1 and leaves_out(answer, other) is None for other in others)


def _stored(request: Request, trial: Trial, probe: str) -> StoredPlay:
    return StoredPlay(probe, request, trial.reward, trial.passed, frozenset(trial.paid))


def _shown(value: float | None) -> str:
    return "nothing, because grading fails," if value is None else f"{value:g}"
