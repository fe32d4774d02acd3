"""What a run and its workers say to each other: messages as msgpack, over a socket that only they have, or through Ray.

On a socket a message is in a frame, with its length in four bytes. A worker gets `SetUp` first and answers `WorkerReady` or
`WorkerRefused`. Then it takes each rollout it is told to, and sends its events before its result. Between the
evidence and the grading it says `EvidenceStored` and waits for `GradeRollout`.
"""

from collections.abc import AsyncGenerator
from typing import TypeVar

import anyio
import msgspec
from anyio.abc import ByteReceiveStream
from anyio.streams.buffered import BufferedByteReceiveStream

from sandlot.core.errors import HarnessError
from sandlot.core.trace import Trace
from sandlot.observe.events import AnyEvent
from sandlot.run.config import RunConfig

_HEAD_BYTES = 4
_MOST_BYTES = 2**31
"""A longer frame is refused: the other side is not what it should be."""


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


class WorkerReady(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """Everything is open."""


class WorkerRefused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The worker cannot work; the reason, a sentence."""

    reason: str


class EventHappened(msgspec.Struct, frozen=True, kw_only=True, tag="event"):
    """An event of a rollout."""

    number: int
    event: AnyEvent


class EvidenceStored(msgspec.Struct, frozen=True, kw_only=True, tag="evidence"):
    """The agent has ended and the world is closed; the rollout waits for `GradeRollout`."""

    number: int


class RolloutDone(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """A rollout has ended, well or not."""

    number: int
    trace: Trace
    blobs: tuple[bytes, ...]
    """What the trace refers to."""
    abandoned: dict[str, int] = {}
    """Threads of this worker that did not return after their deadline, by function."""


class RolloutRaised(msgspec.Struct, frozen=True, kw_only=True, tag="raised"):
    """A rollout raised, which none should: the run stops."""

    number: int
    error: str


ToWorker = SetUp | TakeRollout | GradeRollout | CancelRollout
FromWorker = WorkerReady | WorkerRefused | EventHappened | EvidenceStored | RolloutDone | RolloutRaised
_Message = TypeVar("_Message", ToWorker, FromWorker)


def in_frame(message: ToWorker | FromWorker) -> bytes:
    """A message as it is sent."""
    data = msgspec.msgpack.encode(message)
    if len(data) > _MOST_BYTES:
        raise HarnessError(f"a message of {len(data):,} bytes; at most {_MOST_BYTES:,} are sent between processes")
    return len(data).to_bytes(_HEAD_BYTES, "big") + data


async def messages_of(stream: ByteReceiveStream, decoder: msgspec.msgpack.Decoder[_Message]) -> AsyncGenerator[_Message]:
    """Every message until the other side is gone."""
    frames = BufferedByteReceiveStream(stream)
    while True:
        try:
            size = int.from_bytes(await frames.receive_exactly(_HEAD_BYTES), "big")
            if size > _MOST_BYTES:
                return
            message = decoder.decode(await frames.receive_exactly(size))
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        except msgspec.DecodeError:
            return  # whoever sends this is not to be trusted with more
        yield message
