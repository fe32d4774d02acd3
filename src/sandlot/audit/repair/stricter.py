"""Remedies for checks that accept wrong work: compare the whole value, exactly.

A remedy only proposes; `trial.py` decides by playing. So a remedy may propose several changes, the smallest first.
"""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from sandlot.audit.repair.edits import CodeChange
from sandlot.audit.repair.grading_code import GradingFunction, calls_name

_SEARCHES = frozenset({"search", "match"})
_ENDS = '.strip().rstrip(".")'
_NUMBERS = r'r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"'
_FINER = (0.1, 0.01, 1e-4, 1e-6)
"""Shares of a tolerance, the largest first."""
_CLOSE = frozenset({"isclose", "allclose", "approx"})
_TOLERANCES = frozenset({"tolerance", "tol", "rel_tol", "abs_tol", "rtol", "atol", "rel", "abs"})


def whole_answer(code: GradingFunction) -> Iterator[CodeChange]:
    """`key in answer` becomes `answer == key`, or a comparison of the only number in the answer."""
    for node in code.nodes():
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if not isinstance(operator, ast.In | ast.NotIn) or not (code.is_text(right) or code.is_text(left)):
            continue
        given, key = (right, left) if code.is_text(right) else (left, right)
        if code.is_text(key) or isinstance(key, ast.List | ast.Tuple | ast.Set):
            continue
        sign = "==" if isinstance(operator, ast.In) else "!="
        said, wanted = _operand(code, given), _operand(code, key)
        yield CodeChange(code.file, "compares the whole answer", (code.source.replace(node, f"{said}{_ENDS} {sign} {wanted}"),))
        if code.evidence and not code.foreign and sign == "==":
            for strict in ("answer_equals", "number_equals", "answer_number"):
                text = f"{strict}({code.evidence}, {_as_value(strict, wanted)})[0]"
                imports = (f"from sandlot.checks import {strict}",)
                yield CodeChange(code.file, f"uses the ready check `{strict}`", (code.source.replace(node, text),), imports)
        folded = f"str({said}){_ENDS}.casefold() {sign} str({wanted}).casefold()"
        yield CodeChange(code.file, "compares the whole answer, whatever its case", (code.source.replace(node, folded),))
        numbers = f'{{float(each) for each in re.findall({_NUMBERS}, {said}.replace(",", ""))}}'
        one = code.source.replace(node, f"{numbers} {sign} {{float({code.source.of(key)})}}")
        yield CodeChange(code.file, "compares the only number in the answer", (one,), ("import re",))


def whole_pattern(code: GradingFunction) -> Iterator[CodeChange]:
    """`re.search(pattern, answer)` becomes `re.fullmatch(pattern, answer.strip())`, or reads the last match."""
    for node in code.nodes():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _SEARCHES:
            continue
        of_module = code.function.module.full_name(node.func) in {"re.search", "re.match", "regex.search", "regex.match"}
        place = 1 if of_module else 0
        if len(node.args) <= place or not code.from_agent(node.args[place]):
            continue
        text, name = node.args[place], node.func
        whole = code.source.of(name.value) + ".fullmatch"
        stripped = code.source.replace(text, f"{_operand(code, text)}.strip()")
        edits = (code.source.replace(name, whole), stripped)
        yield CodeChange(code.file, "matches the whole answer", edits)
        if of_module and code.is_key(node.args[0]) and isinstance(node.args[0], ast.Name | ast.Attribute | ast.Subscript):
            escaped = code.source.replace(node.args[0], f"re.escape({code.source.of(node.args[0])})")
            yield CodeChange(code.file, "matches the whole answer, and the key as it is written", (*edits, escaped))
        if node.func.attr == "search":
            found = code.source.of(node).replace(".search(", ".finditer(", 1)
            yield CodeChange(code.file, "reads the last match", (code.source.replace(node, f"([None, *{found}][-1])"),))


def same_set(code: GradingFunction) -> Iterator[CodeChange]:
    """`wanted <= found` becomes `wanted == found`: nothing else may be there."""
    for node in code.nodes():
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.LtE | ast.GtE):
            sides = (node.left, node.comparators[0])
            found, wanted = reversed(sides) if isinstance(node.ops[0], ast.LtE) else sides
            if code.from_agent(found) and not code.from_agent(wanted):
                text = f"{code.source.of(node.left)} == {code.source.of(node.comparators[0])}"
                yield CodeChange(code.file, "allows nothing besides what is wanted", (code.source.replace(node, text),))
        method = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if (
            isinstance(node, ast.Call)
            and method is not None
            and method.attr in {"issubset", "issuperset"}
            and len(node.args) == 1
        ):
            text = f"{_operand(code, method.value)} == set({code.source.of(node.args[0])})"
            yield CodeChange(code.file, "allows nothing besides what is wanted", (code.source.replace(node, text),))


def narrower(code: GradingFunction) -> Iterator[CodeChange]:
    """A tolerance is made smaller, by as little as is enough; whole numbers are compared before they are cut."""
    for node in code.nodes():
        constants: list[ast.Constant] = []
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt | ast.LtE):
            if isinstance(node.left, ast.Call) and code.from_agent(node.left):
                constants += [each for each in ast.walk(node.comparators[0]) if _is_float(each)]
        elif isinstance(node, ast.Call):
            close = code.function.module.full_name(node.func).rpartition(".")[2] in _CLOSE
            constants += [each.value for each in node.keywords if (close or each.arg in _TOLERANCES) and _is_float(each.value)]
        for constant in constants:
            for share in _FINER:
                text = f"{float(constant.value) * share:.1g}"  # pyright: ignore[reportArgumentType] - `_is_float`
                yield CodeChange(code.file, f"allows a difference of {text}", (code.source.replace(constant, text),))
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Call) and calls_name(node.left, "int", "round"):
            yield from _uncut(code, node, node.left)


def literal(code: GradingFunction) -> Iterator[CodeChange]:
    """`eval(answer)` becomes `ast.literal_eval(answer)`: a value, never a program."""
    for node in code.nodes():
        if isinstance(node, ast.Call) and calls_name(node, "eval") and node.args and code.from_agent(node.args[0]):
            text = f"ast.literal_eval({code.source.of(node.args[0])})"
            yield CodeChange(code.file, "reads the answer as a value", (code.source.replace(node, text),), ("import ast",))
            yield CodeChange(
                code.file, "reads the answer as a number", (code.source.replace(node, f"float({code.source.of(node.args[0])})"),)
            )


def _uncut(code: GradingFunction, node: ast.Compare, cut: ast.Call) -> Iterator[CodeChange]:
    """`int(float(answer)) == key` becomes `float(answer) == key`."""
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq) and cut.args and code.from_agent(cut.args[0]):
        other = node.comparators[0]
        edits = [code.source.replace(cut, code.source.of(cut.args[0]))]
        if isinstance(other, ast.Call) and calls_name(other, "int", "round") and other.args:
            edits.append(code.source.replace(other, code.source.of(other.args[0])))
        yield CodeChange(code.file, "compares numbers before they are cut", tuple(edits))


def _as_value(strict: str, wanted: str) -> str:
    return wanted if strict == "answer_equals" else f"float({wanted})"


def _is_float(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, float | int) and not isinstance(node.value, bool)


def _operand(code: GradingFunction, node: ast.expr) -> str:
    """Its text, in brackets where it needs them beside an operator."""
    text = code.source.of(node)
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant | ast.JoinedStr)
    return text if simple else f"({text})"
