"""Exports an environment in the form of OpenEnv's own projects: what `openenv init` writes, with a copy of the environment in it.

OpenEnv's own server serves it, in a Python that has `openenv-core` and Sandlot. The rollouts are ours, as with
`sandlot serve --openenv`: worlds, tools, limits and checks.
"""

from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.env.environment import Environment
from sandlot.env.taskset import tasks_of
from sandlot.interop.exported_folder import copy_environment, package_stem, require_text_for_one_agent
from sandlot.interop.exporting import EnvironmentExport

_TEMPLATE = Path(__file__).parent / "template"
_PLACES = {"app.py": "server/app.py", "Dockerfile": "server/Dockerfile"}
"""Files that are not at the top."""


class OpenEnvExporter:
    """`openenv` (port `Exporter`)."""

    kind = "openenv"

    def write(self, env: Environment, folder: Path, *, limit: int | None) -> EnvironmentExport:
        """Write the project."""
        if limit is not None:
            raise ConfigError("the folder has all tasks of its environment; `reset(task=...)` names one")
        require_text_for_one_agent(env, "OpenEnv's client")
        if env.marked.persona is not None and env.marked.user is None:
            raise ConfigError(f"`{env.name}` has a user that a model plays, and OpenEnv's client brings only the agent")
        copy_environment(env, folder / "environment")
        tasks = tuple(task.id for task in tasks_of(env))
        module = f"sandlot_{package_stem(env)}_env"
        fields = {
            "name": env.name,
            "description": env.description or f"The environment {env.name}.",
            "module": module,
            "project": module.replace("_", "-"),
            "prefix": "".join(word.title() for word in package_stem(env).split("_")),
            "num_tasks": len(tasks),
            "task": tasks[0],
        }
        (folder / "server").mkdir()
        for template in sorted(_TEMPLATE.glob("*.txt")):
            name = template.stem
            (folder / _PLACES.get(name, name)).write_text(template.read_text().format(**fields))
        (folder / "__init__.py").write_text(f'"""The environment `{env.name}` of Sandlot, for OpenEnv."""\n')
        (folder / "server" / "__init__.py").write_text("")
        notes = [
            "serve it in a Python that has Sandlot and openenv-core 0.3: `uvicorn server.app:app` in the folder",
            "`openenv validate` also asks for a `uv.lock`: `uv lock` in the folder writes it, where uv finds Sandlot",
        ]
        if env.image is not None:
            notes.append(f"rollouts run in Sandlot's own sandboxes, image `{env.image}`, which a container must allow")
        return EnvironmentExport(kind=self.kind, folder=str(folder), tasks=tasks, notes=tuple(notes))
