"""The pages of an app: a request in, a response out, over the same functions that the tools call.

What serves them (a browser's network, a test) is not known here. `Routes` finds the function for a request; `render` fills a
template, and escapes everything that is put into it.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from sandlot.core.errors import ConfigError

if TYPE_CHECKING:
    import jinja2

_FIELD = re.compile(r"\{(\w+)\}")
_MAX_FORM_FIELDS = 1000
_SHARED = str(Path(__file__).parent / "templates")
"""The layout that pages may extend."""


_ERROR = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Error</title>
<style>body {{ font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; margin: 2rem; }} p {{ border: 1px solid #e5a19b;
background: #fdecea; border-radius: 4px; padding: .6rem .9rem; max-width: 50rem; white-space: pre-wrap; }}</style></head>
<body><main><h1>This did not work</h1><p role="alert">{text}</p></main></body></html>"""


class PageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser asks for."""

    method: str = "GET"
    path: str = "/"
    query: Mapping[str, str] = {}
    form: Mapping[str, str] = {}
    """The fields of a submitted form."""
    actor: str | None = None
    """Who asks; None for the identity that the agent acts as."""

    @classmethod
    def of(cls, method: str, url: str, body: bytes = b"", *, actor: str | None = None) -> "PageRequest":
        """A request from its parts as they came over the wire: `url` with its query, `body` as a form."""
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS))
        text = body.decode(errors="replace")
        form = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS)) if body else {}
        return cls(method=method.upper(), path=unquote(parts.path) or "/", query=query, form=form, actor=actor)


class PageResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser gets."""

    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=lambda: {"Content-Type": "text/html; charset=utf-8"})
    body: bytes = b""

    @classmethod
    def redirect(cls, path: str) -> "PageResponse":
        """Send the browser to another page, as after a form."""
        return cls(status=303, headers={"Location": path})

    @classmethod
    def error(cls, status: int, text: str) -> "PageResponse":
        """A page that only says what is wrong."""
        return cls(status=status, body=_ERROR.format(text=escape(text)).encode())


_Respond = Callable[..., PageResponse]
"""A page's function: `(app, request, **fields of the path)`."""


class Routes:
    """The pages of one app by method and path, such as `/thread/{id}`."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, re.Pattern[str], _Respond]] = []

    def add(self, method: str, path: str, respond: _Respond) -> None:
        """Add a page; `ConfigError` if the path does not begin with a slash."""
        if not path.startswith("/"):
            raise ConfigError(f"the path of a page is {path!r}; begin it with `/`")
        pieces = _FIELD.split(path)
        pattern = "".join(f"(?P<{piece}>[^/]+)" if place % 2 else re.escape(piece) for place, piece in enumerate(pieces))
        self._routes.append((method.upper(), re.compile(pattern), respond))

    def find(self, request: PageRequest) -> tuple[_Respond, Mapping[str, str]] | None:
        """The function for a request and the fields of its path; None if there is no such page."""
        for method, pattern, respond in self._routes:
            match = pattern.fullmatch(request.path)
            if match and method == request.method:
                return respond, match.groupdict()
        return None

    def __bool__(self) -> bool:
        return bool(self._routes)


def render(folder: str | Path, name: str, /, **values: Any) -> PageResponse:
    """A page from the template `name` in a folder of templates. Every value is escaped.

    A template may extend `layout.html`, which has the blocks `title`, `nav` and `main`.
    """
    return PageResponse(body=_templates(str(folder)).get_template(name).render(**values).encode())


@cache
def _templates(folder: str) -> "jinja2.Environment":
    import jinja2  # noqa: PLC0415 - environments without pages need not load it

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _SHARED]), autoescape=True, undefined=jinja2.StrictUndefined
    )
