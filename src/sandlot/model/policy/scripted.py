"""Scripted policies by name: `scripted:golden`, `scripted:noop` and others.

`golden` plays the environment's solution. The players of `player.py` are baselines and failures.
"""

import difflib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from sandlot.core.errors import ConfigError
from sandlot.core.ports.session import Policies, Policy
from sandlot.core.task import Task
from sandlot.core.types import derive_seed
from sandlot.model.policy import player
from sandlot.model.policy.player import Hanging, Play, Player
from sandlot.model.policy.solution import Solution, open_solution

Choose = Callable[[Task, int], Solution | Policy]
"""(task, seed) to the solution or policy that plays the rollout."""

PLAYS: Mapping[str, Play] = {
    "noop": player.constant(""),
    "refuse": player.refuse,
    "echo": player.echo,
    "random": player.random_calls,
    "crash": player.crash,
    "malformed": player.malformed,
    "loop": player.loop,
    "flood": player.flood,
}
PANEL = ("golden", "noop", "random", "mixed:0.5", "echo", "random", "golden", "refuse")
"""Who plays the rollouts of a task in `panel`, by number; from the beginning again after the last one."""
NAMES = ("golden", "mixed:P", "constant:TEXT", "hang", "panel", *PLAYS)
"""Every name that may follow `scripted:`."""


@dataclass(frozen=True, slots=True)
class ScriptedPolicies:
    """`ports.Policies` that choose a solution or a player by task and seed."""

    name: str
    choose: Choose

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:  # noqa: ARG002 - the seed differs by rollout
        """The policy of this rollout."""
        chosen = self.choose(task, seed)
        return open_solution(self.name, chosen, task) if callable(chosen) else nullcontext(chosen)


@dataclass(frozen=True, slots=True)
class _PanelPolicies:
    """`ports.Policies` that choose a player by the number of the rollout."""

    name: str
    players: tuple[Policies, ...]

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:
        """The policy of this rollout."""
        return self.players[rollout % len(self.players)].policy(task, seed, rollout)


def panel_of(*, has_golden: bool) -> tuple[str, ...]:
    """The players of `scripted:panel`; those that need a golden solution only if there is one."""
    return PANEL if has_golden else tuple(name for name in PANEL if name.partition(":")[0] not in {"golden", "mixed"})


def scripted_policies(spec: str, golden: Solution | None = None) -> Policies:
    """Policies from a name such as `golden`, `mixed:0.5`, `constant:42`; `golden` is the environment's solution."""
    spec = spec.removeprefix("scripted:")
    name = f"scripted:{spec}"
    word, _, rest = spec.partition(":")
    if word == "golden" and not rest:
        return ScriptedPolicies(name, _always(_require_solution(name, golden)))
    if word == "mixed":
        return ScriptedPolicies(name, _mixed(name, _parse_share(rest), _require_solution(name, golden)))
    if word == "panel" and not rest:
        players = (scripted_policies(each, golden) for each in panel_of(has_golden=golden is not None))
        return _PanelPolicies(name, tuple(players))
    if word == "constant":
        return ScriptedPolicies(name, _playing(name, player.constant(rest)))
    if word == "hang" and not rest:
        return ScriptedPolicies(name, lambda _task, _seed: Hanging())
    if word in PLAYS and not rest:
        return ScriptedPolicies(name, _playing(name, PLAYS[word]))
    near = difflib.get_close_matches(word, [each.partition(":")[0] for each in NAMES], n=1)
    meant = f" (did you mean `scripted:{near[0]}`?)" if near else ""
    raise ConfigError(f"unknown scripted policy `{spec}`{meant}; known: {', '.join(NAMES)}")


def _require_solution(name: str, golden: Solution | None) -> Solution:
    if golden is None:
        raise ConfigError(
            f"`{name}` needs a golden solution, and the environment has none; write one with `@env.solution`, "
            "or in a folder in `solution.py`"
        )
    return golden


def _always(solution: Solution) -> Choose:
    return lambda _task, _seed: solution


def _playing(name: str, play: Play) -> Choose:
    return lambda _task, seed: Player(name, play, seed)


def _parse_share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ConfigError(f"`scripted:mixed:{text}` needs a share between 0 and 1, as in `scripted:mixed:0.5`")
    return share


def _mixed(name: str, share: float, golden: Solution) -> Choose:
    wrong = (PLAYS["noop"], PLAYS["echo"])

    def choose(_task: Task, seed: int) -> Solution | Policy:
        drawn = derive_seed("mixed", seed)
        return golden if drawn < share * 2**63 else Player(name, wrong[drawn % 2], seed)

    return choose
