"""How a world is named: `CartPole-v1?score=0..500&seeds=16`, or a `.toml` file with the same keys.

What stands before `?` is the world. The keys of `GymSource` are ours; all others are arguments for making it.
"""

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.types import Json

_VIEWS = ("numbers", "ansi", "image")


@dataclass(frozen=True, slots=True)
class ScoreRange:
    """Which value is worth nothing, and which is full marks."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """A value as a share of full marks, 0 to 1; what lies outside of the range is clipped."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def read_score_range(text: str) -> ScoreRange | None:
    """The range in `LOW..HIGH`; None if the text is no range of finite numbers."""
    low, mark, high = text.partition("..")
    try:
        scale = ScoreRange(float(low), float(high))
    except ValueError:
        return None
    return scale if mark and scale.low < scale.high and math.isfinite(scale.high - scale.low) else None


class GymSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A world, and how it is played."""

    env: str
    """An id, `module:function`, or a PettingZoo module."""
    score: str | None = None
    """`LOW..HIGH`: the return that is worth 0, and the one that is worth full marks."""
    seeds: int = 20
    """Number of tasks; each is a seed."""
    steps: int | None = None
    """Maximum steps. Default: the world's own limit, else 200."""
    view: str = "numbers"
    """`numbers`, `ansi` or `image`."""
    policy: str | None = None
    """`module:function`: a classic policy that becomes the golden solution."""
    agent: str | None = None
    """PettingZoo: the agent that is played."""
    arguments: Json = {}
    """Arguments for making it."""

    @property
    def score_range(self) -> ScoreRange:
        """The declared scale of returns; `ConfigError` if there is none: no world says its own."""
        scale = read_score_range(self.score or "")
        if scale is None:
            given = f"`score={self.score}` is no range" if self.score else "a world does not say its range of returns"
            raise ConfigError(
                f"{given}; declare which return is worth 0 and which is full marks: `{self.env}?score=LOW..HIGH`, "
                "such as `CartPole-v1?score=0..500`"
            )
        return scale


_OWN = {field.name for field in msgspec.structs.fields(GymSource)} - {"env", "arguments"}


def read_source(source: str) -> GymSource:
    """Read a source's name, or its `.toml` file; `ConfigError` names what is wrong."""
    if source.endswith(".toml"):
        return _converted(_read_toml(Path(source)), source)
    env, _, query = source.partition("?")
    if not env:
        raise ConfigError(f"`{source}` names no world; write `ID?score=LOW..HIGH`")
    pairs = dict(parse_qsl(query, keep_blank_values=True))
    own: Json = {name: value for name, value in pairs.items() if name in _OWN}
    numbers = {name: int(own[name]) for name in ("seeds", "steps") if name in own and own[name].isdecimal()}
    arguments = {name: _value(value) for name, value in pairs.items() if name not in _OWN}
    return _converted({"env": env, **own, **numbers, "arguments": arguments}, source)


def _converted(data: Json, source: str) -> GymSource:
    try:
        made = msgspec.convert(data, GymSource)
    except msgspec.ValidationError as error:
        raise ConfigError(f"`{source}`: {error}; keys: env, {', '.join(sorted(_OWN))}, arguments") from error
    if made.view not in _VIEWS:
        raise ConfigError(f"`{source}`: the view `{made.view}` is unknown; use {', '.join(_VIEWS)}")
    if made.seeds < 1 or (made.steps is not None and made.steps < 1):
        raise ConfigError(f"`{source}`: seeds={made.seeds}, steps={made.steps}; give 1 or more")
    return made


def _read_toml(path: Path) -> Json:
    try:
        read = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    # A file may come from anyone, and `module:function` would call whatever it names, on this machine.
    if ":" in str(read.get("env", "")) or "policy" in read:
        raise ConfigError(
            f"{path}: a file may name only a registered id, without `:` and without `policy`; "
            "name code on the command line, `MODULE:FUNCTION?score=LOW..HIGH&policy=MODULE:FUNCTION`"
        )
    return read


def _value(text: str) -> Any:
    """An argument as JSON, or as the text it is."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
