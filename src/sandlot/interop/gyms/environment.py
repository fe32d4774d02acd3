# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false, reportMissingTypeArgument=false
"""A Sandlot environment as a Gymnasium one: one episode is one rollout of one task.

`terminated` is True if the task is over (the agent ended it, or broke a rule that ends it), `truncated` if a limit of the task
was reached. The reward comes with the last step and is the score; all other steps have 0. A failure of the environment, the
sandbox or a check is an exception of `step` or `reset`, never a reward. The seed of `reset` draws the task; a task's world is
always the same.
"""

from typing import Any, ClassVar

import gymnasium

from sandlot.core.errors import ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Trace
from sandlot.core.types import Role
from sandlot.env.transcript import message_lines
from sandlot.interop.driven import DrivenRollout
from sandlot.interop.gyms.rollouts import GymRollouts, observation_text, require_pending, require_scored
from sandlot.interop.gyms.views import GymView
from sandlot.model.policy.player import messages_since_turn


class GymEnvironment(gymnasium.Env):
    """`gymnasium.Env` around rollouts of an environment. Get one from `sandlot.to_gym`."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}

    def __init__(self, rollouts: GymRollouts, view: GymView, render_mode: str | None = None) -> None:
        if render_mode not in {None, "ansi"}:
            raise ConfigError(f"render_mode={render_mode!r} is unknown; use 'ansi' or None")
        self.rollouts = rollouts
        self.view = view
        self.observation_space = view.observation_space
        self.action_space = view.action_space
        self.render_mode = render_mode
        self.tools: tuple[ToolSpec, ...] = ()
        """The tools of the task that was reset last, with their JSON schemas."""
        self.trace: Trace | None = None
        """The trace of the last finished rollout."""
        self._driven: DrivenRollout | None = None
        self._messages: list[Message] = []
        self._task = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a rollout of a task drawn with the seed, or of `options={"task": id}`."""
        super().reset(seed=seed)
        unknown = set(options or {}) - {"task"}
        if unknown:
            raise ConfigError(f"reset has no option {min(unknown)!r}; it has 'task'")
        draw = int(self.np_random.integers(len(self.rollouts.tasks)))
        task = self.rollouts.task(options["task"]) if options else self.rollouts.tasks[draw]
        self.rollouts.drop()
        self._task = task.id
        self._driven = driven = self.rollouts.begin(task)
        pending = require_pending(driven, driven.opening())
        self.tools, self._messages = pending.tools, list(pending.messages)
        return self._observe(pending.messages), {"task": task.id}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one turn."""
        if self._driven is None:
            raise gymnasium.error.ResetNeeded("`step` was called before `reset`, or after the end of a rollout")
        if action not in self.action_space:
            raise gymnasium.error.InvalidAction(f"{action!r:.200} is not in {self.action_space}")
        parts = self.view.turn(action)
        self._messages.append(Message(role=Role.ASSISTANT, parts=parts))
        pending = self._driven.move(parts)
        if pending is None:
            return self._finish(self._driven)
        self._messages += pending.messages
        return self._observe(pending.messages), 0.0, False, False, {"task": self._task}

    def _finish(self, driven: DrivenRollout) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._driven = None
        self.trace = trace = driven.trace()
        reward = require_scored(trace)
        last = messages_since_turn(trace, len(trace.nodes) - 1)
        self._messages += last
        terminated = trace.end is not None and trace.end.terminated
        return self._observe(last), reward, terminated, not terminated, {"task": trace.task, "end": str(trace.end)}

    def _observe(self, messages: tuple[Message, ...]) -> Any:
        return self.view.observe(observation_text(messages, self.rollouts.env.images))

    def render(self) -> str | None:
        """The conversation so far."""
        return "\n".join(line for message in self._messages for line in message_lines(message)) if self.render_mode else None

    def close(self) -> None:
        """Cancel the rollout in progress and close its world."""
        self._driven = None
        self.rollouts.close()
