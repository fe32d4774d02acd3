"""The record of a trial in a Gymnasium environment. It is read strictly: the process that wrote it may lie."""

import math

import msgspec

from sandlot.audit.subject import Trial


class GymFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment says about itself after it was made."""

    actions: str
    observations: str
    reward_range: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    """Actions for the plays `constant-0`, `constant-1`, ..., as text."""
    modules: tuple[str, ...] = ()
    """The author's modules that are loaded."""
    made_in: str = ""
    """The module of its class."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What a reset returned."""

    pair: bool
    digest: str
    inside: bool | None = None
    """Whether the observation is in its space; None if the space cannot say."""


class GymStep(msgspec.Struct, frozen=True, kw_only=True):
    """What a step returned."""

    action: str
    raised: str | None = None
    parts: int = 0
    """The number of values returned; it should be five."""
    digest: str = ""
    inside: bool | None = None
    reward: str = ""
    """As text, to keep `nan`; empty if it is not a number."""
    flags: bool = False
    """Whether `terminated` and `truncated` are bools."""
    terminated: bool = False
    truncated: bool = False

    @property
    def earned(self) -> float:
        """The reward; `nan` if it is not a number."""
        return float(self.reward or "nan")


class GymRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout."""

    opening: Opening | None = None
    steps: tuple[GymStep, ...] = ()
    reopening: Opening | None = None
    """A second reset with the same seed, after the rollout."""
    error: str | None = None
    """An error outside of a step: of the environment, or of the policy."""

    @property
    def over(self) -> bool:
        """True if the environment ended it, False if the limit of steps did."""
        return bool(self.steps) and (self.steps[-1].terminated or self.steps[-1].truncated)

    @property
    def earned(self) -> float:
        """The sum of all rewards."""
        return math.fsum(step.earned for step in self.steps)

    @property
    def trouble(self) -> str | None:
        """The first error, in a step or outside."""
        return self.error or next((step.raised for step in self.steps if step.raised), None)


def record_of(trial: Trial) -> GymRecord:
    """The record of a trial; for a lost trial one with the error."""
    if trial.trace is None or trial.trace.evidence is None:
        return GymRecord(error=trial.fate)
    return msgspec.convert(trial.trace.evidence.state, GymRecord)
