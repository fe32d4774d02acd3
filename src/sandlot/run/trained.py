"""The setting that a model was trained in, stored beside its weights, and how another setting differs from it.

`sandlot.json` in a model's folder holds the fingerprints of environment and setting, the parts of the setting, and the
tools. A run compares it with its own setting before the first rollout. A folder without the file is a model
of unknown origin: there is nothing to compare. The file is not trusted: its size is bounded, it is checked, and only printable
text of it is shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.text import printable
from sandlot.core.types import Json
from sandlot.model.nn.shape import ORIGIN
from sandlot.run.manifest import RunFacts
from sandlot.wiring.config import ModelConfig
from sandlot.wiring.models import folder_of_model

_MOST_BYTES = 4 * 2**20
"""A longer file is refused."""
_SHOWN = 80
"""Characters of one value in a sentence."""


class TrainedIn(msgspec.Struct, frozen=True, kw_only=True):
    """The setting a model's weights were trained in."""

    format: int = 1
    environment: str
    """The environment's name."""
    environment_fingerprint: str
    setting_fingerprint: str
    setting: Json
    """The parts of the setting besides environment and tools: harness, renderer, limits and so on."""
    tools: tuple[ToolSpec, ...]
    """The tools that the agent could call."""
    run: str
    """The training run's name."""
    version: int
    """Number of updates."""
    others: tuple["TrainedIn", ...] = ()
    """The settings of the training's other environments, if it had several."""

    def encoded(self) -> bytes:
        """The JSON of the file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def training_record(settings: Sequence[tuple[str, RunFacts]], run: str, version: int) -> TrainedIn:
    """The record of a version of a training run in these environments, given by name."""
    first, *others = (
        TrainedIn(
            environment=environment,
            environment_fingerprint=facts.prints.environment,
            setting_fingerprint=facts.prints.setting,
            setting=facts.setting,
            tools=facts.tools,
            run=run,
            version=version,
        )
        for environment, facts in settings
    )
    return msgspec.structs.replace(first, others=tuple(others))


def read_trained(folder: Path) -> TrainedIn | None:
    """The record in a model's folder; None if there is none, `ConfigError` if it cannot be read."""
    file = folder / ORIGIN
    try:
        return _decode(file) if file.exists() or file.is_symlink() else None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"`{file}` is the record of the model's training, and cannot be read: {printable(str(error))}; restore it from the "
            "training run, or delete it to use the model as one of unknown origin"
        ) from error


def _decode(file: Path) -> TrainedIn:
    if not file.is_file() or file.stat().st_size > _MOST_BYTES:
        raise ValueError(f"it is not a file of at most {_MOST_BYTES} bytes")
    found = msgspec.json.decode(file.read_bytes(), type=TrainedIn)
    if found.format != 1:
        raise ValueError(f"its format is {found.format}, and this version of Sandlot reads format 1")
    return found


def setting_differences(model: ModelConfig, facts: RunFacts, environment: str) -> tuple[str, ...]:
    """How this setting differs from the one the model was trained in; empty if it does not, or if that is not known."""
    folder = folder_of_model(model)
    trained = read_trained(folder) if folder is not None else None
    if trained is None or any(each.setting_fingerprint == facts.prints.setting for each in (trained, *trained.others)):
        return ()
    same = next((each for each in trained.others if each.environment == environment), trained)
    found = [printable(each) for each in _differences(same, facts, environment)]
    return tuple(found) or ("the fingerprint of the setting",)


def require_same_setting(model: ModelConfig, differences: Sequence[str], *, named: bool) -> None:
    """Refuse to run a model in another setting than the one it was trained in, unless `other_setting` allows it."""
    if differences and not named:
        raise ConfigError(
            f"model `{model.shown}` was trained in another setting: {'; '.join(differences)}. Scores in this setting say little "
            "about that training; run it anyway with `--other-setting` (in Python: `other_setting=True`)"
        )


def _differences(trained: TrainedIn, facts: RunFacts, environment: str) -> Iterator[str]:
    if trained.environment != environment:
        yield f"environment {_value(environment)} instead of {_value(trained.environment)}"
    elif trained.environment_fingerprint != facts.prints.environment:
        yield f"environment {_value(environment)}: its files or its image have changed since"
    for name in dict.fromkeys([*facts.setting, *trained.setting]):
        now, then = facts.setting.get(name), trained.setting.get(name)
        if now == then:
            continue
        if isinstance(now, dict) and isinstance(then, dict):
            yield from (f"{name}: {each}" for each in _changed(now, then))  # pyright: ignore[reportUnknownArgumentType] - plain JSON
        else:
            yield f"{name} {_value(now)} instead of {_value(then)}"
    yield from _tools({tool.name: tool for tool in facts.tools}, {tool.name: tool for tool in trained.tools})


def _changed(now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*now, *then]):
        if now.get(name) != then.get(name):
            yield f"{name} {_value(now.get(name))} instead of {_value(then.get(name))}"


def _tools(now: Mapping[str, ToolSpec], then: Mapping[str, ToolSpec]) -> Iterator[str]:
    for words, names in {
        "without tool": [name for name in then if name not in now],
        "with the new tool": [name for name in now if name not in then],
        "with another description or other arguments of tool": [name for name in now if name in then and now[name] != then[name]],
    }.items():
        yield from (f"{words} {_value(name)}" for name in names)


def _value(value: Any) -> str:
    """A value of the setting in a few characters."""
    text = value if isinstance(value, str) else "none" if value is None else msgspec.json.encode(value).decode()
    return f"`{text if len(text) <= _SHOWN else text[:_SHOWN] + '...'}`"
