"""Rollouts as sessions of OpenEnv: `reset`, `step` and `state`, and the messages of its WebSocket that ask for them.

An observation holds the messages that follow and the tools. A rollout that fails is an error of the step and never a reward.
"""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from sandlot.core.errors import AuthorError, SandlotError, boundary
from sandlot.core.types import Json
from sandlot.interop.driven_server import DrivenService

_T = TypeVar("_T")


class _Call(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict[str, Any])
    id: str = ""


class _Reset(msgspec.Struct, frozen=True):
    task: str | None = None
    seed: int | None = None
    episode_id: str | None = None


class OpenEnvAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step's action: one message of the model."""

    text: str = ""
    calls: tuple[_Call, ...] = ()


class RefusedMessage(SandlotError):  # noqa: N818 - what happened to it
    """A message that does not fit. The rollout goes on."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class OpenEnvSession:
    """One connection: at most one rollout at a time."""

    def __init__(self, service: DrivenService, tasks: list[str], next_task: Callable[[], str]) -> None:
        self._service = service
        self._tasks = tasks
        self._next_task = next_task
        self._rollout: str | None = None
        self._tools: list[Json] = []
        self._state: Json = {"episode_id": None, "step_count": 0}

    def answer(self, line: str | bytes) -> Json:
        """The reply to one message of the client."""
        try:
            message = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.ValidationError as error:
            return error_reply("VALIDATION_ERROR", str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return error_reply("INVALID_JSON", str(error))
        try:
            return self._answered(message)
        except RefusedMessage as error:
            return error_reply(error.code, str(error))
        except SandlotError as error:
            return error_reply("EXECUTION_ERROR", str(error))

    def _answered(self, message: Json) -> Json:
        match message.get("type"):
            case "reset":
                return _observation(self.reset(message.get("data") or {}))
            case "step":
                return _observation(self.step(message.get("data")))
            case "state":
                return {"type": "state", "data": self.state}
            case other:
                raise RefusedMessage("UNKNOWN_TYPE", f"unknown type `{str(other)[:100]}`; use reset, step, state or close")

    @property
    def state(self) -> Json:
        """The episode's id, its steps and its task."""
        return self._state

    def reset(self, data: Any) -> Json:
        """Begin the next rollout; what the model is shown first. One that goes on is dropped."""
        self.drop()
        asked = _converted(data, _Reset)
        with self._dropped_if_it_fails():
            seeded = None if asked.seed is None else self._tasks[asked.seed % len(self._tasks)]
            begun = self._service.begin(asked.task or seeded or self._next_task())
        self._rollout, self._tools = begun["rollout"], begun["tools"]
        self._state = {"episode_id": asked.episode_id or begun["rollout"], "step_count": 0, "task": begun["task"]}
        return {"messages": begun["messages"], "tools": self._tools, "reward": None, "done": False}

    def step(self, data: Any) -> Json:
        """Play one message of the model; what follows, and the reward if it was the last."""
        if self._rollout is None:
            raise RefusedMessage("SESSION_ERROR", "no rollout is going on; call `reset`")
        action = _converted(data, OpenEnvAction)
        with self._dropped_if_it_fails():
            return self._played(self._rollout, action)

    def _played(self, rollout: str, action: OpenEnvAction) -> Json:
        self._state["step_count"] += 1
        calls = [
            {
                "id": call.id or f"call{self._state['step_count']}-{number}",
                "name": call.name,
                "arguments": call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
            }
            for number, call in enumerate(action.calls)
        ]
        moved = self._service.move(rollout, {"text": action.text, "calls": calls})
        seen: Json = {"messages": moved["messages"], "tools": self._tools, "reward": None, "done": moved["over"]}
        if not moved["over"]:
            return seen
        end = self._service.finish(rollout)
        self.drop()
        if end["reward"] is None:
            what = end["failed"].partition(": ")[0]  # the rest may quote a check or the key; the client plays
            raise AuthorError(f"the rollout failed and has no reward: {what}; the server's run says why")
        return seen | {"reward": end["reward"]}

    @contextmanager
    def _dropped_if_it_fails(self) -> Generator[None]:
        try:
            with boundary(AuthorError, "the rollout"):
                yield
        except SandlotError:
            self.drop()
            raise

    def drop(self) -> None:
        """Drop the rollout, if one is going on."""
        if self._rollout is not None:
            self._service.drop(self._rollout)
            self._rollout = None


def _observation(seen: Json) -> Json:
    """What was seen, as it stands in a reply."""
    shown = {"messages": seen["messages"], "tools": seen["tools"]}
    return {"type": "observation", "data": {"observation": shown, "reward": seen["reward"], "done": seen["done"]}}


def _converted(data: Any, kind: type[_T]) -> _T:
    """What the client sent. Only this is the client's fault: what fails later is not."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise RefusedMessage("VALIDATION_ERROR", str(error)) from error


def error_reply(code: str, message: str) -> Json:
    """The reply to a message that was refused or failed."""
    return {"type": "error", "data": {"message": message[:2000], "code": code}}
