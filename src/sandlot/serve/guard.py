"""Requests that a web page sent are refused before a server sees them.

A page in a browser on this machine can send requests to a local server: by a form or a script of a foreign origin, or by a name
of its own that it lets point to 127.0.0.1 (DNS rebinding). So the `Host` must be a name the server is known by, an `Origin` must
be such a host too, and a body must be JSON, which a browser does not send to a foreign server without asking it first.
"""

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """An ASGI application that passes on only requests of programs that know where they are going."""

    def __init__(self, app: ASGIApp, host: str, allowed: Iterable[str] = ()) -> None:
        """`host` is where the server listens; `allowed` are further names that clients know it by."""
        self._app = app
        self._anywhere = host in {"0.0.0.0", "::", ""}  # noqa: S104 - asked about, not bound
        own = {socket.gethostname().lower()} if self._anywhere else {host.lower()}
        self._known = _LOOPBACK | own | {name.lower() for name in allowed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        refusal = self._refusal(scope["method"], Headers(scope=scope)) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, message = refusal
        error = {"message": message, "type": "invalid_request_error", "code": status}
        await JSONResponse({"error": error}, status)(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_known(f"http://{host}"):
            return 421, f"this server is not known as `{host[:200]}`; start it with `--allow-host NAME` if it should be"
        origin = headers.get("origin")
        if origin is not None and not self._is_known(origin):
            return 403, f"requests of web pages from `{origin[:200]}` are refused; `--allow-host NAME` allows a host"
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != "application/json":
            return 415, f"the content type is `{kind[:100]}`; send JSON with `Content-Type: application/json`"
        return None

    def _is_known(self, url: str) -> bool:
        """True for a host the server is known by. Where it listens at every address, any address will do: it is not a name."""
        try:
            name = (urlsplit(url).hostname or "").lower()
        except ValueError:
            return False
        return name in self._known or (self._anywhere and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
