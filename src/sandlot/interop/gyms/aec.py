# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false, reportMissingTypeArgument=false
"""A Sandlot environment as a PettingZoo one: the agent, and the user if a model plays one, take turns.

`agent` gets the score with the last step. `user` exists if the environment has a persona: it reads the persona's instructions and
the agent's messages, and its reward is 0, since the rubric grades the agent. Both end together: `terminated` if the task is over,
`truncated` at a limit. A failure is an exception, never a reward.
"""

from typing import Any, ClassVar

import numpy as np
from pettingzoo import AECEnv
from pettingzoo.utils.conversions import aec_to_parallel, turn_based_aec_to_parallel

from sandlot.core.errors import ConfigError
from sandlot.core.persona import AGENT as USER
from sandlot.core.trace import Message, Trace
from sandlot.core.types import Role
from sandlot.env.transcript import message_lines
from sandlot.interop.driven import DrivenRollout, PendingTurn
from sandlot.interop.gyms.rollouts import GymRollouts, observation_text, require_pending, require_scored
from sandlot.interop.gyms.views import GymView
from sandlot.model.policy.player import messages_since_turn

AGENT = "agent"
TEXT = "text"
"""The key of the text in an observation."""


class PettingZooEnvironment(AECEnv):
    """`pettingzoo.AECEnv` around rollouts of an environment. Get one from `sandlot.to_pettingzoo`."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "name": "sandlot", "is_parallelizable": True}

    def __init__(self, rollouts: GymRollouts, views: dict[str, GymView], render_mode: str | None = None) -> None:
        super().__init__()
        self.rollouts = rollouts
        self.views = views
        self.possible_agents = list(views)
        self.observation_spaces = {name: view.observation_space for name, view in views.items()}
        self.action_spaces = {name: view.action_space for name, view in views.items()}
        self.render_mode = render_mode
        self.agents: list[str] = []
        self.trace: Trace | None = None
        """The trace of the last finished rollout."""
        self._rng = np.random.default_rng()
        self._driven: DrivenRollout | None = None
        self._seen: dict[str, Any] = {}
        self._messages: list[Message] = []

    def observation_space(self, agent: str) -> Any:
        """The space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The space of an agent's actions."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a rollout of a task drawn with the seed, or of `options={"task": id}`."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        draw = int(self._rng.integers(len(self.rollouts.tasks)))
        named = (options or {}).get("task")
        task = self.rollouts.task(named) if named else self.rollouts.tasks[draw]
        self.rollouts.drop()
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {name: {"task": task.id} for name in self.agents}
        self._seen = {name: view.observe("") for name, view in self.views.items()}
        self._messages = []
        self._driven = driven = self.rollouts.begin(task, user=USER in self.views)
        self._select(require_pending(driven, driven.opening()))

    def observe(self, agent: str) -> Any:
        """What the agent was sent before its next turn, or last."""
        return self._seen[agent]

    def step(self, action: Any) -> None:
        """Take the turn of the selected agent."""
        name = self.agent_selection
        if self.terminations[name] or self.truncations[name]:
            self._was_dead_step(action)
            return
        if self._driven is None:
            raise ConfigError("`step` was called before `reset`")
        if action not in self.action_space(name):
            raise ConfigError(f"the action {action!r:.200} of `{name}` is not in {self.action_space(name)}")
        parts = self.views[name].turn(action)
        self._messages.append(Message(role=Role.ASSISTANT if name == AGENT else Role.USER, parts=parts))
        self._cumulative_rewards[name] = 0.0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        pending = self._driven.move(parts)
        if pending is None:
            self._finish(self._driven)
        else:
            self._select(pending)
        self._accumulate_rewards()

    def _select(self, pending: PendingTurn) -> None:
        self._messages += (message for message in pending.messages if pending.seat == AGENT)
        self._seen[pending.seat] = self._text(pending.seat, pending.messages)
        self.agent_selection = pending.seat

    def _finish(self, driven: DrivenRollout) -> None:
        self._driven = None
        self.trace = trace = driven.trace()
        self.rewards[AGENT] = require_scored(trace)
        terminated = trace.end is not None and trace.end.terminated
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, not terminated)
        for info in self.infos.values():
            info["end"] = str(trace.end)
        last = messages_since_turn(trace, len(trace.nodes) - 1)
        self._messages += last
        self._seen[AGENT] = self._text(AGENT, last)
        self.agent_selection = self.agents[0]

    def _text(self, seat: str, messages: tuple[Message, ...]) -> Any:
        return self.views[seat].observe(observation_text(messages, self.rollouts.env.images))

    def render(self) -> str | None:
        """The conversation so far."""
        return "\n".join(line for message in self._messages for line in message_lines(message)) if self.render_mode else None

    def close(self) -> None:
        """Cancel the rollout in progress and close its world."""
        self._driven = None
        self.rollouts.close()


def parallel_of(made: PettingZooEnvironment) -> Any:
    """The environment as a `ParallelEnv`; with a user, only the action of the one whose turn it is counts."""
    return turn_based_aec_to_parallel(made) if USER in made.views else aec_to_parallel(made)
