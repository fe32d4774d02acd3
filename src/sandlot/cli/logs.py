"""Log events on stderr: what happened, then its fields. Messages are constant, so the fields are what a person reads."""

import logging
import sys
from typing import TextIO

from sandlot.core.text import one_line

_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
"""What every record has; the rest was given as `extra`."""


def send_to_stderr() -> None:
    """Show warnings and errors."""
    shown = _ToStderr()
    shown.setFormatter(_WithFields("%(name)s: %(message)s"))
    logging.basicConfig(handlers=[shown], level=logging.WARNING)


class _ToStderr(logging.StreamHandler[TextIO]):
    """Writes to whatever stderr is now: while a line of progress is drawn, that puts a message above it and not into it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line to stderr."""
        self.stream = sys.stderr
        super().emit(record)


class _WithFields(logging.Formatter):
    """The message, then `name=value` for every field."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, without control characters."""
        fields = "".join(f" {name}={value}" for name, value in vars(record).items() if name not in _STANDARD and value != "")
        return one_line(super().format(record) + fields)
