"""Report formats by file extension, and the reports that are kept with an audit."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sandlot.audit.reports.folder import FILE, UNFINISHED, as_json, folder_of
from sandlot.audit.reports.html import as_page
from sandlot.audit.reports.junit import as_junit
from sandlot.audit.reports.markdown import as_markdown
from sandlot.audit.reports.sarif import as_sarif
from sandlot.audit.verdict import Audit, State
from sandlot.core.disk import DISK, DRAFT, make_folder, write_file
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
    """The format of a report, by the extension of its file."""
    found = next((write for ending, write in FORMATS.items() if path.name.lower().endswith(ending)), None)
    if found is None:
        raise ConfigError(f"report `{path}`: unknown extension; known: {', '.join(FORMATS)} (.xml is JUnit)")
    return found


def require_writable(path: Path) -> None:
    """Create the report's folder, and refuse a file that could not be written, before the audit runs."""
    format_for(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"report `{path}` cannot be written: {error}") from error
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"report `{path}` cannot be written: {'it is a folder' if path.is_dir() else 'permission denied'}")


def write_report(audit: Audit, path: Path) -> None:
    """Write a report in the format of its extension."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(format_for(path)(audit), encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"report `{path}` cannot be written: {error}") from error


def write_audit(audit: Audit, runs: Path) -> Path:
    """Store an audit with its reports below `runs`, in place of an earlier one of the same environment. Returns the folder."""
    folder = folder_of(audit.name, audit.place, runs)
    make_folder(folder, DISK)
    for file in (folder / FILE, folder / "report.md", folder / "report.html"):
        write_file(file, format_for(file)(audit).encode("utf-8", "replace"), DISK)
    if not any(report.state is State.NOT_REACHED for report in audit.layers):  # else the same command goes on from there
        _remove_unfinished(folder / UNFINISHED)
    return folder


def _remove_unfinished(folder: Path) -> None:
    """Remove the finished probes of an audit that is now whole. A symbolic link is left alone."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for probe in (*folder.glob("*.json"), *folder.glob(f"*.json.*{DRAFT}")):  # a killed audit leaves a draft
        probe.unlink(missing_ok=True)
    with suppress(OSError):  # other files are in it
        folder.rmdir()
