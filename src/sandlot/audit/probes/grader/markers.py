"""The grader's own words in an answer.

Words that earn marks by themselves, forbidden words spelled otherwise, and texts on which its patterns take for ever.
`literals.py` reads the words from its code. Only what grading then does with them counts.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity
from sandlot.audit.probes.grader.asking import (
    NONSENSE,
    GradedAnswer,
    Question,
    SolvedTask,
    answer_finding,
    ask,
    find_solved_tasks,
    find_targets,
    keep_reproducible,
    needs_golden,
)
from sandlot.audit.probes.grader.forms import find_forms, has_full_marks, value_of
from sandlot.audit.probes.grader.inside import constant_hits
from sandlot.audit.probes.grader.literals import example_of, literals_in, patterns_in
from sandlot.audit.probes.grader.programs import program_in
from sandlot.audit.probes.static.code import read_code
from sandlot.audit.reason import Reason, ReasonKind
from sandlot.core.groups import group_by_key

_TASKS = 8
_LONG = 30_000


async def _look_at_markers(case: Case) -> list[Finding]:
    """The grader's own words earn nothing by themselves."""
    some = [
        target for target in await find_solved_tasks(case, _TASKS, answers=60) if target.golden.passed and target.reads_answer
    ]
    some = [target for target in some if not case.may_idle(target.task)]
    code = read_code(case)
    words, patterns = literals_in(code), patterns_in(code)
    if len(some) < 2 or not words + patterns:
        return []
    forms = [form for form in await find_forms(case, some) if form.before][:1]
    texts = dict.fromkeys(
        each for word in words for each in (word, f"{word} {NONSENSE}", *(form.holding(word) for form in forms))
    )
    texts |= dict.fromkeys(example_of(pattern, filler) for pattern in patterns for filler in (NONSENSE, "", "1"))
    texts |= dict.fromkeys([" ".join(words), "\n".join(words)])
    graded = await ask(
        case, [Question(target, "marker", text, solved=False) for text in texts if text.strip() for target in some]
    )
    found = [
        hits
        for each in group_by_key((one.question.answer, one) for one in graded).values()
        if (hits := constant_hits(case, each, tests=len(texts)))
    ]
    if not found:
        return []
    best = max(found, key=lambda hits: (len(hits.graded), -len(hits.graded[0].question.answer)))
    kept = await keep_reproducible(case, best.graded)
    if not kept:
        return []
    most = max(one.reward or 0.0 for one in kept)
    return [
        answer_finding(
            "D02.marker",
            f"words that the grader's code names earn up to {most:g} by themselves, on {len(kept)} of {len(some)} tasks",
            kept,
            expected=f"a reward of at most {case.floor:g}",
            severity=Severity.HIGH,
            fix="grade the result itself; words that anybody can write prove nothing",
            reason_of=lambda _one: best.reason,
        )
    ]


_LONGEST_WORD = 30


# -- forbidden words -----------------------------------------------------------------------------------------------------------


async def _look_at_forbidden(case: Case) -> list[Finding]:
    """A forbidden word stays forbidden in another spelling."""
    some = [target for target in await find_solved_tasks(case, 4, answers=60) if target.golden.passed and target.reads_answer]
    words = [word for word in literals_in(read_code(case)) if _is_wordlike(word)]
    wanted = [(target, word, word) for target in some for word in words]
    wanted += [(target, _OF_THE_ROW, word) for target in some for word in _named_in_row(target)]
    pairs = [(target, name, word, other) for target, name, word in wanted for other in _respelled(word)]
    control = await ask(
        case, [Question(target, "control", text, solved=True) for target in some for text in _beside(target, "zvqx")]
    )
    lenient = {one.question.target.task.id for one in control} - {
        one.question.target.task.id for one in control if not has_full_marks(one)
    }
    pairs = [pair for pair in pairs if pair[0].task.id in lenient]
    questions = [
        Question(target, text, answer, solved=True)
        for target, _name, word, other in pairs
        for text in (word, other)
        for answer in _beside(target, text)
    ]
    graded = iter(await ask(case, questions))
    evaded: list[tuple[str, str, GradedAnswer]] = []
    for _target, name, _word, other in pairs:
        refused, passed = [next(graded), next(graded)], [next(graded), next(graded)]
        if all(one.reward is not None and not has_full_marks(one) for one in refused) and all(map(has_full_marks, passed)):
            evaded.append((name, other, passed[0]))
    often = Counter(word for word, _, _ in evaded)
    if not evaded or max(often.values()) < min(2, len(some)):
        return []
    word = max(often, key=lambda each: (often[each], each))
    hits = [(other, one) for each, other, one in evaded if each == word]
    others = {id(one): other for other, one in hits}

    def reason_of(one: GradedAnswer) -> Reason:
        why = f"golden with {_shown(word)} beside it loses, and with `{others[id(one)]}`, which is the same, it does not"
        return Reason(kind=ReasonKind.REFUSED, why=why)

    return [
        answer_finding(
            "D02.denylist",
            f"{_shown(word)} is refused in an answer, and in another spelling it is not",
            [one for _, one in hits],
            expected="the score of the answer with the forbidden word",
            severity=Severity.HIGH,
            fix="compare without case and space, or better: allow what is right instead of refusing what is wrong",
            reason_of=reason_of,
        )
    ]


def _beside(target: SolvedTask, word: str) -> tuple[str, str]:
    """The golden answer with a word after it, and before it; in a program, as a line that does nothing."""
    if program_in(value_of(target)) is not None:
        line = word if word.startswith(("import ", "from ")) else f"# {word}"
        return f"{target.answer}\n{line}\n", f"{line}\n{target.answer}"
    return f"{target.answer} {word}", f"{word} {target.answer}"


def _is_wordlike(word: str) -> bool:
    return len(word.strip()) >= 4 and word[0].isalpha() and all(letter.isalnum() or letter in " _-.'" for letter in word)


def _respelled(word: str) -> Iterator[str]:
    """The same in other spellings."""
    if " " in word.strip():
        yield word.strip().replace(" ", "  ")
    if not word.startswith(("import ", "from ")):
        yield from (other for other in (word.upper(), word.capitalize(), word.lower()) if other != word)
    if word.isalpha():
        yield from (f"{word},", f"{word}.", f"({word})")


_OF_THE_ROW = ""
"""Stands for the word that each task's row names."""


def _shown(word: str) -> str:
    return f"`{word}`" if word else "the word that the task names"


def _named_in_row(target: SolvedTask) -> list[str]:
    """Single words of the task's data that its prompt shows and golden does not have: they may be forbidden."""
    values = {str(value) for value in target.task.data.values() if isinstance(value, str) and value.isalpha()}
    return sorted(
        word for word in values if 2 < len(word) < _LONGEST_WORD and word in target.prompt and word not in target.answer
    )


# -- patterns ------------------------------------------------------------------------------------------------------------------


async def _look_at_pumped(case: Case) -> list[Finding]:
    """Long repetitive answers are graded in time."""
    some = (await find_targets(case, 1))[:1]
    patterns = patterns_in(read_code(case))
    texts = dict.fromkeys(text for pattern in patterns for text in _pumped(pattern))
    graded = await ask(case, [Question(target, "pumped", text, solved=True) for target in some for text in texts])
    slow = [
        one
        for one in graded
        if (one.trial.lost and one.trial.lost.kind == "hung") or (one.trial.failed and one.trial.failed.kind == "timeout")
    ]
    if not slow:
        return []
    return [
        answer_finding(
            "D09.pattern",
            f"a long repetitive answer makes the grader hang: a pattern tries too many ways ({len(slow)} of {len(graded)} tried)",
            slow,
            expected="a score in time",
            severity=Severity.HIGH,
            fix="limit the length of what is searched, and avoid nested repetition in patterns",
        )
    ]


def _pumped(pattern: str) -> Sequence[str]:
    """Texts that begin to match and end otherwise."""
    whole = example_of(pattern, "a")
    opening = example_of(pattern, "\0").partition("\0")[0] or whole[:1]
    letters = dict.fromkeys((*whole[:1], "a", "1", " "))
    starts = [opening * (_LONG // max(1, len(opening)) // 4), *(f"{opening}{letter * _LONG}!" for letter in letters)]
    return [text for text in starts if text.strip("!")]


def _has_code(case: Case) -> str | None:
    return needs_golden(case) or _has_sources(case)


def _has_sources(case: Case) -> str | None:
    return None if any(path.endswith(".py") for path in case.description.sources) else "no Python sources were given"


PROBES = (
    Probe("own-words", Layer.GRADER, ("D02",), _look_at_markers, _has_code),
    Probe("forbidden-words", Layer.GRADER, ("D02",), _look_at_forbidden, _has_code),
    Probe("long-repetition", Layer.GRADER, ("D09",), _look_at_pumped, _has_sources, without_golden=True),
)
