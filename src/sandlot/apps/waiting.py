"""Waiting: an app without state, whose tools let world time pass. For worlds whose products have no such tool."""

from sandlot.apps.app import App
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ToolError

WAITING = App("waiting", call_s=1.0)

_MAX_MINUTES = 7 * 24 * 60
"""A week."""


@WAITING.tool
def _current_time(app: LiveApp) -> str:
    """The date and time now."""
    return _time_line(app)


@WAITING.tool
def _wait(app: LiveApp, minutes: float) -> str:
    """Wait, to see later whether something has come: an answer, a message, a result.

    minutes: how long, up to a week
    """
    if not 0 < minutes <= _MAX_MINUTES:
        raise ToolError(f"minutes is {minutes:g}; give a number above 0 and up to {_MAX_MINUTES}")
    app.apps.pass_time(minutes * 60)
    return _time_line(app)


def _time_line(app: LiveApp) -> str:
    return f"It is {app.now:%A, %d %B %Y, %H:%M} UTC."
