"""Whether solving a Gymnasium environment pays: the solution against agents that ignore the observations.

Those agents act at random, or repeat one action. The solution must earn significantly more, compared seed by seed. An agent that
earns as much is a flaw only if that is certain; if the seeds or steps are too few to tell, the audit says so and is incomplete.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Witness, make_finding
from sandlot.audit.probes.gymnasium.promises import play_seeds
from sandlot.audit.subject import Trial
from sandlot.audit.subjects.foreign.gym_record import GymRecord, record_of
from sandlot.core.errors import ConfigError
from sandlot.core.stats.intervals import sign_flip

_ALPHA = 0.05
"""Probability of calling any such agent worse or better than the solution when it is equally good."""


@dataclass(frozen=True, slots=True)
class _BlindAgent:
    """An agent that ignores the observations."""

    play: str
    words: str
    rollouts: tuple[GymRecord, ...]

    @property
    def mean(self) -> float:
        """Its mean return."""
        return statistics.fmean(each.earned for each in self.rollouts)


async def _look_at_solution(case: Case) -> list[Finding]:
    """The solution finishes, and earns more than agents that ignore the observations."""
    if not case.description.has_golden:
        raise ConfigError(
            "no solution was given, so nothing shows that it can be solved; give one with `--solution MODULE:FUNCTION`"
        )
    golden = _require_success(case, await play_seeds(case, "golden"))
    may_guess = case.description.declared.guessable  # one repeated action may be a solution
    constant = () if may_guess else cast("Sequence[str]", case.tasks[0].data.get("constant") or ())
    plays = {f"constant-{number}": f"repeating action {action}" for number, action in enumerate(constant)}
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
            raise ConfigError(f"`{play}` was not played on `{task.id}`: {trial.fate}; allow more time, or fewer `--steps`")
    return tuple(record_of(trial) for trial in trials)


def _require_success(case: Case, trials: Sequence[Trial]) -> tuple[GymRecord, ...]:
    """The solution's rollouts; `ConfigError` if one failed."""
    for task, trial in zip(case.tasks, trials, strict=True):
        trouble = record_of(trial).trouble
        if trouble is not None:
            raise ConfigError(f"the solution fails on `{task.id}`: {trouble}; fix the solution, or give another")
    return tuple(record_of(trial) for trial in trials)


def _gains(rival: _BlindAgent, golden: Sequence[GymRecord]) -> list[float]:
    """How much more the solution earned, seed by seed; failed rollouts of the other agent count as 0."""
    return [
        one.earned - (other.earned if other.trouble is None else 0.0) for one, other in zip(golden, rival.rollouts, strict=True)
    ]


def _worse(rival: _BlindAgent, golden: Sequence[GymRecord], level: float) -> bool:
    gains = _gains(rival, golden)
    return sum(gains) > 0 and sign_flip(gains) / 2 <= level  # one way only


def _as_good(rival: _BlindAgent, golden: Sequence[GymRecord], level: float) -> bool:
    """True if equal on every seed or significantly better, and no rollout was cut or failed."""
    if not all(each.over and each.trouble is None for each in (*golden, *rival.rollouts)):
        return False
    gains = _gains(rival, golden)
    return not any(gains) or (sum(gains) < 0 and sign_flip(gains) / 2 <= level)


def _describe_tie(rival: _BlindAgent, golden: Sequence[GymRecord]) -> str:
    mean = statistics.fmean(each.earned for each in golden)
    seen = f"the solution earns {mean:g} on average and {rival.words} {rival.mean:g}, on {len(golden)} seeds"
    if not all(each.over for each in (*golden, *rival.rollouts)):
        longest = max(len(each.steps) for each in (*golden, *rival.rollouts))
        return f"{seen}, cut after {longest} steps: the difference is not significant; give more `--steps`"
    return f"{seen}: the difference is not significant; give more `--seeds`"


def _finding(case: Case, rival: _BlindAgent, golden: Sequence[GymRecord]) -> Finding:
    witness = Witness(
        inputs={"seeds": len(golden), "play": rival.words},
        expected=f"less than the solution earns: {[round(each.earned, 6) for each in golden[:8]]}",
        observed=f"{[round(each.earned, 6) for each in rival.rollouts[:8]]}",
        seed=case.seed,
    )
    code = "D14.random" if rival.play == "random" else "D14.constant"
    fix = "reward only what solving the task achieves; if the given solution does not solve it, give one that does"
    title = f"{rival.words} earns as much as the solution"
    return make_finding(code, title, witness, count=len(golden), fix=fix)  # no task: reproducing it takes all seeds


PROBES = (Probe("gym-solution", Layer.SCRIPTED, ("D14", "D13"), _look_at_solution),)
