"""Exports an environment as a Python package for Gymnasium or PettingZoo, with a copy of the environment in it.

Gymnasium imports a module that is named before an id, and that module registers it: `gymnasium.make("MODULE:sandlot/NAME-v0")`.
A package for PettingZoo is a module with `env` and `parallel_env`, as PettingZoo's own worlds are. Worlds, tools, limits and
checks stay ours.
"""

from dataclasses import dataclass
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.env.environment import Environment
from sandlot.env.taskset import tasks_of
from sandlot.interop.exported_folder import copy_environment, package_stem, require_text_for_one_agent
from sandlot.interop.exporting import EnvironmentExport

_PROJECT = """\
[project]
name = "{package}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["sandlot[{extra}]"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build]
ignore-vcs = true  # a `.gitignore` above this folder would leave files out

[tool.hatch.build.targets.wheel]
packages = ["{module}"]
"""
_GYM = '''\
"""The environment `{name}` for Gymnasium. Once this package is installed:

    env = gymnasium.make("{module}:{id}")      also split="heldout", task ids in `tasks`, view=..., judge=...
"""

from pathlib import Path

import gymnasium
import sandlot


def make(**options):
    return sandlot.to_gym(Path(__file__).parent / "environment", **options)


gymnasium.register(id="{id}", entry_point="{module}:make", nondeterministic={nondeterministic})
'''
_PETTINGZOO = '''\
"""The environment `{name}` for PettingZoo: `env()` takes turns, `parallel_env()` acts at once."""

from pathlib import Path

import sandlot

_HOME = Path(__file__).parent / "environment"


def env(**options):
    return sandlot.to_pettingzoo(_HOME, **options)


def parallel_env(**options):
    return sandlot.to_pettingzoo(_HOME, parallel=True, **options)
'''


@dataclass(frozen=True, slots=True)
class GymPackageExporter:
    """`gymnasium` and `pettingzoo` (port `Exporter`)."""

    kind: str

    def write(self, env: Environment, folder: Path, *, limit: int | None) -> EnvironmentExport:
        """Write the package."""
        if limit is not None:
            raise ConfigError(
                f"the package has all tasks of its environment; `tasks=[...]` of its {self.kind} environment takes fewer"
            )
        require_text_for_one_agent(env, f"{self.kind}'s loop")
        if self.kind == "gymnasium" and env.marked.persona is not None and env.marked.user is None:
            raise ConfigError(
                f"`{env.name}` has a user that a model plays; export it as `pettingzoo`, where your loop plays both"
            )
        stem = package_stem(env)
        fields = {"name": env.name, "module": f"sandlot_{self.kind}_{stem}", "id": f"sandlot/{stem}-v0"}
        module = folder / fields["module"]
        copy_environment(env, module / "environment")
        gym = self.kind == "gymnasium"
        text = _GYM.format(**fields, nondeterministic=env.image is not None) if gym else _PETTINGZOO.format(**fields)
        (module / "__init__.py").write_text(text)
        package = fields["module"].replace("_", "-")
        (folder / "pyproject.toml").write_text(_PROJECT.format(package=package, extra=self.kind, module=fields["module"]))
        use = (
            f'`gymnasium.make("{fields["module"]}:{fields["id"]}")`'
            if gym
            else f"`from {fields['module']} import env, parallel_env`"
        )
        return EnvironmentExport(
            kind=self.kind,
            folder=str(folder),
            tasks=tuple(task.id for task in tasks_of(env)),
            notes=(
                f"install the folder with pip, beside Sandlot; then {use}",
                "tasks of the split `train` are drawn unless `split` says otherwise",
            ),
        )


GYMNASIUM_EXPORTER = GymPackageExporter("gymnasium")
PETTINGZOO_EXPORTER = GymPackageExporter("pettingzoo")
