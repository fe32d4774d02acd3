"""What a training has written about itself, `progress.jsonl`: its steps, evaluations, alarms and rollbacks.

Reading it needs neither torch nor the environment, so that a training can be looked at on any machine.
"""

import math
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import msgspec

from sandlot.analysis.alarm import Alarm
from sandlot.observe.training_records import Collapse, Learned, Measured, WentBack

FILE = "progress.jsonl"

Line = Learned | Measured | Alarm | WentBack | Collapse
_NUMBERS = {field.name for record in (Learned, Measured) for field in msgspec.structs.fields(record) if field.type is float}
"""Fields whose value may be not a number, such as the loss of a diverged step; JSON has null for it."""


def read_lines(path: Path) -> list[Line]:
    """Every complete line of a training's progress; empty if there is no file."""
    lines: list[Line] = []
    file = path / FILE
    for line in file.read_bytes().splitlines() if file.is_file() else ():
        try:
            lines.append(msgspec.convert(_with_nan(msgspec.json.decode(line)), Line))
        except msgspec.DecodeError:
            break  # a crash cut this line off; nothing was written after it
    return lines


def _with_nan(value: Any) -> Any:
    """What JSON holds, at any depth, with the numbers that are none."""
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {name: math.nan if each is None and name in _NUMBERS else _with_nan(each) for name, each in fields.items()}


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
