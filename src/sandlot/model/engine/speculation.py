"""Speculative decoding: several tokens of a sequence are guessed and computed in one pass, and those that are right are kept.

A guess is right if it is the token that is sampled at its place, with the number that its seed and position give. So the tokens
are those of ordinary decoding, not only their distribution. The first wrong guess is replaced by what was sampled there, and
everything after it is dropped. This holds up to rounding: a pass with other guesses may round otherwise, and how many there are
depends on measured time, so log-probabilities are not bit-equal from run to run.

How many are guessed is chosen for every pass: as many as give most tokens per second, by the measured rates of acceptance and the
measured time of passes. If guesses do not pay, none are made until what was measured is outdated. Guesses prevent that passes are
launched ahead, so where these could be, guesses that do not pay *rest*: for some passes nothing is looked for.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from operator import mul

import numpy as np

from sandlot.model.engine.request import Sequence
from sandlot.model.engine.scheduler import Scheduler, StepPlan
from sandlot.model.engine.seats import Rows
from sandlot.model.engine.siblings import LONGEST, NUM_KINDS, Guess, Siblings
from sandlot.model.engine.tree import ID_BYTES

MAX_GUESSED = 15
"""Tokens that are guessed for one sequence in one pass, at most. With the one before them they fill a tile of a GPU's kernel."""
_GUESSED_PER_SEAT = 4
"""Tokens that are guessed in one pass, at most, for each seat of the engine: each needs logits of the whole vocabulary."""
_PATIENCE, _REST = 4, 60
"""After so many passes in a row without a guess, none is looked for in so many, if passes can be launched ahead instead."""
_LEAST = 0.05
"""Guesses that are less likely to be reached and right are not considered."""


class Speculation:
    """Guesses for the decoding sequences of an engine."""

    def __init__(self, scheduler: Scheduler, clock: Callable[[], float], *, may_rest: bool = False) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._siblings = Siblings(self._groups_in_use)
        self._rates = AcceptanceRates()
        self._time = PassTime()
        self._most = max(_GUESSED_PER_SEAT * len(scheduler.seats.taken), MAX_GUESSED)
        self._kinds: dict[int, list[int]] = {}
        """Of each row with guesses in this pass, how they were found."""
        self._pass: tuple[float, int] | None = None
        """When the pass was begun, and its tokens, if all of it is decoding."""
        self._may_rest = may_rest
        self._in_vain = self._resting = 0
        """Passes in a row without a guess, and passes that are left of a rest."""

    @property
    def rests(self) -> bool:
        """True if the next pass has no guesses, and may be launched before the tokens of this one are known."""
        return self._resting > 0

    def rest(self) -> None:
        """A pass without guesses is begun."""
        self._resting -= 1
        self._kinds, self._pass = {}, None

    def extend(self, plan: StepPlan) -> StepPlan:
        """Add guesses to the decoding rows of a plan, after the known tokens of their seats."""
        if self.rests:
            self.rest()
            return plan
        begun = self._clock()
        rows = plan.rows[: plan.num_decoding].tolist()
        num_tokens = int(plan.counts.sum())
        rates = self._rates.current()
        guesses = [self._guess(row, rates) for row in rows]
        chances = [_chances(guess, rates) for guess in guesses]
        room = min(self._scheduler.chunk - num_tokens, self._most)
        lengths = best_lengths(chances, num_tokens, room, self._time)
        guessed = np.zeros_like(plan.counts)
        self._kinds = {}
        for index, (row, guess, length) in enumerate(zip(rows, guesses, lengths, strict=True)):
            count = self._scheduler.reserve(row, length)
            if count:
                total = int(self._scheduler.seats.totals[row])
                self._scheduler.seats.ids[row, total : total + count] = guess.tokens[:count]
                self._kinds[row] = guess.kinds[:count]
                guessed[index] = count
        counts = plan.counts + guessed
        only_decoding = plan.num_decoding == len(plan.rows)
        self._pass = (begun, int(counts.sum())) if only_decoding else None
        self._note_vain(is_vain=bool(rows) and not self._kinds)
        return replace(plan, counts=counts, guessed=guessed)

    def learn(self, rows: Rows, sequences: list[Sequence], before: Rows) -> None:
        """Learn from a pass: what these rows have since they had `before` tokens; some of them may have ended."""
        seats = self._scheduler.seats
        if self._pass is not None:
            self._time.note(self._pass[1], self._clock() - self._pass[0])
        for row, sequence, known in zip(rows.tolist(), sequences, before.tolist(), strict=True):
            total = int(seats.totals[row])
            if kinds := self._kinds.get(row):
                self._rates.note(kinds, total - known - 1, has_ended=not seats.taken[row])
                if seats.taken[row]:
                    self._scheduler.give_back(row)
            if not sequence.group:
                sequence.group = self._siblings.join(self._text(row, sequence, known), sequence.request.session)
            self._siblings.learn(sequence.group, seats.ids[row, max(known - LONGEST, 0) : total].tobytes(), total - known)
            if not seats.taken[row]:
                self._siblings.end(sequence.group, self._text(row, sequence, total))
        self._rates.age()

    def _note_vain(self, *, is_vain: bool) -> None:
        self._in_vain = self._in_vain + 1 if is_vain else 0
        if self._may_rest and self._in_vain >= _PATIENCE:
            self._in_vain, self._resting = 0, _REST

    def _guess(self, row: int, rates: list[float]) -> Guess:
        seats = self._scheduler.seats
        sequence, total = seats[row], int(seats.totals[row])
        # One more token than guessed is sampled.
        most = min(MAX_GUESSED, int(seats.ends[row]) - total - 1)
        if not sequence.group:
            sequence.group = self._siblings.join(self._text(row, sequence, total), sequence.request.session)
        last = seats.ids[row, max(total - LONGEST, 0) : total].tobytes()
        return self._siblings.guess(sequence.group, last, most, rates, _LEAST)

    def _text(self, row: int, sequence: Sequence, count: int) -> bytes:
        """The first tokens of a row, after the number of its adapter: what one adapter writes says little about another."""
        return sequence.root.to_bytes(ID_BYTES, "little") + self._scheduler.seats.ids[row, :count].tobytes()

    def _groups_in_use(self) -> set[bytes]:
        return {sequence.group for sequence in (*self._scheduler.seats, *self._scheduler.waiting)}


class AcceptanceRates:
    """How often guesses of each kind were right, in recent passes. Kinds that are not tried return to where they began."""

    _BEGIN = 0.6
    _BEGIN_WEIGHT = 4.0
    _KEEP = 0.995

    def __init__(self) -> None:
        self._right = np.zeros(NUM_KINDS)
        self._tried = np.zeros(NUM_KINDS)

    def current(self) -> list[float]:
        """The rate of each kind."""
        rates = (self._right + self._BEGIN * self._BEGIN_WEIGHT) / (self._tried + self._BEGIN_WEIGHT)
        return rates.tolist()

    def note(self, kinds: list[int], num_right: int, *, has_ended: bool) -> None:
        """The first `num_right` guesses of a row were right; the next one was wrong, unless the sequence has ended."""
        for kind in kinds[:num_right]:
            self._right[kind] += 1.0
            self._tried[kind] += 1.0
        if num_right < len(kinds) and not has_ended:
            self._tried[kinds[num_right]] += 1.0

    def age(self) -> None:
        """A pass has ended."""
        self._right *= self._KEEP
        self._tried *= self._KEEP


class PassTime:
    """The time of a pass, `fixed + each * tokens`, by least squares over recent passes.

    While all passes have the same number of tokens, the ratio of both returns to where it began, so that guesses are tried again.
    One pass that was held up counts as twice what was expected: the first of its size, or one beside other work.
    """

    _BEGIN = 0.1
    """`each / fixed` before anything is known."""
    _BEGIN_WEIGHT = 4.0
    _KEEP = 0.98

    def __init__(self) -> None:
        # Sums over passes, the recent ones counting most.
        self._passes: float = 0.0
        self._tokens: float = 0.0
        self._squares: float = 0.0
        self._seconds: float = 0.0
        self._products: float = 0.0
        self.fixed, self.each = 1.0, self._BEGIN

    def note(self, tokens: int, seconds: float) -> None:
        """A pass took so long."""
        if seconds <= 0:
            return  # a clock that stands
        if self._passes:
            seconds = min(seconds, 2 * (self.fixed + self.each * tokens))
        self._passes = self._passes * self._KEEP + 1.0
        self._tokens = self._tokens * self._KEEP + tokens
        self._squares = self._squares * self._KEEP + tokens**2
        self._seconds = self._seconds * self._KEEP + seconds
        self._products = self._products * self._KEEP + tokens * seconds
        # Least squares, with `_BEGIN_WEIGHT * (each - _BEGIN * fixed)**2` added.
        a = self._passes + self._BEGIN_WEIGHT * self._BEGIN**2
        b = self._tokens - self._BEGIN_WEIGHT * self._BEGIN
        c = self._squares + self._BEGIN_WEIGHT
        over = a * c - b * b
        self.each = max((a * self._products - b * self._seconds) / over, 0.0)
        self.fixed = max((c * self._seconds - b * self._products) / over, 0.0)

    def of(self, tokens: Rows) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The expected time of passes with so many tokens."""
        return np.maximum(self.fixed + self.each * tokens, 1e-9)


def best_lengths(chances: list[list[float]], num_tokens: int, room: int, time: PassTime) -> list[int]:
    """How many guesses of each row give most tokens per second, in a pass of `num_tokens` tokens without them.

    `chances[row]` are the chances that a guess and all before it are right; they never rise, so the likeliest ones of all rows
    are always the first ones of each.
    """
    likeliest = sorted(((chance, number) for number, row in enumerate(chances) for chance in row), reverse=True)[: max(room, 0)]
    gained = np.cumsum([0.0, *(chance for chance, _ in likeliest)])
    rates = (len(chances) + gained) / time.of(num_tokens + np.arange(len(gained)))
    lengths = [0] * len(chances)
    for _, number in likeliest[: int(np.argmax(rates))]:
        lengths[number] += 1
    return lengths


def _chances(guess: Guess, rates: list[float]) -> list[float]:
    """For each guess, the chance that it and all before it are right."""
    return list(accumulate((rates[kind] for kind in guess.kinds), mul))
