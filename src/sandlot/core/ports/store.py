"""Storage for bytes: evidence, artifacts, whole tool outputs."""

from typing import Protocol


class Blobs(Protocol):
    """Bytes stored by their hash."""

    async def put(self, data: bytes) -> str:
        """Store bytes and return their digest. The same bytes are stored once."""
        ...

    async def get(self, digest: str) -> bytes:
        """Read bytes by digest, verified; `KeyError` if they were never stored."""
        ...
