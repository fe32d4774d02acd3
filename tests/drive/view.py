"""Pages of `sandlot view` for tests: a real server, and a reader who has its token."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from yarl import URL

from sandlot.web.app import serve_view
from sandlot.web.site import Site


class Pages:
    """What a reader gets."""

    def __init__(self, session: aiohttp.ClientSession, address: Callable[[str], str]) -> None:
        self.session, self.address = session, address

    async def get(self, page: str, status: int = 200) -> str:
        """The text of a page."""
        async with self.session.get(URL(self.address(page), encoded=True)) as answer:
            root = URL(self.address("/")).path.rstrip("/")  # random: the text is as if it were empty
            text = (await answer.text()).replace(root, "")
            assert answer.status == status, text
            return text


@asynccontextmanager
async def open_pages(folder: Path) -> AsyncGenerator[Pages]:
    async with serve_view(Site(folder)) as address, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield Pages(session, address)
