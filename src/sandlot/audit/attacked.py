"""What the trials of a probe attacked: checks, turns, tools and kinds of artifacts, each with how often and with what effect.

An attack is work that is neither golden's nor nothing: another answer, other turns, other files. A turn counts as varied only
where the others are as golden's, because otherwise another turn may decide.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from sandlot.audit.subject import Act, Call, NamedPlay, Regrade, Request, Say, Take, Trial
from sandlot.core.trace import EvidenceRecord

_EPSILON = 1e-9
_HARMLESS = frozenset({"golden", "look", "compute", "tour", "reader"})
"""Names of plays that look around, or do golden's work."""
SCORE = "score"
"""Stands for the checks of what has none: a plain grader, or an environment that grades itself."""

Turns = tuple[tuple[Act, ...], ...]


class Attempts(msgspec.Struct, frozen=True):
    """How often something was attacked."""

    tried: int = 0
    """Attacks that were graded."""
    lost: int = 0
    """Those that scored less than golden there."""

    def __add__(self, other: "Attempts") -> "Attempts":
        return Attempts(self.tried + other.tried, self.lost + other.lost)


AttemptsByPart = dict[str, Attempts]
"""By part: `check RUBRIC/ID`, `turn 1`, `tool NAME`, `artifact answer`; of a Gymnasium environment `play random` and the like."""


def add_attempts(into: AttemptsByPart, more: Mapping[str, Attempts]) -> None:
    """Add counts to others."""
    for part, attempts in more.items():
        into[part] = into.get(part, Attempts()) + attempts


class GoldenRecord(msgspec.Struct, frozen=True):
    """A task's golden trial and idle trial, to compare attacks with."""

    rubric: str
    golden: Trial
    turns: Turns
    idle: Trial | None = None


def attempts_of(requests: Sequence[Request], trials: Sequence[Trial], known: Mapping[str, GoldenRecord]) -> AttemptsByPart:
    """What these trials attacked. Only tasks with a golden trial count."""
    found: AttemptsByPart = {}
    for request, trial in zip(requests, trials, strict=True):
        task = request.task if isinstance(request, Take) else request.trace.task
        record = known.get(task)
        if record is None or trial.score is None or not _is_attack(request, record):
            continue
        lost = trial.score.value < (record.golden.reward or 0.0) - _EPSILON
        for part, attempts in _checks_of(record, trial, lost=lost):
            found[part] = found.get(part, Attempts()) + attempts
        parts = [*_artifacts_of(request, record, trial), *_turns_of(request, record), *_tools_of(request, record)]
        for part in parts:
            found[part] = found.get(part, Attempts()) + Attempts(1, int(lost))
    return found


def plays_of(requests: Sequence[Request], trials: Sequence[Trial], surroundings: str) -> AttemptsByPart:
    """What plays of a Gymnasium environment tried: each agent, and each change of the surroundings."""
    found: AttemptsByPart = {}
    for request, trial in zip(requests, trials, strict=True):
        if isinstance(request, Regrade) or trial.trace is None:
            continue
        play = request.play.name.partition("-")[0] if isinstance(request.play, NamedPlay) else "script"
        for part in (f"play {play}", *([f"surroundings {surroundings}"] if surroundings else ())):
            found[part] = found.get(part, Attempts()) + Attempts(1, 0)
    return found


def _is_attack(request: Request, record: GoldenRecord) -> bool:
    if isinstance(request, Regrade):
        left = request.trace.evidence
        same = [trial for trial in (record.golden, record.idle) if trial is not None and trial.trace is not None]
        return left is not None and not any(_same_left(left, trial.evidence) for trial in same)
    play = request.play
    if isinstance(play, NamedPlay):
        return play.name not in _HARMLESS
    return bool(play.turns) and play.turns != record.turns and play.name.partition("-")[0] not in _HARMLESS


def _same_left(one: EvidenceRecord, other: EvidenceRecord) -> bool:
    return one.answer == other.answer and one.files == other.files and one.apps == other.apps and one.state == other.state


def _checks_of(record: GoldenRecord, trial: Trial, *, lost: bool) -> Iterator[tuple[str, Attempts]]:
    golden = {check.id: check.value for check in record.golden.score.checks} if record.golden.score else {}
    checks = trial.score.checks if trial.score else ()
    if not checks:
        yield f"check {record.rubric}/{SCORE}", Attempts(1, int(lost))
    for check in checks:
        yield f"check {record.rubric}/{check.id}", Attempts(1, int(check.value < golden.get(check.id, 0.0) - _EPSILON))


def _artifacts_of(request: Request, record: GoldenRecord, trial: Trial) -> Iterator[str]:
    """The kinds of artifacts that differ from golden's."""
    left = request.trace.evidence if isinstance(request, Regrade) else trial.evidence
    golden = record.golden.evidence
    if left is None:
        return
    if left.answer != golden.answer:
        yield "artifact answer"
    if left.state != golden.state:
        yield "artifact state"
    if left.apps != golden.apps:
        yield "artifact apps"
    changed = {path for path in {*left.files, *golden.files} if left.files.get(path) != golden.files.get(path)}
    yield from sorted({f"artifact {_kind_of(path)}" for path in changed})


def artifacts_left(record: GoldenRecord) -> list[str]:
    """The kinds of artifacts that golden leaves and an idle agent does not."""
    golden = record.golden.evidence
    idle = record.idle.evidence if record.idle is not None else EvidenceRecord()
    found = ["artifact answer"] if golden.answer != idle.answer else []
    found += ["artifact state"] if golden.state != idle.state else []
    found += ["artifact apps"] if golden.apps != idle.apps else []
    written = {path for path, file in golden.files.items() if idle.files.get(path) != file}
    return found + sorted({f"artifact {_kind_of(path)}" for path in written})


def _kind_of(path: str) -> str:
    return f"files *{posixpath.splitext(path)[1]}" if posixpath.splitext(path)[1] else "files without an ending"


def spoken_turns(turns: Turns) -> list[int]:
    """The turns in which golden says something, by index."""
    return [at for at, turn in enumerate(turns) if turn and isinstance(turn[0], Say)]


def _turns_of(request: Request, record: GoldenRecord) -> Iterator[str]:
    """The spoken turn that is varied, if all others are golden's."""
    spoken = spoken_turns(record.turns)
    if isinstance(request, Regrade):
        left = request.trace.evidence
        golden = record.golden.evidence
        if spoken and left is not None and left.answer != golden.answer and left.state == golden.state:
            yield f"turn {len(spoken)}"
        return
    if isinstance(request.play, NamedPlay) or len(request.play.turns) != len(record.turns):
        return
    changed = [at for at, turn in enumerate(request.play.turns) if turn != record.turns[at]]
    if len(changed) == 1 and changed[0] in spoken:
        yield f"turn {spoken.index(changed[0]) + 1}"


def _tools_of(request: Request, record: GoldenRecord) -> Iterator[str]:
    """The tools whose calls differ from golden's: others, other arguments, or none."""
    if isinstance(request, Regrade) or isinstance(request.play, NamedPlay):
        return
    calls, golden = (_calls(turns) for turns in (request.play.turns, record.turns))
    yield from sorted(f"tool {name}" for name in {*calls, *golden} if calls.get(name) != golden.get(name))


def _calls(turns: Turns) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for act in (act for turn in turns for act in turn if isinstance(act, Call)):
        found.setdefault(act.tool, []).append(act)
    return found
