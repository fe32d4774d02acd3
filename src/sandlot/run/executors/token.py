"""Who may join a run: whoever has its token, which never travels. Each side proves to the other that it has it.

A proof is an HMAC over a fresh random value of each side and what the worker says about itself, so it cannot be used twice. On
the loopback address a run makes a token of its own and leaves it in a file that only this user can read.
"""

import hmac
import os
import secrets
import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from sandlot.core.access import SHORTEST_TOKEN, token_of
from sandlot.core.address import Address
from sandlot.core.errors import ConfigError
from sandlot.run.executors.messages import JoinRequest
from sandlot.sandbox.program import cache_folder

TOKEN_VARIABLE = "SANDLOT_WORKER_TOKEN"  # noqa: S105 - a name
CERTIFICATE_VARIABLE = "SANDLOT_WORKER_CERTIFICATE"
NONCE_BYTES = 32


def prove(token: str, side: Literal["run", "worker"], challenge: bytes, request: JoinRequest) -> bytes:
    """What only a side with the token can say, for one connection."""
    said = msgspec.msgpack.encode([side, challenge, msgspec.structs.replace(request, proof=b"")])
    return hmac.digest(token.encode(), said, "sha256")


def is_proof(given: bytes, token: str, side: Literal["run", "worker"], challenge: bytes, request: JoinRequest) -> bool:
    """Whether a proof is right, in the same time whatever is wrong with it."""
    return hmac.compare_digest(given, prove(token, side, challenge, request))


def given_token(file: Path | None = None) -> str | None:
    """The token in a file, or in the variable; None if there is neither."""
    if file is not None:
        try:
            token, place = file.read_text().strip(), f"file `{file}`"
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the token file `{file}` cannot be read: {error}") from error
    else:
        token, place = token_of(TOKEN_VARIABLE), f"variable `{TOKEN_VARIABLE}`"
        if token is None:
            return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"the token in the {place} must have {SHORTEST_TOKEN} or more printable ASCII characters; "
            "`openssl rand -hex 32` makes one"
        )
    return token


@contextmanager
def own_token(address: Address) -> Generator[str]:
    """A new token, which other programs of this user find until the block ends."""
    token, file = secrets.token_hex(32), _token_file(address)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # one that a killed run left may have another mode
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as opened:  # noqa: PTH123 - with a mode
            opened.write(token)
    except OSError as error:
        raise ConfigError(f"cannot write the token for workers to {file}: {error}; set `{TOKEN_VARIABLE}` instead") from error
    try:
        yield token
    finally:
        with suppress(OSError):
            file.unlink()


def found_token(address: Address) -> str | None:
    """The token that a run of this user on this machine has left; None if there is none."""
    with suppress(OSError, UnicodeDecodeError):
        return _token_file(address).read_text() if address.is_loopback else None
    return None


def _token_file(address: Address) -> Path:
    """Machines may share the folder, and each has a loopback address of its own."""
    host = "127.0.0.1" if address.host == "localhost" else address.host
    return cache_folder() / "workers" / f"{socket.gethostname()}-{host}-{address.port}.token"


def run_context() -> ssl.SSLContext | None:
    """TLS with the certificate and key in the file that the variable names; None if it is not set."""
    file = os.environ.get(CERTIFICATE_VARIABLE)
    if not file:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"`{CERTIFICATE_VARIABLE}`: `{file}` is not a PEM file with a certificate and its key: {error}"
        ) from error
    return context


def worker_context(authority: Path) -> ssl.SSLContext:
    """TLS that trusts the certificates in a PEM file, and no others."""
    try:
        return ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"`{authority}` is not a PEM file with a certificate: {error}") from error
