"""The records of a training run: the lines of its `progress.jsonl`, which its events carry too."""

from collections.abc import Mapping
from statistics import fmean
from typing import TypeVar

import msgspec

from sandlot.core.groups import group_by_key

_Figure = TypeVar("_Figure")
_KINDS = {"model": "sampling", "grade": "grading"}
"""What the phases of a rollout are called here; all others are the environment's."""


class Diversity(msgspec.Struct, frozen=True, kw_only=True):
    """How differently the rollouts of a group acted: means over the groups of one step."""

    distinct: float
    """Different sequences of actions, as a share of the members: 1 if no two acted alike."""
    distance: float
    """Mean distance of two members: edits from one sequence to the other, as a share of the longer one."""
    first_entropy: float
    """Entropy of the first tool call, in nats: 0 if all begin alike, or call nothing."""
    groups: int
    """Groups with at least two scored members."""


class EnvironmentStep(msgspec.Struct, frozen=True, kw_only=True):
    """One environment's part in a training step."""

    reward: float
    """Mean reward of its scored rollouts."""
    passed: float
    """Share of them with full marks."""
    rollouts: int
    failed: int
    """Rollouts without a reward."""
    groups: int
    informative: int
    """Groups with a training signal."""
    weight: float = 1.0
    """Mean sampling weight of its tasks when the step was taken."""
    seats: dict[str, float] = {}
    """Where several agents act: the mean reward of each seat that learns."""


class SeatScore(msgspec.Struct, frozen=True, kw_only=True):
    """One learning seat in an evaluation, by its own score."""

    mean: float
    low: float
    high: float
    """95 % interval of the mean score."""
    passed: float
    """Share of rollouts in which it had full marks."""
    policy: str = ""
    """The policy that played it: its own name if it has weights of its own, empty for the shared model."""


class EnvironmentScore(msgspec.Struct, frozen=True, kw_only=True):
    """The held-out tasks of one environment in an evaluation."""

    mean: float
    """Mean score; where several agents act, of those that learn."""
    low: float
    high: float
    """95 % interval of the mean score."""
    passed: float
    """Share of rollouts with full marks."""
    rollouts: int
    failed: int
    """Rollouts without a score."""
    run: str
    """Its run directory, relative to the training's."""
    seats: dict[str, SeatScore] = {}
    """Where several agents act: the scores of each seat that learns."""


def by_seat(seats: Mapping[str, Mapping[str, _Figure]]) -> dict[str, _Figure]:
    """What each seat of each environment has, by its name; with several environments by `ENVIRONMENT/SEAT`."""
    several = len(seats) > 1
    return {f"{env}/{seat}" if several else seat: each for env, own in seats.items() for seat, each in own.items()}


class Learned(msgspec.Struct, frozen=True, kw_only=True, tag="step", tag_field="is"):
    """One training step."""

    version: int
    """Version of the weights after the step."""
    reward: float
    """Mean reward of the scored rollouts."""
    reward_error: float = 0.0
    """Standard error of that mean, clustered by task."""
    passed: float
    """Share of the scored rollouts with full marks."""
    outcome: float
    """Mean of the recipe's own outcome; without one, the same as `passed`."""
    gap_error: float = 0.0
    """Standard error of the mean of reward minus outcome."""
    rollouts: int
    """Rollouts of the step."""
    failed: int
    """Rollouts without a reward; they are left out of their groups."""
    groups: int
    """Groups of the step."""
    informative: int
    """Groups with a training signal: where members are compared, those whose rewards differ."""
    loss: float
    """Mean loss per trained token."""
    norm: float
    """Norm of the gradient before it was clipped."""
    tokens: int
    """Trained tokens."""
    shared: float
    """Tokens without prefix sharing, per token that was computed."""
    kl: float | None
    """KL divergence from the sampling policy to the policy at the start of the step; None in imitation."""
    entropy: float
    """Entropy of the policy, in nats per token."""
    clipped: float
    """Share of trained tokens whose ratio was clipped."""
    staleness: int
    """Versions between the oldest trained token and the weights."""
    sampled: int
    """Tokens sampled for the step."""
    seconds: float
    """Time of the step."""
    update_s: float
    """Time of the update."""
    phases: dict[str, float]
    """Seconds by phase, summed over the rollouts."""
    diversity: Diversity | None = None
    """How differently the members of its groups acted; None if no group has two scored members."""
    agreement: float | None = None
    """With pairs: the share of them that the weights before the step ranked rightly."""
    environments: dict[str, EnvironmentStep] = {}
    """The step by environment."""
    policies: dict[str, "Learned"] = {}
    """The step of each policy, if several with weights of their own learn: by seat, the shared model's with an empty name."""

    @property
    def tokens_per_s(self) -> float:
        """Sampled tokens per second of the whole step."""
        return self.sampled / max(self.seconds, 1e-9)

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the step's time: the update, and the rest divided as the rollouts spent theirs."""
        update = min(1.0, self.update_s / max(self.seconds, 1e-9))
        shares = {"sampling": 0.0, "environment": 0.0, "grading": 0.0}
        whole = max(1e-9, sum(self.phases.values()))
        for phase, spent in self.phases.items():
            shares[_KINDS.get(phase, "environment")] += (1 - update) * spent / whole
        return {**shares, "update": update}


class Measured(msgspec.Struct, frozen=True, kw_only=True, tag="evaluation", tag_field="is"):
    """An evaluation on held-out tasks."""

    version: int
    """Version of the weights."""
    mean: float
    """Mean score."""
    low: float
    high: float
    """95 % interval of the mean score."""
    passed: float
    """Share of rollouts with full marks."""
    passed_low: float
    passed_high: float
    """95 % interval of that share."""
    rollouts: int
    """Rollouts of the evaluation."""
    failed: int
    """Rollouts without a score."""
    run: str
    """The evaluation's run directory, relative to the training's; with several environments, that of the first."""
    environments: dict[str, EnvironmentScore] = {}
    """The evaluation by environment."""

    @property
    def policies(self) -> dict[str, float]:
        """The score of each policy, if several learn: the mean of its seats' own."""
        played = group_by_key((seat.policy, seat.mean) for env in self.environments.values() for seat in env.seats.values())
        return {name: fmean(scores) for name, scores in played.items()} if any(played) else {}

    def has_score_of(self, policy: str) -> bool:
        """True if it measured a policy; the empty name is that of the shared model, or of the only one."""
        return policy in (self.policies or {"": self.mean})

    def score_of(self, policy: str) -> float:
        """The score of one policy."""
        return (self.policies or {"": self.mean})[policy]


class WentBack(msgspec.Struct, frozen=True, kw_only=True, tag="rollback", tag_field="is"):
    """The held-out score had fallen too far, or the guard saw a collapse: training continues from earlier weights."""

    version: int
    """The version that was given up."""
    best: int
    """The version whose weights are in place again."""
    policy: str = ""
    """The policy that went back, if several learn; empty for the shared model, or the only one."""


class Collapse(msgspec.Struct, frozen=True, kw_only=True, tag="collapse", tag_field="is"):
    """The guard found that the training is about to collapse."""

    version: int
    """Version of the weights after the last step that it judged."""
    why: str
    """The figures, against their own history."""
    action: str
    """What was done: `warn`, `stop`, `roll_back` or `shrink`."""
    rate: float = 1.0
    """What the learning rate is multiplied by from here on."""
    policy: str = ""
    """The policy that it judged, if several learn; empty for the shared model, or the only one."""

    @property
    def sentence(self) -> str:
        """The verdict as a sentence."""
        done = {
            "warn": "nothing was changed; `CollapseGuard(on_collapse=...)` in the recipe can stop, roll back or shrink",
            "stop": "stopped; the best version so far is kept",
            "roll_back": f"went back to the best version, with {self.rate:g} of the learning rate",
            "shrink": f"goes on with {self.rate:g} of the learning rate",
        }
        who = f"`{self.policy}` is " if self.policy else ""
        return f"{who}about to collapse at version {self.version}: {self.why}; {done[self.action]}"
