"""The texts that a grader's code names: words it looks for, and patterns, each with a text that it matches.

Read from the functions that grade and from those they call, in other modules and installed packages too.
"""

import ast
import re
from collections.abc import Iterator

from sandlot.audit.probes.static.code import Code, Function, Part

_MOST = 24
_LONGEST = 60
_PATTERN_CALLS = frozenset({"search", "match", "fullmatch", "findall", "finditer", "compile", "sub", "split"})
_BUILDS_TEXT = frozenset(
    {"format", "print", "info", "warning", "error", "debug", "get", "pop", "setdefault", "getattr", "hasattr"}
)


def literals_in(code: Code) -> list[str]:
    """Texts that grading compares with or looks for, those nearest to the grader first."""
    functions = sorted(code.working_in(Part.CHECK), key=lambda function: (Part.CHECK not in function.marked, function.where))
    found: dict[str, None] = {}
    for function in functions:
        for text in _texts(function):
            if 1 < len(text.strip()) <= _LONGEST and text.isprintable() and any(letter.isalnum() for letter in text):
                found[text] = None
    return list(found)[:_MOST]


def patterns_in(code: Code) -> list[str]:
    """The regular expressions that grading uses."""
    found: dict[str, None] = {}
    for function in code.working_in(Part.CHECK):
        for node in function.nodes():
            pattern = _pattern_of(function, node)
            if pattern and len(pattern) > 2:
                found[pattern] = None
    return list(found)[:_MOST]


def example_of(pattern: str, filler: str) -> str:
    """A text that a simple pattern matches, with the filler for what it captures."""
    pattern = pattern.replace("\\\\", "\1")  # a backslash itself
    text = re.sub(r"\(\?[aiLmsux-]+\)|\(\?[=!<][^()]*\)|\\[bBAZ]|(?<!\\)[\^$]", "", pattern)
    text = re.sub(r"\((?:\?P<\w+>|\?:)?[^()]*\)[*+?]?\??", lambda group: _group(group.group(), filler), text)
    text = re.sub(r"\\s[*?]\??", "", text)
    text = re.sub(r"\\s\+?", " ", text)
    text = re.sub(r"\\d(?:[+*]\??|\{\d+(?:,\d*)?\})?", "1", text)
    text = re.sub(r"\\w(?:[+*]\??)?", "x", text)
    text = re.sub(r"\[\^?[^\]]*\](?:[+*?]\??)?", "", text)
    text = re.sub(r"(?<!\\)\.[*+]\??", filler, text)
    text = re.sub(r"(.)(?:\?|\{\d+(?:,\d*)?\})", r"\1", text)
    return re.sub(r"\\(.)", r"\1", text).replace("|", "").replace("\1", "\\")


def _group(group: str, filler: str) -> str:
    inner = re.sub(r"^\((?:\?P<\w+>|\?:)?|\)[*+?]?\??$", "", group)
    if re.fullmatch(r"[\w ]+(?:\|[\w ]+)*", inner):
        return inner.partition("|")[0]
    return filler


def _texts(function: Function) -> Iterator[str]:
    shown = {id(node) for outer in function.nodes() if _is_shown(outer) for node in ast.walk(outer)}
    for node in function.nodes():
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in shown:
            yield node.value
        elif isinstance(node, ast.Name) and isinstance(
            value := _named(function, node.id), ast.Constant | ast.List | ast.Tuple | ast.Set
        ):
            yield from (each.value for each in ast.walk(value) if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _is_shown(node: ast.AST) -> bool:
    """True for docstrings, messages and names of fields: texts that are not compared with an answer."""
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return True
    return isinstance(node, ast.Call) and (getattr(node.func, "attr", None) or getattr(node.func, "id", "")) in _BUILDS_TEXT


def _pattern_of(function: Function, node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = function.module.full_name(node.func)
    if name.rpartition(".")[0] not in {"re", "regex"} or name.rpartition(".")[2] not in _PATTERN_CALLS:
        if not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, ast.Name):
            return None
        compiled = _named(function, node.func.value.id)  # PATTERN.search(...)
        inside = compiled if isinstance(compiled, ast.Call) and compiled.args else None
        first = inside.args[0] if inside is not None and function.module.full_name(inside.func).endswith("re.compile") else None
    else:
        first = node.args[0]
    if isinstance(first, ast.Name):
        first = _named(function, first.id)
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _named(function: Function, name: str) -> ast.expr | None:
    """The value of a name of the module, or the only one it has in the function."""
    own = function.assigned().get(name, [])
    return own[0] if len(own) == 1 else function.module.values.get(name) if not own else None
