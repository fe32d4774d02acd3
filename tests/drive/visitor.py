"""A reader of a served view, over HTTP."""

import io
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from sandlot.web.app import serve_view
from sandlot.web.site import Site


class Visitor:
    """A reader with the token of a served view."""

    def __init__(self, session: aiohttp.ClientSession, address) -> None:
        self._session, self._address = session, address
        self._own = URL(address("/").partition("/?")[0])
        """With the path that all pages of this view begin with, which is random: what is read here is as if it were empty."""

    async def read(self, page: str) -> tuple[int, str]:
        async with self._session.get(URL(self._address(page), encoded=True)) as answer:
            return answer.status, (await answer.text()).replace(self._own.path, "")

    async def post(self, page: str, told: object, *, body: bytes | None = None) -> tuple[int, dict]:
        data = json.dumps(told).encode() if body is None else body
        headers = {"Origin": str(self._own.origin()), "Content-Type": "application/json"}
        async with self._session.post(URL(f"{self._own}{page}", encoded=True), data=io.BytesIO(data), headers=headers) as answer:
            return answer.status, json.loads((await answer.text()).replace(self._own.path, ""))


@asynccontextmanager
async def visit(site: Site) -> AsyncGenerator[Visitor]:
    """Serve a view and open it with its token."""
    async with (
        serve_view(site) as address,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as own,
    ):
        visitor = Visitor(own, address)
        await visitor.read("/")
        yield visitor
