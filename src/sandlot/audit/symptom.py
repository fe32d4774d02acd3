"""A sign in a few rollouts that an environment is mis-specified, and the rollouts as the rules read them."""

from dataclasses import dataclass, field

import msgspec

from sandlot.core.crashes import crashes_in
from sandlot.core.rubric import CheckVerdict
from sandlot.core.trace import Failed, Scored, Trace


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that looks mis-specified, with the rollouts that show it."""

    kind: str
    """What kind of sign it is, such as `golden_loses`."""
    wrong: bool
    """True if it is wrong whatever the author meant; False if a person should look."""
    said: str
    """What was seen, in a sentence."""
    run: str
    """The run directory of its rollouts."""
    rollouts: tuple[tuple[str, int], ...] = ()
    """Rollouts that show it: task and number."""
    count: int = 1
    """Rollouts, tasks or checks that show it in all."""
    show: str = ""
    """The command that shows the first of them."""
    again: str = ""
    """The command that makes it happen again."""


@dataclass(frozen=True, slots=True)
class PlayedRollout:
    """One rollout, as far as the rules read it."""

    run: str
    task: str
    rollout: int
    player: str
    """`golden`, `noop`, ... or `model`."""
    score: float | None
    failed: Failed | None
    end: str
    turns: int
    checks: dict[str, float] = field(default_factory=dict[str, float])
    """Share of its points that each check with positive points gave; those that did not run are left out."""
    crashes: tuple[str, ...] = ()
    """What crashed in the environment without deciding the outcome, as `TOOL: SIGNATURE`."""
    calls: tuple[tuple[str, bool], ...] = ()
    """Tools called, each with whether the answer was an error."""

    @property
    def key(self) -> tuple[str, int]:
        """Task and number."""
        return self.task, self.rollout

    @property
    def full(self) -> bool:
        """True for full marks."""
        return self.score is not None and self.score >= 1.0


def read_played(run: str, player: str, trace: Trace) -> PlayedRollout:
    """A finished trace, read for the rules."""
    outcome = trace.outcome
    score = outcome.score if isinstance(outcome, Scored) else None
    results = {result.call: result.error for node in trace.nodes for result in node.message.results}
    return PlayedRollout(
        run=run,
        task=trace.task,
        rollout=trace.rollout,
        player=player,
        score=score.value if score else None,
        failed=outcome if isinstance(outcome, Failed) else None,
        end=trace.end.value if trace.end else "",
        crashes=tuple(crashes_in(trace)),
        turns=trace.num_turns,
        checks={
            check.id: check.value
            for check in (score.checks if score else ())
            if check.worth > 0 and check.verdict is not CheckVerdict.SUPPRESSED
        },
        calls=tuple((call.name, results.get(call.id, True)) for node in trace.turns() for call in node.message.calls),
    )
