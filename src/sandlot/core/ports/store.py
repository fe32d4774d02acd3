"""Where traces and evidence are kept."""

from typing import Protocol

from sandlot.core.trace import Trace, TraceRow


class Blobs(Protocol):
    """Bytes kept by their hash."""

    async def put(self, data: bytes) -> str:
        """Keep them and return their digest; keeping the same bytes twice keeps them once."""
        ...

    async def get(self, digest: str) -> bytes:
        """The bytes again, verified; `KeyError` if they were never kept."""
        ...


class TraceSink(Protocol):
    """Where finished rollouts go."""

    async def add(self, trace: Trace, row: TraceRow) -> None:
        """Returns when it is on disk: only then does the rollout count. A second trace of the same rollout is a `StoreError`."""
        ...
