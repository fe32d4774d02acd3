"""Writes an environment of repository tasks: source trees, the libraries of their tests, and the code that grades."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from sandlot.core.rubric import Rubric
from sandlot.core.task import Task
from sandlot.interop.folder_writer import EnvironmentDraft, write_environment
from sandlot.interop.repositories.suite import PROGRAM, RepositoryLayout

TEMPLATE = Path(__file__).parent / "template"
_CODE = ("trees.py", "world.py", "checks.py", "solution.py")
_SYSTEM = "You repair Python repositories with `bash`. Change what is needed in the package, and nothing that works."
_DECLARED = """\
[declared]
material = ["repositories"]  # the code to repair: an audit reads it as data and not as this environment's own code
"""
_LIMITS = {"turns": 40, "tool_s": 120.0, "grade_s": 300.0}


def write_repository(folder: Path, name: str, files: Mapping[str, bytes], layout: RepositoryLayout) -> None:
    """One source tree of the environment."""
    for path, content in files.items():
        target = folder / "repositories" / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    about: dict[str, object] = {
        "paths": layout.paths,
        "modules": layout.modules,
        "tests": layout.tests,
        "options": layout.options,
    }
    if layout.environ:
        about["environ"] = dict(layout.environ)
    if layout.site:
        about["site"] = layout.site
    (folder / "repositories" / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")


def write_repair_environment(folder: Path, name: str, description: str, tasks: Sequence[Task]) -> None:
    """The environment's own files. `site/` and `repositories/` are written by who knows them."""
    settings = {"description": description, "system": _SYSTEM, "image": "host:site", "limits": _LIMITS}
    rubric = msgspec.json.decode((TEMPLATE / "rubrics" / "default.json").read_bytes(), type=Rubric)
    code = {file: (TEMPLATE / f"{file}.txt").read_text(encoding="utf-8") for file in _CODE}
    code["run_tests.py"] = PROGRAM.read_text(encoding="utf-8")
    code["audit.toml"] = _DECLARED
    write_environment(folder, EnvironmentDraft(name=name, settings=settings, tasks=tasks, rubrics={"default": rubric}, code=code))
