"""Refuses requests from web pages, and beyond this machine those without the token.

A web page in a browser on this machine can send requests to a local server, from another origin or through a host name that
resolves to 127.0.0.1 (DNS rebinding). So `Host` must be a name of the server, `Origin` must be one too, and a body must be JSON,
which a browser sends to another origin only after a preflight request. A server at every address of the machine is known by the
address that the request came to, and takes pages of exactly the host that was asked.
"""

import socket
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sandlot.core.access import has_token, require_token
from sandlot.core.address import Address

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MAPPED = "::ffff:"
"""An IPv4 address, as a server at every IPv6 address sees it."""


class Guard:
    """ASGI middleware that refuses requests from web pages, and those without the token if there is one."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        allowed: Iterable[str] = (),
        *,
        token: str | None = None,
        fix: str = "start the server with `--allow-host NAME`",
    ) -> None:
        """`host` is the address the server listens on; `allowed` are further names that clients may use.

        `fix` says how a name is allowed. `ConfigError` for an address beyond this machine without a token.
        """
        address = Address(host, 0)
        self._app, self._token, self._fix = app, require_token(address, token, "give a token"), fix
        self._everywhere = address.is_wildcard
        own = {socket.gethostname().lower()} if self._everywhere else {host.lower()}
        self._known = _LOOPBACK | own | {name.lower() for name in allowed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":  # nothing else is served; a web socket is closed before it opens
            await send({"type": "websocket.close", "code": 1008})
            return
        here = (scope.get("server") or ("",))[0]
        refusal = self.refusal(scope["method"], Headers(scope=scope), here)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, message = refusal
        error = {"message": message, "type": "invalid_request_error", "code": status}
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        await JSONResponse({"error": error}, status, headers)(scope, receive, send)

    def refusal(self, method: str, headers: Mapping[str, str], here: str) -> tuple[int, str] | None:
        """The status and the reason of a refusal; None for a request that may pass. Headers are found in any case.

        `here` is the address of this machine that the request came to.
        """
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_known(f"http://{host}", here):
            return 421, f"unknown host `{host[:200]}`; to allow it, {self._fix}"
        if origin is not None and not (self._is_known(origin, here) and (not self._everywhere or _same(origin, host))):
            return 403, f"requests from web pages of `{origin[:200]}` are refused; to allow a host, {self._fix}"
        if self._token is not None and not has_token(headers.get("authorization", ""), self._token):
            return 401, "the token is missing or wrong; send `Authorization: Bearer TOKEN`, or use http://any:TOKEN@HOST:PORT"
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != "application/json":
            return 415, f"the content type is `{kind[:100]}`; send JSON with `Content-Type: application/json`"
        return None

    def _is_known(self, url: str, here: str) -> bool:
        """True if the URL's host is a name of the server. At every address it also has the one that the request came to."""
        try:
            name = (urlsplit(url).hostname or "").lower()
        except ValueError:
            return False
        return name in self._known or (self._everywhere and bool(name) and name == here.lower().removeprefix(_MAPPED))


def _same(origin: str, host: str) -> bool:
    return origin.lower().partition("://")[2] == host.lower()
