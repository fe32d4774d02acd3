"""Exports environments that have a folder as tasks of Inspect: a folder with `task.py` and a copy of the environment.

Inspect runs it where Sandlot is installed beside it: `inspect eval FOLDER/task.py --model MODEL`. The worlds, the tools and the
checks stay ours.
"""

from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.env.environment import Environment
from sandlot.env.taskset import tasks_of
from sandlot.interop.exported_folder import copy_environment
from sandlot.interop.exporting import EnvironmentExport

_TASK = '''\
"""The environment `{name}` as a task of Inspect AI. It needs Sandlot: `pip install sandlot inspect-ai`.

    inspect eval task.py --model openai/NAME
    inspect eval task.py --model none -T player=scripted:golden      the golden solution
"""

from pathlib import Path

from inspect_ai import Task, task

from sandlot.interop.inspect_ai.rollouts import inspect_task


@task
def {function}(player: str | None = None, judge: str | None = None, user: str | None = None, split: str = "all") -> Task:
    return inspect_task(Path(__file__).parent / "environment", player=player, judge=judge, user=user, split=split)
'''


class InspectExporter:
    """`inspect` (port `Exporter`)."""

    kind = "inspect"

    def write(self, env: Environment, folder: Path, *, limit: int | None) -> EnvironmentExport:
        """Write the folder."""
        if limit is not None:
            raise ConfigError("an Inspect task has all tasks of its environment; `inspect eval --limit` takes fewer")
        copy_environment(env, folder / "environment")
        function = "".join(char if char.isalnum() else "_" for char in env.name)
        function = function if function.isidentifier() else f"task_{function}"
        (folder / "task.py").write_text(_TASK.format(name=env.name, function=function))
        notes = ["it needs Sandlot beside Inspect: `pip install sandlot inspect-ai`"]
        if env.image is not None:
            notes.append(f"rollouts run in Sandlot's own sandboxes, image `{env.image}`, and not in those of Inspect")
        return EnvironmentExport(
            kind=self.kind, folder=str(folder), tasks=tuple(task.id for task in tasks_of(env)), notes=tuple(notes)
        )
