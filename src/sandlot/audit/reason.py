"""Why an answer that scores is wrong.

A finding that says "a wrong answer scores" is confirmed only with a reason of a stated kind. An answer that merely differs from
golden may be right: other words, another option's text beside the same letter, a guess that hits by chance.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from sandlot.audit.statement import contradiction, leaves_out
from sandlot.core.stats.intervals import beta_cdf
from sandlot.core.types import Json

ERROR_RATE = 0.01
"""How often chance may pass for a defect, over all answers that one test tries."""


class ReasonKind(StrEnum):
    """The kinds of reasons why an answer, or work, is wrong."""

    DECLARED = "is declared wrong by the author"
    """The author's adversary, or another declaration."""
    LEAVES_OUT = "leaves out what golden states"
    """Nothing of what golden's answer says, or of what golden's work changed."""
    CONTRADICTS = "contradicts what golden states"
    """Another value in its place, or several where golden states one."""
    BEYOND_CHANCE = "is right more often than chance allows"
    """One answer for tasks with different keys; the reason has the numbers of the test."""
    REFUSED = "is refused by an independent check"
    """The same content loses where only something beside the point differs, or where golden's own check decides."""
    RELATION = "breaks a relation that the author declared"
    """What should be equal, or differ, and does not."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One reason."""

    kind: ReasonKind
    why: str
    """One sentence with the values."""

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.why}"


def declared(why: str) -> Reason:
    """The author declared it."""
    return Reason(kind=ReasonKind.DECLARED, why=why)


def omission(answer: str, golden: str, key: Json | None = None) -> Reason | None:
    """The answer leaves out what golden states; None if it may state it."""
    missing = leaves_out(answer, golden, key)
    return None if missing is None else Reason(kind=ReasonKind.LEAVES_OUT, why=f"golden states `{missing}`, and it does not")


def difference(answer: str, golden: str) -> Reason | None:
    """The answer has golden's form and says something else; None if it says the same."""
    how = contradiction(answer, golden)
    return None if how is None else Reason(kind=ReasonKind.CONTRADICTS, why=how)


def beyond_chance(right: int, tried: int, *, options: int, keys: Sequence[str], tests: int = 1) -> Reason | None:
    """One answer is right for more tasks than chance and the most frequent of their `keys` allow; None if it may be luck.

    `options` is the number of answers that a task offers, `keys` what golden states on each task tried, and `tests` the number
    of answers that were tried, among which this one was chosen.
    """
    if not tried or len(set(keys)) < 2:
        return None
    most = max(keys.count(key) for key in set(keys))
    share = max(1 / options if options else 1.0, most / tried)
    if right <= most or share >= 1:
        return None
    luck = beta_cdf(share, right, tried - right + 1)  # at least as many right
    if luck * tests > ERROR_RATE:
        return None
    why = (
        f"right for {right} of {tried} tasks with {len(set(keys))} different keys, the most frequent on {most}; "
        f"chance allows {share:.0%} (p = {luck:.1g}, {tests} tried)"
    )
    return Reason(kind=ReasonKind.BEYOND_CHANCE, why=why)
