"""The way to a worker at the other end of a `WorkerConnection`: one that was started here, or one that joined."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import anyio
import msgspec

from sandlot.core.errors import ConfigError, HarnessError
from sandlot.run.executors.connection import WorkerConnection
from sandlot.run.executors.messages import (
    CancelRollout,
    FromWorker,
    GradeRollout,
    SetUp,
    TakeRollout,
    WorkerGone,
    WorkerReady,
    WorkerRefused,
)
from sandlot.run.executors.pool import START_S

_DECODER = msgspec.msgpack.Decoder(FromWorker)


@dataclass(frozen=True, slots=True)
class StreamLink:
    """A `WorkerLink` over a connection."""

    connection: WorkerConnection
    pid: int
    how_ended: Callable[[], Awaitable[str]]
    at_once: int | None = None

    async def send(self, message: TakeRollout | GradeRollout | CancelRollout) -> None:
        """Tell it to do something."""
        self.connection.say(message)

    async def describe_end(self) -> str:
        """How it ended; asked when there are no more messages."""
        return await self.how_ended()

    async def messages(self) -> AsyncGenerator[FromWorker]:
        """Everything that it says, until it is gone."""
        async for message in self.connection.messages(_DECODER):
            if isinstance(message, WorkerGone):
                self.connection.ended = "left"
            yield message


async def set_up_worker(link: StreamLink, setup: SetUp, patience_s: float = START_S) -> None:
    """Tell a worker what to open, and wait until it has; `ConfigError` if it refuses, `HarnessError` if it is not ready."""
    link.connection.say(setup)
    try:
        with anyio.fail_after(patience_s):
            first = await anext(link.messages(), None)
    except TimeoutError as error:
        raise HarnessError(f"a worker was not ready after {patience_s:g} s") from error
    match first:
        case WorkerReady(fingerprint=fingerprint):
            if fingerprint != setup.fingerprint:
                raise ConfigError(f"a worker has another environment: its fingerprint is `{fingerprint[:16]}`")
        case WorkerRefused() as refused:
            raise refused.as_error()
        case _:
            raise HarnessError(f"{await link.describe_end()} before it was ready")
