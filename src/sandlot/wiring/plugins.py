"""Plug-ins, found by entry point or by path."""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from sandlot.core.errors import ConfigError, boundary


def _import_path(path: str, what: str) -> Any:
    """The object at `module:attribute`."""
    module, _, attribute = path.partition(":")
    if not attribute:
        raise ConfigError(f"{what} `{path}`: write `module:attribute`")
    with boundary(ConfigError, f"{what} `{path}` (is its module on PYTHONPATH?)"):
        return getattr(import_module(module), attribute)


def find_opener(group: str, ready: dict[str, Callable[..., Any]], spec: str) -> tuple[Callable[..., Any], str]:
    """The function that opens `scheme:rest`, and the rest."""
    scheme, _, rest = spec.partition(":")
    if scheme in ready:
        return ready[scheme], rest
    installed = {entry.name: entry for entry in entry_points(group=f"sandlot.{group}")}
    if scheme in installed:
        return installed[scheme].load(), rest
    near = get_close_matches(scheme, [*ready, *installed], n=1, cutoff=0.75)
    meant = f" (did you mean `{near[0]}`?)" if near else ""
    known = ", ".join(f"`{name}`" for name in [*ready, *installed])
    hint = f"; one behind an OpenAI-compatible API is `openai:{spec}@URL`" if group == "models" and not near and not rest else ""
    raise ConfigError(f"no {group.removesuffix('s')} `{scheme}`{meant}; there are: {known}{hint}")


def load_part(path: str, what: str, needs: tuple[str, ...]) -> Any:
    """The object at a path; a class is instantiated. Refused if it lacks one of the attributes in `needs`."""
    named: Any = _import_path(path, what)
    with boundary(ConfigError, f"{what} `{path}`"):
        value = named() if isinstance(named, type) else named
    missing = [name for name in needs if not hasattr(value, name)]
    if missing:
        raise ConfigError(f"{what} `{path}` is a {type(value).__name__} without `{missing[0]}`; a {what} has {', '.join(needs)}")
    return value
