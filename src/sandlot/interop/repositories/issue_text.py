"""An issue written from a failing test: what somebody would see, without the test's code and without the place of the bug."""

import ast
import re

from sandlot.core.syntax import parse_python
from sandlot.interop.repositories.suite import TestReport

_MAX_SHOWN = 400
_PATH = re.compile(r"(?:/[\w.@+-]+)+\.py(?::\d+)?|\b[\w/]+\.py(?::\d+)?|\bline \d+|\b0x[0-9a-f]{6,}")
_COMPARED = re.compile(r"assert (?P<left>.+?) (?P<operator>==|is|in|!=|>=|<=|<|>|not in|is not) (?P<right>.+)", re.DOTALL)
_UNITTEST = re.compile(r"AssertionError: (?P<left>.+?) != (?P<right>.+)", re.DOTALL)
_RAISED = re.compile(r"Failed: DID NOT RAISE (?:any of )?(?P<errors>.+)", re.DOTALL)
_NOT_RAISED = re.compile(r"AssertionError: (?P<errors>\w+) not raised")
_ERROR = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:: ?(?P<text>.*))?\Z", re.DOTALL)
_WHERE = re.compile(r"\n?\s*\+?\s*where .*", re.DOTALL)
_UNTRUE = re.compile(r"assert (?P<negated>not )?(?P<value>.+)\n\s*\+\s+where (?P=value) = (?P<call>[^\n]+)")
_VAGUE = "The result is not what it should be."
_CONSTANTS = frozenset({"True", "False", "None"})
"""Changes that an issue may name: they are values like any other."""


def issue_of(package: str, report: TestReport, test_text: str, *, more: int = 0, change: str = "") -> str:
    """The text of an issue. `more` is how many other behaviours are broken; `change` is text that must not be in it."""
    seen = seen_in(report, test_text)
    if len(change) > 3 and change not in _CONSTANTS and change in seen:
        seen = _VAGUE
    lines = [
        f"There is a bug in `{package}`. It shows with {topic_of(report.test)}.",
        "",
        seen,
    ]
    if more:
        lines += ["", f"{_times(more)} that should work {'is' if more == 1 else 'are'} broken by the same cause."]
    return "\n".join(lines)


def _times(number: int) -> str:
    return "One other case" if number == 1 else f"{number} other cases"


def topic_of(test: str) -> str:
    """What a test is about, in the words of its name."""
    _, _, place = test.partition("::")
    names = place.partition("[")[0].split("::")
    words = [_words(name) for name in names]
    said = [word for word in words if word and word != "test"]
    return " / ".join(f'"{word}"' for word in dict.fromkeys(said)) or "one of its functions"


def _words(name: str) -> str:
    name = re.sub(r"(?i)^tests?_?(?=.)|_?tests?$|TestCase$", "", name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).replace("_", " ").strip().lower()


def seen_in(report: TestReport, test_text: str) -> str:
    """Expected and got, in words."""
    message = str(report.said.get("message", "")).strip()
    expected_first = _expected_is_left(test_text, report)
    for pattern in (_RAISED, _NOT_RAISED):
        raised = pattern.match(message)
        if raised:
            return f"Somewhere {_errors(raised['errors'])} should be raised, and nothing is."
    if untrue := _UNTRUE.match(message.removeprefix("AssertionError: ")):
        return _untrue(untrue)
    if compared := _COMPARED.match(_WHERE.sub("", _first_lines(message.removeprefix("AssertionError: ")))):
        return _comparison(compared, expected_first=expected_first)
    if compared := _UNITTEST.match(_first_lines(message)):
        got, expected = compared["left"], compared["right"]
        if expected_first:
            got, expected = expected, got
        return f"Got:\n\n    {_shown(got)}\n\nExpected:\n\n    {_shown(expected)}"
    error = _ERROR.match(message)
    if error and not error["name"].startswith(("AssertionError", "assert")):
        return _failed(error)
    return _VAGUE


def says_something(report: TestReport) -> bool:
    """True if an issue about this failure has more to tell than that something is wrong."""
    return seen_in(report, "") != _VAGUE


def _failed(error: re.Match[str]) -> str:
    said = f"{error['name']}: {error['text'].splitlines()[0] if error['text'] else ''}".rstrip(": ")
    return f"It ends with an error that should not be there:\n\n    {_shown(said)}"


def _untrue(untrue: re.Match[str]) -> str:
    """An assertion that compares nothing: what was called, as pytest shows it, with values."""
    wanted = "false" if untrue["negated"] else "true"
    return f"This\n\n    {_shown(untrue['call'])}\n\nis `{_shown(untrue['value'])}`. It should be {wanted}."


def _comparison(compared: re.Match[str], *, expected_first: bool) -> str:
    left, operator, right = compared["left"], compared["operator"], compared["right"]
    if _shown(left) == _shown(right):
        return _VAGUE  # they differ only in what is not shown
    if operator in {"==", "is"}:
        got, expected = (right, left) if expected_first else (left, right)
        return f"Got:\n\n    {_shown(got)}\n\nExpected:\n\n    {_shown(expected)}"
    words = {
        "in": "should be in",
        "not in": "should not be in",
        "!=": "should differ from",
        "is not": "should not be",
        **{sign: f"should be {sign}" for sign in ("<", ">", "<=", ">=")},
    }
    return f"This\n\n    {_shown(left)}\n\n{words[operator]}\n\n    {_shown(right)}"


def _errors(text: str) -> str:
    names = re.findall(r"([A-Za-z_]\w*)'?>", text) or re.findall(r"[A-Za-z_]\w*", text)[-1:]
    return " or ".join(f"`{name}`" for name in names) or "an error"


def _first_lines(message: str) -> str:
    """The message without pytest's explanation below it."""
    kept: list[str] = []
    for line in message.splitlines():
        if re.match(
            r"\s+(\+|-|\?|where|At index|Omitting|Full diff|Use -v|Differing|Left contains|Right contains|Extra items)", line
        ) or (kept and re.match(r"\s*$|[-+?] ", line)):
            break
        kept.append(line)
    return "\n".join(kept)


def _shown(text: str) -> str:
    clean = _PATH.sub("...", text.strip())
    clean = clean if len(clean) <= _MAX_SHOWN else f"{clean[: _MAX_SHOWN // 2]} ... {clean[-_MAX_SHOWN // 2 :]}"
    return clean.replace("\n", "\n    ")


def _expected_is_left(test_text: str, report: TestReport) -> bool:
    """True if the failing assertion has the expected value on its left: a constant there, and a call on the right."""
    line = int(report.said.get("test_line", 0) or 0)
    try:
        tree = parse_python(test_text)
    except (SyntaxError, ValueError):
        return False
    for node in ast.walk(tree):
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
        if not first <= line <= last:
            continue
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
            return _is_plain(node.test.left) and not _is_plain(node.test.comparators[-1])
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr.startswith("assert")
            and len(node.args) > 1
        ):
            return _is_plain(node.args[0]) and not _is_plain(node.args[1])
    return False


def _is_plain(node: ast.expr) -> bool:
    """True for an expression of constants and names that look like expected values."""
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    if any(isinstance(each, ast.Call) for each in ast.walk(node)):
        return False
    return all(re.search(r"expect|want|correct|answer|desired", name) for name in names)
