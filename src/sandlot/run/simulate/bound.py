"""A lower bound on the time that any order without speculation needs.

With `T` tokens sampled in all and `Q` the sum over decode steps of tokens in the cache (`prompt * L + L**2 / 2` per rollout, and
what tools add): a rollout is decoded one token after the other at best alone, between its tool calls; and each step takes at
least `step_s`, gives at most `max_batch` tokens and holds at most `cache_tokens`.
"""

from sandlot.run.simulate.fleet import Fleet
from sandlot.run.simulate.workload import PlannedRollout, Workload


def lower_bound_s(workload: Workload, fleet: Fleet) -> float:
    """Seconds below which no schedule can be."""
    tokens, held = 0, 0.0
    serial = 0.0
    for rollout in workload.rollouts:
        own = _held(rollout)
        tokens, held = tokens + rollout.tokens, held + own
        tools = sum(turn.tool_s for turn in rollout.turns)
        serial = max(serial, rollout.tokens * (fleet.step_s + fleet.sequence_s) + fleet.token_s * own + tools)
    steps = max(tokens / fleet.max_batch, held / fleet.cache_tokens)
    return max(serial, (fleet.step_s * steps + fleet.sequence_s * tokens + fleet.token_s * held) / fleet.instances)


def _held(rollout: PlannedRollout) -> float:
    """Tokens in the cache, added up over the decode steps of a rollout."""
    context, held = float(rollout.prompt), 0.0
    for turn in rollout.turns:
        held += turn.tokens * (context + turn.tokens / 2)
        context += turn.tokens + turn.observation
    return held
