"""Serves rollouts of an environment to a loop of another framework, in JSON Lines over standard streams.

    python -m sandlot.interop.driven_server ENV RUN

Exported environments start it, since the other framework's packages may not fit beside Sandlot's. Each line of standard input is
a request with a number, each line of standard output the answer to one; they come in any order. A rollout is an ordinary one
whose policy waits for the next message: limits, evidence and grades are the same, and it is stored in the run directory RUN.

    begin    task                 -> rollout, task, messages, tools
    move     rollout, message     -> messages, over
    finish   rollout              -> reward, or null and why it failed
    drop     rollout              -> nothing
"""

import os
import sys
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio.from_thread
import msgspec

from sandlot.core.errors import HarnessError
from sandlot.core.trace import Failed, Message, Part, Text, ToolCall, Trace
from sandlot.core.types import Json
from sandlot.env.load import load
from sandlot.interop.driven import DrivenRollout, PendingTurn
from sandlot.interop.stage import Stage, StageConfig, open_stage
from sandlot.model.render.template import as_entries
from sandlot.model.wire.arguments import tool_call

_AT_ONCE = 64


class ForeignCall(msgspec.Struct, frozen=True):
    """A tool call as the other framework's model wrote it."""

    id: str
    name: str
    arguments: str


class ForeignMessage(msgspec.Struct, frozen=True):
    """A message of the other framework's model."""

    text: str = ""
    calls: tuple[ForeignCall, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The message's parts."""
        return (*((Text(self.text),) if self.text else ()), *(_call(each) for each in self.calls))


def _call(call: ForeignCall) -> ToolCall:
    return tool_call(call.id, call.name, call.arguments)


class DrivenService:
    """The rollouts that the other side has begun. Its methods are called from many threads."""

    def __init__(self, portal: anyio.from_thread.BlockingPortal, stage: Stage) -> None:
        self._portal = portal
        self._stage = stage
        self._rollouts: dict[str, DrivenRollout] = {}

    def begin(self, task: str) -> Json:
        """Begin a rollout of a task; what the model is shown first, and its tools."""
        self._stage.task(task)

        async def play(driven: DrivenRollout) -> Trace:
            # One attempt: a second one would not continue the other side's rollout.
            return (await self._stage.play([(task, driven.seat())], attempts=1))[0]

        driven = DrivenRollout(self._portal, play, "foreign")
        opening = driven.opening()
        if opening is None:
            driven.drop()
            raise HarnessError(_why_no_reward(driven.trace()) or "the rollout was over before the model was asked")
        name = uuid.uuid4().hex
        self._rollouts[name] = driven
        return {
            "rollout": name,
            "task": task,
            "messages": _entries(opening.messages),
            "tools": msgspec.to_builtins(opening.tools),
        }

    def move(self, rollout: str, message: Json) -> Json:
        """A message of the model; the messages that follow, and whether the rollout is over."""
        pending: PendingTurn | None = self._rollouts[rollout].move(msgspec.convert(message, ForeignMessage).parts)
        return {"messages": _entries(pending.messages) if pending else [], "over": pending is None}

    def finish(self, rollout: str) -> Json:
        """The reward. A rollout that goes on is ended with an empty message."""
        driven = self._rollouts[rollout]
        if not driven.over and driven.move(()) is not None:
            driven.drop()
            return {"reward": None, "failed": "the other side ended while the environment waits for the next message"}
        trace = driven.trace()
        return {"reward": trace.reward, "failed": _why_no_reward(trace)}

    def drop(self, rollout: str) -> Json:
        """Forget a rollout; cancel it if it is not over."""
        driven = self._rollouts.pop(rollout, None)
        if driven is not None:
            driven.drop()
        return {}


def _entries(messages: tuple[Message, ...]) -> list[Json]:
    return [entry for message in messages for entry in as_entries(message)]


def _why_no_reward(trace: Trace) -> str:
    if trace.reward is not None:
        return ""
    outcome = trace.outcome
    return f"{outcome.side}/{outcome.kind}: {outcome.message}" if isinstance(outcome, Failed) else str(outcome)


def serve_lines(service: DrivenService, write: Callable[[bytes], object], lines: Any) -> None:
    """Answer requests, many at a time, until the lines end."""
    lock = threading.Lock()

    def answer(line: bytes) -> None:
        reply: Json = {"id": 0}
        try:
            request = msgspec.json.decode(line, type=dict[str, Any])
            reply["id"] = request.pop("id")
            methods = {"begin": service.begin, "move": service.move, "finish": service.finish, "drop": service.drop}
            reply["result"] = methods[request.pop("do")](**request)
        except Exception as error:  # noqa: BLE001 - the other side waits for an answer to every request
            reply["failed"] = f"{type(error).__name__}: {error}"
        with lock:
            write(msgspec.json.encode(reply) + b"\n")

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for line in lines:
            pool.submit(answer, line)


def main(env: str, run: str) -> None:
    """Serve the environment until standard input ends."""
    # What author code prints, perhaps text of the agent, is not ours to answer with.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def write(data: bytes) -> None:
        answers.write(data)
        answers.flush()

    config = StageConfig(env=load(env), run=Path(run), model="foreign", training=False, at_once=_AT_ONCE)
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_stage(config)) as stage,
    ):
        serve_lines(DrivenService(portal, stage), write, sys.stdin.buffer)


if __name__ == "__main__":
    main(*sys.argv[1:])
