"""Refuses requests from web pages.

A web page in a browser on this machine can send requests to a local server, from another origin or through a host name that
resolves to 127.0.0.1 (DNS rebinding). So `Host` must be a known name of the server, `Origin` must be such a host too, and a body
must be JSON, which a browser sends to another origin only after a preflight request.
"""

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """ASGI middleware that refuses requests from web pages."""

    def __init__(self, app: ASGIApp, host: str, allowed: Iterable[str] = ()) -> None:
        """`host` is the address the server listens on; `allowed` are further names that clients may use."""
        self._app = app
        self._anywhere = host in {"0.0.0.0", "::", ""}  # noqa: S104 - compared, not bound
        own = {socket.gethostname().lower()} if self._anywhere else {host.lower()}
        self._known = _LOOPBACK | own | {name.lower() for name in allowed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refusal = self.refusal(scope["method"], Headers(scope=scope)) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, message = refusal
        error = {"message": message, "type": "invalid_request_error", "code": status}
        await JSONResponse({"error": error}, status)(scope, receive, send)

    def refusal(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """The status and the reason of a refusal; None for a request that may pass. Headers are found in any case."""
        host = headers.get("host", "")
        if not self._is_known(f"http://{host}"):
            return 421, f"unknown host `{host[:200]}`; start the server with `--allow-host NAME` to allow it"
        origin = headers.get("origin")
        if origin is not None and not self._is_known(origin):
            return 403, f"requests from web pages of `{origin[:200]}` are refused; `--allow-host NAME` allows a host"
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != "application/json":
            return 415, f"the content type is `{kind[:100]}`; send JSON with `Content-Type: application/json`"
        return None

    def _is_known(self, url: str) -> bool:
        """True if the URL's host is a known name. A server on all addresses also accepts any IP address."""
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
