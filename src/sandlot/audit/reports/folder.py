"""Audits on disk: one folder per environment and place, and a check that the audit there is of the environment as it is now.

Two environments with the same name in different folders have two audits. The place is derived from what was named on the command
line, never from what the environment says about itself.
"""

import hashlib
import re
from pathlib import Path

import msgspec

from sandlot.audit.coverage import Standing
from sandlot.audit.verdict import FORMAT, Audit, AuditVerdict
from sandlot.core.errors import ConfigError, StoreError
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.folder import MANIFEST
from sandlot.env.load import load

FOLDER = "audits"
"""Below the folder of runs."""
FILE = "audit.json"
UNFINISHED = "unfinished"
"""Below an audit's folder: finished probes of an audit that is not whole yet."""


def folder_of(name: str, place: str, runs: Path) -> Path:
    """The folder of an environment's audit: its name, made safe for a folder, and a short digest of its place."""
    digest = hashlib.sha256(place.encode(errors="surrogateescape")).hexdigest()[:8]
    return runs / FOLDER / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).lstrip('.')[:100]}-{digest}"


def place_of(what: str | Path) -> str:
    """Where an environment is, by the same rule as `load`: an absolute path, or `installed:NAME`."""
    path = Path(what)
    if (path / MANIFEST).is_file():
        return str(path.resolve())
    for file in (path, path / "environment.py", path.parent / f"{path.name}.py"):  # as in `load`: `.` has no name
        if file.is_file():
            return str(file.resolve().parent if file.name == MANIFEST else file.resolve())
    return f"installed:{what}"


def as_json(audit: Audit) -> bytes:
    """The whole audit as JSON: first the verdict and the shares of the points; findings have their ids."""
    points = {standing.value: round(audit.coverage.share(standing), 6) for standing in Standing}
    plain = {"verdict": audit.verdict.value, "points": points} | msgspec.to_builtins(audit)
    for finding, written in zip(audit.findings, plain["findings"], strict=True):
        written["id"] = finding.id
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def read_audit(name: str, place: str, runs: Path) -> Audit | None:
    """The last audit of an environment at a place; None if there is none."""
    file = folder_of(name, place, runs) / FILE
    if not file.is_file():
        return None
    try:
        audit = msgspec.json.decode(file.read_bytes(), type=Audit)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StoreError(f"{file} is not an audit: {error}; run `sandlot audit` again") from error
    if audit.format != FORMAT:
        raise StoreError(f"{file} has format {audit.format}, this Sandlot reads {FORMAT}; run `sandlot audit` again")
    if (audit.name, audit.place) != (name, place):
        raise StoreError(f"{file} is the audit of `{audit.name}` at {audit.place}; run `sandlot audit` again")
    return audit


def require_audit(env: str | Path | Environment, runs: Path = Path("runs")) -> Audit:
    """The audit with verdict SHIP of an environment as it is now; `ConfigError` with what is missing if there is none."""
    environment = load(env)
    named = env if isinstance(env, str | Path) else environment.source or "not in a file"
    return find_shipped(environment.name, place_of(named), environment_fingerprint(environment), runs)


def find_shipped(name: str, place: str, fingerprint: str, runs: Path) -> Audit:
    """The audit with verdict SHIP of an environment with this fingerprint at a place; `ConfigError` if there is none."""
    audit = read_audit(name, place, runs)
    if audit is None:
        raise ConfigError(f"environment `{name}` at {place} has no audit in `{runs / FOLDER}`; run `sandlot audit` first")
    if audit.fingerprint != fingerprint:
        raise ConfigError(f"environment `{name}` has changed since it was audited; run `sandlot audit {audit.subject}` again")
    if audit.verdict is not AuditVerdict.SHIP:
        report = folder_of(name, place, runs) / "report.md"
        raise ConfigError(f"the audit of `{name}` says {audit.verdict.value}; see `{report}`, fix or waive, and audit again")
    return audit
