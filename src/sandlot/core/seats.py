"""Seats: several agents in one world, each with a conversation of its own in the rollout's trace.

While a rollout goes on, every seat has a `SeatTrace`, which is all that its harness and its policy see. At the end `join_seats`
puts them into the one trace that is stored: nothing is shared between their nodes, and round by round they stand in the order of
the seats. `seat_trace` takes one out again, with the seat's own score as its outcome, for everything that reads single agents.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.trace import Message, Node, Outcome, Scored, SeatRecord, Trace
from sandlot.core.types import End, Role

Order = Literal["in turn", "at once"]
ORDERS: tuple[Order, ...] = ("in turn", "at once")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}\Z")


class Seat(msgspec.Struct, frozen=True):
    """A place for one agent in an environment that has several.

    ```python
    from sandlot import Environment, Seat

    env = Environment("market", seats=[Seat("buyer", tools=["bid"]), Seat("seller", system="You sell tea.")])
    assert [seat.name for seat in env.seats] == ["buyer", "seller"]
    ```
    """

    name: str
    """Up to 32 letters, digits, `_` or `-`, starting with a letter."""
    system: str = ""
    """Its system prompt; empty for the environment's."""
    tools: tuple[str, ...] | list[str] | None = None
    """Names of the tools it may call; None for all."""

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ConfigError(f"seat name {self.name!r}: use up to 32 letters, digits, `_` or `-`, starting with a letter")
        if isinstance(self.tools, str):
            raise ConfigError(f'seat `{self.name}`: tools is {self.tools!r}; give a list, such as `["{self.tools}"]`')


class SeatTrace(Trace, kw_only=True):
    """The trace of one seat: its conversation as a trace of its own. It is never stored."""

    seat: str
    """The seat's name."""


def begin_seat(trace: Trace, seat: str) -> SeatTrace:
    """An empty trace for one seat of a rollout."""
    return SeatTrace(seat=seat, run=trace.run, task=trace.task, rollout=trace.rollout, seed=trace.seed, started=trace.started)


def join_seats(trace: Trace, seats: Iterable[SeatTrace]) -> None:
    """Put the seats' conversations into the rollout's trace, with the name of the seat at its turns and events."""
    seats = list(seats)
    begins = {each.seat: _rounds(each) for each in seats}
    places: dict[str, list[int]] = {each.seat: [] for each in seats}
    for number in range(max((len(rounds) for rounds in begins.values()), default=0)):
        for each in seats:
            for node in begins[each.seat][number] if number < len(begins[each.seat]) else ():
                parent = places[each.seat][node.parent] if node.parent is not None else None
                message = _spoken_by(node.message, each.seat)
                places[each.seat].append(trace.append(msgspec.structs.replace(node, parent=parent, message=message)))
    trace.seats = {each.seat: SeatRecord(nodes=tuple(places[each.seat]), end=each.end) for each in seats}
    for each in seats:
        trace.events += (msgspec.structs.replace(event, detail={**event.detail, "seat": each.seat}) for event in each.events)


def _rounds(trace: Trace) -> list[list[Node]]:
    """The nodes of a seat by round: what it was told first, then each turn with what came back."""
    rounds: list[list[Node]] = [[]]
    for node in trace.nodes:
        if node.is_turn:
            rounds.append([])
        rounds[-1].append(node)
    return rounds


def _spoken_by(message: Message, name: str) -> Message:
    return msgspec.structs.replace(message, agent=name) if message.role is Role.ASSISTANT else message


def seat_trace(trace: Trace, seat: str) -> SeatTrace:
    """One seat's conversation out of a rollout's trace, with the seat's own end and score.

    `ConfigError` if the trace has no such seat, or no score for it.

    - `trace`: the trace of a rollout in which several agents acted.
    - `seat`: the name of one of them.

    ```python
    import sandlot

    (trace,) = sandlot.run("haggle", "scripted:golden", rollouts=1)
    buyer = sandlot.seat_trace(trace, "buyer")
    assert buyer.num_turns == 1 and buyer.reward == trace.seats["buyer"].score.value
    ```
    """
    if seat not in trace.seats:
        raise ConfigError(f"the trace has no seat `{seat}`; its seats: {', '.join(trace.seats) or 'none'}")
    record = trace.seats[seat]
    own = begin_seat(trace, seat)
    place = {index: at for at, index in enumerate(record.nodes)}
    for index in record.nodes:
        node = trace.nodes[index]
        parent = place[node.parent] if node.parent is not None else None
        own.append(msgspec.structs.replace(node, parent=parent, message=_agent_again(node.message)))
    own.events = [event for event in trace.events if event.detail.get("seat", seat) == seat]
    own.end = record.end or trace.end
    own.outcome = _outcome(trace, record)
    own.evidence, own.phases = trace.evidence, trace.phases
    return own


def _agent_again(message: Message) -> Message:
    return msgspec.structs.replace(message, agent="agent") if message.role is Role.ASSISTANT else message


def _outcome(trace: Trace, record: SeatRecord) -> Outcome | None:
    """The seat's own score; a rollout that failed or was cancelled did so for every seat."""
    if not isinstance(trace.outcome, Scored):
        return trace.outcome
    if record.score is None:
        raise ConfigError(f"rollout {trace.task}/{trace.rollout} has no scores of its seats; grade it again")
    return Scored(record.score)


def joint_end(ends: Mapping[str, End]) -> End:
    """Why a rollout ended: `done` if every seat was done, else the first other end in the order of the seats."""
    return next((end for end in ends.values() if end is not End.DONE), End.DONE)
