"""Finished probes of an interrupted audit, on disk, so that the same command continues where it stopped.

Each probe is one file, written by the auditor, never by a worker. It is sealed (HMAC-SHA256) with a key outside the folder of
runs. The seal covers what the result depends on: the subject's place and fingerprint, the options, and the code of Sandlot. A
file with a wrong seal is ignored and its probe runs again, so results that came with a repository or belong to another version
are not used. The seal does not stop code that runs with the user's rights and reads the key.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from sandlot.audit.case import Probe
from sandlot.audit.finding import Finding, Layer
from sandlot.audit.reports.folder import UNFINISHED
from sandlot.audit.verdict import ProbeReport, State
from sandlot.core.disk import DISK, make_folder, write_file
from sandlot.sandbox.program import cache_folder

_KEY_FILE = "audit.key"
_KEY_BYTES = 32
_REPEATED = frozenset({Layer.MODEL, Layer.PEOPLE})
"""Layers that read runs, which may have grown since: their probes always run again."""


class _KeptProbe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The stored result of one probe."""

    report: ProbeReport
    findings: tuple[Finding, ...]


class UnfinishedAudit:
    """Finished probes on disk, so that an interrupted audit can continue; removed once the audit is complete."""

    def __init__(self, folder: Path, bound_to: Any) -> None:
        self._folder = folder / UNFINISHED
        self._key = None if self._folder.is_symlink() else _machine_key()  # a link may point anywhere: store nothing
        self._bound_to = hashlib.sha256(msgspec.json.encode([_own_code(), bound_to], order="sorted")).digest()

    def recall(self, probe: Probe) -> tuple[ProbeReport, list[Finding]] | None:
        """The result of an earlier sitting of the same audit; None if there is none with a valid seal."""
        kept = self._read(probe) if probe.layer not in _REPEATED else None
        return None if kept is None else (msgspec.structs.replace(kept.report, earlier=True), list(kept.findings))

    def keep(self, probe: Probe, report: ProbeReport, findings: Sequence[Finding]) -> None:
        """Store a finished probe. If that fails the audit goes on; it only cannot be continued from here."""
        if self._key is None or probe.layer in _REPEATED or report.state is not State.RAN or report.earlier:
            return
        body = msgspec.json.encode(_KeptProbe(report=report, findings=tuple(findings)))
        with suppress(OSError):
            make_folder(self._folder, DISK)
            write_file(self._file(probe), self._seal(probe, body) + b"\n" + body)

    def _file(self, probe: Probe) -> Path:
        return self._folder / f"{probe.name}.json"

    def _read(self, probe: Probe) -> _KeptProbe | None:
        try:
            seal, _, body = self._file(probe).read_bytes().partition(b"\n")
        except OSError:
            return None
        if self._key is None or not hmac.compare_digest(seal, self._seal(probe, body)):
            return None
        try:
            kept = msgspec.json.decode(body, type=_KeptProbe)
        except (msgspec.DecodeError, msgspec.ValidationError):
            return None
        return kept if kept.report.name == probe.name and kept.report.state is State.RAN else None

    def _seal(self, probe: Probe, body: bytes) -> bytes:
        assert self._key is not None
        message = self._bound_to + hashlib.sha256(probe.name.encode()).digest() + body
        return hmac.new(self._key, message, hashlib.sha256).hexdigest().encode()


def _machine_key() -> bytes | None:
    """The user's key on this machine, created on first use; None if no key that only the user can read is possible."""
    file = cache_folder() / _KEY_FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            _make_key(file)
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as opened:
        about = os.fstat(fd)
        private = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077
        key = opened.read(_KEY_BYTES + 1)
    return key if private and len(key) == _KEY_BYTES else None


def _make_key(file: Path) -> None:
    """Write a new key under a temporary name, then link it: the first process wins, and the key is always complete."""
    draft = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    if file.exists():
        return
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, secrets.token_bytes(_KEY_BYTES))
        os.link(draft, file)
    finally:
        os.close(fd)
        draft.unlink()


@cache
def _own_code() -> str:
    """A digest of Sandlot's own code: another version may find something else."""
    root = Path(str(resources.files("sandlot")))
    whole = hashlib.sha256()
    for path in sorted(path for ending in ("*.py", "*.c", "*.h") for path in root.rglob(ending)):
        whole.update(str(path.relative_to(root)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()
