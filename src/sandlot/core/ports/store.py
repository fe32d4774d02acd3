"""Storage for bytes: evidence, artifacts, whole tool outputs."""

from typing import Protocol


class Blobs(Protocol):
    """Bytes kept by their hash."""

    async def put(self, data: bytes) -> str:
        """Keep them and return their digest; keeping the same bytes twice keeps them once."""
        ...

    async def get(self, digest: str) -> bytes:
        """The bytes again, verified; `KeyError` if they were never kept."""
        ...
