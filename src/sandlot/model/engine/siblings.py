"""What siblings have written, to guess how a request goes on.

Siblings are requests whose prompts begin with the same first prompt: the rollouts of a group, with all of their turns. After
every 8, 4 and 2 tokens in a row that one of them wrote or read, a group remembers the token that followed. One token is kept for
each such run, by vote: an equal one adds a vote, another one takes a vote away, and takes the place when none is left. A guess
follows the longest run that is known. A wrong guess costs time, never correctness: guesses are checked.
"""

from array import array
from dataclasses import dataclass
from typing import Literal

Speculate = Literal["off", "siblings"]
"""Whether tokens are guessed, to be checked several at once. `siblings`: from what siblings have written."""

WIDTHS = (32, 16, 8)
"""Bytes of the runs, the longest first: 8, 4 and 2 tokens of 4 bytes."""
LONGEST = WIDTHS[0] // 4
MOST_VOTES = 8
NUM_KINDS = len(WIDTHS) * MOST_VOTES
MAX_RUNS = 2**18
"""Runs that are kept in all groups: about 35 MB."""
_MAX_SESSIONS = 4096


@dataclass(frozen=True, slots=True)
class Guess:
    """The tokens that may follow, the next one first."""

    tokens: list[int]
    kinds: list[int]
    """How each was found, below `NUM_KINDS`: by the length of the run and its votes. Each kind has its own rate of acceptance."""


class Siblings:
    """The groups of an engine, by their first prompts. The group that was used longest ago is forgotten first."""

    def __init__(self, max_runs: int = MAX_RUNS) -> None:
        self._max_runs = max_runs
        self._groups: dict[bytes, dict[bytes, int]] = {}
        """Of each group, after each run: `token * 16 + votes`."""
        self._learned: dict[str, int] = {}
        """How many bytes of a session have been learned."""
        self.num_runs = 0

    def join(self, prompt: bytes, session: str = "") -> bytes:
        """The group of a prompt, given by its first prompt; learns what is new in the prompt."""
        if prompt in self._groups:
            root = prompt
        else:
            root = max((root for root in self._groups if prompt.startswith(root)), key=len, default=b"")
        learned = max(self._learned.get(session, 0) if session else 0, len(root))
        if not root:
            root, learned = prompt, 0
        self.learn(root, prompt[max(learned - WIDTHS[0], 0) :], (len(prompt) - learned) // 4, session)
        self._remember(session, len(prompt))
        return root

    def learn(self, root: bytes, spelled: bytes, num_new: int, session: str = "") -> None:
        """Learn the last `num_new` tokens of these, in which at least `LONGEST` tokens stand before them if there are as many."""
        runs = self._groups.pop(root, None)
        self._groups[root] = runs = {} if runs is None else runs  # last, as the newest
        before = len(runs)
        tokens = array("i", spelled)
        for index in range(max(len(tokens) - num_new, 0), len(tokens)):
            token, end = tokens[index], index * 4
            for width in WIDTHS:
                if width <= end:
                    run = spelled[end - width : end]
                    runs[run] = _voted(runs.get(run), token)
        self.num_runs += len(runs) - before
        if session in self._learned:
            self._learned[session] += 4 * num_new
        while self.num_runs > self._max_runs:
            self.num_runs -= len(self._groups.pop(next(iter(self._groups))))

    def guess(self, root: bytes, spelled: bytes, most: int) -> Guess:
        """Up to `most` tokens that may follow the last ones of a sequence."""
        guess = Guess([], [])
        runs = self._groups.get(root)
        if not runs:
            return guess
        known = spelled[-WIDTHS[0] :]
        for _ in range(most):
            for number, width in enumerate(WIDTHS):
                if len(known) >= width and (found := runs.get(known[-width:])) is not None:
                    token = found >> 4
                    guess.tokens.append(token)
                    guess.kinds.append(number * MOST_VOTES + (found & 15) - 1)
                    known = known[-WIDTHS[0] + 4 :] + token.to_bytes(4, "little")
                    break
            else:
                break
        return guess

    def _remember(self, session: str, learned: int) -> None:
        if session:
            self._learned.pop(session, None)
            self._learned[session] = learned
            if len(self._learned) > _MAX_SESSIONS:
                del self._learned[next(iter(self._learned))]


def _voted(found: int | None, token: int) -> int:
    """A run's entry after this token has followed it."""
    if found is None:
        return token << 4 | 1
    votes = found & 15
    if found >> 4 == token:
        return found + (votes < MOST_VOTES)
    return found - 1 if votes > 1 else token << 4 | 1
