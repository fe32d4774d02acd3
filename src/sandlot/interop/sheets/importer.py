"""`sandlot import sheet FILE`: a spreadsheet of tasks as a folder environment."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.importer import ImportedTask, ImportReport
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.grade.lint import LintSeverity
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, write_environment
from sandlot.interop.sheets.grid import csv_files, read_sheet_file
from sandlot.interop.sheets.lint import lint_tasks, rubric_of, task_of
from sandlot.interop.sheets.tasks import SheetTask, TaskSheet, files_folder, read_tasks
from sandlot.interop.untrusted import source_digest

_HERE = Path(__file__).parent / "environment"
_MAX_INLINE_BYTES = 20_000
_SHOWN = 5
_TURNS = 20
"""Turns of a task with files, if the sheet Settings gives none. A question without files has one."""


class SheetImporter:
    """A spreadsheet: `.xlsx`, `.ods` or `.csv`, as `sandlot task new` writes one."""

    kind = "sheet"

    def digest(self, source: str) -> str:
        """A hash of the spreadsheet and of its folder of files."""
        path = Path(source)
        parts = csv_files(path) if path.suffix.lower() == ".csv" else [path]
        folder = files_folder(path)
        found = [source_digest(part) for part in (*parts, *([folder] if folder.is_dir() else []))]
        return hashlib.sha256("\n".join(found).encode()).hexdigest()

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment; see `Importer`. `ConfigError` if the spreadsheet has errors: they name the cell."""
        sheet = read_tasks(read_sheet_file(Path(source)))
        findings = lint_tasks(sheet)
        errors = [each for each in findings if each.severity is LintSeverity.ERROR]
        if errors:
            shown = "; ".join(f"{each.place}: {each.message}" for each in errors[:_SHOWN])
            raise ConfigError(f"`{source}` has {len(errors)} errors: {shown}. All of them: sandlot task lint {source}")
        tasks = list(sheet.tasks.values())[:limit]
        write_sheet_environment(sheet, tasks, folder)
        warnings = len(findings)
        return ImportReport(
            kind=self.kind,
            source=source,
            tasks=tuple(
                ImportedTask(
                    id=task.id,
                    origin=f"{sheet.table.grid.name}, row {task.row}" + (f"; {task.source}" if task.source else ""),
                    licence=task.licence or "unknown",
                )
                for task in tasks
            ),
            notes=(*sheet.file.notes, *([f"{warnings} warnings: sandlot task lint {source}"] if warnings else [])),
        )


def write_sheet_environment(sheet: TaskSheet, tasks: list[SheetTask], folder: Path) -> None:
    """Write these tasks of a spreadsheet without errors as an environment."""
    rubrics: dict[str, Rubric] = {}
    names: dict[bytes, str] = {}
    made: list[Task] = []
    for task in tasks:
        rubric = rubric_of(task)
        name = names.setdefault(msgspec.json.encode(rubric), _free_name("default" if not names else task.id, rubrics))
        rubrics[name] = rubric
        given = {path: _stored(data, folder) for path, data in task.given.items()}
        golden = {path: data.decode() for path, data in task.golden.items()}
        asked = task_of(task)
        made.append(
            msgspec.structs.replace(
                asked,
                rubric=name,
                data={"files": given} if given else {},
                key=asked.key | ({"files": golden} if golden else {}),
            )
        )
    write_environment(
        folder,
        EnvironmentDraft(name=sheet_name(sheet), settings=settings_of(sheet), tasks=made, rubrics=rubrics, code=_code(sheet)),
    )


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    """The name, or one that is free: a task may be called as another's rubric is."""
    return name if name not in taken else _free_name(f"{name}-checks", taken)


def sheet_name(sheet: TaskSheet) -> str:
    """The name of the environment: the setting `name`, else the file's."""
    return environment_name(sheet.settings.get("name") or sheet.file.path.stem)


def settings_of(sheet: TaskSheet) -> dict[str, Any]:
    """The keys of `environment.toml`."""
    image = sheet.settings.get("image")
    turns = sheet.settings.get("turns")
    return {
        "description": sheet.settings.get("description") or f"Tasks of {sheet.file.path.name}.",
        "system": sheet.settings.get("system"),
        "image": image,
        "tools": tools_of_sheet(sheet),
        "limits": {"turns": int(turns) if turns else _TURNS if has_files(sheet) or image else 1},
    }


def has_files(sheet: TaskSheet) -> bool:
    """True if a task is given files, or has to write some."""
    return any(
        task.given
        or task.golden
        or any(isinstance(each.check, PythonCheck) and "path" in each.check.args for each in task.checks)
        for task in sheet.tasks.values()
    )


def tools_of_sheet(sheet: TaskSheet) -> list[str]:
    """The tools that the agent gets."""
    files = ["list_files", "read_file", "write_file"] if has_files(sheet) else []
    return [*(["bash"] if sheet.settings.get("image") else []), *files]


def _code(sheet: TaskSheet) -> dict[str, str]:
    names = ["solution.py", *(["world.py", "tools.py"] if has_files(sheet) else [])]
    return {name: (_HERE / f"{name}.txt").read_text(encoding="utf-8") for name in names}


def _stored(data: bytes, folder: Path) -> str | dict[str, str]:
    """A given file as it stands in a task: short texts as they are, others as a file below `data/`."""
    if len(data) <= _MAX_INLINE_BYTES:
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    name = f"data/{hashlib.sha256(data).hexdigest()[:32]}"
    (folder / "data").mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return {"file": name}
