"""The foreign package that an imported environment needs.

Foreign packages run in Sandlot's own process, as an author's code does: the user installs them beside it. An imported environment
names the package and its version. If it is missing, or another version is installed, loading the environment is refused with the
command to run: with another version the tasks and the scores could be different ones.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, metadata, version
from types import ModuleType

from sandlot.core.errors import ConfigError

_MAX_LICENCE_CHARS = 60


def package_version(package: str) -> str:
    """The installed version of a package; `ConfigError` with the command that installs it."""
    try:
        return version(package)
    except PackageNotFoundError:
        raise ConfigError(f"the package `{package}` is not installed; `pip install {package}`") from None


def require_package(requirement: str, module: str) -> ModuleType:
    """Import a module of a required package, written `NAME==VERSION`; `ConfigError` if that version is not installed."""
    package, _, wanted = requirement.partition("==")
    try:
        found = version(package)
    except PackageNotFoundError:
        raise ConfigError(f"this environment needs {requirement}: `pip install '{requirement}'`") from None
    if wanted and found != wanted:
        raise ConfigError(
            f"this environment was imported with {requirement}, and {found} is installed, which may have other tasks and scores; "
            f"`pip install '{requirement}'`, or import it again"
        )
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"`import {module}` of {requirement} failed: {error}; install what it needs") from error


def package_licence(package: str) -> str:
    """The licence that an installed package states, as short as it states it."""
    facts = metadata(package)
    stated = next((str(facts[name]).strip() for name in ("License-Expression", "License") if name in facts), "")
    if stated and "\n" not in stated and len(stated) <= _MAX_LICENCE_CHARS:
        return stated
    classes = [str(line) for line in facts.get_all("Classifier") or [] if str(line).startswith("License ::")]
    return classes[0].rsplit(" :: ", 1)[-1] if classes else stated.partition("\n")[0][:_MAX_LICENCE_CHARS] or "unknown"
