"""`sandlot audit --fix` on the gallery: patches that were kept, and how far each scores like the clean twin.

    python benchmarks/audit_fix.py [NAME ...]        all pairs that need no judge

Each broken twin is repaired in a copy. What the audit of the broken twin played is then played in the repaired and in the clean
one: a patch is right by the twin if all of it earns the same. One JSON line per pair.
"""

import argparse
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from sandlot.audit.finding import Confidence
from sandlot.audit.repair.plays import PlayRecord, StoredPlay
from sandlot.audit.repair.repair import repair_async
from sandlot.audit.subjects.environment.subject import EnvironmentSubject
from sandlot.audit.subjects.named import SubjectOptions
from sandlot.core.errors import SandlotError

GALLERY = Path(__file__).resolve().parent.parent / "environments/broken"


async def repaired(name: str, folder: Path) -> dict[str, Any]:
    """Repair one broken twin, and compare it with the clean one."""
    said = tomllib.loads((folder / "defect.toml").read_text())
    files = {key: folder / said[key] for key in ("reference", "manifest") if key in said}
    record, started = PlayRecord(), time.monotonic()
    options = {"write": True, "rounds": 4, "runs": None, "patience_s": 30.0}
    audit, repair = await repair_async(SubjectOptions(env=str(folder / "broken.py")), record=record, **options, **files)
    result: dict[str, Any] = {
        "name": name,
        "code": said["code"],
        "confirmed": [each.code for each in audit.findings if each.standing is Confidence.CONFIRMED],
        "kept": [[each.code, each.what, list(each.gone)] for each in repair.kept],
        "left": [[each.code, each.decide] for each in repair.left],
        "verdict": repair.verdict.value,
        "tried": repair.tried,
        "seconds": round(time.monotonic() - started),
        "diff": repair.diff,
    }
    if repair.kept:
        result |= await _compare(record.plays, folder)
    return result


async def _compare(plays: Sequence[StoredPlay], folder: Path) -> dict[str, Any]:
    """How many of the plays earn the same in the repaired and in the clean twin."""
    scores: dict[str, list[float | None]] = {}
    for twin in ("broken.py", "clean.py"):
        async with EnvironmentSubject(str(folder / twin)) as subject:
            try:
                scores[twin] = [trial.reward for trial in await subject.take([play.request for play in plays])]
            except SandlotError as error:
                return {"compared": 0, "why": str(error)[:200]}
    pairs = list(zip(plays, scores["broken.py"], scores["clean.py"], strict=True))
    other = [(play, ours, theirs) for play, ours, theirs in pairs if ours != theirs]
    shown = [[play.probe, play.answer, ours, theirs] for play, ours, theirs in other[:8]]
    return {"compared": len(pairs), "same": len(pairs) - len(other), "others": shown}


async def sweep(names: Sequence[str], at_once: int) -> None:
    """All pairs, a few at a time."""
    places = anyio.CapacityLimiter(at_once)

    async def one(name: str) -> None:
        async with places:
            with tempfile.TemporaryDirectory() as place:
                folder = Path(shutil.copytree(GALLERY / name, Path(place) / name))
                try:
                    found = await repaired(name, folder)
                except SandlotError as error:
                    found = {"name": name, "error": str(error)[:300]}
            sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
            sys.stdout.flush()

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(one, name)


def main() -> None:
    """Repair the pairs that are named, or all that need no judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--at-once", type=int, default=2)
    flags = parser.parse_args()
    plain = [file.parent.name for file in sorted(GALLERY.glob("*/defect.toml")) if "judge" not in tomllib.loads(file.read_text())]
    anyio.run(sweep, flags.names or plain, flags.at_once)


if __name__ == "__main__":
    main()
