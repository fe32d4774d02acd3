"""The pages of `sandlot view` as an ASGI application. It only reads, and everything it shows may be hostile.

Templates escape all text, and the content-security policy allows no inline script or style, so that nothing an agent, a tool or
an environment wrote becomes markup. Requests need the token of the printed address, which becomes a cookie; `Guard` refuses other
hosts and origins. Paths come from the list of runs, never from the request.
"""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

import anyio
import anyio.to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.datastructures import URL, Headers, MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandlot.core.errors import SandlotError
from sandlot.core.text import printable
from sandlot.model.wire.listening import serve_app
from sandlot.serve.guard import Guard
from sandlot.web.pages import find_run_path, group_page, list_page, run_page, run_state, trace_page

_HERE = Path(__file__).parent
_COOKIE = "sandlot-view"
_TICK_S = 1.0
"""Time between two looks at a live run."""
_UNKNOWN = "-"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@asynccontextmanager
async def serve_view(folder: Path, *, port: int = 0) -> AsyncGenerator[Callable[[str], str]]:
    """Serve the runs of a folder on this machine until the block ends; yields what makes an address of a page's path."""
    host, token = "127.0.0.1", secrets.token_urlsafe(18)
    app = Guard(_Reader(view_app(folder), token), host)
    async with serve_app(app, host=host, port=port, drain_s=0.5) as address:
        yield lambda page: str(URL(address + page).include_query_params(token=token))


def view_app(folder: Path) -> Starlette:
    """The pages of a folder of runs."""
    pages = Environment(loader=FileSystemLoader(_HERE / "templates"), undefined=StrictUndefined, autoescape=True)
    pages.filters |= {"percent": _percent, "number": _number, "seconds": _seconds}
    cast("dict[str, Any]", pages.globals)["link"] = link

    def page(name: str, build: Callable[[Path, QueryParams], dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            run = request.path_params.get("run")
            try:
                shown = await anyio.to_thread.run_sync(
                    lambda: build(folder if run is None else find_run_path(folder, run), request.query_params)
                )
            except (SandlotError, OSError) as error:
                problem = {"title": "not found", "problem": printable(str(error), 1000)}
                return HTMLResponse(pages.get_template("problem.html").render(problem), 404)
            return HTMLResponse(pages.get_template(name).render(shown))

        return answer

    async def live(request: Request) -> Response:
        try:
            path = find_run_path(folder, request.path_params["run"])
        except SandlotError as error:
            return PlainTextResponse(printable(str(error), 1000), 404)
        return StreamingResponse(_ticks(path), media_type="text/event-stream")

    routes = [
        Route("/", page("runs.html", lambda path, _: list_page(path))),
        Route("/run/{run}", page("run.html", lambda path, query: run_page(path, _whole_number(query.get("from"))))),
        Route("/run/{run}/live", live),
        Route("/run/{run}/group", page("group.html", lambda path, query: group_page(path, query.get("task", "")))),
        Route("/run/{run}/trace", page("trace.html", _trace)),
        Mount("/static", StaticFiles(directory=_HERE / "static")),
    ]
    return Starlette(routes=routes)


def _trace(path: Path, query: QueryParams) -> dict[str, Any]:
    return trace_page(path, query.get("task", ""), _whole_number(query.get("rollout")), whole="whole" in query)


def link(run: str, page: str = "", **query: str | int) -> str:
    """The path of a run's page. A task is in the query: it may be named `..` or hold a slash, which browsers change in paths."""
    path = f"/run/{quote(run, safe='')}" + (f"/{page}" if page else "")
    return f"{path}?{urlencode(query)}" if query else path


class _Reader:
    """Middleware: only readers who know the token; the address with the token becomes one with a cookie."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if scope["type"] == "http":
            await self._choose(scope)(scope, receive, send_headers)

    def _choose(self, scope: Scope) -> ASGIApp:
        if scope["method"] not in {"GET", "HEAD"}:
            return PlainTextResponse("These pages only read.", 405)
        url = URL(scope=scope)
        if self._is_token(QueryParams(url.query).get("token", "")):
            clean = url.remove_query_params("token")
            response = RedirectResponse(str(clean.replace(scheme="", netloc="")), 303)
            response.set_cookie(_COOKIE, self._token, httponly=True, samesite="strict")
            return response
        if not self._is_token(_cookie(Headers(scope=scope).get("cookie", ""))):
            return PlainTextResponse("Open the address that `sandlot view` printed: it has the token.", 403)
        return self._app

    def _is_token(self, told: str) -> bool:
        return secrets.compare_digest(told.encode(), self._token.encode())


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(_COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


async def _ticks(path: Path) -> AsyncGenerator[bytes]:
    """The state of a run as server-sent events, while it changes; the last one says that it has ended."""
    before = None
    while True:
        state = await anyio.to_thread.run_sync(run_state, path)
        if state != before:
            before = state
            yield b"data: " + state.encoded() + b"\n\n"
        if not state.live:
            return
        await anyio.sleep(_TICK_S)


def _whole_number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0%}"


def _number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}f}"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 100 else f"{value / 60:.0f} min"
