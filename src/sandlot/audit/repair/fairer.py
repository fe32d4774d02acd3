"""Remedies for checks that refuse right work, crash, or pay by default."""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence

from sandlot.audit.finding import Finding
from sandlot.audit.repair.edits import CodeChange, TextEdit
from sandlot.audit.repair.grading_code import GradingFunction, calls_name

_RAISED = re.compile(r"\b((?:[A-Z]\w*)?(?:Error|Exception)|InvalidOperation|Overflow)\b")
_FROM_ANSWERS = ("ValueError", "TypeError", "KeyError", "IndexError", "AttributeError", "ZeroDivisionError", "OverflowError")
"""What code that reads an agent's answer may raise on a strange one."""
_NORMALISES = frozenset({"lower", "upper", "casefold", "strip", "title"})
_NO_DEFAULT = (True, 1, 1.0)


def not_met_on_error(code: GradingFunction, finding: Finding) -> Iterator[CodeChange]:
    """The statement that raises on strange work is put into `try`, and that error alone means `not met`."""
    text = finding.witness.observed if finding.witness else ""
    raised = [name for name in dict.fromkeys(_RAISED.findall(text)) if hasattr(builtins, name)]
    if raised:
        yield from _widened(code, raised)
    for errors in ([raised] if raised else []) + [[*dict.fromkeys([*raised, *_FROM_ANSWERS[:4]])]]:
        for statement in code.function.node.body:
            if any(isinstance(each, ast.expr) and code.from_agent(each) for each in ast.walk(statement)):
                shown = errors[0] if len(errors) == 1 else f"({', '.join(errors)})"
                yield CodeChange(code.file, f"is not met on {', '.join(errors)}", (_guarded(code, statement, shown),))


def _widened(code: GradingFunction, errors: Sequence[str]) -> Iterator[CodeChange]:
    """An `except` that already means `not met` catches these errors too."""
    for node in code.nodes():
        if not isinstance(node, ast.ExceptHandler) or node.type is None or not isinstance(node.body[-1], ast.Return):
            continue
        value = node.body[-1].value
        if isinstance(value, ast.Constant) and not value.value and not any(name in code.source.of(node.type) for name in errors):
            known = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            text = f"({', '.join([*map(code.source.of, known), *errors])})"
            edit = code.source.replace(node.type, text)
            yield CodeChange(code.file, f"is not met on {', '.join(errors)}", (edit,))


def default_of_nothing(code: GradingFunction) -> Iterator[CodeChange]:
    """A check that cannot decide, or finds nothing, pays nothing."""
    for node in code.nodes():
        returned = node.body[-1] if isinstance(node, ast.ExceptHandler) else None
        if isinstance(returned, ast.Return) and isinstance(returned.value, ast.Constant) and returned.value.value:
            nothing = "False" if returned.value.value is True else "0.0"
            yield CodeChange(code.file, "pays nothing for an error", (code.source.replace(returned.value, nothing),))
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and len(node.args) == 2
        ):
            default = node.args[1]
            if isinstance(default, ast.Constant) and default.value in _NO_DEFAULT and code.from_agent(node.func.value):
                edit = code.source.replace(default, "False" if default.value is True else "0")
                yield CodeChange(code.file, "pays nothing for what is missing", (edit,))


def errors_raise(code: GradingFunction) -> Iterator[CodeChange]:
    """`except Exception` becomes the errors that an agent's work can cause, so that a broken grader is no score."""
    for node in code.nodes():
        if isinstance(node, ast.ExceptHandler) and (
            node.type is None or code.source.of(node.type) in {"Exception", "BaseException"}
        ):
            caught = f"({', '.join(_FROM_ANSWERS)})"
            if node.type is not None:
                yield CodeChange(code.file, "catches only errors that work can cause", (code.source.replace(node.type, caught),))


def both_sides(code: GradingFunction) -> Iterator[CodeChange]:
    """What is done to the answer before it is compared is done to the key too."""
    for node in code.nodes():
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
            continue
        sides = (node.left, node.comparators[0])
        given, key = sides if code.from_agent(sides[0]) else sides[::-1]
        if not code.from_agent(given) or code.from_agent(key):
            continue
        done, already = _methods(given), _methods(key)
        if done and not already:
            text = f"str({code.source.of(key)})" + "".join(f".{name}()" for name in done)
            yield CodeChange(code.file, "treats the key like the answer", (code.source.replace(key, text),))
        for more in (".strip()", ".strip().casefold()"):
            edits = tuple(code.source.replace(side, f"str({code.source.of(side)}){more}") for side in (given, key))
            yield CodeChange(code.file, "ignores case and white space on both sides", edits)


def by_value(code: GradingFunction) -> Iterator[CodeChange]:
    """Texts that stand for numbers or quantities are compared by their value."""
    for node in code.nodes():
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
            continue
        sides = (node.left, node.comparators[0])
        given, key = sides if code.from_agent(sides[0]) else sides[::-1]
        if not code.is_text(given) or code.from_agent(key):
            continue
        plain = code.source.of(_innermost(key))
        if code.foreign or not code.evidence:
            text = f'float({code.source.of(given)}.replace(",", "")) == float({plain})'
            yield CodeChange(code.file, "compares numbers", (code.source.replace(node, text),))
            continue
        for strict, value in (
            ("answer_equals", plain), ("number_equals", f"float({plain})"), ("answer_number", f"float({plain})"),
            ("math_equals", f"str({plain})"), ("quantity_equals", f"str({plain})"),
        ):  # fmt: skip
            text = f"{strict}({code.evidence}, {value})[0]"
            imports = (f"from sandlot.checks import {strict}",)
            yield CodeChange(code.file, f"uses the ready check `{strict}`", (code.source.replace(node, text),), imports)


def unrounded(code: GradingFunction) -> Iterator[CodeChange]:
    """A share of the work is paid as it is, not as a whole number."""
    for node in code.nodes():
        if (
            isinstance(node, ast.Call)
            and calls_name(node, "round", "int")
            and len(node.args) == 1
            and code.from_agent(node.args[0])
        ):
            edit = code.source.replace(node, f"({code.source.of(node.args[0])})")
            yield CodeChange(code.file, "does not round the score", (edit,))


def bounded(code: GradingFunction) -> Iterator[CodeChange]:
    """The reward stays between 0 and 1."""
    for node in code.nodes():
        if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
            text = f"min(1.0, max(0.0, {code.source.of(node.value)}))"
            yield CodeChange(code.file, "keeps the reward between 0 and 1", (code.source.replace(node.value, text),))


def _guarded(code: GradingFunction, statement: ast.stmt, errors: str) -> TextEdit:
    start, end = code.source.line_start(statement), code.source.span(statement)[1]
    pad = " " * statement.col_offset
    lines = code.source.text.encode()[start:end].decode().splitlines()
    inner = "\n".join(f"    {line}" if line.strip() else line for line in lines)
    nothing = "0.0" if code.foreign else "False"
    return TextEdit(start, end, f"{pad}try:\n{inner}\n{pad}except {errors}:\n{pad}    return {nothing}")


def _methods(node: ast.expr) -> list[str]:
    """`["strip", "lower"]` of `x.strip().lower()`, in that order."""
    names: list[str] = []
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        if node.func.attr not in _NORMALISES:
            break
        names.append(node.func.attr)
        node = node.func.value
    return names[::-1]


def _innermost(node: ast.expr) -> ast.expr:
    """`x` of `str(x).strip()`."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and not node.args:
            node = node.func.value
        elif isinstance(node.func, ast.Name | ast.Attribute) and node.args and not node.keywords:
            node = node.args[-1]
        else:
            break
    return node
