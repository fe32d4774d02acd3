"""Verdicts kept by the hash of everything that led to them, so that the same question is paid for once.

A cache holds opaque text by key; what it gives back is read as strictly as a judge's reply, so a damaged entry is a miss.
"""

from pathlib import Path
from typing import Protocol

import anyio.to_thread

from sandlot.core.disk import write_file


class VerdictCache(Protocol):
    """Text by key."""

    async def get(self, key: str) -> str | None:
        """What was kept under the key, or None."""
        ...

    async def put(self, key: str, text: str) -> None:
        """Keep it; a second time replaces the first."""
        ...


class MemoryCache:
    """Lives as long as the process."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def get(self, key: str) -> str | None:
        """What was kept under the key, or None."""
        return self._texts.get(key)

    async def put(self, key: str, text: str) -> None:
        """Keep it."""
        self._texts[key] = text


class FolderCache:
    """One small file a verdict, written whole or not at all; several processes may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def get(self, key: str) -> str | None:
        """What was kept under the key, or None."""
        return await anyio.to_thread.run_sync(self._get, key)

    async def put(self, key: str, text: str) -> None:
        """Keep it."""
        await anyio.to_thread.run_sync(self._put, key, text)

    def _get(self, key: str) -> str | None:
        try:
            return (self._folder / key[:2] / key).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def _put(self, key: str, text: str) -> None:
        place = self._folder / key[:2] / key
        place.parent.mkdir(parents=True, exist_ok=True)
        write_file(place, text.encode(), durable=False)
