"""What the sites share: pages from templates, signing in, money and dates."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import jinja2

from sandlot.apps import App, LiveApp, PageRequest, PageResponse

from .records import Records, Row

_FOLDER = Path(__file__).parent / "templates"
_TEMPLATES = jinja2.Environment(loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True)

SIGN_IN_TABLES = """
CREATE TABLE user (id INTEGER PRIMARY KEY, login TEXT, password TEXT, name TEXT, email TEXT, phone TEXT);
CREATE TABLE session (id INTEGER PRIMARY KEY, user INTEGER, pages INTEGER);
"""


def money(cents: int) -> str:
    """`1,234.50`, with a minus sign before negative amounts."""
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100:,}.{abs(cents) % 100:02}"


def parse_money(text: str) -> int | None:
    """Cents of `1,234.50`, `1234.5` or `12`; None if it is not an amount."""
    plain = text.strip().removeprefix("EUR").replace(",", "").strip()
    found = re.fullmatch(r"(\d{1,7})(?:\.(\d{1,2}))?", plain, re.ASCII)
    return int(found[1]) * 100 + int((found[2] or "0").ljust(2, "0")) if found else None


def day_text(day: str) -> str:
    """`16 March 2026`."""
    return f"{date.fromisoformat(day).day} {date.fromisoformat(day):%B %Y}"


def month_text(month: str) -> str:
    """`March 2026` for `2026-03`."""
    return f"{date.fromisoformat(f'{month}-01'):%B %Y}"


def parse_day(text: str) -> str:
    """The date if it is one, as YYYY-MM-DD; empty if not."""
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        return ""


def days_after(day: str, count: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=count)).isoformat()


_TEMPLATES.filters |= {"money": money, "day": day_text}


@dataclass
class Visit:
    """One request to a site, with what a page needs to answer it."""

    site: "Site"
    records: Records
    request: PageRequest
    user: Row | None = None
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def form(self) -> Mapping[str, str]:
        return self.request.form

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    def text(self, name: str, most: int = 300) -> str:
        """A field of the posted form, trimmed."""
        return " ".join(self.form.get(name, "").split())[:most]

    def require(self, **messages: str) -> None:
        """Note an error for each named field that is empty."""
        for name, message in messages.items():
            if not self.text(name):
                self.errors[name] = message

    def page(self, template: str, *, status: int = 200, **values: Any) -> PageResponse:
        """A page of the site from its template."""
        shown = {
            "site": self.site,
            "today": self.records.today,
            "errors": self.errors,
            "form": self.form,
            "query": self.query,
            "user": self.user,
        }
        path = template[1:] if template.startswith("/") else f"{self.site.name}/{template}"
        body = _TEMPLATES.get_template(path).render(**(shown | self.site.everywhere(self) | values))
        return PageResponse(status=status, body=body.encode())

    def problem(self, heading: str, text: str, *, status: int = 404, back: str = "/") -> PageResponse:
        """A page that says what is wrong and where to go on."""
        return self.page("/problem.html", status=status, heading=heading, text=text, back=back)


Handler = Callable[..., PageResponse]


class Site:
    """An app with pages for people. Pages marked `private` need a signed-in user."""

    def __init__(self, name: str, title: str, schema: str, *, pages_per_session: int = 1_000_000) -> None:
        self.app = App(name, schema=SIGN_IN_TABLES + schema)
        self.name, self.title = name, title
        self.pages_per_session = pages_per_session
        """Pages after which a user must sign in again."""
        self.everywhere: Callable[[Visit], dict[str, Any]] = lambda _visit: {}
        """What all templates of the site get besides."""
        for file, media_type in (("site.js", "text/javascript"), ("site.css", "text/css")):
            self._serve_file(file, media_type)
        self._add_sign_in()

    def page(self, path: str, method: str = "GET", *, private: bool = True) -> Callable[[Handler], Handler]:
        """Mark a page: `/orders/{number}` gives its function `number`."""

        def mark(handler: Handler) -> Handler:
            @self.app.page(method, path)
            def respond(app: LiveApp, request: PageRequest, **fields: str) -> PageResponse:
                visit = Visit(self, Records(app), request)
                session = visit.records.first("session")
                if session is not None and session["pages"] < self.pages_per_session:
                    visit.user = visit.records.row("user", session["user"])
                    visit.records.change("session", session["id"], pages=session["pages"] + 1)
                elif private:
                    visit.records.clear("session")
                    ended = "&ended=1" if session is not None else ""
                    target = request.path if method == "GET" else "/"
                    return PageResponse.redirect(f"/sign-in?next={target}{ended}")
                return handler(visit, **fields)

            return handler

        return mark

    def _serve_file(self, file: str, media_type: str) -> None:
        body = (_FOLDER / file).read_bytes()

        @self.app.page("GET", f"/{file}")
        def serve(_app: LiveApp, _request: PageRequest) -> PageResponse:
            return PageResponse(body=body, headers={"Content-Type": media_type})

    def _add_sign_in(self) -> None:
        @self.page("/sign-in", private=False)
        def show(visit: Visit) -> PageResponse:
            return visit.page("/sign_in.html")

        @self.page("/sign-in", "POST", private=False)
        def check(visit: Visit) -> PageResponse:
            user = visit.records.first("user", login=visit.text("login"), password=visit.form.get("password", ""))
            if user is None:
                visit.errors["login"] = "The user name or the password is not right."
                return visit.page("/sign_in.html", status=422)
            visit.records.clear("session")
            visit.records.add("session", user=user["id"], pages=0)
            where = visit.query.get("next", "/")
            return PageResponse.redirect(where if re.match(r"/(?!/)", where) else "/")

        @self.page("/sign-out", "POST", private=False)
        def leave(visit: Visit) -> PageResponse:
            visit.records.clear("session")
            return PageResponse.redirect("/sign-in")
