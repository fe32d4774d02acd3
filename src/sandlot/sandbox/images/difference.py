"""Describes how two digests of an image differ.

A `host` image changes with the machine's packages and with the copied files of `/etc`. Its digest has a hash of each, and the
list of packages behind a hash is kept in the cache, so the changed packages can be named.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from sandlot.core.disk import write_file
from sandlot.sandbox.images.folder import file_digests
from sandlot.sandbox.images.store import hold, list_images
from sandlot.sandbox.program import cache_folder

_STATUS = Path("/var/lib/dpkg/status")
KEPT_LISTS = 20
"""Package lists that are kept; the oldest are removed first."""

_SHOWN = 5
_PACKAGE = re.compile(r"^Package: (\S+)$", re.MULTILINE)
_VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)
_HOST = re.compile(r"host:(?P<etc>sha256:[0-9a-f]+):(?P<packages>[^:]+)(?::(?P<folders>.*))?", re.DOTALL)


def packages_digest(status: Path = _STATUS) -> str:
    """A hash of the installed packages, whose list is saved; `unknown` on a machine without dpkg."""
    if not status.exists():
        return "unknown"
    said = status.read_bytes()
    digest = hashlib.sha256(said).hexdigest()
    place = _lists_folder() / digest
    if not place.exists():
        _save_list(place, "".join(f"{name} {version}\n" for name, version in _package_versions(said).items()))
    return digest


def image_difference(before: str, after: str) -> str:
    """How the second image differs from the first; empty if it does not."""
    if before == after:
        return ""
    old, new = _HOST.fullmatch(before), _HOST.fullmatch(after)
    if old is None or new is None:
        return f"a different image ({before[:19] or 'none'}, now {after[:19] or 'none'})"
    parts: list[str] = []
    if old["packages"] != new["packages"]:
        changes = _describe_changes(_read_list(old["packages"]), _read_list(new["packages"]))
        parts.append(f"the machine's packages: {changes or 'a different list'}")
    if old["etc"] != new["etc"]:
        changes = _describe_changes(_etc_files(f"host:{old['etc']}"), _etc_files(f"host:{new['etc']}"))
        parts.append(f"the files copied from `/etc`: {changes or 'different files'}")
    if old["folders"] != new["folders"]:
        parts.append(f"its folders: {old['folders'] or 'none'}, now {new['folders'] or 'none'}")
    return "the image `host` changed: " + "; ".join(parts)


def _describe_changes(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> str:
    """Names that were changed, added or removed; empty if one side is not known."""
    if before is None or after is None:
        return ""
    kinds = {
        "changed": [name for name in before.keys() & after.keys() if before[name] != after[name]],
        "added": list(after.keys() - before.keys()),
        "removed": list(before.keys() - after.keys()),
    }
    return ", ".join(f"{len(names)} {kind} ({_names_text(names)})" for kind, names in kinds.items() if names)


def _names_text(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _package_versions(status: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in status.decode(errors="replace").split("\n\n"):
        name, version = _PACKAGE.search(entry), _VERSION.search(entry)
        if name and version and "\nStatus: install ok installed\n" in entry:
            found[name[1]] = version[1]
    return found


def _lists_folder() -> Path:
    return cache_folder() / "packages"


def _read_list(digest: str) -> dict[str, str] | None:
    place = _lists_folder() / digest
    if not re.fullmatch("[0-9a-f]{64}", digest) or not place.exists():
        return None
    return dict(line.split(" ", 1) for line in place.read_text().splitlines() if " " in line)


def _save_list(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    write_file(place, text.encode(), durable=False)
    lists = sorted(place.parent.glob("*[0-9a-f]"), key=lambda each: each.stat().st_mtime)  # without drafts
    for old in lists[:-KEPT_LISTS]:
        old.unlink(missing_ok=True)


def _etc_files(digest: str) -> dict[str, str] | None:
    """The copied files of a host image, if it is still in the store."""
    for image in list_images():
        lease = hold(image.key) if image.about.kind == "host" and image.about.digest == digest else None
        if lease is not None:
            return file_digests(lease.root / "etc")
    return None
