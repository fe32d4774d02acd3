"""What a job may want, each looked for in what the agent left. Nothing here runs anything of the agent's."""

import io
import json
import tarfile
from hashlib import sha256
from typing import Any

from sandlot import Evidence

from .repository import read_commit, ref_hash

LARGEST = 2**20


async def is_there(evidence: Evidence, want: dict[str, Any]) -> bool:
    if "path" in want:
        return evidence.exists(want["path"]) and same(evidence, want)
    if want["kind"] == "files":
        left = {path: sha256(evidence.read(path)).hexdigest() for path in evidence.list(want["folder"])}
        return left == want["digests"]
    tip = ref_hash(evidence, want["repository"], want["ref"])
    if want["kind"] == "ref":
        return tip == want["hash"]
    return await read_commit(evidence, want["repository"], tip) == (want["tree"], want["parents"])


def same(evidence: Evidence, want: dict[str, Any]) -> bool:
    """True if the file at the wanted path says what it should."""
    match want["kind"]:
        case "text":
            return tidy(evidence.read_text(want["path"])) == tidy(want["value"])
        case "json":
            return same_json(evidence.read_text(want["path"]), want["value"])
        case "tar":
            return members(evidence.read(want["path"])) == want["members"]
        case other:
            raise ValueError(f"a want of kind {other!r}")


def name_of(want: dict[str, Any]) -> str:
    return want.get("path") or want.get("ref") or want["folder"]


def tidy(text: str) -> list[str]:
    """Lines without what nobody sees: blanks at their ends, empty lines at the end of all."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def same_json(text: str, value: Any) -> bool:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return json.dumps(found, sort_keys=True) == json.dumps(value, sort_keys=True)  # True is not 1, 1 is not 1.0


def members(archive: bytes) -> dict[str, list[str]]:
    """Name -> mode, owner, digest of every file in a tar that is small enough to look at."""
    found: dict[str, list[str]] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                if member.isdir():
                    continue
                content = tar.extractfile(member) if member.isreg() and member.size <= LARGEST else None
                digest = sha256(content.read()).hexdigest() if content else "not a file"
                found[member.name.removeprefix("./")] = [f"{member.mode:o}", f"{member.uid}:{member.gid}", digest]
    except (tarfile.TarError, ValueError, EOFError, OSError):
        return {}
    return found
