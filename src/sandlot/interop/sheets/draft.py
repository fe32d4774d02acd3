"""`sandlot task draft`: a task from a folder before and after the work was done, with proposed checks and their mutation score.

The score is the share of the auditor's own mutants of the golden solution (a missing step, a wrong number, a text cut short) that
the proposed checks notice. A proposal is exact where it can be: the author decides what else is right, too.
"""

import csv
import io
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from sandlot.audit.probes.scripted.mutants import mutants
from sandlot.audit.probes.scripted.reach import GoldenWork
from sandlot.audit.subject import Call, Script, Trial
from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError
from sandlot.core.ports.importer import LeftOut
from sandlot.core.rubric import CheckResult
from sandlot.core.trace import Message, Node, Text, ToolCall, Trace
from sandlot.core.types import Json, Role
from sandlot.interop.folder_writer import task_id
from sandlot.interop.sheets.grid import read_sheet_file
from sandlot.interop.sheets.lint import evidence_of, lint_tasks, results_of, task_of
from sandlot.interop.sheets.tasks import (
    CHECK_COLUMNS,
    CHECKS,
    FILE_COLUMNS,
    FILES,
    TASK_COLUMNS,
    TASKS,
    SheetTask,
    files_folder,
    read_tasks,
)
from sandlot.interop.sheets.xlsx import SheetPage, xlsx_bytes
from sandlot.interop.untrusted import copy_tree

_FOLDER = "/work"
"""Where the agent finds the files."""
_MAX_FILES = 500
_MAX_CELL_CHARS = 30_000
_MAX_FIELDS = 20
"""Changed values of one JSON file that get a check each; with more, the whole file is compared."""
_MAX_UNCHANGED = 5
_ANSWER = "Done."
_PROMPT = "Write here what the agent is asked to do with the files below /work."


class DraftReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was drafted, and how good its checks are."""

    file: str
    task: str
    checks: int
    mutants: int
    """Wrong solutions that were tried."""
    noticed: int
    survivors: tuple[str, ...]
    """Wrong solutions that get full marks."""
    left_out: tuple[LeftOut, ...]


def draft_task(before: str | Path, after: str | Path, out: str | Path, *, task: str = "", prompt: str = "") -> DraftReport:
    """Write a spreadsheet with one task: what differs between two folders is the golden solution.

    - `before`, `after`: the folder before and after the work was done. Nothing of them is executed.
    - `out`: the `.xlsx` file to write; larger and binary files go into the folder `NAME-files` beside it. Neither may exist.
    - `task`, `prompt`: the name of the task and what is asked. Default: the name of `after`, and a text to replace.
    """
    target = Path(out)
    if target.suffix.lower() != ".xlsx":
        raise ConfigError(f"`{target}`: a draft is written as .xlsx")
    if target.exists() or files_folder(target).exists():
        raise ConfigError(f"`{target}` or `{files_folder(target)}` already exists; choose another name")
    old, new = _read(Path(before)), _read(Path(after))
    draft = _Draft(task_id(task or Path(after).resolve().name), target)
    draft.add_all(old, new)
    if not draft.checks:
        why = "; ".join(f"{each.what}: {each.why}" for each in draft.left_out[:3])
        raise ConfigError(
            f"nothing in `{after}` differs from `{before}` in a way that can be checked" + (f": {why}" if why else "")
        )
    draft.write(prompt or _PROMPT)
    sheet = read_tasks(read_sheet_file(target))
    errors = [each for each in lint_tasks(sheet) if each.severity == "error"]
    if errors:
        raise ConfigError(f"the draft has errors: {errors[0].place}: {errors[0].message}; correct `{target}`")
    tried = list(_try_mutants(next(iter(sheet.tasks.values()))))
    survivors = tuple(what for what, noticed in tried if not noticed)
    return DraftReport(
        file=str(target),
        task=draft.task,
        checks=len(draft.checks),
        mutants=len(tried),
        noticed=len(tried) - len(survivors),
        survivors=survivors,
        left_out=tuple(draft.left_out),
    )


def _read(folder: Path) -> dict[str, bytes]:
    """The files of a folder by name, without hidden ones. Links, devices and absurd sizes are refused."""
    with tempfile.TemporaryDirectory(prefix="sandlot-draft-") as temporary:
        place = Path(temporary) / "copy"
        copy_tree(folder, place)
        found = {path.relative_to(place).as_posix(): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
    shown = {name: data for name, data in found.items() if not any(part.startswith(".") for part in name.split("/"))}
    if len(shown) > _MAX_FILES:
        raise ConfigError(f"`{folder}` has {len(shown):,} files; a draft takes at most {_MAX_FILES}")
    return shown


class _Draft:
    """The rows of a spreadsheet, as they grow."""

    def __init__(self, task: str, target: Path) -> None:
        self.task, self.target = task, target
        self.checks: list[dict[str, str]] = []
        self.files: list[list[str]] = []
        self.beside: dict[str, bytes] = {}
        self.left_out: list[LeftOut] = []

    def add_all(self, old: Mapping[str, bytes], new: Mapping[str, bytes]) -> None:
        for name, data in old.items():
            self._add_file(name, data, "given")
        for name in sorted(old.keys() - new.keys()):
            self.left_out.append(LeftOut(what=name, why="it was deleted, and a golden solution here cannot delete files"))
        for name, data in sorted(new.items()):
            if old.get(name) == data:
                continue
            text = _text(data)
            if text is None or len(text) > _MAX_CELL_CHARS:
                self.left_out.append(
                    LeftOut(what=name, why="it is not text, or too long for a cell; check it with a judge or in Python")
                )
                continue
            self._add_file(name, data, "golden")
            self.checks += _proposed(f"{_FOLDER}/{name}", text, _text(old.get(name, b"")) or "")
        same = [name for name, data in old.items() if new.get(name) == data]
        if self.checks:
            first = {"Name": "first", **self.checks[0]}
            self.checks[0] = first
            self.checks += [
                {"Kind": "file unchanged", "File": f"{_FOLDER}/{name}", "Needs": "first"} for name in same[:_MAX_UNCHANGED]
            ]

    def _add_file(self, name: str, data: bytes, role: str) -> None:
        path, text = f"{_FOLDER}/{name}", _text(data)
        if text is not None and text.strip() and text == text.strip() + "\n" and len(text) < _MAX_CELL_CHARS:
            self.files.append([self.task, path, text.strip(), "", role])
        else:
            self.beside[f"{role}/{name}"] = data
            self.files.append([self.task, path, "", f"{role}/{name}", role])

    def write(self, prompt: str) -> None:
        for name, data in self.beside.items():
            path = files_folder(self.target) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        checks = [[{"Task": self.task, **check}.get(column, "") for column in CHECK_COLUMNS] for check in self.checks]
        pages = [
            SheetPage(TASKS, [list(TASK_COLUMNS), [self.task, prompt, _ANSWER]], (18, 60, 30)),
            SheetPage(CHECKS, [list(CHECK_COLUMNS), *checks], (18, 16, 16, 24, 20, 40)),
            SheetPage(FILES, [list(FILE_COLUMNS), *self.files], (18, 24, 60, 24, 10)),
        ]
        self.target.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.target, xlsx_bytes(pages))


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if "\0" not in text else None


def _proposed(path: str, text: str, before: str) -> list[dict[str, str]]:
    """Checks of a file that was changed: of the values of a JSON file, the rows of a table, or its whole text."""
    whole = (
        [{"Kind": "file equals", "File": path, "Expected": text.strip()}]
        if text.strip()
        else [{"Kind": "file exists", "File": path}]
    )
    if path.endswith(".json"):
        return _json_checks(path, text, before) or whole
    if path.endswith(".csv") and _is_table(text):
        return [{"Kind": "table equals", "File": path, "Expected": text.strip()}]
    return whole


def _json_checks(path: str, text: str, before: str) -> list[dict[str, str]]:
    try:
        new = msgspec.json.decode(text)
        old = msgspec.json.decode(before) if before.strip() else None
    except (msgspec.DecodeError, RecursionError):
        return []
    now, then = dict(_leaves(new)), dict(_leaves(old))
    changed = {place: value for place, value in now.items() if place not in then or then[place] != value}
    plain = all(re.fullmatch(r"[^.]+(\.[^.]+)*", place) and not place.startswith(".") for place in changed)
    if not changed or len(changed) > _MAX_FIELDS or not plain or then.keys() - now.keys():
        return [{"Kind": "json equals", "File": path, "Expected": text.strip()}]
    return [
        {"Kind": "json field", "File": path, "Field": place, "Expected": msgspec.json.encode(value).decode()}
        for place, value in changed.items()
    ]


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    inside: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        inside = [(name.replace(".", ".."), each) for name, each in cast("Json", value).items()]
    elif isinstance(value, list):
        inside = [(str(number), each) for number, each in enumerate(cast("list[Any]", value))]
    elif value is not None or place:
        yield place, value
    for name, each in inside:
        yield from _leaves(each, f"{place}.{name}" if place else name)


def _is_table(text: str) -> bool:
    try:
        rows = list(csv.reader(io.StringIO(text.strip()), strict=True))
    except csv.Error:
        return False
    return len(rows) > 1 and len({len(row) for row in rows}) == 1 and len(set(rows[0])) == len(rows[0])


def _try_mutants(task: SheetTask) -> Iterator[tuple[str, bool]]:
    """Each of the auditor's mutants that leaves other files than the golden solution, and whether a check notices it."""
    trace = Trace(run="draft", task=task.id, rollout=0, seed=0)
    for number, (path, data) in enumerate(task.golden.items()):
        call = ToolCall(id=str(number), name="write_file", arguments={"path": path, "text": data.decode()})
        trace.append(Node(message=Message(role=Role.ASSISTANT, parts=(call,)), sampled=True))
    trace.append(Node(message=Message(role=Role.ASSISTANT, parts=(Text(task.answer),)), sampled=True))
    asked = task_of(task)
    key = {"files": {path: data.decode() for path, data in task.golden.items()}}
    work = GoldenWork(msgspec.structs.replace(asked, key=key), Trial(trace=trace), Trial())
    for mutant in mutants(work, [work], 0):
        files = _left_by(mutant.script)
        if {**task.given, **files} != {**task.given, **task.golden}:
            results = [result for _, result in results_of(task, evidence_of(task, task.answer, files))]
            yield mutant.what, not all(isinstance(result, CheckResult) and result.value >= 1 for result in results)


def _left_by(script: Script) -> dict[str, bytes]:
    calls = [act for turn in script.turns for act in turn if isinstance(act, Call)]
    return {str(call.arguments.get("path")): str(call.arguments.get("text")).encode() for call in calls}
