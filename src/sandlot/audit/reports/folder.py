"""Audits on disk: one folder for each environment and place, and whether the audit there is about this environment as it is now.

Two environments of the same name in different folders have two audits. The place is worked out from what was named on the command
line, never from what the environment says of itself.
"""

import hashlib
import re
from contextlib import suppress
from pathlib import Path

import msgspec

from sandlot.audit.verdict import FORMAT, Audit, AuditVerdict
from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError, StoreError
from sandlot.env.folder import MANIFEST

FOLDER = "audits"
"""Below the folder of runs."""
_FILE = "audit.json"
UNFINISHED = "unfinished"
"""Below an audit's folder: the probes that are finished, while others are not."""


def write_audit(audit: Audit, runs: Path, *, report: str, page: str) -> Path:
    """Keep an audit and its reports; an earlier one of the same environment makes room."""
    folder = folder_of(audit.name, audit.place, runs)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ((_FILE, as_json(audit).decode()), ("report.md", report), ("report.html", page)):
        write_file(folder / name, text.encode(errors="replace"), durable=False)
    _remove_unfinished(folder / UNFINISHED)
    return folder


def _remove_unfinished(folder: Path) -> None:
    """Remove what a whole audit has no more need of. A link is left alone: what it leads to is not ours."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for probe in folder.glob("*.json"):
        probe.unlink(missing_ok=True)
    with suppress(OSError):  # something else lies there
        folder.rmdir()


def folder_of(name: str, place: str, runs: Path) -> Path:
    """The folder of the audit of one environment at one place: its name, as far as a folder can have it, and a short digest."""
    digest = hashlib.sha256(place.encode(errors="surrogateescape")).hexdigest()[:8]
    return runs / FOLDER / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).lstrip('.')[:100]}-{digest}"


def place_of(what: str | Path) -> str:
    """Where an environment lies, by the rule that `load` finds it by: an absolute path, or `installed:NAME`."""
    path = Path(what)
    if (path / MANIFEST).is_file():
        return str(path.resolve())
    for file in (path, path / "environment.py", path.parent / f"{path.name}.py"):  # as in `load`: `.` has no name
        if file.is_file():
            return str(file.resolve().parent if file.name == MANIFEST else file.resolve())
    return f"installed:{what}"


def as_json(audit: Audit) -> bytes:
    """Everything, findings with their ids."""
    plain = msgspec.to_builtins(audit)
    for finding, written in zip(audit.findings, plain["findings"], strict=True):
        written["id"] = finding.id
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def read_audit(name: str, place: str, runs: Path) -> Audit | None:
    """The last audit of an environment at a place; None if there is none."""
    file = folder_of(name, place, runs) / _FILE
    if not file.is_file():
        return None
    try:
        audit = msgspec.json.decode(file.read_bytes(), type=Audit)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StoreError(f"{file} is no audit: {error}; run `sandlot audit` again") from error
    if audit.format != FORMAT:
        raise StoreError(f"{file} has format {audit.format}, this Sandlot reads {FORMAT}; run `sandlot audit` again")
    if (audit.name, audit.place) != (name, place):
        raise StoreError(f"{file} is the audit of `{audit.name}` at {audit.place}; run `sandlot audit` again")
    return audit


def require_audit(name: str, place: str, fingerprint: str, runs: Path) -> Audit:
    """The audit that says SHIP about exactly this environment, or a refusal that says what is missing."""
    audit = read_audit(name, place, runs)
    if audit is None:
        raise ConfigError(f"environment `{name}` at {place} has no audit in `{runs / FOLDER}`; run `sandlot audit` first")
    if audit.fingerprint != fingerprint:
        raise ConfigError(f"environment `{name}` has changed since it was audited; run `sandlot audit {audit.subject}` again")
    if audit.verdict is not AuditVerdict.SHIP:
        report = folder_of(name, place, runs) / "report.md"
        raise ConfigError(f"the audit of `{name}` says {audit.verdict.value}; see `{report}`, fix or waive, and audit again")
    return audit
