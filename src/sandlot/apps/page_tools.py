"""What the pages of apps share: they do what the tools do, so that rights, rules and records are the same on both roads.

A page calls a tool as the agent would (`PageTools.do`): the arguments are checked against its schema, and its result comes back
as data. An error is shown to a person, so the words of the MCP server around it are left out.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

from sandlot.apps.app import App
from sandlot.apps.live import LiveApp
from sandlot.apps.pages import PageRequest
from sandlot.core.errors import ToolError

_MAX_DIGITS = 6


@dataclass(frozen=True, slots=True)
class PageTools:
    """The tools of one app, as its pages use them."""

    app: App
    words: str
    """A pattern of what the MCP server writes around its errors."""

    def do(self, live: LiveApp, tool: str, **arguments: Any) -> Any:
        """What a tool returns, as data where it is JSON. Arguments have the names of its schema; None leaves one out."""
        made = self.app.parts.tools[tool]
        try:
            found = made.function(live, **made.check({name: value for name, value in arguments.items() if value is not None}))
        except ToolError as error:
            raise ToolError(re.sub(self.words, "", str(error))) from error
        try:
            return json.loads(found) if isinstance(found, str) else found
        except ValueError:
            return found


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of a list."""

    rows: Sequence[Any]
    page: int
    more: bool
    """True if there is a next page."""


def page_number(request: PageRequest) -> int:
    """The page that a request asks for, from 1; 1 for anything that is not a number."""
    given = request.query.get("page", "1")
    return max(1, int(given)) if given.isascii() and given.isdecimal() and len(given) < _MAX_DIGITS else 1


def listed(rows: Sequence[Any], request: PageRequest, size: int) -> Listed:
    """The page of a list that a request asks for."""
    page = page_number(request)
    return Listed(rows[(page - 1) * size : page * size], page, page * size < len(rows))


def lines(request: PageRequest, name: str) -> str:
    """A field of a form with several lines, with the line ends that tools get."""
    return request.form.get(name, "").replace("\r\n", "\n")


def words(text: str) -> list[str]:
    """The parts of a list that a person writes with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


@cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only pages that show Markdown need it

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


_MAX_MARKDOWN = 50_000
"""Characters that are read as Markdown; a longer text is shown as it is, since hostile Markdown takes quadratic time."""


def markdown_html(text: str) -> str:
    """Markdown as HTML that is safe to show: markup in it stays text, links run no script, pictures are not loaded."""
    if len(text) > _MAX_MARKDOWN:
        return f"<pre>{escape(text)}</pre>"
    parser = _markdown()
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"  # the page has its own h1
    shown: str = parser.renderer.render(tokens, parser.options, {})
    return shown


def number_of(text: str) -> int:
    """A number in an address; `ToolError` if it is none."""
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise ToolError(f"There is no page for `{text[:40]}`.")
    return int(text)
