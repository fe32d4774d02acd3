"""Audits on disk: one folder for each environment, and whether what is there still speaks for it."""

import os
import re
from pathlib import Path

import msgspec

from sandlot.audit.audit import FORMAT, Audit, Verdict
from sandlot.errors import ConfigError, StoreError

FOLDER = "audits"
"""Below the folder of runs."""
FILE = "audit.json"


def write_audit(audit: Audit, runs: Path, *, report: str, page: str) -> Path:
    """Keep an audit and its reports; an earlier one of the same environment makes room."""
    folder = folder_of(audit.name, runs)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ((FILE, as_json(audit).decode()), ("report.md", report), ("report.html", page)):
        draft = folder / f".{name}.{os.getpid()}"
        draft.write_text(text, encoding="utf-8", errors="replace")
        draft.replace(folder / name)
    return folder


def folder_of(name: str, runs: Path) -> Path:
    """Where the audit of something lies; a grader's name is not fit for a folder as it is."""
    return runs / FOLDER / re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".")


def as_json(audit: Audit) -> bytes:
    """Everything, findings with their ids."""
    plain = msgspec.to_builtins(audit)
    for finding, written in zip(audit.findings, plain["findings"], strict=True):
        written["id"] = finding.id
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def read_audit(name: str, runs: Path) -> Audit | None:
    """The last audit of an environment; None if there is none."""
    file = folder_of(name, runs) / FILE
    if not file.is_file():
        return None
    try:
        audit = msgspec.json.decode(file.read_bytes(), type=Audit)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StoreError(f"{file} is no audit: {error}; run `sandlot audit` again") from error
    if audit.format != FORMAT:
        raise StoreError(f"{file} has format {audit.format}, this Sandlot reads {FORMAT}; run `sandlot audit` again")
    return audit


def require_audit(name: str, fingerprint: str, runs: Path) -> Audit:
    """The audit that says SHIP about exactly this environment, or a refusal that says what is missing."""
    audit = read_audit(name, runs)
    if audit is None:
        raise ConfigError(f"environment `{name}` has no audit in `{runs / FOLDER}`; run `sandlot audit` first")
    if audit.fingerprint != fingerprint:
        raise ConfigError(f"environment `{name}` has changed since it was audited; run `sandlot audit {audit.subject}` again")
    if audit.verdict is not Verdict.SHIP:
        report = folder_of(name, runs) / "report.md"
        raise ConfigError(f"the audit of `{name}` says {audit.verdict.value}; see `{report}`, mend or waive, and audit again")
    return audit
