"""Whether solving a Gymnasium environment pays: the solution against agents that do not look.

Flailing is drawing actions at random, or taking the same one again and again. A solution that earns clearly more, seed by seed,
is what shows that reward follows the work. A tie is a flaw only where nothing is left to chance; what these seeds or so many
steps cannot tell is said, and leaves the audit incomplete.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.probes.gymnasium.promises import play_seeds
from sandlot.audit.subject import Trial
from sandlot.audit.subjects.foreign.gym_record import GymRecord, record_of
from sandlot.core.errors import ConfigError
from sandlot.core.stats.intervals import sign_flip

_NAME = "gym-solution"
_ALPHA = 0.05
"""Chance of calling any flailing agent worse than the solution, or any better, when it is as good."""


@dataclass(frozen=True, slots=True)
class _BlindAgent:
    """An agent that does not look."""

    play: str
    words: str
    rollouts: tuple[GymRecord, ...]

    @property
    def mean(self) -> float:
        """Of what it earned."""
        return statistics.fmean(each.earned for each in self.rollouts)


async def look_at_solution(case: Case) -> list[Finding]:
    """The solution comes through, and earns more than flailing does."""
    if not case.description.has_golden:
        raise ConfigError("nothing shows that it can be solved; name a policy that does with `--solution MODULE:FUNCTION`")
    golden = _require_success(case, await play_seeds(case, "golden"))
    may_guess = case.description.declared.guessable  # one action, again and again, may be all it takes
    constant = () if may_guess else cast("Sequence[str]", case.tasks[0].data.get("constant") or ())
    plays = {f"constant-{number}": f"always doing {action}" for number, action in enumerate(constant)}
    plays["random"] = "acting at random"
    rivals = [_BlindAgent(play, words, await _rollouts(case, play)) for play, words in plays.items()]
    level = _ALPHA / len(rivals)
    as_good = [rival for rival in rivals if _as_good(rival, golden, level)]
    if as_good:
        return [_finding(case, max(as_good, key=lambda rival: rival.mean), golden)]
    unclear = [rival for rival in rivals if not _worse(rival, golden, level)]
    if unclear:
        raise ConfigError(_describe_tie(unclear[0], golden))
    return []


async def _rollouts(case: Case, play: str) -> tuple[GymRecord, ...]:
    trials = await play_seeds(case, play)
    for task, trial in zip(case.tasks, trials, strict=True):
        if trial.untried:
            raise ConfigError(f"`{play}` was not played on `{task.id}`: {trial.fate}; give more time, or fewer `--steps`")
    return tuple(record_of(trial) for trial in trials)


def _require_success(case: Case, trials: Sequence[Trial]) -> tuple[GymRecord, ...]:
    """The solution's rollouts; one that raised shows nothing."""
    for task, trial in zip(case.tasks, trials, strict=True):
        trouble = record_of(trial).trouble
        if trouble is not None:
            raise ConfigError(f"the solution fails on `{task.id}`: {trouble}; fix it, or name another")
    return tuple(record_of(trial) for trial in trials)


def _gains(rival: _BlindAgent, golden: Sequence[GymRecord]) -> list[float]:
    """What the solution earned more, seed by seed; rollouts of a rival that broke count as nothing earned."""
    return [
        one.earned - (other.earned if other.trouble is None else 0.0) for one, other in zip(golden, rival.rollouts, strict=True)
    ]


def _worse(rival: _BlindAgent, golden: Sequence[GymRecord], level: float) -> bool:
    gains = _gains(rival, golden)
    return sum(gains) > 0 and sign_flip(gains) / 2 <= level  # one way only


def _as_good(rival: _BlindAgent, golden: Sequence[GymRecord], level: float) -> bool:
    """At least as good beyond doubt: the same on every seed, or clearly better; only where nothing was cut."""
    if not all(each.over and each.trouble is None for each in (*golden, *rival.rollouts)):
        return False
    gains = _gains(rival, golden)
    return not any(gains) or (sum(gains) < 0 and sign_flip(gains) / 2 <= level)


def _describe_tie(rival: _BlindAgent, golden: Sequence[GymRecord]) -> str:
    mean = statistics.fmean(each.earned for each in golden)
    seen = f"the solution earns {mean:g} on average and {rival.words} {rival.mean:g}, on {len(golden)} seeds"
    if not all(each.over for each in (*golden, *rival.rollouts)):
        longest = max(len(each.steps) for each in (*golden, *rival.rollouts))
        return f"{seen}, cut after {longest} steps: that does not tell them apart; give more `--steps`"
    return f"{seen}: that does not tell them apart; give more `--seeds`"


def _finding(case: Case, rival: _BlindAgent, golden: Sequence[GymRecord]) -> Finding:
    witness = Witness(
        inputs={"seeds": len(golden), "play": rival.words},
        expected=f"less than the solution earns: {[round(each.earned, 6) for each in golden[:8]]}",
        observed=f"{[round(each.earned, 6) for each in rival.rollouts[:8]]}",
        seed=case.seed,
    )
    return Finding(
        code="D14.random" if rival.play == "random" else "D14.constant",
        title=f"{rival.words} earns as much as the solution",
        layer=Layer.SCRIPTED,
        probe=_NAME,
        severity=Severity.HIGH,
        standing=Confidence.CONFIRMED,
        count=len(golden),
        witness=witness,
        fix="reward what only the work brings; if the named solution does not solve it, name one that does",
    )  # no task: seeing it again takes all seeds


PROBES = (Probe(_NAME, Layer.SCRIPTED, ("D14", "D13"), look_at_solution),)
