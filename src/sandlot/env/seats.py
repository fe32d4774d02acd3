"""Seats at play: who of several agents acts when, on the clock that they share.

A round is one turn of every seat that still plays. In turn, a seat looks at the world when those before it have acted. At once,
all look at the same world; their actions take effect when all have decided, in the order of the seats. Waiting for others does
not count against a seat's time. A seat that has ended does not hold the others up.
"""

from collections.abc import Awaitable, Callable, Sequence

import anyio

from sandlot.core.concurrency import author
from sandlot.core.concurrency.clock import SYSTEM_CLOCK, deadline, pause_limits
from sandlot.core.errors import AuthorError, ConfigError
from sandlot.core.limits import Limits
from sandlot.core.ports.session import Step
from sandlot.core.ports.world import ToolSpec
from sandlot.core.rubric import Rubric, RubricScore
from sandlot.core.seats import Order
from sandlot.core.trace import Message
from sandlot.core.types import End
from sandlot.env.declaration import Declaration
from sandlot.env.session import WorldSession
from sandlot.grade.rules import possible_points
from sandlot.grade.score import score_of


class Rounds:
    """The shared clock: rounds, and who has still to act in this one."""

    def __init__(
        self, seats: Sequence[str], order: Order, settle: Callable[[int], Awaitable[None]], is_over: Callable[[], bool]
    ) -> None:
        """`settle` is called with the number of each round when all have acted; `is_over`: the world has ended for everyone."""
        self._order = order
        self._settle = settle
        self._is_over = is_over
        self._playing = list(seats)
        self._to_act = list(seats)
        self._decided: set[str] = set()
        self._over = is_over()  # setup may have ended it
        self._number = 1
        self._changed = anyio.Event()

    async def wait_to_look(self, seat: str) -> End | None:
        """Wait until the seat is to decide on its next action; the end if there is none."""
        await self._wait(lambda: self._over or (self._is_next(seat) if self._order == "in turn" else seat in self._to_act))
        return End.DONE if self._over else None

    async def wait_to_act(self, seat: str) -> None:
        """Wait until the seat's action may take effect: at once, when everyone has decided and those before it have acted."""
        self._decided.add(seat)
        self._notify()
        await self._wait(lambda: self._is_next(seat) and (self._order == "in turn" or self._decided >= set(self._to_act)))

    async def acted(self, seat: str) -> None:
        """Note that a seat has acted."""
        await self._go_on_after(seat)

    async def leave(self, seat: str) -> None:
        """Note that a seat takes no more turns."""
        self._playing.remove(seat)
        if seat in self._to_act:
            await self._go_on_after(seat)

    def _is_next(self, seat: str) -> bool:
        return self._to_act[:1] == [seat]

    async def _go_on_after(self, seat: str) -> None:
        """End the round if all have acted, or if the seat has ended the world in its turn; then begin the next one."""
        ends_it = self._order == "in turn" and self._is_next(seat) and self._is_over()
        self._to_act.remove(seat)
        if not self._over and (ends_it or not self._to_act):
            self._to_act = []  # nobody acts while the round ends
            with anyio.CancelScope(shield=True):  # the time of the seat that acted last may be up; the others wait for this
                await self._settle(self._number)
            self._number += 1
            self._decided.clear()
            self._over = self._is_over()
            self._to_act = list(self._playing)
        self._notify()

    async def _wait(self, until: Callable[[], bool]) -> None:
        with pause_limits():
            while not until():
                await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class SeatSession:
    """The `Session` of one seat: that of its world, in its place on the clock."""

    def __init__(self, seat: str, session: WorldSession, rounds: Rounds) -> None:
        self.seat = seat
        self.waited_s = 0.0
        """Seconds of its steps in which it waited for the others."""
        self._session = session
        self._rounds = rounds

    @property
    def limits(self) -> Limits:
        """The limits of this seat."""
        return self._session.limits

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the seat may call."""
        return self._session.tools

    async def reset(self) -> Step:
        """The opening messages, when the seat is to act for the first time."""
        end = await self._rounds.wait_to_look(self.seat)
        opening = await self._session.reset()
        return Step(messages=opening.messages, events=opening.events, end=end)

    async def step(self, action: Message, *, num_tokens: int = 0) -> Step:
        """Process one message of the seat, and return what it sees when it is to act again."""
        started_s = SYSTEM_CLOCK.monotonic()
        await self._rounds.wait_to_act(self.seat)
        acting_s = SYSTEM_CLOCK.monotonic()
        step = await self._session.step(action, num_tokens=num_tokens)
        acted_s = SYSTEM_CLOCK.monotonic()
        self.waited_s += acting_s - started_s
        if step.end is not None:
            return step  # `leave` follows
        await self._rounds.acted(self.seat)
        end = await self._rounds.wait_to_look(self.seat)
        self.waited_s += SYSTEM_CLOCK.monotonic() - acted_s
        return await self._session.hear(step, end)

    async def render(self) -> str:
        """The seat's conversation so far."""
        return await self._session.render()

    async def leave(self) -> None:
        """Let the others go on without this seat."""
        await self._rounds.leave(self.seat)


def open_seats(env: Declaration, session: WorldSession) -> list[SeatSession]:
    """A session for every seat, all in the world of `session` and on one clock."""
    world, limits = session.world, session.limits

    async def settle(number: int) -> None:
        if env.marked.round is not None:
            what = f"the end of round {number} of task `{session.task.id}`"
            try:
                with pause_limits(), deadline(limits.tool_s, AuthorError, what):
                    await author.call(env.marked.round, world, number)
            except (AuthorError, ConfigError) as error:
                session.note_crash("@env.round", error)

    rounds = Rounds([seat.name for seat in env.seats], env.order, settle, lambda: world.ended)
    return [SeatSession(seat.name, session.for_seat(seat), rounds) for seat in env.seats]


def seat_scores(env: Declaration, rubric: Rubric, score: RubricScore, penalties: dict[str, float]) -> dict[str, RubricScore]:
    """Every seat's own score, from the results of the rollout's checks: those of the seat, and those of no seat in particular."""
    results = {check.id: check for check in score.checks}
    found: dict[str, RubricScore] = {}
    for seat in env.seats:
        own = rubric_of_seat(rubric, seat.name)
        lost = {name: points for name, points in penalties.items() if name.startswith(f"{seat.name}/")}
        found[seat.name] = score_of(own, results, lost)
    return found


def rubric_of_seat(rubric: Rubric, seat: str) -> Rubric:
    """The part of a rubric that counts for one seat."""
    checks = tuple(check for check in rubric.checks if check.seat in {"", seat})
    known = {check.id for check in checks}
    groups = tuple(
        type(group)(id=group.id, cap=group.cap, checks=kept)
        for group in rubric.groups
        if (kept := tuple(name for name in group.checks if name in known))
    )
    return Rubric(checks=checks, groups=groups, clip=rubric.clip)


def require_playable(env: Declaration) -> None:
    """`ConfigError` if seats are declared that cannot be played or graded, or something is declared for seats there are not."""
    place, names = f"environment `{env.name}`", [seat.name for seat in env.seats]
    named = {check.seat for rubric in _rubrics(env) for check in rubric.checks} - {""}
    unknown = sorted(named - set(names))
    if unknown:
        raise ConfigError(f"{place}: a check counts for seat `{unknown[0]}`; its seats: {', '.join(names) or 'none'}")
    if not names:
        if env.marked.round is not None:
            raise ConfigError(f"{place} marks `@env.round` and has no seats; name them, `Environment(..., seats=[...])`")
        return
    if env.marked.is_played:
        raise ConfigError(f"{place} has seats, and a persona or colleagues that a model plays; make those seats too")
    if env.marked.grade is not None:
        raise ConfigError(f"{place} has seats, and is graded by one function; mark checks with `@env.check(points=1, seat=...)`")
    tools = {tool.spec.name for tool in env.tools}
    for seat in env.seats:
        missing = [name for name in seat.tools or () if name not in tools]
        if missing and not env.marked.sources:
            raise ConfigError(
                f"{place}: seat `{seat.name}` lists the tool `{missing[0]}`, which does not exist; "
                f"tools: {', '.join(sorted(tools)) or 'none'}"
            )
        if any(possible_points(rubric_of_seat(rubric, seat.name)) <= 0 for rubric in _rubrics(env)):
            raise ConfigError(
                f"{place}: no check gives seat `{seat.name}` points; mark one with `seat={seat.name!r}`, or with none"
            )


def _rubrics(env: Declaration) -> list[Rubric]:
    return [*env.marked.rubrics.values(), *([Rubric(checks=tuple(env.marked.checks))] if env.marked.checks else [])]
