"""What siblings have written, to guess how a request goes on.

Siblings are requests with the same first prompt: the rollouts of a group, with all of their turns. A later turn is known by its
session, or because its prompt continues a completion of the group. After every 8, 4 and 2 tokens in a row that one of them wrote
or read, a group remembers the token that followed. One token is kept for each such run, by vote: an equal one adds a vote,
another one takes a vote away, and takes the place when none is left. A guess follows the longest run that is known. A wrong guess
costs time, never correctness: guesses are checked.
"""

from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Literal, TypeVar

Speculate = Literal["off", "siblings"]
"""Whether tokens are guessed, to be checked several at once. `siblings`: from what siblings have written."""

WIDTHS = (32, 16, 8)
"""Bytes of the runs, the longest first: 8, 4 and 2 tokens of 4 bytes."""
LONGEST = WIDTHS[0] // 4
MOST_VOTES = 8
NUM_KINDS = len(WIDTHS) * MOST_VOTES
MAX_RUNS = 2**18
"""Runs that are kept in all groups: about 35 MB."""
_MAX_NAMES = 2048
"""Groups, texts and sessions that are remembered by name, each."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Guess:
    """The tokens that may follow, the next one first."""

    tokens: list[int]
    kinds: list[int]
    """How each was found, below `NUM_KINDS`: by the length of the run and its votes. Each kind has its own rate of acceptance."""


@dataclass(slots=True, eq=False)
class _Group:
    """What the requests with one first prompt have written."""

    name: bytes
    """The digest of the first prompt."""
    width: int
    """Bytes of the first prompt."""
    runs: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """After each run: `token * 16 + votes`. The run that was written longest ago is first."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A prompt, or one with its completion, all of which a group has learned."""

    group: _Group
    is_completion: bool


class Siblings:
    """The groups of an engine.

    If they have too many runs, groups that are not in use are forgotten first, of these the one that was used longest ago. If all
    are in use, the largest forgets the older half of its runs.
    """

    def __init__(self, in_use: Callable[[], Collection[bytes]] = tuple, max_runs: int = MAX_RUNS) -> None:
        """`in_use` names the groups of unfinished requests."""
        self._in_use = in_use
        self._max_runs = max_runs
        self._groups: dict[bytes, _Group] = {}
        """By name; the one that was used last is last."""
        self._texts: dict[tuple[int, bytes], _Text] = {}
        """What was learned, by width and digest."""
        self._sessions: dict[str, _Group] = {}
        self.num_runs = 0

    def join(self, prompt: bytes, session: str = "") -> bytes:
        """The name of a prompt's group; learns what is new in the prompt."""
        texts = self._beginnings(prompt)
        found = self._group_of(prompt, session, texts)
        group, learned = self._groups.get(found.name), 0
        if group is None:  # it is new, or was forgotten and begins anew under its old name
            group = self._groups[found.name] = _Group(found.name, found.width)
        else:
            learned = max((width for width, text in texts if text.group is group), default=group.width)
        if learned < len(prompt):
            self.learn(group.name, prompt[max(learned - WIDTHS[0], 0) :], (len(prompt) - learned) // 4)
            _put_last(self._texts, (len(prompt), _digest(prompt)), _Text(group, is_completion=False))
        if session:
            _put_last(self._sessions, session, group)
        return group.name

    def learn(self, name: bytes, spelled: bytes, num_new: int) -> None:
        """Learn the last `num_new` tokens of these, in which at least `LONGEST` tokens stand before them if there are as many."""
        group = self._groups.pop(name, None)
        if group is None:
            return  # its last request has ended in this pass, and others needed the room
        self._groups[name] = group
        runs, before = group.runs, len(group.runs)
        tokens = array("i", spelled)
        for index in range(max(len(tokens) - num_new, 0), len(tokens)):
            token, end = tokens[index], index * 4
            for width in WIDTHS:
                if width <= end:
                    run = spelled[end - width : end]
                    runs[run] = _voted(runs.pop(run, None), token)
        self.num_runs += len(runs) - before
        if self.num_runs > self._max_runs or len(self._groups) > _MAX_NAMES:
            self._make_room(group)

    def end(self, name: bytes, text: bytes) -> None:
        """A request has ended with this text, prompt and completion, which its group has learned; its next turn continues it."""
        if (group := self._groups.get(name)) is not None:
            _put_last(self._texts, (len(text), _digest(text)), _Text(group, is_completion=True))

    def guess(
        self, name: bytes, spelled: bytes, most: int, rates: Sequence[float] = (1.0,) * NUM_KINDS, least: float = 0.0
    ) -> Guess:
        """Up to `most` tokens that may follow the last ones of a sequence.

        There are fewer if the chance that all are right, by the rate of each kind, would fall below `least`.
        """
        guess = Guess([], [])
        if (group := self._groups.get(name)) is None:
            return guess
        runs = group.runs
        known, chance = spelled[-WIDTHS[0] :], 1.0
        for _ in range(most):
            for number, width in enumerate(WIDTHS):
                if len(known) >= width and (found := runs.get(known[-width:])) is not None:
                    token, kind = found >> 4, number * MOST_VOTES + (found & 15) - 1
                    chance *= rates[kind]
                    if chance < least:
                        return guess
                    guess.tokens.append(token)
                    guess.kinds.append(kind)
                    known = known[-WIDTHS[0] + 4 :] + token.to_bytes(4, "little")
                    break
            else:
                break
        return guess

    def _group_of(self, prompt: bytes, session: str, texts: list[tuple[int, _Text]]) -> _Group:
        """The group of a prompt that begins with these texts; not one whose prompt merely begins the same."""
        group = self._sessions.get(session) if session else None
        if group is None or _digest(prompt[: group.width]) != group.name:
            name = _digest(prompt)
            continued = (text.group for _, text in reversed(texts) if text.is_completion)
            group = self._groups.get(name) or next(continued, None) or _Group(name, len(prompt))
        return group

    def _beginnings(self, prompt: bytes) -> list[tuple[int, _Text]]:
        """The known texts with which a prompt begins, by width, the shortest first."""
        found: list[tuple[int, _Text]] = []
        digest, at = blake2b(digest_size=16), 0
        for width in sorted({width for width, _ in self._texts if width <= len(prompt)}):
            digest.update(prompt[at:width])
            at = width
            if (text := self._texts.get((width, digest.digest()))) is not None:
                found.append((width, text))
        return found

    def _make_room(self, learning: _Group) -> None:
        """Forget groups that are not in use, then older runs, until the rest is few enough."""
        in_use = {learning.name, *self._in_use()}
        for group in [group for group in self._groups.values() if group.name not in in_use]:
            if self.num_runs <= self._max_runs and len(self._groups) <= _MAX_NAMES:
                return
            del self._groups[group.name]
            self.num_runs -= len(group.runs)
            group.runs = {}  # texts and sessions still point to it
        while self.num_runs > self._max_runs:
            largest = max(self._groups.values(), key=lambda group: len(group.runs))
            dropped = (len(largest.runs) + 1) // 2
            largest.runs = dict(islice(largest.runs.items(), dropped, None))
            self.num_runs -= dropped


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def _put_last(names: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Set an entry and make it the last; the first goes if there are too many."""
    names.pop(key, None)
    names[key] = value
    if len(names) > _MAX_NAMES:
        del names[next(iter(names))]


def _voted(found: int | None, token: int) -> int:
    """A run's entry after this token has followed it."""
    if found is None:
        return token << 4 | 1
    votes = found & 15
    if found >> 4 == token:
        return found + (votes < MOST_VOTES)
    return found - 1 if votes > 1 else token << 4 | 1
