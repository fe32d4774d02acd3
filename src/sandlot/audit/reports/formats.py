"""Every face an audit has, by the ending of a file's name."""

import os
from collections.abc import Callable
from pathlib import Path

from sandlot.audit.reports.folder import as_json
from sandlot.audit.reports.html import as_page
from sandlot.audit.reports.junit import as_junit
from sandlot.audit.reports.markdown import as_markdown
from sandlot.audit.reports.sarif import as_sarif
from sandlot.audit.verdict import Audit
from sandlot.core.errors import ConfigError

ReportFormat = Callable[[Audit], str]

FORMATS: dict[str, ReportFormat] = {
    ".sarif": as_sarif,
    ".sarif.json": as_sarif,
    ".xml": as_junit,
    ".json": lambda audit: as_json(audit).decode(),
    ".md": as_markdown,
    ".html": as_page,
}


def format_for(path: Path) -> ReportFormat:
    """How an audit is written to a file of this name."""
    found = next((face for ending, face in FORMATS.items() if path.name.lower().endswith(ending)), None)
    if found is None:
        raise ConfigError(f"report `{path}`: the ending says how it is written; there are: {', '.join(FORMATS)} (.xml is JUnit)")
    return found


def require_writable(path: Path) -> None:
    """Make its folder, and refuse what could not be written when all is done."""
    format_for(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"report `{path}` cannot be written: {error}") from error
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"report `{path}` cannot be written: {'it is a folder' if path.is_dir() else 'permission denied'}")


def write_report(audit: Audit, path: Path) -> None:
    """Write it, in the way the ending says."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(format_for(path)(audit), encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"report `{path}` cannot be written: {error}") from error
