"""Audit the whole gallery and check the findings: `make gallery`, or `python environments/broken/sweep.py [NAME ...]`.

Every planted defect must be found under its code and confirmed by a witness; nothing may be confirmed against a clean twin. The
results are written into README.md. `--renamed SEED` audits a copy in which every name is replaced.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from sandlot.audit.audit import AuditPlan, audit_subject
from sandlot.audit.finding import Confidence, Finding
from sandlot.audit.subjects.environment.subject import EnvironmentSubject
from sandlot.audit.verdict import Audit, AuditVerdict

HERE = Path(__file__).resolve().parent
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Swept:
    """The audits of both twins of a pair."""

    name: str
    code: str
    broken: Audit
    clean: Audit

    @property
    def found(self) -> Finding | None:
        """The confirmed finding of the planted defect."""
        return next((each for each in self.broken.findings if _confirmed(each) and each.code.startswith(self.code)), None)

    @property
    def alarms(self) -> list[Finding]:
        """Findings confirmed against the clean twin: false alarms."""
        return [each for each in self.clean.findings if _confirmed(each)]

    @property
    def right(self) -> bool:
        """True if the defect is found, and the audit of the clean twin is complete and confirms nothing."""
        return self.found is not None and not self.alarms and self.clean.verdict is AuditVerdict.SHIP

    def line(self) -> str:
        """One line for the terminal."""
        found = f"{self.found.code} by {self.found.probe}" if self.found else "NOT FOUND"
        others = sorted({each.code for each in self.broken.findings if _confirmed(each)})
        alarms = ", ".join(f"{each.code} by {each.probe}: {each.title}" for each in self.alarms)
        twin = f"twin {self.clean.verdict.value}" + (f" ({alarms})" if alarms else "")
        return f"{'ok  ' if self.right else 'BAD '} {self.name:28} {self.code}  {found}  [{', '.join(others)}]  {twin}"


def _confirmed(finding: Finding) -> bool:
    return finding.standing is Confidence.CONFIRMED


@dataclass(frozen=True, slots=True)
class Pair:
    """Two twins, the planted defect, and what the auditor needs besides."""

    name: str
    folder: Path
    code: str
    broken: str = "broken.py"
    clean: str = "clean.py"
    judge: str | None = None
    reference: str | None = None
    manifest: str | None = None


def pairs_in(place: Path) -> list[Pair]:
    """The pairs of the gallery, or of a copy by `rename.py`, under their names in the gallery."""
    index = place / "index.json"
    if index.is_file():
        return [_pair(said["of"], place / said["folder"], said) for said in json.loads(index.read_text(encoding="utf-8"))]
    files = sorted(place.glob("*/defect.toml"))
    return [_pair(file.parent.name, file.parent, tomllib.loads(file.read_text(encoding="utf-8"))) for file in files]


def _pair(name: str, folder: Path, said: dict[str, Any]) -> Pair:
    given = ("code", "broken", "clean", "judge", "reference", "manifest")
    return Pair(name=name, folder=folder, **{key: said[key] for key in given if key in said})


async def sweep_pair(pair: Pair, judges: str | None = None) -> Swept:
    """Audit both twins of a pair."""
    judge = f"openai:{pair.judge}@{judges}" if pair.judge and judges else None
    audits = [
        await audit_subject(
            EnvironmentSubject(str(pair.folder / twin), judge=judge, patience_s=30.0),
            AuditPlan(
                subject=str(pair.folder / twin),
                judge=judge,
                reference=pair.folder / pair.reference if pair.reference else None,
                manifest=pair.folder / pair.manifest if pair.manifest else None,
            ),
        )
        for twin in (pair.broken, pair.clean)
    ]
    return Swept(pair.name, pair.code, *audits)


@contextmanager
def serving() -> Generator[str]:
    """Serve the judges of `judges.py`; yields their URL."""
    command = [sys.executable, HERE / "judges.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own file
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.kill()


async def sweep(pairs: list[Pair], judges: str) -> list[Swept]:
    """Audit every pair, two at a time."""
    done: list[Swept] = []
    places = anyio.CapacityLimiter(AT_ONCE)

    async def one(pair: Pair) -> None:
        async with places:
            done.append(await sweep_pair(pair, judges))
            print(done[-1].line(), flush=True)  # noqa: T201 - a script

    async with anyio.create_task_group() as group:
        for pair in pairs:
            group.start_soon(one, pair)
    return sorted(done, key=lambda each: (each.code, each.name))


def main() -> int:
    """Audit the pairs, print the results and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="only these pairs")
    parser.add_argument("--renamed", type=int, metavar="SEED", help="audit a copy with other names")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as copy, serving() as judges:
        place = HERE
        if flags.renamed is not None:
            place = Path(copy) / "renamed"
            command = [sys.executable, HERE / "rename.py", place, "--seed", str(flags.renamed)]
            subprocess.run(command, check=True)  # noqa: S603 - our own file
        chosen = [pair for pair in pairs_in(place) if not flags.names or pair.name in flags.names]
        done = anyio.run(sweep, chosen, judges)
    wrong = [each for each in done if not each.right]
    print(f"{len(done) - len(wrong)} of {len(done)} pairs are right")  # noqa: T201 - a script
    if flags.renamed is None:
        from table import write  # noqa: PLC0415 - beside this file

        write({each.name: f"`{each.found.probe}` ({each.found.code})" if each.found else "missed" for each in done})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
