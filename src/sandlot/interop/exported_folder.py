"""The folder of an environment, for exports that carry a copy of it."""

import re
import shutil
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.env.environment import Environment

_LEFT_BEHIND = ("__pycache__", "tests", "runs", ".*")


def copy_environment(env: Environment, target: Path) -> None:
    """Copy the environment's folder to `target`, without caches, tests, runs and hidden files."""
    shutil.copytree(_home(env), target, ignore=shutil.ignore_patterns(*_LEFT_BEHIND))


def package_stem(env: Environment) -> str:
    """The environment's name, as part of a module's name."""
    return re.sub(r"\W", "_", env.name.lower())


def require_text_for_one_agent(env: Environment, loop: str) -> None:
    """`ConfigError` if the copy cannot be used as it is, or needs more than one model that reads text."""
    if env.in_other_image:
        raise ConfigError("`--image` is for formats that hold the image; change the environment itself instead")
    if env.seats:
        raise ConfigError(f"`{env.name}` has seats for several agents; only `sandlot run` plays it so far")
    if env.marked.colleagues is not None or env.marked.roles:
        raise ConfigError(f"`{env.name}` has people whom a second model plays, and {loop} brings only the agent")
    if env.images == "require":
        raise ConfigError(f"`{env.name}` needs a model that sees images; these observations are text")


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
