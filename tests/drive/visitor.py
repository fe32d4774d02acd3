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
        self._own = address("/").partition("/?")[0]

    async def read(self, page: str) -> tuple[int, str]:
        async with self._session.get(URL(self._address(page), encoded=True)) as answer:
            return answer.status, await answer.text()

    async def post(self, page: str, told: object, *, body: bytes | None = None) -> tuple[int, dict]:
        data = json.dumps(told).encode() if body is None else body
        headers = {"Origin": self._own, "Content-Type": "application/json"}
        async with self._session.post(URL(self._own + page, encoded=True), data=io.BytesIO(data), headers=headers) as answer:
            return answer.status, await answer.json()


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
