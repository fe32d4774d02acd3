"""Turns that wait for a person: approve them, change their calls, or refuse them.

`Approvals` is a hook of the tool loop. The waiting does not count against the agent's time. A changed or refused turn becomes an
intervention in the trace, beside the turn that was sampled. No answer in time does what the author declared safe.
"""

import secrets
import time
from typing import Literal

import anyio
import msgspec

from sandlot.core.errors import ConfigError, StoppedByHook
from sandlot.core.limits import Hold, PlannedCall
from sandlot.core.ports.session import Step
from sandlot.core.text import printable, printable_json
from sandlot.core.trace import Event, Message, Node, ToolCall, Trace

_LONGEST_TEXT = 2000
MOST_SHOWN = 50
"""Held turns that are listed; the ones that wait longest come first."""

_Verdict = Literal["approved", "changed", "refused", "no answer"]


class HeldTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that waits for a person."""

    id: str
    """What an answer names."""
    task: str
    rollout: int
    turn: int
    text: str
    """What the agent said beside its calls; long text is cut."""
    calls: tuple[PlannedCall, ...]
    """What the agent wants to call."""
    told: str
    """The same as JSON to be read by a person: whole, and with every character escaped that is not printable."""
    since: float
    until: float
    """When the safe action is taken, in seconds since the epoch."""
    safe: PlannedCall | None
    """The safe action; None: the rollout stops."""


class _Waiting:
    """A held turn, and the answer to it once there is one."""

    def __init__(self, turn: HeldTurn) -> None:
        self.turn = turn
        self.answered = anyio.Event()
        self.verdict: _Verdict = "no answer"
        self.calls: tuple[PlannedCall, ...] = ()


class Approvals:
    """Holds the turns that `hold` names until `answer` is called for them."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._waiting: dict[str, _Waiting] = {}

    @property
    def held(self) -> tuple[HeldTurn, ...]:
        """The turns that wait, the longest first."""
        return tuple(waiting.turn for waiting in list(self._waiting.values())[:MOST_SHOWN])

    def answer(self, held: str, verdict: Literal["approved", "changed", "refused"], calls: tuple[PlannedCall, ...] = ()) -> None:
        """Answer a held turn; `calls` are made instead of the agent's if it is `changed`."""
        waiting = self._waiting.pop(held, None)
        if waiting is None:
            raise ConfigError(f"no turn `{held[:40]}` waits: it was answered, or its time is over")
        waiting.verdict, waiting.calls = verdict, calls
        waiting.answered.set()

    async def after_turn(self, trace: Trace, node: Node) -> Message | None:
        """Hold the turn if it calls one of the tools."""
        if not any(call.name in self._hold.tools for call in node.message.calls):
            return None
        # Not a number: an answer to a turn of an earlier sitting must not fit one of this.
        waiting = _Waiting(self._describe(secrets.token_hex(4), trace, node))
        self._waiting[waiting.turn.id] = waiting
        started = time.monotonic()
        try:
            with anyio.move_on_after(self._hold.wait_s):
                await waiting.answered.wait()
        finally:
            self._waiting.pop(waiting.turn.id, None)
        detail = {"verdict": waiting.verdict, "seconds": round(time.monotonic() - started, 3)}
        trace.events.append(Event(kind="held", turn=trace.num_turns, detail=detail))
        return self._decide(waiting, node)

    async def after_step(self, trace: Trace, step: Step) -> None:
        """Nothing: the environment's answer waits for no one."""

    def _describe(self, name: str, trace: Trace, node: Node) -> HeldTurn:
        now, calls = time.time(), tuple(_planned(call) for call in node.message.calls)
        return HeldTurn(
            id=name,
            task=trace.task,
            rollout=trace.rollout,
            turn=trace.num_turns,
            text=printable(node.message.text, _LONGEST_TEXT),
            calls=calls,
            told=printable_json(msgspec.json.format(msgspec.json.encode(calls), indent=2)).decode(),
            since=now,
            until=now + self._hold.wait_s,
            safe=self._hold.safe,
        )

    def _decide(self, waiting: _Waiting, node: Node) -> Message | None:
        match waiting.verdict:
            case "approved":
                return None
            case "changed":
                return _with_calls(node.message, waiting.calls)
            case "refused" | "no answer":
                if self._hold.safe is None:
                    raise StoppedByHook(f"a turn was held for a person: {waiting.verdict}")
                return _with_calls(node.message, (self._hold.safe,))


def _planned(call: ToolCall) -> PlannedCall:
    return PlannedCall(name=call.name, arguments=call.arguments)


def _with_calls(message: Message, calls: tuple[PlannedCall, ...]) -> Message:
    """The message with these calls instead of its own; they keep the ids as far as there are as many."""
    ids = [call.id for call in message.calls]
    made = [
        ToolCall(id=ids[place] if place < len(ids) else f"{ids[0]}-{place}", name=call.name, arguments=call.arguments)
        for place, call in enumerate(calls)
    ]
    said = [part for part in message.parts if not isinstance(part, ToolCall)]
    return msgspec.structs.replace(message, parts=(*said, *made))
