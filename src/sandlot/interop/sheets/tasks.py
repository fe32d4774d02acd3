"""A spreadsheet's sheets Tasks, Checks, Files and Settings as tasks and checks, with a finding for every cell that is wrong.

Tasks      one row per task: prompt, golden answer, and one check of the answer if that is enough
Checks     one row per check, for one task, several, or all
Files      files that the agent is given, and files that a golden solution writes
Settings   name, description, system prompt, image, turns
"""

import difflib
import inspect
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from sandlot.checks import LIBRARY
from sandlot.core.errors import ConfigError
from sandlot.core.rubric import Check, JudgeCheck, JudgeExample, PythonCheck
from sandlot.core.types import Split
from sandlot.grade.lint import LintSeverity
from sandlot.interop.sheets.grid import Grid, SheetFile
from sandlot.interop.sheets.kinds import (
    JUDGE,
    KINDS,
    OPTIONAL_FIELD,
    Arguments,
    CellProblem,
    CheckKind,
    kind_named,
    read_number,
    read_value,
)
from sandlot.interop.sheets.table import FindingList, Table, open_table
from sandlot.interop.untrusted import read_bytes, read_text

TASKS, CHECKS, FILES, SETTINGS = "Tasks", "Checks", "Files", "Settings"
TASK_COLUMNS = ("Task", "Prompt", "Answer", "Check", "Tolerance", "Split", "Tags", "Source", "Licence", "Note")
CHECK_COLUMNS = (
    "Task", "Name", "Kind", "File", "Field", "Expected", "Tolerance", "Points", "Gate", "Needs", "Passes", "Fails",
    "Options", "Note",
)  # fmt: skip
FILE_COLUMNS = ("Task", "Path", "Content", "From", "Role", "Note")
SETTING_NAMES = ("name", "description", "system", "image", "turns")
ROLES = ("given", "golden")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_CHECK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_YES, _NO = frozenset({"yes", "y", "true", "x", "1"}), frozenset({"", "no", "n", "false", "0"})
_MAX_FILES_BYTES = 64 * 2**20
_JUDGE_OPTIONS = ("choices", "votes")


@dataclass(frozen=True, slots=True)
class SheetCheck:
    """One check of one task, and where it is written."""

    check: Check
    table: Table
    row: int
    expected: Arguments = field(default_factory=dict[str, object])
    """Arguments that come from the golden answer. They are stored in the task's key."""

    def at(self, column: str) -> tuple[Grid, tuple[int, int]]:
        """The cell of this check that `column` means, also where the check is a part of a task's row."""
        if self.table.grid.name.lower() == TASKS.lower():
            column = {"Kind": "Check", "Expected": "Answer", "Points": "Check", "Options": "Check"}.get(column, column)
        return self.table.grid, self.table.at(self.row, column)


@dataclass(slots=True)
class SheetTask:
    """One row of the sheet Tasks, with its files and checks."""

    row: int
    id: str
    prompt: str
    answer: str
    split: Split | None = None
    tags: tuple[str, ...] = ()
    source: str = ""
    licence: str = ""
    given: dict[str, bytes] = field(default_factory=dict[str, bytes])
    golden: dict[str, bytes] = field(default_factory=dict[str, bytes])
    checks: list[SheetCheck] = field(default_factory=list[SheetCheck])
    has_check: bool = False
    """True if a row has a check of it, even a wrong one."""


@dataclass(slots=True)
class TaskSheet:
    """What a spreadsheet says."""

    file: SheetFile
    findings: FindingList
    table: Table
    tasks: dict[str, SheetTask] = field(default_factory=dict[str, SheetTask])
    settings: dict[str, str] = field(default_factory=dict[str, str])


def read_tasks(file: SheetFile) -> TaskSheet:
    """Read all sheets. `ConfigError` if there is no sheet `Tasks`; everything else that is wrong is a finding."""
    grid = file.grid(TASKS)
    if grid is None:
        names = ", ".join(f"`{grid.name}`" for grid in file.grids) or "none"
        known = f"its sheets: {names}. `sandlot task new FILE.xlsx` writes a template"
        raise ConfigError(f"`{file.path}` has no sheet `{TASKS}`; {known}")
    findings = FindingList()
    sheet = TaskSheet(file, findings, open_table(grid, TASK_COLUMNS, ("Task", "Prompt"), findings))
    for row in sheet.table.rows():
        _read_task(sheet, row)
    if not sheet.tasks and not findings.has_errors:
        findings.add(grid, (sheet.table.header + 1, 1), "no-tasks", "there is no task", "write one task per row")
    for name, columns, needed, read in (
        (FILES, FILE_COLUMNS, ("Task", "Path"), _read_file),
        (CHECKS, CHECK_COLUMNS, ("Kind",), _read_check),
        (SETTINGS, ("Setting", "Value"), ("Setting", "Value"), _read_setting),
    ):
        other = file.grid(name)
        if other is not None:
            table = open_table(other, columns, needed, findings)
            for row in table.rows():
                read(sheet, table, row)
    for task in sheet.tasks.values():
        if not task.has_check:
            message = f"no check grades task `{task.id}`"
            fix = "choose a kind in the column Check, or write a row on the sheet Checks"
            findings.add(grid, sheet.table.at(task.row, "Check"), "no-check", message, fix)
    return sheet


def _read_task(sheet: TaskSheet, row: int) -> None:
    table, findings = sheet.table, sheet.findings
    name = table.text(row, "Task")
    if not _ID.match(name):
        message = "the task has no name" if not name else "the name has other characters than letters, digits, `.`, `_` and `-`"
        findings.add(table.grid, table.at(row, "Task"), "task-name", message, "write a short name such as invoice-1")
        return
    if name in sheet.tasks:
        message = f"task `{name}` is in row {sheet.tasks[name].row} already"
        findings.add(table.grid, table.at(row, "Task"), "two-tasks", message, "give each task its own name")
        return
    prompt = table.text(row, "Prompt")
    if not prompt:
        findings.add(
            table.grid, table.at(row, "Prompt"), "no-prompt", "the prompt is empty", "write what the agent is asked to do"
        )
    split = table.text(row, "Split").lower()
    if split and split not in set(Split):
        findings.add(
            table.grid, table.at(row, "Split"), "split", "there is no such split", f"write {' or '.join(Split)}, or nothing"
        )
    tags = tuple(each.strip() for each in table.text(row, "Tags").split(",") if each.strip())
    task = SheetTask(row, name, prompt, table.text(row, "Answer"), Split(split) if split in set(Split) else None, tags)
    task.source, task.licence = table.text(row, "Source"), table.text(row, "Licence")
    sheet.tasks[name] = task
    if table.text(row, "Check"):
        _add_check(sheet, table, row, [task], {"Kind": "Check", "Expected": "", "Points": ""})
    elif table.text(row, "Tolerance"):
        findings.add(
            table.grid, table.at(row, "Tolerance"), "no-kind", "there is a tolerance, but no check", "choose a kind in Check"
        )


# -- checks --------------------------------------------------------------------------------------------------------------------


def _read_check(sheet: TaskSheet, table: Table, row: int) -> None:
    names = [each.strip() for each in table.text(row, "Task").split(",") if each.strip()]
    tasks = list(sheet.tasks.values()) if not names or names == ["*"] else []
    for name in names if names != ["*"] else ():
        if name in sheet.tasks:
            tasks.append(sheet.tasks[name])
        else:
            _unknown_task(sheet, table, row, name)
    _add_check(sheet, table, row, tasks, {})


def _unknown_task(sheet: TaskSheet, table: Table, row: int, name: str) -> None:
    near = difflib.get_close_matches(name, sheet.tasks, n=1)
    fix = f"did you mean `{near[0]}`?" if near else "write a name of the sheet Tasks, or * for all"
    sheet.findings.add(table.grid, table.at(row, "Task"), "unknown-task", f"there is no task `{name[:60]}`", fix)


def _add_check(sheet: TaskSheet, table: Table, row: int, tasks: list[SheetTask], renamed: dict[str, str]) -> None:
    """Add the check of a row to these tasks. `renamed` says which column is meant on another sheet; `""`: none is."""
    cells = {name: table.text(row, renamed.get(name, name)) if renamed.get(name, name) else "" for name in CHECK_COLUMNS}
    for task in tasks:
        task.has_check = True
    kind = kind_named(cells["Kind"])
    if kind is None:
        near = difflib.get_close_matches(cells["Kind"].lower(), KINDS, n=1)
        fix = f"did you mean `{near[0]}`?" if near else f"kinds: {', '.join(KINDS)}"
        message = "there is no such kind of check" if cells["Kind"] else "the kind of check is missing"
        sheet.findings.add(table.grid, table.at(row, renamed.get("Kind", "Kind")), "unknown-kind", message, fix)
        return
    for task in tasks:
        try:
            made = _make_check(kind, cells, task)
        except CellProblem as problem:
            column = problem.column
            if column == "Expected" and kind.of_answer and not cells["Expected"]:  # the golden answer stood for it
                grid, at = sheet.table.grid, sheet.table.at(task.row, "Answer")
            else:
                grid, at = table.grid, table.at(row, renamed.get(column, column) or "Answer")
            sheet.findings.add(grid, at, "cell", problem.message, problem.fix)
            continue
        check = SheetCheck(made[0], table, row, made[1])
        if any(made[0].id == other.check.id for other in task.checks):
            message = f"task `{task.id}` has two checks named `{made[0].id}`"
            sheet.findings.add(*check.at("Name"), "two-checks", message, "give each check of a task its own name")
            continue
        task.checks.append(check)


def _make_check(kind: CheckKind, cells: dict[str, str], task: SheetTask) -> tuple[Check, Arguments]:
    name = cells["Name"] or _free_name(kind, task)
    if not _CHECK_ID.match(name):
        raise CellProblem("Name", "the name has other characters than letters, digits, `_` and `-`", "write it like right_total")
    common: Arguments = {
        "id": name,
        "points": read_number(cells["Points"], "Points") if cells["Points"] else 1.0,
        "gate": _yes(cells["Gate"], "Gate"),
        "requires": tuple(each.strip() for each in cells["Needs"].split(",") if each.strip()),
    }
    if kind.name == JUDGE:
        return _judge_check(cells, common), {}
    args, expected = _arguments(kind, cells, task, name)
    args |= _options(kind, cells["Options"], {*args})
    return PythonCheck(**common, ref=f"sandlot:{kind.check}", args=args), expected


def _free_name(kind: CheckKind, task: SheetTask) -> str:
    base = re.sub(r"[^a-z0-9]+", "_", kind.name)
    names = {each.check.id for each in task.checks}
    return next(name for number in range(1, len(names) + 2) if (name := base if number == 1 else f"{base}_{number}") not in names)


def _yes(text: str, column: str) -> bool:
    if text.lower() not in _YES | _NO:
        raise CellProblem(column, f"{text[:60]!r} is neither yes nor no", "write yes, or nothing")
    return text.lower() in _YES


def _arguments(kind: CheckKind, cells: dict[str, str], task: SheetTask, name: str) -> tuple[Arguments, Arguments]:
    """The arguments of a check, and those of them that come from the golden answer."""
    args: Arguments = {}
    if kind.file is False and cells["File"]:
        raise CellProblem("File", f"a check of the kind `{kind.name}` reads no file", "leave it empty, or choose another kind")
    if kind.file and not cells["File"]:
        raise CellProblem("File", f"a check of the kind `{kind.name}` needs a file", "write its path, such as /out/report.csv")
    if cells["File"]:
        args["path"] = read_path(cells["File"], "File")
    if kind.field is not None:
        if not cells["Field"] and kind.name not in OPTIONAL_FIELD:
            raise CellProblem("Field", f"a check of the kind `{kind.name}` needs a field", kind.meaning)
        args |= kind.field(cells["Field"])
    from_answer = kind.of_answer and not cells["Expected"]
    text = task.answer if from_answer else cells["Expected"]
    parsed: Arguments = {}
    if kind.expected is not None:
        if not text:
            what = "the golden answer is empty, and nothing is expected" if from_answer else "nothing is expected"
            raise CellProblem("Expected", what, kind.meaning)
        parsed = kind.expected(text)
    if cells["Tolerance"]:
        if kind.tolerance is None:
            raise CellProblem("Tolerance", f"a check of the kind `{kind.name}` has no tolerance", "leave it empty")
        parsed |= kind.tolerance(cells["Tolerance"], parsed)
    if from_answer:
        return args | {each: f"$key.expected.{name}.{each}" for each in parsed}, {name: parsed}
    return args | parsed, {}


def read_path(text: str, column: str) -> str:
    """The absolute path of a file in the agent's world; `CellProblem` for anything else."""
    path = posixpath.normpath(text)
    if not text.startswith("/") or path != text or "\\" in text or not text.isprintable() or len(text) > 500 or text == "/":
        raise CellProblem(column, f"{text[:60]!r} is not a path from the root", "write it like /out/report.csv")
    return path


def _options(kind: CheckKind, text: str, taken: set[str]) -> Arguments:
    """Further arguments: one `name = value` per line."""
    known = {*inspect.signature(LIBRARY[kind.check]).parameters} - {"evidence"}
    found: Arguments = {}
    for line in filter(str.strip, text.splitlines()):
        name, mark, value = (each.strip() for each in line.partition("="))
        if not mark or name not in known or name in taken:
            left = ", ".join(sorted(known - taken)) or "none"
            raise CellProblem("Options", f"{line[:60]!r} is not an option of `{kind.name}`", f"write NAME = VALUE; names: {left}")
        try:
            found[name] = read_value(value)
        except CellProblem as problem:
            raise CellProblem("Options", problem.message, problem.fix) from problem
    return found


def _judge_check(cells: dict[str, str], common: Arguments) -> JudgeCheck:
    if not cells["Expected"]:
        raise CellProblem("Expected", "the statement is empty", "write one statement that a reader can call true or false")
    choices, votes = ("no", "yes"), 1
    for line in filter(str.strip, cells["Options"].splitlines()):
        name, _, value = (each.strip() for each in line.partition("="))
        if name == "choices":
            choices = tuple(each.strip() for each in value.split(","))
        elif name == "votes":
            votes = int(read_number(value, "Options"))
        else:
            raise CellProblem("Options", f"{line[:60]!r} is not an option of a judge", f"options: {', '.join(_JUDGE_OPTIONS)}")
    examples = ((cells["Fails"], choices[0]), (cells["Passes"], choices[-1]))
    return JudgeCheck(
        **common,
        prompt=cells["Expected"],
        choices=choices,
        votes=votes,
        view=(read_path(cells["File"], "File"),) if cells["File"] else ("answer",),
        examples=tuple(JudgeExample(view=text, verdict=verdict) for text, verdict in examples if text),
    )


# -- files and settings --------------------------------------------------------------------------------------------------------


def files_folder(path: Path) -> Path:
    """The folder beside a spreadsheet that has the files which the sheet Files names in its column From."""
    return path.with_name(f"{path.stem}-files")


def _read_file(sheet: TaskSheet, table: Table, row: int) -> None:
    try:
        path = read_path(table.text(row, "Path"), "Path")
        role = _role(table.text(row, "Role"))
        data = _content(sheet.file.path, table.text(row, "Content"), table.text(row, "From"), as_text=role == "golden")
    except CellProblem as problem:
        sheet.findings.add(table.grid, table.at(row, problem.column), "cell", problem.message, problem.fix)
        return
    for task in _tasks_of(sheet, table, row):
        files = task.given if role == "given" else task.golden
        if path in files:
            message = f"task `{task.id}` has two {role} files `{path}`"
            sheet.findings.add(table.grid, table.at(row, "Path"), "two-files", message, "keep one")
        files[path] = data
        if sum(map(len, files.values())) > _MAX_FILES_BYTES:
            raise ConfigError(f"the files of task `{task.id}` have more than {_MAX_FILES_BYTES:,} bytes")


def _role(text: str) -> str:
    if text and text.lower() not in ROLES:
        raise CellProblem("Role", "there is no such role", f"write {' or '.join(ROLES)}")
    return text.lower() or ROLES[0]


def _tasks_of(sheet: TaskSheet, table: Table, row: int) -> Iterator[SheetTask]:
    text = table.text(row, "Task")
    for name in sheet.tasks if text in {"", "*"} else [each.strip() for each in text.split(",")]:
        if name in sheet.tasks:
            yield sheet.tasks[name]
        else:
            _unknown_task(sheet, table, row, name)


def _content(sheet: Path, content: str, source: str, *, as_text: bool) -> bytes:
    """The bytes of a file: the cell Content, or the file that the cell From names."""
    if bool(content) == bool(source):
        raise CellProblem("Content", "write the content, or the name of a file in From, and not both", "fill in one of the two")
    if content:
        return f"{content}\n".encode(errors="replace")
    folder, name = files_folder(sheet), PurePosixPath(source)
    if name.is_absolute() or ".." in name.parts or "\\" in source or not source.isprintable():
        raise CellProblem("From", f"{source[:60]!r} is not a file name below `{folder.name}`", "write it like report.csv")
    for part in (*list(name.parents)[-2::-1], name):
        if (folder / part).is_symlink() or folder.is_symlink():
            raise CellProblem("From", f"{source[:60]!r} is a link", "put the file itself there")
    try:
        return read_text(folder / name).encode() if as_text else read_bytes(folder / name, at_most=_MAX_FILES_BYTES)
    except ConfigError as error:
        fix = f"put the file into the folder `{folder.name}` beside the spreadsheet; a golden file must be text"
        raise CellProblem("From", str(error), fix) from error


def _read_setting(sheet: TaskSheet, table: Table, row: int) -> None:
    name, value = table.text(row, "Setting").lower(), table.text(row, "Value")
    if name not in SETTING_NAMES:
        message, fix = "there is no such setting", f"settings: {', '.join(SETTING_NAMES)}"
        sheet.findings.add(table.grid, table.at(row, "Setting"), "setting", message, fix, LintSeverity.WARNING)
    elif name == "turns" and value and not (value.isdecimal() and 0 < int(value) <= 1000):
        sheet.findings.add(table.grid, table.at(row, "Value"), "setting", "it is not a number of turns", "write 1 to 1000")
    elif value:
        sheet.settings[name] = value
