"""What the pages of code hosting share: the frame of a page, and of a page inside a repository."""

from pathlib import Path
from typing import Any

from sandlot.apps.code.hosting import CODE, actor_login, level_in
from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import PageTools
from sandlot.apps.pages import PageResponse, render
from sandlot.core.types import Json

_HERE = Path(__file__).parent / "templates"
_WORDS = r"\A((Validation Error|Not Found|Conflict|Permission Denied|GitHub API Error|Invalid input): )|\nDetails: .*"
CODE_TOOLS = PageTools(CODE, _WORDS)
"""The tools of code hosting."""
PAGE_SIZE = 30
"""Rows of a list."""


def code_page(app: LiveApp, template: str, **values: Any) -> PageResponse:
    """A page outside of a repository."""
    return render(_HERE, template, actor=app.actor, login=actor_login(app), **values)


def repository_page(app: LiveApp, template: str, repository: Json, **values: Any) -> PageResponse:
    """A page of a repository that the actor may read."""
    counts = {
        "issues": app.value(
            "SELECT count(*) FROM issue WHERE repository = ? AND head IS NULL AND state = 'open'", repository["id"]
        ),
        "pulls": app.value(
            "SELECT count(*) FROM issue WHERE repository = ? AND head IS NOT NULL AND state = 'open'", repository["id"]
        ),
    }
    address = f"/{repository['owner']}/{repository['name']}"
    may_write = level_in(app, repository) > 1
    return code_page(app, template, repository=repository, address=address, counts=counts, may_write=may_write, **values)
