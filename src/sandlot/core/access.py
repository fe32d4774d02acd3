"""Who may use what listens: any program of this machine; from beyond it, whoever has the token. One rule for every listener.

A server of ours calls `require_token` before it listens. Beyond the loopback address it gets a token or refuses to start; the
message has the fix, with a new token in it. Over HTTP clients send `Authorization: Bearer TOKEN`; a worker proves that it has it.
"""

import base64
import hmac
import os
import secrets

from sandlot.core.address import Address
from sandlot.core.errors import ConfigError

SERVE_VARIABLE = "SANDLOT_SERVE_TOKEN"
SERVE_TOKEN = f"add `--token TOKEN` or set `{SERVE_VARIABLE}`"
"""How `sandlot serve` is given a token."""
SHORTEST_TOKEN = 16
"""Characters: whoever listens to a connection without TLS, or tries many, could guess a shorter one."""


def require_token(address: Address, token: str | None, fix: str) -> str | None:
    """The token that clients must have; None if none is given and only this machine can reach the address.

    `fix` says where a token is given, such as "add `--token TOKEN`". `ConfigError` for an open address without a token, and for a
    token that is short or cannot be sent.
    """
    if token is None:
        if address.is_loopback:
            return None
        raise ConfigError(
            f"other machines can reach `{address}`, so it needs a token: {fix}, such as `{secrets.token_hex(16)}`, which is new; "
            "or listen on 127.0.0.1"
        )
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"the token must have {SHORTEST_TOKEN} or more printable ASCII characters: {fix}; `openssl rand -hex 32` makes one"
        )
    return token


def token_of(variable: str) -> str | None:
    """The token in an environment variable; None if it is unset or empty."""
    return os.environ.get(variable, "").strip() or None


def has_token(authorization: str, token: str) -> bool:
    """True if a header `Authorization` has the token: as a bearer token, or as a password with any name."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except ValueError:
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.encode(errors="surrogateescape"), token.encode())
