"""What a trial in a Gymnasium environment noted, read strictly: it comes from a process that may lie."""

import math

import msgspec

from sandlot.audit.subject import Trial


class GymFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment says of itself when it has been made."""

    actions: str
    observations: str
    reward_range: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    """Actions that may be taken again and again, as text: play `constant-0` takes the first."""
    modules: tuple[str, ...] = ()
    """Those of whoever wrote it, as far as they are loaded."""
    made_in: str = ""
    """The module of its class."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What a reset showed."""

    pair: bool
    digest: str
    inside: bool | None = None
    """Whether the observation is in its space; None if the space cannot say."""


class GymStep(msgspec.Struct, frozen=True, kw_only=True):
    """What a step showed."""

    action: str
    raised: str | None = None
    parts: int = 0
    """How many values came back; five are agreed."""
    digest: str = ""
    inside: bool | None = None
    reward: str = ""
    """As text, so that `nan` survives; empty for what is no number."""
    flags: bool = False
    """Whether `terminated` and `truncated` are bools."""
    terminated: bool = False
    truncated: bool = False

    @property
    def earned(self) -> float:
        """The reward, `nan` for what is none."""
        return float(self.reward or "nan")


class GymRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout."""

    opening: Opening | None = None
    steps: tuple[GymStep, ...] = ()
    reopening: Opening | None = None
    """A second reset with the same seed, when the rollout was over."""
    error: str | None = None
    """What the environment raised outside of a step, or whoever played it."""

    @property
    def over(self) -> bool:
        """True if the environment ended it; False if it was cut by how far it is played."""
        return bool(self.steps) and (self.steps[-1].terminated or self.steps[-1].truncated)

    @property
    def earned(self) -> float:
        """The rewards of all steps together."""
        return math.fsum(step.earned for step in self.steps)

    @property
    def trouble(self) -> str | None:
        """What was raised, in a step or outside."""
        return self.error or next((step.raised for step in self.steps if step.raised), None)


def record_of(trial: Trial) -> GymRecord:
    """What a trial noted; of a lost one, that it was lost."""
    if trial.trace is None or trial.trace.evidence is None:
        return GymRecord(error=trial.fate)
    return msgspec.convert(trial.trace.evidence.state, GymRecord)
