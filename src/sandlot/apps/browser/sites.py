"""Serves sites from the host on a port inside the sandbox: the pages of apps, or any function from a request to a response.

Requests come from a browser that an agent drives, so sizes are limited, and a form must come from the site that it is sent to. A
page that raises is the environment's failure.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from string import punctuation
from typing import cast
from urllib.parse import quote, urlsplit

import anyio
import h11

from sandlot.apps.live import LiveApps
from sandlot.apps.pages import PageRequest, PageResponse
from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, SandboxError, boundary
from sandlot.core.ports.sandbox import Stream
from sandlot.core.ports.world import World

_MAX_BODY_BYTES = 2**20
_READING = {b"GET", b"HEAD"}
"""Methods that change nothing, so a link of another site may use them."""

SitePages = Callable[[World, PageRequest], PageResponse]
"""A site that is not an app: answers each request."""


class SiteServer:
    """Answers the connections of one sandbox. Get one from `serve_sites`."""

    def __init__(self, world: World, sites: Mapping[str, str | SitePages]) -> None:
        self._world = world
        self._sites = sites
        self._turn = anyio.Lock()
        self.error: AuthorError | None = None
        """What was raised by the first page that failed; the tools raise it."""

    async def serve(self, stream: Stream) -> None:
        """Answer requests on one connection until it ends."""
        connection = h11.Connection(h11.SERVER)
        try:
            while await self._serve_one(connection, stream):
                connection.start_next_cycle()
        except (h11.ProtocolError, OSError, SandboxError):
            pass  # the browser went away, or wrote what is not HTTP, or the response cannot be sent as HTTP
        finally:
            with anyio.CancelScope(shield=True):
                await stream.aclose()

    async def _serve_one(self, connection: h11.Connection, stream: Stream) -> bool:
        head, body = None, bytearray()
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive())
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > _MAX_BODY_BYTES:
                    return False
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                break
            else:
                return False
        await stream.send(_encoded(connection, head, await self._answer(head, bytes(body))))
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    async def _answer(self, head: h11.Request, body: bytes) -> PageResponse:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in head.headers}
        host = headers.get("host", "").partition(":")[0].lower()
        site = self._sites.get(host)
        if site is None:
            return PageResponse.error(404, "There is no such site.")
        if head.method not in _READING and _is_foreign(headers.get("origin"), host):
            return PageResponse.error(403, "This form comes from another site.")
        is_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        try:
            request = PageRequest.of(head.method.decode(), head.target.decode("latin-1"), body if is_form else b"")
        except ValueError:
            return PageResponse.error(400, "The request has too many fields.")
        async with self._turn:  # one request after the other, so that the same play ends in the same bytes
            try:
                with boundary(AuthorError, f"site `{host}`, page `{request.path[:200]}`"):
                    return await author.call(self._page, site, request)
            except AuthorError as error:
                self.error = self.error or error
                return PageResponse.error(500, "The site has failed.")

    def _page(self, site: str | SitePages, request: PageRequest) -> PageResponse:
        if isinstance(site, str):
            return cast("LiveApps", self._world.apps).respond(site, request)
        return site(self._world, request)


def _is_foreign(origin: str | None, host: str) -> bool:
    """True if a page of another site sent the request. Browsers name the site of a form; other programs may leave it out."""
    if origin is None:
        return False
    try:
        return urlsplit(origin).hostname != host
    except ValueError:
        return True


def _encoded(connection: h11.Connection, request: h11.Request, response: PageResponse) -> bytes:
    given = {name: quote(value, safe=punctuation) if name == "Location" else value for name, value in response.headers.items()}
    headers = [*given.items(), ("Content-Length", str(len(response.body))), ("Cache-Control", "no-store")]
    pieces = [
        connection.send(h11.Response(status_code=response.status, headers=headers)),
        connection.send(h11.Data(data=b"" if request.method == b"HEAD" else response.body)),
        connection.send(h11.EndOfMessage()),
    ]
    return b"".join(piece for piece in pieces if piece)


@asynccontextmanager
async def serve_sites(world: World, port: int, sites: Mapping[str, str | SitePages]) -> AsyncGenerator[SiteServer]:
    """Serve the sites on a port of the sandbox's loopback until the context ends."""
    server = SiteServer(world, sites)
    async with world.listen(port) as connections, anyio.create_task_group() as group:

        async def accept() -> None:
            async for stream in connections:
                group.start_soon(server.serve, stream)

        group.start_soon(accept)
        try:
            yield server
        finally:
            group.cancel_scope.cancel()
