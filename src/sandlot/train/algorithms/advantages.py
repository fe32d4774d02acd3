"""From rewards to advantages: pure functions over numpy arrays."""

import numpy as np

from sandlot.train.rows import Floats

_STEADY = 1e-6
"""Added to a standard deviation before dividing by it."""


def standardised(rewards: Floats) -> Floats:
    """GRPO: distance from the group's mean, in standard deviations."""
    return (rewards - rewards.mean()) / (rewards.std() + _STEADY)


def centred(rewards: Floats) -> Floats:
    """Dr. GRPO: distance from the group's mean."""
    return rewards - rewards.mean()


def relative(rewards: Floats) -> Floats:
    """MaxRL: distance from the group's mean, divided by it; rarely solved tasks count more."""
    mean = rewards.mean()
    return (rewards - mean) / mean if mean > _STEADY else np.zeros_like(rewards)


def untouched(rewards: Floats) -> Floats:
    """REINFORCE: the reward itself."""
    return rewards


def whitened(groups: list[list[Floats]]) -> list[list[Floats]]:
    """All advantages of a batch, normalised together to mean 0 and deviation 1."""
    each = [advantages for group in groups for advantages in group]
    joined = np.concatenate(each) if each else np.zeros(1, np.float32)
    return [[(advantages - joined.mean()) / (joined.std() + _STEADY) for advantages in group] for group in groups]


def leave_one_out(rewards: Floats) -> Floats:
    """RLOO: distance from the mean of the others; 0 in a group of one."""
    count = len(rewards)
    if count < 2:
        return np.zeros_like(rewards)
    return (rewards - rewards.mean()) * np.float32(count / (count - 1))


def generalised(rewards: Floats, values: Floats, discount: float = 1.0, smoothing: float = 0.95) -> tuple[Floats, Floats]:
    """GAE over one row's trained tokens: advantages and returns.

    `rewards` has one entry per token, `values` the critic's value before each; the value after the last token is 0.
    """
    advantages = np.zeros_like(rewards)
    ahead, value_after = 0.0, 0.0
    for step in range(len(rewards) - 1, -1, -1):
        surprise = rewards[step] + discount * value_after - values[step]
        ahead = surprise + discount * smoothing * ahead
        advantages[step] = ahead
        value_after = values[step]
    return advantages, advantages + values


def returns_to_go(rewards: Floats, discount: float = 1.0) -> Floats:
    """For each turn, the discounted sum of its reward and those after it."""
    total = np.zeros_like(rewards)
    ahead = 0.0
    for turn in range(len(rewards) - 1, -1, -1):
        ahead = float(rewards[turn]) + discount * ahead
        total[turn] = ahead
    return total
