"""Checks of prose: facts that are stated, words, likeness.

No rule understands prose. What these checks can and cannot tell:

- `text_states` finds a fact as whole words, and numbers by value, so `142.50` does not state `42.50`. A fact right after a word
  such as "not" or "never" does not count. It cannot tell who a fact is said of, irony, or a denial further away.
- `text_like` measures shared words and word pairs. It cannot tell a paraphrase from another meaning, so the numbers of both texts
  must be the same, and so must the count of negations and the order of words: "Ann owes Bob" is not "Bob owes Ann".

For anything beyond that, ask a judge.
"""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from sandlot.checks.found import Said, name_of_text, shown, text_of
from sandlot.core.ports.grading import Evidence

_WORD = re.compile(r"\w+(?:[.,:/'\u2019-]\w+)*|[$\u20ac\u00a3%]")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL = re.compile(r"\d{1,300}\.\d{1,300}")
_NEGATIONS = frozenset({"not", "no", "never", "neither", "nor", "cannot", "without", "nothing"})
_REACH = 2
"""A negation this many words before a fact denies it: `not the`, `never paid`."""
_MAX_WORDS = 200_000


def text_states(
    evidence: Evidence,
    facts: Sequence[str | Sequence[str]],
    *,
    absent: Sequence[str] = (),
    at_most_words: int | None = None,
    path: str | None = None,
) -> tuple[float, str]:
    """The share of `facts` that the answer (or file) states; 0 if it states one of `absent` or is longer than `at_most_words`.

    A fact is a few words, or a list of wordings of which one is enough. Give `absent` the wrong values that an agent might add,
    and a limit on length: without both, a text with every possible value states every fact.

    >>> text_states(answer("The refund of 42.50 EUR was paid on 3 May."), ["42.50", ["3 May", "May 3"]], absent=["52.50"])
    (1.0, '2 of 2 facts are stated')
    >>> text_states(answer("We paid 142.50."), ["42.50"])
    (0.0, "0 of 1 facts are stated; missing: '42.50'")
    """
    if not facts:
        raise ValueError("`facts` is empty: every text would state all of them")
    text = text_of(evidence, path)
    missing, wrong = find_facts(text, facts, absent)
    words = len(text.split())
    if wrong:
        return 0.0, f"{name_of_text(path)} states {shown(wrong[0])}, which is wrong"
    if at_most_words is not None and words > at_most_words:
        return 0.0, f"{name_of_text(path)} has {words:,} words; at most {at_most_words:,} are allowed"
    reason = f"{len(facts) - len(missing)} of {len(facts)} facts are stated"
    return 1 - len(missing) / len(facts), reason + (f"; missing: {', '.join(map(shown, missing[:3]))}" if missing else "")


def text_like(evidence: Evidence, text: str, *, at_least: float = 0.8, path: str | None = None) -> Said:
    """The answer (or file) has nearly the words of `text`: likeness from 0 to 1, with the same numbers, negations and order.

    It suits copies, quotations and transcriptions. It does not suit summaries: see the limits above.

    >>> text_like(answer("The meeting is moved to 14:30 on Friday."), "The meeting was moved to 14:30 on Friday.", at_least=0.7)
    (True, 'likeness 0.80')
    >>> text_like(answer("The meeting is moved to 15:30 on Friday."), "The meeting is moved to 14:30 on Friday.")
    (False, "likeness 0.80, but other numbers: '15:30'")
    """
    found, wanted = words_of(text_of(evidence, path)), words_of(text)
    if not wanted:
        raise ValueError("`text` has no words")
    value = _likeness(found, wanted)
    numbers = Counter(word for word in found if any(c.isdigit() for c in word))
    numbers.subtract(word for word in wanted if any(c.isdigit() for c in word))
    other = [word for word, count in numbers.items() if count]
    if other:
        return False, f"likeness {value:.2f}, but other numbers: {shown(other[0])}"
    if _negations(found) != _negations(wanted):
        return False, f"likeness {value:.2f}, but {_negations(found)} negations, not {_negations(wanted)}"
    moved = _moved(found, wanted)
    if moved is not None:
        return False, f"likeness {value:.2f}, but in another order: {shown(moved)}"
    return value >= at_least, f"likeness {value:.2f}"


def word_count(evidence: Evidence, *, at_least: int = 1, at_most: int | None = None, path: str | None = None) -> Said:
    """The answer (or file) has this many words. Length alone is no result: let this check require another one.

    >>> word_count(answer("Paid in full."), at_most=5)
    (True, 'the answer has 3 words')
    """
    count = len(text_of(evidence, path).split())
    return at_least <= count and (at_most is None or count <= at_most), f"{name_of_text(path)} has {count:,} words"


def find_facts(text: str, facts: Sequence[str | Sequence[str]], absent: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """The facts that a text does not state, and those of `absent` that it does."""
    words = words_of(text)
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words[:_MAX_WORDS]):
        places.setdefault(word, []).append(place)
    wordings = [(fact, [fact] if isinstance(fact, str) else list(fact)) for fact in facts]
    missing = [each[0] for _, each in wordings if not any(_is_stated(words, places, words_of(one)) for one in each)]
    return missing, [fact for fact in absent if _is_stated(words, places, words_of(fact))]


def words_of(text: str) -> list[str]:
    """The words of a text, without case and punctuation; numbers by value, so `1,204.50` and `1204.5` are one word."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2212", "-").replace("\u2019", "'")
    return [_as_number(word) for word in _WORD.findall(plain)]


def _as_number(word: str) -> str:
    if _GROUPED.fullmatch(word):
        word = word.replace(",", "")
    return (word.rstrip("0").rstrip(".") if _DECIMAL.fullmatch(word) else word) or "0"


def _is_stated(words: Sequence[str], places: dict[str, list[int]], fact: Sequence[str]) -> bool:
    """True if the words of the fact stand together somewhere, and no negation stands right before."""
    if not fact:
        raise ValueError("a fact has no words")
    for place in places.get(fact[0], ()):
        if list(words[place : place + len(fact)]) == list(fact):
            before = words[max(0, place - _REACH) : place]
            if fact[0] in _NEGATIONS or not any(word in _NEGATIONS or word.endswith("n't") for word in before):
                return True
    return False


def _negations(words: Sequence[str]) -> int:
    return sum(word in _NEGATIONS or word.endswith("n't") for word in words)


def _moved(found: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The first word out of its order, among those that both texts have exactly once."""
    one, other = Counter(found), Counter(wanted)
    shared = {word for word, count in one.items() if count == other[word] == 1}
    orders = zip((word for word in found if word in shared), (word for word in wanted if word in shared), strict=True)
    return next((mine for mine, theirs in orders if mine != theirs), None)


def _likeness(found: Sequence[str], wanted: Sequence[str]) -> float:
    """Dice coefficient of words and word pairs, counted."""
    one, other = (Counter([*words, *itertools.pairwise(words)]) for words in (found[:_MAX_WORDS], wanted))
    return 2 * (one & other).total() / (one.total() + other.total()) if one else 0.0
