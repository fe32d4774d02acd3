"""The folder of an environment, for exports that carry a copy of it."""

import shutil
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.env.environment import Environment

_LEFT_BEHIND = ("__pycache__", "tests", "runs", ".*")


def copy_environment(env: Environment, target: Path) -> None:
    """Copy the environment's folder to `target`, without caches, tests, runs and hidden files."""
    shutil.copytree(_home(env), target, ignore=shutil.ignore_patterns(*_LEFT_BEHIND))


def _home(env: Environment) -> Path:
    """The folder of the environment's files."""
    source = env.source
    if source is not None and source.is_file() and source.name == "environment.py":
        return source.parent
    if source is None or not source.is_dir():
        raise ConfigError(
            f"`{env.name}` has no folder of its own to copy; put it into one, as `environment.py` or `environment.toml`"
        )
    return source
