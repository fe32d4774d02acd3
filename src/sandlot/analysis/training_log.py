"""What a training has written about itself, `progress.jsonl`: its steps, evaluations, alarms and rollbacks.

Reading it needs neither torch nor the environment, so that a training can be looked at on any machine.
"""

import math
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import inspect

from sandlot.analysis.alarm import Alarm
from sandlot.core.errors import ConfigError
from sandlot.core.text import printable
from sandlot.observe.training_records import Collapse, Learned, Measured, WentBack

FILE = "progress.jsonl"

Line = Learned | Measured | Alarm | WentBack | Collapse
_LINE = inspect.type_info(Line)


def read_lines(path: Path) -> list[Line]:
    """Every complete line of a training's progress; empty if there is no file. `ConfigError` if one cannot be read."""
    file = path / FILE
    texts = file.read_bytes().splitlines() if file.is_file() else []
    lines: list[Line] = []
    for number, text in enumerate(texts, 1):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if number == len(texts):
                break  # a crash cut this line off, or it is being written
            raise _unreadable(file, number, error) from error
        try:
            lines.append(msgspec.convert(_with_nan(value, _LINE), Line))
        except msgspec.ValidationError as error:
            raise _unreadable(file, number, error) from error
    return lines


def _unreadable(file: Path, number: int, error: Exception) -> ConfigError:
    return ConfigError(
        f"line {number} of `{file}` cannot be read: {printable(str(error), 200)}; read it with the version of Sandlot that wrote "
        "it, or restore the file from a copy"
    )


def _with_nan(value: Any, kind: inspect.Type) -> Any:
    """What JSON holds for a type, at any depth, with the numbers that are none, such as the loss of a diverged step.

    JSON has null for them, and for an optional value that is missing: only the type tells them apart.
    """
    if isinstance(kind, inspect.FloatType):
        return math.nan if value is None else value
    if not isinstance(value, dict):
        return value
    held = cast("dict[str, Any]", value)
    if isinstance(kind, inspect.UnionType):
        return next((_with_nan(held, each) for each in kind.types if _may_be(held, each)), held)
    if isinstance(kind, inspect.DictType):
        return {name: _with_nan(each, kind.value_type) for name, each in held.items()}
    if isinstance(kind, inspect.StructType):
        fields = {field.encode_name: field.type for field in kind.fields}
        return {name: _with_nan(each, fields[name]) if name in fields else each for name, each in held.items()}
    return held


def _may_be(held: dict[str, Any], kind: inspect.Type) -> bool:
    """True if a JSON object may be of a type of a union: of a struct with its tag, if it has one."""
    if not isinstance(kind, inspect.StructType):
        return isinstance(kind, inspect.DictType)
    return kind.tag_field is None or held.get(kind.tag_field) == kind.tag


def count_idle(steps: Sequence[Learned]) -> int:
    """Number of last steps in a row without a group that has a training signal."""
    return sum(1 for _ in takewhile(lambda step: not step.informative, reversed(steps)))


def idle_reason(idle: Sequence[Learned]) -> str:
    """Why nothing was learned in these last steps, in a sentence, with what may help."""
    rollouts, failed = sum(step.rollouts for step in idle), sum(step.failed for step in idle)
    reward = sum(step.reward for step in idle) / max(1, len(idle))
    said = f"no group had a training signal in {len(idle)} steps in a row (versions {idle[0].version} to {idle[-1].version})"
    if failed == rollouts:
        return f"{said}: all {rollouts:,} rollouts failed; `sandlot show` on the run names the reason"
    if idle[-1].kl is None:
        return f"{said}: no rollout was good enough to be imitated (mean reward {reward:.2f}); lower `Imitate(least=...)`"
    level = "too easy" if all(step.passed == 1 for step in idle) else "too hard or too easy"
    return (
        f"{said}: all rollouts of a group got the same reward (mean {reward:.2f}), so there is nothing to compare. The tasks "
        f"are {level} for this model, or it no longer tries anything different; `sandlot calibrate` finds tasks it can learn "
        "from, and a larger `group`, a higher temperature or imitation first may help"
    )
