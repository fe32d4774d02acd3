"""The cases of `audit_defects.py`: what a case is, and its two trees laid out so that `sandlot audit` can be run on each.

A case is a folder with `case.toml`, our wiring (`wiring.py`) and, if the wiring does not make them, its tasks (`rows.jsonl`).
Files of a folder `_shared` beside the cases are laid next to the wiring of each. The project's own files come from a local
mirror of its history, at the commit before the fix and at the fix; nothing of theirs is in this repository.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from peers import CACHE, Peer, ready
from report import say

WORK = CACHE / "defects"
SIDES = ("before", "fix")


CLAIMS: dict[str, tuple[str, ...]] = {
    "accepts-wrong": ("D02", "D03", "D04", "D06", "D08", "D11", "D14", "D16", "D21", "D22.near", "D22.collision"),
    "refuses-right": ("D01", "D04", "D05", "D06", "D08", "D09", "D13", "D15", "D16", "D19", "D21", "D22.spelling"),
    "crash": ("D04", "D08", "D09", "D13"),
    "nondeterminism": ("D01", "D05", "D10", "D16", "D17", "D18"),
    "prompt": ("D08", "D11", "D13", "D15", "D19", "D22"),
    "data": ("D07", "D11", "D12", "D13", "D14", "D15"),
}
"""What a finding claims that may be a defect of a direction, by the beginning of its code. A case may name others; in another
direction every finding may be it."""


class LayoutError(RuntimeError):
    """A case cannot be laid out: no mirror, no such commit, or a wiring that fails."""


class Hit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which confirmed findings at `before` may count as the listed defect.

    One counts if its code starts with one of `codes` (default: those that claim a defect of the case's direction), `text` is
    found in its title and witnesses, and the fix removes it: one of its witnesses, graded again, gives another result there;
    where nothing can be graded again, no such finding is at the fix.
    """

    codes: tuple[str, ...] = ()
    text: str = ""


class Shown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The input by which the defect was seen by hand: a graded answer, or a function of the wiring."""

    before: float | bool | str
    fix: float | bool | str
    row: str = ""
    """The id of its row; default: the first row."""
    answer: str | None = None
    function: str = ""
    """A function of the wiring, called as a grader would be, instead of the grader."""


class Real(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finding at the fix (or in a clean subject) that was seen by hand and is right."""

    code: str
    why: str
    text: str = ""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One `case.toml`."""

    project: str
    fix: str
    """The commit that repairs it; for a clean subject, the commit audited. May be `pypi` with nothing taken from a mirror."""
    paths: tuple[str, ...]
    before: str = ""
    kind: str = ""
    """The class: what part of an environment is wrong."""
    direction: str = ""
    defect: str = ""
    hit: Hit = Hit()
    witness: Shown | None = None
    real: tuple[Real, ...] = ()
    requires: tuple[str, ...] = ()
    path: tuple[str, ...] = (".",)
    """Folders of the taken files from which modules are imported."""
    grader: dict[str, Any] | None = None
    """More fields of `grader.toml`."""
    gym: dict[str, Any] | None = None
    env: str = ""
    """The file of a Sandlot environment in the case's folder, instead of a grader."""
    limit: int = 100
    note: str = ""

    @property
    def sides(self) -> tuple[str, ...]:
        return SIDES if self.before else ("fix",)

    @property
    def venv(self) -> Path:
        return CACHE / self._peer.name

    @property
    def _peer(self) -> Peer:
        stamp = hashlib.sha256("\n".join(sorted(self.requires)).encode()).hexdigest()[:10]
        return Peer(f"defects-{stamp}", self.requires)

    def install(self) -> Path:
        """The Python with what the case requires; one for each distinct list."""
        return ready(self._peer).bin("python")


def read_cases(folder: Path, only: set[str]) -> dict[str, Case]:
    """Every case of a folder, by name."""
    names = sorted(each.parent.name for each in folder.glob("*/case.toml") if not only or each.parent.name in only)
    if missing := only - set(names):
        raise SystemExit(f"no case {', '.join(sorted(missing))} in {folder}")
    return {name: _read(folder / name / "case.toml") for name in names}


def _read(path: Path) -> Case:
    try:
        case = msgspec.toml.decode(path.read_bytes(), type=Case)
    except msgspec.MsgspecError as error:
        raise SystemExit(f"{path}: {error}") from error
    if case.before and not (case.kind and case.direction and case.defect and case.witness):
        raise SystemExit(f"{path}: a case needs kind, direction, defect and witness")
    return case


def mirror_of(case: Case, mirrors: Path) -> Path:
    """The git directory of the project."""
    base = mirrors / case.project.replace("/", "+")
    for each in (base / "repo", base / "repo" / ".git", base):
        if (each / "HEAD").exists():
            return each
    raise LayoutError(f"no mirror of {case.project}: clone it bare as {base}/repo (`git clone --bare`), or name --mirrors")


_JUDGED = {"kind", "direction", "defect", "hit", "witness", "real", "note"}
"""Fields that change how a result is judged, and not the result."""


def content(folder: Path, name: str) -> str:
    """A digest of everything that decides a result of the case but the auditor."""
    files = sorted(each for place in (folder / name, folder / "_shared") for each in place.rglob("*") if each.is_file())
    taken = [each for each in files if "__pycache__" not in each.parts and each.name != "case.toml"]
    fields = msgspec.toml.decode((folder / name / "case.toml").read_bytes())
    kept = msgspec.json.encode({field: fields[field] for field in sorted(fields) if field not in _JUDGED})
    body = b"".join(str(each.relative_to(folder)).encode() + each.read_bytes() for each in taken)
    return hashlib.sha256(kept + body).hexdigest()[:12]


def lay_out(folder: Path, name: str, case: Case, side: str, mirrors: Path) -> Path:
    """A folder with the project's files of this side in `tree`, the wiring, the tasks and the configuration beside it."""
    stamp = content(folder, name)
    place = WORK / folder.name / name / side
    if (place / "stamp").exists() and (place / "stamp").read_text() == stamp:
        return place
    shutil.rmtree(place, ignore_errors=True)
    (place / "tree").mkdir(parents=True)
    commit = case.before if side == "before" else case.fix
    if case.paths:
        _extract(mirror_of(case, mirrors), commit, case, place / "tree")
    for source in (folder / "_shared", folder / name):
        if source.exists():
            shutil.copytree(source, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "case.toml"))
    python = case.install()
    if not case.env and case.gym is None and not (place / "rows.jsonl").exists():
        _make_rows(place, case, python)
    _configure(place, case, python)
    (place / "stamp").write_text(stamp)
    return place


def _extract(mirror: Path, commit: str, case: Case, tree: Path) -> None:
    git = ["git", f"--git-dir={mirror}"]
    if subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise LayoutError(f"the mirror of {case.project} at {mirror} has no commit {commit}; fetch its whole history")
    absent = _absent(git, commit, case)
    if absent:
        say(f"the mirror of {case.project} does not hold {', '.join(absent)}; left out")
    here = [
        each for each in case.paths if subprocess.run([*git, "ls-tree", commit, each], capture_output=True, check=True).stdout
    ]
    if not here:
        raise LayoutError(f"{case.project} has none of {', '.join(case.paths)} at {commit}")
    paths = [*here, *(f":(exclude){each}" for each in absent)]
    archive = subprocess.run([*git, "archive", commit, "--", *paths], stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)


def _absent(git: list[str], commit: str, case: Case) -> list[str]:
    """Files whose content a mirror lists and does not hold: very large ones."""
    listed = subprocess.run([*git, "ls-tree", "-r", commit, "--", *case.paths], capture_output=True, text=True, check=True).stdout
    files = {line.split("\t", 1)[1]: line.split()[2] for line in listed.splitlines()}
    asked = "".join(f"{each}\n" for each in files.values())
    known = subprocess.run([*git, "cat-file", "--batch-check"], input=asked, capture_output=True, text=True, check=True).stdout
    missing = {line.split()[0] for line in known.splitlines() if line.endswith(" missing")}
    return [path for path, digest in files.items() if digest in missing]


def modules(place: Path, case: Case) -> list[str]:
    return [str(place), *(str(place / "tree" / each) for each in case.path)]


def variables(place: Path, case: Case) -> dict[str, str]:
    """The environment of a plain run of the wiring."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(modules(place, case)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }


_ROWS = "import json, wiring\nfor row in wiring.rows(): print('ROW' + json.dumps(row))"


def _make_rows(place: Path, case: Case, python: Path) -> None:
    command = [python, "-c", _ROWS]
    done = subprocess.run(
        command, cwd=place, env=variables(place, case), capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise LayoutError(f"{place}: the wiring made no rows:\n{done.stderr[-3000:]}")
    rows = [line.removeprefix("ROW") for line in done.stdout.splitlines() if line.startswith("ROW")]
    (place / "rows.jsonl").write_text("\n".join(rows) + "\n")


def _configure(place: Path, case: Case, python: Path) -> None:
    """`grader.toml` calls functions of the wiring in the sandbox; the audit gets a configuration of its own kind."""
    common = {"python": str(python), "path": modules(place, case)}
    called = {"grader": "wiring:grade", "tasks": "rows.jsonl", "map": "{answer} {task}", **common}
    if case.gym is not None or case.env:
        (place / "rows.jsonl").write_text('{"prompt": "", "answer": ""}\n')
        (place / "gym.toml").write_text(_toml({**common, **(case.gym or {})}))
    called |= case.grader or {}
    (place / "grader.toml").write_text(_toml(called))


def _toml(fields: dict[str, Any]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in fields.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_value(each)}" for name, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def audit_command(place: Path, case: Case, budget_s: float) -> tuple[list[str], dict[str, str]]:
    """`sandlot audit --budget` as a user would type it, and its environment variables."""
    command = [
        str(Path(sys.executable).with_name("sandlot")),
        "audit",
        "--json",
        "--runs",
        str(place / "runs"),
        "--limit",
        str(case.limit),
        "--budget",
        f"{budget_s:g}s",
    ]
    source = str(Path(__file__).parents[1] / "src")
    if case.env:
        libraries = sorted(str(each) for each in case.venv.glob("lib/python*/site-packages"))
        return [*command, str(place / case.env)], {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((source, *modules(place, case), *libraries)),
        }
    kind = ["--gym", str(place / "gym.toml")] if case.gym is not None else ["--grader", str(place / "grader.toml")]
    return [*command, *kind], {**os.environ, "PYTHONPATH": source}


def prepare(folder: Path, cases: dict[str, Case], mirrors: Path) -> dict[str, dict[str, Path]]:
    """Every side of every case laid out; a case that cannot be is named and left out."""
    places: dict[str, dict[str, Path]] = {}
    for name, case in cases.items():
        try:
            places[name] = {side: lay_out(folder, name, case, side, mirrors) for side in case.sides}
        except Exception as error:  # one case must not end the others
            say(f"LEFT OUT {name}: {type(error).__name__}: {error}")
    return places
