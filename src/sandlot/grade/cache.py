"""A cache of verdicts, keyed by a hash of everything in the question, so that the same question is asked once.

The judge parses a cached text as strictly as a reply, so a damaged entry is a miss.
"""

from pathlib import Path

import anyio.to_thread

from sandlot.core.disk import write_file


class VerdictCache:
    """One small file per verdict; several processes may share the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def get(self, key: str) -> str | None:
        """The stored text, or None."""
        return await anyio.to_thread.run_sync(self._get, key)

    async def put(self, key: str, text: str) -> None:
        """Store a text, or replace it."""
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
