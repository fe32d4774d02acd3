import ast
import bisect
import copy
import genericpath
import json.decoder
import textwrap
from pathlib import Path

import pytest

from sandlot.core.syntax import parse_python
from sandlot.interop.repositories.mutation import BugKind, is_bug, mutations
from worlds.repair import LEDGER

MODULES = (bisect, genericpath, textwrap, json.decoder)
SOURCES = {module.__name__: Path(str(module.__file__)).read_text() for module in MODULES} | {"ledger": LEDGER}
NAMES = [pytest.param(name, marks=[pytest.mark.system] if len(text) > 6000 else []) for name, text in SOURCES.items()]
"""The large ones take seconds, because each change makes a whole program."""
TURNED = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def turned_comparisons(source: str) -> set[str]:
    """Slow twin: every program with one comparison of a function turned round, made on the tree and written out whole."""
    tree = parse_python(source)
    nodes = list(ast.walk(tree))
    inside = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.FunctionDef)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    silent = {id(inner) for node in nodes if isinstance(node, (ast.Raise, ast.JoinedStr)) for inner in ast.walk(node)}
    found = set()
    for number, node in enumerate(nodes):
        if not isinstance(node, ast.Compare) or id(node) not in inside or id(node) in silent:
            continue
        for place in range(len(node.ops)):
            other = copy.deepcopy(tree)
            twin = list(ast.walk(other))[number]
            twin.ops[place] = TURNED[type(twin.ops[place])]()
            found.add(ast.unparse(other))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_comparisons_are_turned_as_on_the_tree(name):
    source = SOURCES[name]
    made = {ast.unparse(parse_python(each.applied(source))) for each in mutations(source) if each.kind is BugKind.COMPARISON}
    assert made
    assert made == turned_comparisons(source)


@pytest.mark.parametrize("name", NAMES)
def test_nearly_every_change_is_another_program_and_nothing_else_is_touched(name):
    source = SOURCES[name]
    found = mutations(source)
    bugs = [each for each in found if is_bug(each, source)]
    assert len(bugs) > 0.9 * len(found)
    assert {each.kind for each in bugs} == set(BugKind)
    for each in bugs:
        text = each.applied(source)
        assert text.startswith(source[: each.start])
        assert text.endswith(source[each.end :])
        assert len(text) == len(source) - (each.end - each.start) + len(each.text)


def test_lines_and_functions_are_those_of_the_change():
    changes = {(each.function, LEDGER[each.start : each.end].strip(), each.text) for each in mutations(LEDGER)}
    assert ("total", "found += row", "") in changes
    assert ("total", "<", ">=") in changes
    assert ("split", "amount, people", "people, amount") in changes
    for each in mutations(LEDGER):
        assert LEDGER.count("\n", 0, each.start) + 1 <= each.line + 1


def test_columns_are_right_after_other_letters():
    source = 'def f(x):\n    return "é漢" * 2 if x < 3 else [x, "ü"]\n'
    [turned] = [each for each in mutations(source) if each.kind is BugKind.COMPARISON]
    assert turned.applied(source) == source.replace("<", ">=")


def test_nothing_outside_of_functions_and_no_broken_file():
    assert mutations("LIMIT = 3\nif LIMIT < 4:\n    LIMIT = 5\n") == []
    assert mutations("def f(:\n") == []
