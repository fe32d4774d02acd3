"""The pages of `sandlot view` as an ASGI application. Everything it shows may be hostile.

Templates escape all text, and the content-security policy allows no inline script or style, so that nothing an agent, a tool or
an environment wrote becomes markup. Requests need the token of the printed address, which becomes a cookie; `Guard` refuses other
hosts and origins, and what is posted must be JSON. Browsers send a cookie to every port of a host, so the pages have a random
path of their own, and the cookie is for this path and named by the port. Paths of files come from the list of runs, never from
the request.
"""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Protocol, cast

import anyio
import anyio.to_thread
import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.datastructures import URL, Headers, MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandlot.core.errors import ConfigError, SandlotError
from sandlot.core.text import printable
from sandlot.model.wire.listening import serve_app
from sandlot.serve.guard import Guard
from sandlot.web.artifacts import send_artifact
from sandlot.web.pages.audit import audit_page, audits_page
from sandlot.web.pages.compare import compare_page
from sandlot.web.pages.control import control_run
from sandlot.web.pages.diff import diff_page
from sandlot.web.pages.environment import environment_page, run_environment_page
from sandlot.web.pages.files import file_page
from sandlot.web.pages.findings import findings_page
from sandlot.web.pages.group import group_page
from sandlot.web.pages.messages import text_slice
from sandlot.web.pages.pairs import pair_page, prefer_rollout
from sandlot.web.pages.readers import readers_page
from sandlot.web.pages.review import label_rollout, note_message, review_page
from sandlot.web.pages.rubric import lint_edit, rubric_page, save_edit, try_edit
from sandlot.web.pages.run import run_page, run_state
from sandlot.web.pages.runs import list_page
from sandlot.web.pages.tokens import token_columns
from sandlot.web.pages.trace import recording_data, trace_page
from sandlot.web.pages.training import training_charts, training_now, training_page
from sandlot.web.site import Asked, Site, compare_link, link, root, rooted

_HERE = Path(__file__).parent
_TICK_S = 1.0
"""Time between two looks at a live run."""
_LARGEST = 4_000_000
"""Bytes that an action reads."""
_UNKNOWN = "-"
_WRONG_ADDRESS = "Open the address that `sandlot view` printed: it has the token."
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@asynccontextmanager
async def serve_view(site: Site, *, port: int = 0) -> AsyncGenerator["Addresses"]:
    """Serve the runs of a folder on this machine until the block ends; yields what makes an address of a page's path."""
    host, reader = "127.0.0.1", _Reader(view_app(site), f"/{secrets.token_hex(8)}", secrets.token_urlsafe(18))
    async with serve_app(Guard(reader, host), host=host, port=port, drain_s=0.5) as address:
        yield Addresses(address, reader)


class Addresses:
    """Makes the addresses of pages."""

    def __init__(self, address: str, reader: "_Reader") -> None:
        self._address, self._reader = address, reader

    def __call__(self, page: str, *, once: bool = False) -> str:
        """The address of a page's path. With `once` it opens one time: other users of the machine see a command's arguments."""
        token = self._reader.make_token() if once else self._reader.token
        return str(URL(self._address + self._reader.root + page).include_query_params(token=token))


class _State(Protocol):
    """What changes while a run goes on."""

    @property
    def live(self) -> bool: ...
    def encoded(self) -> bytes: ...


_Build = Callable[[Asked], dict[str, Any]]
_Act = Callable[[Asked, dict[str, Any]], dict[str, Any]]
_PAGES: dict[str, tuple[str, _Build]] = {
    "/": ("runs.html", list_page),
    "/compare": ("compare.html", compare_page),
    "/run/{run}": ("run.html", run_page),
    "/run/{run}/findings": ("findings.html", findings_page),
    "/run/{run}/group": ("group.html", group_page),
    "/run/{run}/diff": ("diff.html", diff_page),
    "/run/{run}/trace": ("trace.html", trace_page),
    "/run/{run}/training": ("training.html", training_page),
    "/run/{run}/file": ("file.html", file_page),
    "/run/{run}/environment": ("run_environment.html", run_environment_page),
    "/environment": ("environment.html", environment_page),
    "/rubric": ("rubric.html", rubric_page),
    "/audits": ("audits.html", audits_page),
    "/audit": ("audit.html", audit_page),
    "/run/{run}/review": ("review.html", review_page),
    "/run/{run}/pairs": ("pairs.html", pair_page),
    "/run/{run}/readers": ("readers.html", readers_page),
}
"""The template and the content of each page."""
_DATA: dict[str, _Build] = {
    "/run/{run}/training/charts": training_charts,
    "/run/{run}/text": text_slice,
    "/run/{run}/tokens": token_columns,
    "/run/{run}/recording": recording_data,
}
"""What is answered as JSON, for the script of a page."""
_BYTES: dict[str, Callable[[Asked], Response]] = {"/run/{run}/artifact": send_artifact}
"""What is sent as it is stored."""
_LIVE: dict[str, Callable[[Asked], _State]] = {"/run/{run}/live": run_state, "/run/{run}/training/live": training_now}
"""What is sent to a page while a run goes on, whenever it changes."""
_ACTIONS: dict[str, _Act] = {
    "/run/{run}/control": control_run,
    "/rubric/lint": lint_edit,
    "/rubric/try": try_edit,
    "/rubric/save": save_edit,
    "/run/{run}/label": label_rollout,
    "/run/{run}/note": note_message,
    "/run/{run}/prefer": prefer_rollout,
}
"""What each address does with the JSON object that is posted to it, and answers as one. Each checks what its site allows."""


def page_templates(**known: Any) -> Environment:
    """The templates of all pages, which escape all text; `known` are the names that every page can use."""
    templates = Environment(loader=FileSystemLoader(_HERE / "templates"), undefined=StrictUndefined, autoescape=True)
    templates.filters |= {"percent": _percent, "number": _number, "seconds": _seconds, "json": _json}
    cast("dict[str, Any]", templates.globals).update({"compare_link": compare_link, "root": root, "saved": False, **known})
    return templates


def view_app(site: Site) -> Starlette:
    """The pages of a folder of runs."""
    templates = page_templates(link=link, site=site)

    def page(name: str, build: _Build) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                shown = await anyio.to_thread.run_sync(build, _asked(site, request))
            except (SandlotError, OSError, RecursionError) as error:
                problem = {"title": "not found", "problem": printable(str(error), 1000)}
                return HTMLResponse(templates.get_template("problem.html").render(problem), 404)
            asked_name = request.path_params.get("run")  # of an evaluation, its directory's name alone would not be enough
            return HTMLResponse(templates.get_template(name).render(shown | ({"name": asked_name} if asked_name else {})))

        return answer

    def action(act: _Act) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                told = msgspec.json.decode(await _body(request), type=dict[str, Any])
                done = await anyio.to_thread.run_sync(act, _asked(site, request), told)
            except (SandlotError, OSError, msgspec.MsgspecError, UnicodeError) as error:
                return JSONResponse({"problem": printable(str(error), 1000)}, 400)
            return JSONResponse(done)

        return answer

    return Starlette(
        routes=[
            *(Route(path, page(name, build)) for path, (name, build) in _PAGES.items()),
            *(Route(path, action(act), methods=["POST"]) for path, act in _ACTIONS.items()),
            *(Route(path, _data_answer(site, build)) for path, build in _DATA.items()),
            *(Route(path, _bytes_answer(site, send)) for path, send in _BYTES.items()),
            *(Route(path, _live_answer(site, look)) for path, look in _LIVE.items()),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ]
    )


def _data_answer(site: Site, build: _Build) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            shown = await anyio.to_thread.run_sync(build, _asked(site, request))
        except (SandlotError, OSError, RecursionError) as error:
            return JSONResponse({"problem": printable(str(error), 1000)}, 404)
        return Response(msgspec.json.encode(shown), media_type="application/json")

    return answer


def _live_answer(site: Site, look: Callable[[Asked], _State]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            first = await anyio.to_thread.run_sync(look, _asked(site, request))
        except (SandlotError, OSError, RecursionError) as error:
            return PlainTextResponse(printable(str(error), 1000), 404)
        return StreamingResponse(_ticks(_asked(site, request), look, first), media_type="text/event-stream")

    return answer


def _bytes_answer(site: Site, send: Callable[[Asked], Response]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await anyio.to_thread.run_sync(send, _asked(site, request))
        except (SandlotError, OSError, RecursionError) as error:
            return PlainTextResponse(printable(str(error), 1000), 404)

    return answer


def _asked(site: Site, request: Request) -> Asked:
    return Asked(site, request.path_params.get("run"), request.query_params)


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST:
            raise ConfigError(f"the request is larger than {_LARGEST:,} bytes")
    return body


class _Reader:
    """Middleware: only readers who know the token; the address with the token becomes one with a cookie."""

    def __init__(self, app: ASGIApp, root: str, token: str) -> None:
        self._app, self.root, self.token = app, root, token
        self._once: set[str] = set()

    def make_token(self) -> str:
        """A token that opens one page, once."""
        token = secrets.token_urlsafe(18)
        self._once.add(token)
        return token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] == "http":
            path = scope["path"].removeprefix(self.root)
            with rooted(self.root):
                await self._choose(scope)({**scope, "path": path, "raw_path": path.encode()}, receive, send_headers)

    def _choose(self, scope: Scope) -> ASGIApp:
        if not scope["path"].startswith(f"{self.root}/"):
            return PlainTextResponse(_WRONG_ADDRESS, 403)
        url, headers = URL(scope=scope), Headers(scope=scope)
        if scope["method"] not in {"GET", "HEAD"} and headers.get("origin") != f"http://{headers.get('host')}":
            return PlainTextResponse("Only these pages themselves may change something.", 403)
        told = QueryParams(url.query).get("token", "")
        if self._is_token(told) or told in self._once:
            self._once.discard(told)
            clean = url.remove_query_params("token")
            response = RedirectResponse(str(clean.replace(scheme="", netloc="")), 303)
            response.set_cookie(_cookie_name(scope), self.token, path=f"{self.root}/", httponly=True, samesite="strict")
            return response
        if not self._is_token(_cookie(headers.get("cookie", ""), _cookie_name(scope))):
            return PlainTextResponse(_WRONG_ADDRESS, 403)
        return self._app

    def _is_token(self, told: str) -> bool:
        return secrets.compare_digest(told.encode(), self.token.encode())


def _cookie_name(scope: Scope) -> str:
    """Views at other ports have other cookies. A tunnel may have another port: it is that of the server."""
    return f"sandlot-view-{(scope.get('server') or ('', 0))[1]}"


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


async def _ticks(asked: Asked, look: Callable[[Asked], _State], state: _State) -> AsyncGenerator[bytes]:
    """The state of a run as server-sent events, while it changes; the last one says that it has ended."""
    before = None
    while True:
        if state != before:
            before = state
            yield b"data: " + state.encoded() + b"\n\n"
        if not state.live:
            return
        await anyio.sleep(_TICK_S)
        try:
            state = await anyio.to_thread.run_sync(look, asked)
        except (SandlotError, OSError):
            return  # the run was moved or removed


def _json(value: Any) -> str:
    """As JSON for an attribute, which the template escapes."""
    return msgspec.json.encode(value).decode()


def _percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0%}"


def _number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}f}"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 100 else f"{value / 60:.0f} min"
