"""Keys and passwords: used in requests, shown nowhere.

A key comes from the environment and lives only in the headers of the open connection pool. Whatever leaves this part as a
message, a name or a reply has been through `Secrets`, because servers and proxies echo what they were sent.
"""

import base64
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from sandlot.errors import ConfigError

REDACTED = "[redacted]"
KEY_VARIABLES = ("SANDLOT_API_KEY", "OPENAI_API_KEY")
"""Where a key is looked for, first found wins, unless a config names a variable of its own."""
MIN_IN_ERRORS = 6
"""Shorter words (`EMPTY`, as local servers want it) are no secrets, and hiding them would garble messages."""
MIN_IN_REPLIES = 16
"""In what a model said only a real key's length is hidden: a short password may be an ordinary word."""


class Secrets:
    """Words that must not be shown. Its own repr shows none."""

    __slots__ = ("_in_errors", "_in_replies")

    def __init__(self, words: Iterable[str]) -> None:
        forms = {form for word in words for form in (word, unquote(word)) if len(form) >= MIN_IN_ERRORS}
        self._in_errors = tuple(sorted(forms, key=len, reverse=True))  # the longest first: one may contain another
        self._in_replies = tuple(form.encode() for form in self._in_errors if len(form) >= MIN_IN_REPLIES)

    def hidden(self, text: str) -> str:
        """The text with every secret replaced."""
        for word in self._in_errors:
            text = text.replace(word, REDACTED)
        return text

    def hidden_in_error(self, body: bytes) -> bytes:
        """The same for an error's bytes, before anything is cut from it: half a key is a secret too."""
        for word in self._in_errors:
            body = body.replace(word.encode(), REDACTED.encode())
        return body

    def hidden_in_reply(self, body: bytes) -> bytes:
        """The same for a reply's bytes, long secrets only; costs a search when there is nothing to hide."""
        for word in self._in_replies:
            if word in body:
                body = body.replace(word, REDACTED.encode())
        return body

    def __repr__(self) -> str:
        return f"Secrets({len(self._in_errors)} hidden)"


def key_from(environ: Mapping[str, str], variable: str | None) -> str | None:
    """The key: from the named variable, which must then be set, or from the usual ones, or None for servers that want none."""
    if variable is not None and not environ.get(variable):
        raise ConfigError(f"the API key should come from `${variable}`, which is not set; `export {variable}=...`")
    found = next((name for name in (KEY_VARIABLES if variable is None else (variable,)) if environ.get(name)), None)
    if found is None:
        return None
    key = environ[found].strip()
    if not key.isascii() or not key.isprintable() or not key:
        raise ConfigError(f"the API key in `${found}` holds spaces only, line breaks or characters outside ASCII; set it again")
    return key


def basic_auth(url: str) -> str | None:
    """The `Authorization` header for a URL with user and password in it."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def secrets_of(url: str, key: str | None) -> Secrets:
    """Everything in a URL or a key that must not be shown: user, password, values of the query."""
    parts = urlsplit(url)
    words = [key, parts.password, basic_auth(url), *(value for _, value in parse_qsl(parts.query))]
    if parts.password is None:
        words.append(parts.username)  # a token alone before the @
    header = basic_auth(url)
    return Secrets([word for word in (*words, header and header.removeprefix("Basic ")) if word])


def shown_url(url: str) -> str:
    """The URL as it may be written down: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable URL)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def called_url(url: str, path: str) -> str:
    """Where requests go: the base URL with a path added and its query kept; user and password travel as a header."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + path, parts.query, ""))
