"""Exports an environment as a package for `verifiers`: a module with `load_environment`, and the tasks as rows.

The module starts a process of this Python, which runs the environment; the loop, the model and the results are verifiers'.
"""

import re
import sys
import tempfile
from pathlib import Path

import anyio
import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.task import Task, split_of
from sandlot.core.trace import Message
from sandlot.core.types import Json
from sandlot.env.environment import Environment
from sandlot.interop.exporting import EnvironmentExport
from sandlot.interop.stage import StageConfig, open_stage
from sandlot.model.render.template import as_entries

_TEMPLATE = Path(__file__).parent / "template" / "environment.py.txt"
_PROJECT = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["verifiers>=0.2,<0.4", "datasets"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build]
include = ["{module}.py", "rows.jsonl"]
"""


class VerifiersExporter:
    """`Exporter` of a package for verifiers."""

    kind = "verifiers"

    def write(self, env: Environment, folder: Path, *, limit: int | None) -> EnvironmentExport:
        """Write the module, its rows and its project file."""
        if env.source is None:
            raise ConfigError(f"`{env.name}` has no file or folder, so a process of its own cannot load it")
        if env.in_other_image:
            raise ConfigError("`--image` is for formats that hold the image; change the environment itself instead")
        if env.marked.needs_player:
            raise ConfigError(f"`{env.name}` has people whom a second model plays, and verifiers brings only one model")
        rows = anyio.run(_rows, env, limit)
        module = re.sub(r"\W", "_", env.name.lower())
        text = _TEMPLATE.read_text().format(
            name=env.name, python=_quoted(sys.executable), environment=_quoted(str(env.source.resolve()))
        )
        (folder / f"{module}.py").write_text(text)
        (folder / "pyproject.toml").write_text(_PROJECT.format(name=module.replace("_", "-"), module=module))
        (folder / "rows.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        return EnvironmentExport(
            kind=self.kind,
            folder=str(folder),
            tasks=tuple(row["info"]["sandlot_task"] for row in rows),
            notes=(
                f"the environment stays where it is: the module starts `{sys.executable}` on `{env.source}`",
                "held-out tasks are its data for evaluation",
                "for verifiers up to 0.3.1: 0.4.0 has no `load_environment`",
            ),
        )


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


async def _rows(env: Environment, limit: int | None) -> list[Json]:
    with tempfile.TemporaryDirectory() as place:
        config = StageConfig(env=env, run=Path(place) / "run", model="foreign", training=False)
        async with open_stage(config) as stage:
            return [_row(task, await stage.opening(task)) for task in list(stage.tasks.values())[:limit]]


def _row(task: Task, opening: list[Message]) -> Json:
    prompt = [entry for message in opening for entry in as_entries(message)]
    return {"prompt": prompt, "info": {"sandlot_task": task.id, "split": split_of(task).value}}
