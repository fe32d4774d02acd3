r"""Checks of answers in mathematics: numbers, formulas, sets, tuples, intervals, equations, multiple choice.

An answer is read by a small safe grammar (`formulas.py`) in plain text or LaTeX, and compared by value (`evaluation.py` states
with what certainty). `1/2`, `0.5`, `50%` and `\frac{1}{2}` are equal; `0.33` and `1/3` are not, unless a tolerance is given.
"""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import cast

from sandlot.checks.answers import final_text
from sandlot.checks.evaluation import equal_formulas, names_of
from sandlot.checks.formulas import NotFormulaError, Tree, read_formula
from sandlot.checks.found import Said, name_of_text, shown
from sandlot.checks.numerals import exact, plain_number
from sandlot.core.ports.grading import Evidence

_WORDS = re.compile(r"\s*(?:\\(?:text|mathrm|textbf|mbox)\s*\{)?\s*([A-Za-z][A-Za-z' -]*[A-Za-z])\s*\}?\s*\.?\s*")
_BOTH = r"\\pm(?![A-Za-z])|\u00b1"
_MAX_ITEMS = 200
_ZERO: Tree = ("number", Fraction(0))
_OPEN = {"<": "(", "<=": "[", ">": ")", ">=": "]"}


def math_equals(
    evidence: Evidence, value: str, *, tolerance: float = 0.0, ordered: bool = False, path: str | None = None
) -> Said:
    r"""The final answer (or file) is mathematically equal to `value`.

    - `value`: a formula, a set `{1, 2}`, a tuple `(1, 2)`, an interval `[0, 1)`, a union, an equation, an inequality, a list.
    - `tolerance`: the allowed difference of numbers, as a share of the expected one.
    - `ordered`: a list without brackets must be in the order of `value`. Sets never are, tuples always.

    The final answer is the content of `\boxed{}`, or what follows `Answer:`, or else the whole of a message of one line. Two
    different final answers are refused.

    >>> math_equals(answer("Therefore the answer is:\n\\boxed{\\frac{x+1}{2}}"), "(1 + x)/2")
    (True, 'the answer is \\frac{x+1}{2}')
    >>> math_equals(answer("{3, 1, 2}"), "{1, 2, 3}"), math_equals(answer("0.33"), "1/3")
    ((True, 'the answer is {3, 1, 2}'), (False, 'the answer is 0.33'))
    """
    text = final_text(evidence, path)
    met, why = same_math(text, value, tolerance=tolerance, ordered=ordered)
    return met, f"{name_of_text(path)} is {' '.join(text.split())[:120]}" + (f": {why}" if why else "")


def choice_equals(
    evidence: Evidence,
    choice: str,
    *,
    options: Sequence[str] = "ABCDE",
    texts: Mapping[str, str] | None = None,
    path: str | None = None,
) -> Said:
    """The final answer (or file) names exactly one of `options`, and it is `choice`.

    With `texts` (`{"A": "Paris", ...}`) the text of the option is enough, alone or after its letter.

    >>> choice_equals(answer("(B) Paris"), "B", texts={"A": "Rome", "B": "Paris"})
    (True, 'the answer names B')
    >>> choice_equals(answer("A or B"), "B")
    (False, "the answer is no single option: 'A or B'")
    """
    if choice not in options:
        raise ValueError(f"`choice` is {choice!r}; the options are {list(options)}")
    text = " ".join(re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", final_text(evidence, path)).split()).strip().rstrip(".")
    named = [option for option in options if _names(text, option, (texts or {}).get(option))]
    if len(named) != 1:
        return False, f"{name_of_text(path)} is no single option: {shown(text)}"
    return named[0] == choice, f"{name_of_text(path)} names {named[0]}"


def same_math(text: str, expected: str, *, tolerance: float = 0.0, ordered: bool = False) -> Said:
    """Whether a text is equal to the expected value, and why not if it could not be read."""
    words = _WORDS.fullmatch(expected)
    if words and (len(words[1]) > 3 or "\\" in expected or " " in words[1] or words[1].casefold() in {"yes", "no"}):
        found = _WORDS.fullmatch(text)
        return bool(found) and _plain(found[1]) == _plain(words[1]), ""
    try:
        wanted = read_formula(_one_relation(expected))
    except NotFormulaError as error:
        raise ValueError(f"`value` {expected!r} is not mathematics that this check reads: {error}") from error
    try:
        found = read_formula(_one_relation(text))
    except (NotFormulaError, RecursionError) as error:
        return False, str(error)
    met = _equal(found, wanted, exact(tolerance), ordered=ordered)
    return bool(met), "it has no value to compare" if met is None else ""


def _names(text: str, option: str, full: str | None) -> bool:
    if re.fullmatch(rf"(?i:option|choice|answer)?\s*[(\[]?{re.escape(option)}[)\].:]?", text):
        return True
    if full is None:
        return False
    return _plain(text) == _plain(full) or bool(
        re.fullmatch(rf"[(\[]?{re.escape(option)}[)\].:]*\s*{re.escape(_plain(full))}", _plain(text), re.IGNORECASE)
    )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def _one_relation(text: str) -> str:
    r"""`x = 1 or x = 2` as `x = 1, 2`; `1 \pm a` as `1 + a, 1 - a`; a number in another notation as a plain one."""
    number = plain_number(text)
    if number is not None:
        return f"({number.numerator})/({number.denominator})"
    text = re.sub(r"\\text\s*\{\s*(and|or)\s*\}", r" \1 ", text)
    if len(re.findall(_BOTH, text)) == 1 and not re.search(r"[,;<>]|\band\b|\bor\b", text):
        before, _, value = text.rpartition("=")
        start = f"{before}= " if before else ""
        text = f"{start}{re.sub(_BOTH, '+', value)}, {re.sub(_BOTH, '-', value)}"
    first = re.match(r"\s*([A-Za-z])\s*=", text)
    return re.sub(rf"(,|;|\bor\b|\band\b)\s*{first[1]}\s*=", ", ", text) if first else text


def _equal(found: Tree, wanted: Tree, tolerance: Fraction, *, ordered: bool) -> bool | None:
    solved = [_solved_for(found), _solved_for(wanted)]
    if solved[0] == solved[1] or "relation" not in {found[0], wanted[0]} or found[0] != wanted[0]:
        found, wanted = (
            tree if name is None else cast("Tree", tree[3]) for tree, name in zip((found, wanted), solved, strict=True)
        )
    if found[0] == "relation" or wanted[0] == "relation":
        if found[0] == wanted[0] and found[1] == wanted[1] == "=":
            return _same_equation(found, wanted)
        return _as_interval(found) == _as_interval(wanted) is not None or _both(
            _as_interval(found), _as_interval(wanted), tolerance
        )
    if "list" in {found[0], wanted[0]} or "cup" in {found[0], wanted[0]}:
        return _same_lists(found, wanted, tolerance, ordered=ordered)
    if "inf" in {_infinite(found), _infinite(wanted)} or "-inf" in {_infinite(found), _infinite(wanted)}:
        return _infinite(found) == _infinite(wanted)
    return equal_formulas(found, wanted, tolerance)


def _both(found: "Tree | None", wanted: "Tree | None", tolerance: Fraction) -> bool | None:
    return _same_lists(found, wanted, tolerance, ordered=True) if found is not None and wanted is not None else False


def _infinite(tree: Tree) -> str:
    return "inf" if tree == ("name", "inf") else "-inf" if tree == ("-", ("name", "inf")) else ""


def _solved_for(tree: Tree) -> str | None:
    """The variable `x` of `x = ...` or `x in ...`; None for anything else."""
    if tree[0] == "relation" and tree[1] in {"=", "in"}:
        left, right = cast("tuple[Tree, Tree]", tree[2:4])
        if left[0] == "name" and str(left[1]) not in names_of(right) and left[1] not in {"e", "i", "pi"}:
            return str(left[1])
    return None


def _same_equation(found: Tree, wanted: Tree) -> bool | None:
    """Two equations with the same solutions because their differences are proportional."""
    one, other = (("+", tree[2], ("-", tree[3])) for tree in (found, wanted))
    if equal_formulas(cast("Tree", one), _ZERO) or equal_formulas(cast("Tree", other), _ZERO):
        return False
    return equal_formulas(
        ("*", cast("Tree", one), _renamed(cast("Tree", other))), ("*", _renamed(cast("Tree", one)), cast("Tree", other))
    )


def _renamed(tree: Tree) -> Tree:
    if tree[0] == "name":
        return tree if tree[1] in {"pi", "e", "i"} else ("name", f"{tree[1]}'")
    return tuple(_renamed(part) if isinstance(part, tuple) else part for part in tree)


def _as_interval(tree: Tree) -> "Tree | None":  # noqa: PLR0911 - one return per form
    """An interval, or an inequality of one variable as the interval that it describes."""
    if tree[0] in {"list", "cup"}:
        return tree
    if tree[0] != "relation" or "=" in str(tree[1]).split() or "in" in str(tree[1]).split():
        return None
    signs, parts = str(tree[1]).split(), [cast("Tree", part) for part in tree[2:]]
    if len(signs) == 1:
        left, right = parts
        sign = signs[0]
        if right[0] == "name" and left[0] != "name":
            left, right, sign = right, left, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}[sign]
        if left[0] != "name" or names_of(right):
            return None
        if sign[0] == "<":
            return ("list", f"({']' if sign == '<=' else ')'}", ("-", ("name", "inf")), right)
        return ("list", f"{'[' if sign == '>=' else '('})", right, ("name", "inf"))
    low, name, high = parts
    if signs[0][0] != signs[1][0] or name[0] != "name":
        return None
    if signs[0][0] == ">":
        low, high, signs = high, low, [sign.replace(">", "<") for sign in reversed(signs)]
    return ("list", f"{'[' if signs[0] == '<=' else '('}{']' if signs[1] == '<=' else ')'}", low, high)


def _same_lists(found: Tree, wanted: Tree, tolerance: Fraction, *, ordered: bool) -> bool | None:
    """Lists with the same brackets; sets, unions and bare lists in any order."""
    brackets = [tree[1] if tree[0] == "list" else tree[0] if tree[0] == "cup" else "" for tree in (found, wanted)]
    one, other = ([cast("Tree", part) for part in _items(tree)] for tree in (found, wanted))
    loose = {"", "{}"}
    if (brackets[0] != brackets[1] and not set(map(str, brackets)) <= loose) or max(len(one), len(other)) > _MAX_ITEMS:
        return False
    if str(brackets[1]) in loose | {"cup"} and not (ordered and brackets[1] == ""):
        return all(any(_equal(item, each, tolerance, ordered=ordered) for each in other) for item in one) and all(
            any(_equal(item, each, tolerance, ordered=ordered) for item in one) for each in other
        )
    return len(one) == len(other) and all(
        bool(_equal(item, each, tolerance, ordered=ordered)) for item, each in zip(one, other, strict=True)
    )


def _items(tree: Tree) -> Sequence[object]:
    return tree[2:] if tree[0] == "list" else tree[1:] if tree[0] == "cup" else (tree,)
