import ast
import gc

import pytest

from sandlot.core.syntax import parse_python

SOURCE = "a = [1, 2, 3]\n" * 50


class Garbage:
    """An object that only the collector frees, and that parses a source of its own when it is freed."""

    num_freed = 0

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        Garbage.num_freed += 1
        ast.parse("((1))")  # noqa: TID251


@pytest.fixture
def collector():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_garbage_that_parses_does_not_fail_the_parse(collector):
    Garbage.num_freed = 0

    def with_garbage(depth: int) -> ast.Module:
        if depth:  # the fault shows where the two sources are parsed at different depths
            return with_garbage(depth - 1)
        Garbage()
        gc.set_threshold(1, 1, 1)
        return parse_python(SOURCE)

    tree = with_garbage(20)
    assert Garbage.num_freed == 1
    assert ast.dump(tree) == ast.dump(ast.parse(SOURCE))  # noqa: TID251


def test_a_source_that_is_not_python_is_a_syntax_error():
    with pytest.raises(SyntaxError):
        parse_python("a = (")


def test_an_expression():
    assert ast.unparse(parse_python("f(1)", "eval")) == "f(1)"
