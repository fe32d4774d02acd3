"""How an environment of `verifiers` is named: `NAME?split=eval&num_train_examples=100`, or a folder or file instead of the name.

The keys of `VerifiersSource` are ours; all others are arguments of its `load_environment`.
"""

import math
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.types import Json
from sandlot.interop.package_process import python_at

SPLITS = ("train", "eval")


class VerifiersSource(msgspec.Struct, frozen=True, kw_only=True):
    """An environment of the package, and the Python that runs it."""

    module: str
    """The module that has `load_environment`."""
    path: str = ""
    """The folder to import it from; empty for an installed package."""
    python: str
    """The interpreter that has `verifiers`."""
    split: str = "all"
    """`train`, `eval`, or `all`."""
    score: tuple[float, float] | None = None
    """The reward that is worth 0, and the one that is full marks."""
    variables: tuple[str, ...] = ()
    """Environment variables that it gets."""
    cwd: str = ""
    """The folder it runs in; empty for this one."""
    arguments: Json = {}
    """Arguments of `load_environment`."""


_OWN = ("python", "split", "score", "variables", "cwd")


def read_source(source: str) -> VerifiersSource:
    """Read a source's name; `ConfigError` names what is wrong."""
    name, _, query = source.partition("?")
    if not name:
        raise ConfigError(f"`{source}` names no environment; write `NAME?KEY=VALUE`, with arguments of its `load_environment`")
    module, path = _located(name)
    pairs = dict(parse_qsl(query, keep_blank_values=True))
    split = pairs.get("split", "all")
    if split not in {*SPLITS, "all"}:
        raise ConfigError(f"`{source}`: the split `{split}` is unknown; use train, eval or all")
    return VerifiersSource(
        module=module,
        path=path,
        python=python_at(pairs.get("python", sys.executable)),
        split=split,
        score=_range(source, pairs["score"]) if "score" in pairs else None,
        variables=tuple(each for each in pairs.get("variables", "").split(",") if each),
        cwd=str(Path(pairs["cwd"]).resolve()) if "cwd" in pairs else "",
        arguments={key: _value(value) for key, value in pairs.items() if key not in _OWN},
    )


def _located(name: str) -> tuple[str, str]:
    """The module and the folder to import it from. A name with a slash or `.py` is a path, any other a package."""
    if "/" not in name and not name.endswith(".py"):
        return name.replace("-", "_"), ""
    place = Path(name).resolve()
    if place.is_dir():
        module = place.name.replace("-", "_")
        if not (place / f"{module}.py").is_file() and not (place / module / "__init__.py").is_file():
            raise ConfigError(f"`{place}` has neither `{module}.py` nor `{module}/__init__.py`; name the file itself")
        return module, str(place)
    if not place.is_file():
        raise ConfigError(f"there is no file or folder `{name}`")
    return place.stem, str(place.parent)


def _range(source: str, text: str) -> tuple[float, float]:
    low, _, high = text.partition("..")
    try:
        scale = (float(low), float(high))
    except ValueError:
        scale = (0.0, 0.0)
    if not -math.inf < scale[0] < scale[1] < math.inf:
        raise ConfigError(
            f"`{source}`: `score={text}` is no range; write `score=0..1.2`: what is worth 0, and what is full marks"
        )
    return scale


def _value(text: str) -> Any:
    """An argument as JSON, or as the text it is."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
