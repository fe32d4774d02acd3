"""Keys and passwords: used in requests, shown nowhere.

A key comes from the environment and lives only in the headers of the open connection pool. Whatever leaves this part as a
message, a name or a reply has been through `Secrets`, because servers and proxies echo what they were sent.
"""

import base64
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from sandlot.core.errors import ConfigError
from sandlot.core.redaction import Secrets

_KEY_VARIABLES = ("SANDLOT_API_KEY", "OPENAI_API_KEY")
"""Where a key is looked for, first found wins, unless a config names a variable of its own."""


def key_from(environ: Mapping[str, str], variable: str | None) -> str | None:
    """The key: from the named variable, which must then be set, or from the usual ones, or None for servers that want none."""
    if variable is not None and not environ.get(variable):
        raise ConfigError(f"the API key should come from `${variable}`, which is not set; `export {variable}=...`")
    found = next((name for name in (_KEY_VARIABLES if variable is None else (variable,)) if environ.get(name)), None)
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


def public_url(url: str) -> str:
    """The URL as it may be written down: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable URL)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def request_url(url: str, path: str) -> str:
    """Where requests go: the base URL with a path added and its query kept; user and password travel as a header."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + path, parts.query, ""))
