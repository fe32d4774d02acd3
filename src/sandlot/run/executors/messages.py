"""What a run and its workers say to each other: messages as msgpack, over a `WorkerConnection` or through Ray.

A worker gets `SetUp` first and answers `WorkerReady` or `WorkerRefused`. Then it takes each rollout it is told to, and sends its
events before its result. Between the evidence and the grading it says `EvidenceStored` and waits for `GradeRollout`. A worker
that is asked to go says `WorkerLeaving`, finishes or returns what it has, and says `WorkerGone`.

A worker that joins over the network must be admitted before that: the run says `JoinChallenge`, the worker `JoinRequest` with its
proof, and the run `JoinAdmitted` with its own, or `JoinRefused`.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from sandlot.core.errors import ConfigError, HarnessError
from sandlot.core.trace import Trace
from sandlot.observe.events import AgentEnded, ModelRetried, RolloutGraded, ToolCalled, TurnTaken, WorldOpened
from sandlot.run.config import RunConfig

RolloutNote = WorldOpened | ModelRetried | TurnTaken | ToolCalled | AgentEnded | RolloutGraded
"""The events that are emitted inside a rollout."""
_Nonce = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Name = Annotated[str, Meta(max_length=253)]
_Count = Annotated[int, Meta(ge=0)]


class JoinChallenge(msgspec.Struct, frozen=True, kw_only=True, tag="challenge"):
    """The first message of a run to whoever connects."""

    nonce: _Nonce


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True, tag="join"):
    """A worker that wants to join."""

    nonce: _Nonce
    proof: bytes
    """That it has the token, for this challenge and these fields."""
    host: _Name
    pid: _Count
    sandlot: _Name
    """Its version of Sandlot."""
    at_once: Annotated[int, Meta(ge=1, le=100_000)]
    """Rollouts that it takes at a time."""


class JoinAdmitted(msgspec.Struct, frozen=True, kw_only=True, tag="admitted"):
    """The worker may join; `SetUp` follows."""

    proof: bytes
    """That the run has the token too."""


class JoinRefused(msgspec.Struct, frozen=True, kw_only=True, tag="join_refused"):
    """The worker may not join; the reason, a sentence."""

    reason: str


JoinReply = JoinChallenge | JoinAdmitted | JoinRefused


class SentFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of an environment, for a machine that does not have them."""

    source: str
    """Where the environment is on the run's own machine: a worker that finds it there loads it from there."""
    entry: str
    """The file to load, relative to their folder; empty for the folder itself."""
    files: dict[str, bytes]


class SetUp(msgspec.Struct, frozen=True, kw_only=True, tag="set_up"):
    """What a worker needs to know once."""

    config: RunConfig
    """The whole run, with the secrets in its URLs."""
    fingerprint: str
    """Of the environment that the run was begun with: a worker that finds another one refuses."""
    parts: dict[str, str] = {}
    """What the fingerprint covers, with the digest of each: a refusal names those that differ."""
    tasks: str = ""
    """The digest of all tasks, for a worker that makes them on another machine; empty if it need not look."""
    cache: str
    """Folder for a judge's verdicts."""
    pool: int
    """Sandboxes kept ready."""
    sent: SentFiles | None = None
    """For a worker on another machine."""


class TakeRollout(msgspec.Struct, frozen=True, kw_only=True, tag="take"):
    """Take one rollout."""

    number: int
    """Names this attempt in all messages about it."""
    task: str
    digest: str
    """Of the task: a worker whose task of that name is another one does not take it."""
    rollout: int
    run: str


class CancelRollout(msgspec.Struct, frozen=True, kw_only=True, tag="cancel"):
    """Stop a rollout, and close its world."""

    number: int


class GradeRollout(msgspec.Struct, frozen=True, kw_only=True, tag="grade"):
    """There is room to grade a rollout whose evidence is stored."""

    number: int


class DismissWorker(msgspec.Struct, frozen=True, kw_only=True, tag="dismiss"):
    """The run needs the worker no more: cancel what goes on, close everything."""

    reason: str | None = None
    """Why the run goes on without this worker, a clause; None if it has ended."""


class WorkerReady(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """Everything is open."""

    fingerprint: str
    """Of the environment that the worker has."""


class WorkerRefused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The worker cannot work; the reason, a sentence."""

    reason: str
    died: bool = False
    """True if something died that it had started, such as sandboxes: the next worker may have more luck."""

    def as_error(self) -> ConfigError | HarnessError:
        """What ends the run, or only this worker."""
        return HarnessError(self.reason) if self.died else ConfigError(self.reason)


class EventHappened(msgspec.Struct, frozen=True, kw_only=True, tag="event"):
    """An event of a rollout."""

    number: int
    event: RolloutNote


class EvidenceStored(msgspec.Struct, frozen=True, kw_only=True, tag="evidence"):
    """The agent has ended and the world is closed; the rollout waits for `GradeRollout`."""

    number: int


class RolloutDone(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """A rollout has ended, well or not."""

    number: int
    trace: Trace
    blobs: tuple[bytes, ...]
    """What the trace refers to."""
    abandoned: dict[str, _Count] = {}
    """Threads of this worker that did not return after their deadline, by function."""


class RolloutRaised(msgspec.Struct, frozen=True, kw_only=True, tag="raised"):
    """A rollout raised, which none should: the run stops."""

    number: int
    error: str


class RolloutReturned(msgspec.Struct, frozen=True, kw_only=True, tag="returned"):
    """A worker that leaves gives a rollout back, unfinished and with its world closed."""

    number: int


class WorkerLeaving(msgspec.Struct, frozen=True, kw_only=True, tag="leaving"):
    """The worker was asked to go: it takes no more rollouts, and finishes or returns those that it has."""


class WorkerGone(msgspec.Struct, frozen=True, kw_only=True, tag="gone"):
    """The last message of a worker that ends in order: nothing of it goes on."""


ToWorker = SetUp | TakeRollout | GradeRollout | CancelRollout | DismissWorker
AboutRollout = EventHappened | EvidenceStored | RolloutDone | RolloutRaised | RolloutReturned
FromWorker = WorkerReady | WorkerRefused | AboutRollout | WorkerLeaving | WorkerGone
