"""The guard: sees in the figures of the steps that a training is about to collapse. Each figure is compared with its own history.

KL, entropy, gradient norm and length count by how many times their usual value they are: the median of the last steps against
the median of the window before them. The reward counts by how far it fell below its best level in that window, in standard
errors; so does the outcome, which is not trained on. One figure alone may be noise, so two must be bad, or one extremely so; a
reward above its best level rules out that a rise of the others is a collapse.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal, NamedTuple, get_args

from sandlot.core.errors import ConfigError
from sandlot.observe.training_records import Learned

_RECENT = 3
"""Last steps that are judged together: a single bad step never counts."""
_LEVEL = 5
"""Steps in a row whose mean reward is a level."""
_ENOUGH = 2
"""Weight of symptoms for a verdict: a bad one weighs 1, an extreme one 2."""
_REST = 8
"""Steps between two verdicts: what was done about the first needs time to show."""
_BAD_FALL, _EXTREME_FALL = (3.0, 0.2), (4.0, 0.4)
"""A fall of the reward: in standard errors, and as a share of its best level."""
_FEW = 0.5
"""Informative groups are few at this share of their usual number. Counted only if the reward fell: solved tasks have few too."""

OnCollapse = Literal["warn", "stop", "roll_back", "shrink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseGuard:
    """What to do when a training is about to collapse: its figures leave their own history for the worse.

    ```python
    from sandlot.train import CollapseGuard

    careful = CollapseGuard(on_collapse="roll_back")
    ```
    """

    on_collapse: OnCollapse = "warn"
    """`warn` only says so; `stop` ends the run; `shrink` multiplies the learning rate; `roll_back` goes back to the version with
    the best held-out score, and shrinks too."""
    window: int = 20
    """Steps of history that the last steps are compared with."""
    factor: float = 0.5
    """What `shrink` and `roll_back` multiply the learning rate by, each time."""

    def __post_init__(self) -> None:
        if self.on_collapse not in get_args(OnCollapse):
            raise ConfigError(f"guard: on_collapse is {self.on_collapse!r}; give one of {', '.join(get_args(OnCollapse))}")
        if self.window < 1 or not 0 < self.factor <= 1:
            raise ConfigError(f"guard: window is {self.window} and factor {self.factor}; give 1 or more, and more than 0 up to 1")


_LIMITS = {"KL": (0.01, 3, 10), "entropy": (0.05, 1.7, 5), "gradient norm": (0.05, 2.5, 10), "length": (8, 1.7, 5)}
"""The smallest usual value, for many times nothing is still nothing; then how many times the usual is bad, and extreme."""


def _figures(step: Learned) -> dict[str, float]:
    """The figures of a step that are known: without trained tokens only the length, in imitation no KL.

    A step on pairs from a file has none: nothing was sampled, and rejected tokens become unlikely on purpose.
    """
    if not step.rollouts:
        return {}
    length = {"length": step.sampled / max(1, step.rollouts)}
    if not step.tokens:
        return length
    # A mean over fewer groups is noisier: norms are compared as if all groups had informed.
    norm = step.norm * math.sqrt(step.informative / max(1, step.groups))
    found = length | {"entropy": step.entropy, "gradient norm": norm, "KL": math.nan if step.kl is None else step.kl}
    return {name: value for name, value in found.items() if not math.isnan(value)}


class _Symptom(NamedTuple):
    weight: int
    words: str


def find_collapse(steps: Sequence[Learned], window: int, judged: Sequence[int] = ()) -> str | None:
    """Why the training looks about to collapse after these steps, in a sentence; None if it does not.

    `judged` are the versions at which there was a verdict, or a rollback.
    """
    last, before = steps[-_RECENT:], steps[:-_RECENT][-window:]
    if not before or last[-1].version - max(judged, default=-_REST) < _REST:
        return None
    (fall, lost), (_, worse) = _fall("reward", last, before), _fall("outcome", last, before)
    if worse and (not lost or worse.weight > lost.weight):  # mostly they fall together, and count once
        lost = worse
    found = [symptom for name in _LIMITS if (symptom := _rise(name, last, before))] if fall >= 0 else []
    if lost:
        found.append(lost)
        few, usual = (median(step.informative / max(1, step.groups) for step in each) for each in (last, before))
        if few <= _FEW * usual and few < usual:
            found.append(_Symptom(1, f"informative groups fell from {usual:.0%} to {few:.0%}"))
    enough = _ENOUGH + (len(before) < _LEVEL)  # a short history is a noisy one
    return " and ".join(symptom.words for symptom in found) if sum(symptom.weight for symptom in found) >= enough else None


def _rise(name: str, last: Sequence[Learned], before: Sequence[Learned]) -> _Symptom | None:
    known = [[figures[name] for figures in map(_figures, each) if name in figures] for each in (last, before)]
    if not all(known):
        return None
    now, usual = map(median, known)
    floor, bad, extreme = _LIMITS[name]
    times = now / max(usual, floor)
    words = f"{name} {now:.3g} is {times:.1f} times its usual {max(usual, floor):.3g}"
    return _Symptom(1 + (times >= extreme), words) if times >= bad else None


def _fall(name: str, last: Sequence[Learned], before: Sequence[Learned]) -> tuple[float, _Symptom | None]:
    """How far the reward, or the outcome, is below its best level, and the symptom if that is far."""
    # Steps of one task have no error of their own: theirs is the scatter between steps.
    usual = median(getattr(step, name) for step in before)
    known = any(step.reward_error for step in before)
    noise = 0.0 if known else 1.4826 * median(abs(getattr(step, name) - usual) for step in before)

    def level(steps: Sequence[Learned]) -> tuple[float, float]:
        """Mean and standard error; the outcome's is at most that of the reward and that of the gap between them."""
        errors = (step.reward_error + (step.gap_error if name == "outcome" else 0.0) for step in steps)
        error = math.hypot(*(max(error, noise) for error in errors)) / len(steps)
        return round(fmean(getattr(step, name) for step in steps), 9), error  # equal means are equal

    was, then = max(level(before[first : first + _LEVEL]) for first in range(max(1, len(before) - _LEVEL + 1)))
    now, error = level(last)
    fall, share = (was - now) / max(math.hypot(then, error), 1e-3), (was - now) / max(abs(was), 1e-3)
    weight = sum(fall >= far and share >= much for far, much in (_BAD_FALL, _EXTREME_FALL))
    return fall, _Symptom(weight, f"the {name} fell from {was:.2f} to {now:.2f}") if weight else None
