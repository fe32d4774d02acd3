"""API keys and passwords: used in requests, never shown.

A key is read from the environment and kept only in the headers of the connection pool. `Secrets` removes it from every message,
name and reply, because servers and proxies may echo what they were sent.
"""

import base64
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from sandlot.core.errors import ConfigError
from sandlot.core.redaction import Secrets

KEY_VARIABLES = ("SANDLOT_API_KEY", "OPENAI_API_KEY")
"""Variables searched for a key, in this order, unless the config names one."""


def key_from(environ: Mapping[str, str], variable: str | None, names: tuple[str, ...] = KEY_VARIABLES) -> str | None:
    """The API key from the named variable, which must be set, or from one of `names`; None if there is no key."""
    if variable is not None and not environ.get(variable):
        raise ConfigError(f"the API key variable `${variable}` is not set; run `export {variable}=...`")
    found = next((name for name in (names if variable is None else (variable,)) if environ.get(name)), None)
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
    """The secrets in a URL and key: user, password, query values."""
    parts = urlsplit(url)
    words = [key, parts.password, basic_auth(url), *(value for _, value in parse_qsl(parts.query))]
    if parts.password is None:
        words.append(parts.username)  # a lone token before the @
    header = basic_auth(url)
    return Secrets([word for word in (*words, header and header.removeprefix("Basic ")) if word])


def split_replicas(spec: str) -> list[str]:
    """`NAME@URL,URL,...` as one `NAME@URL` for each of them; anything else as it is."""
    model, mark, rest = spec.partition("@http")
    return [f"{model}@{url}" for url in split_urls("http" + rest)] if mark else [spec]


def split_urls(urls: str) -> list[str]:
    """`URL,URL,...` as a list; `ConfigError` if one of several is not a URL, or a server is named twice."""
    each = urls.split(",")
    if len(each) == 1:
        return each
    wrong = next((number for number, url in enumerate(each, start=1) if not is_base_url(url)), None)
    if wrong is not None:
        raise ConfigError(
            f"servers `{public_url(urls)}`: number {wrong} of the list is not a URL; write `http://host:port` for each, with one "
            "comma and no space between them, and a comma inside a URL as `%2C`"
        )
    servers = [_server_of(url) for url in each]
    twice = next((each[number] for number, server in enumerate(servers) if server in servers[:number]), None)
    if twice is not None:
        raise ConfigError(f"the server {public_url(twice)} is named twice; leave one out")
    return each


def is_base_url(url: str) -> bool:
    """True for an http(s) URL with a host."""
    try:
        parts = urlsplit(url)
        return url == url.strip() and parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _server_of(url: str) -> tuple[object, ...]:
    """Equal for two ways to write the URL of one server."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = parts.path.rstrip("/").removesuffix("/v1")
    return parts.scheme, parts.username, parts.password, parts.hostname, port, path, parts.query


def public_url(url: str) -> str:
    """The URL without user, password, query and fragment; several, with commas between them, each so."""
    return ",".join(map(_without_secrets, re.split(r",\s*(?=https?://)", url)))  # also a list that `split_urls` refuses


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable URL)"
    path = parts.path.partition(",")[0]  # what follows was meant as another URL, and may hold a password
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))
