"""Python source read as a syntax tree."""

import ast
from typing import Literal, overload

_TRIES = 10


@overload
def parse_python(source: str | bytes, mode: Literal["exec"] = "exec") -> ast.Module: ...
@overload
def parse_python(source: str | bytes, mode: Literal["eval"]) -> ast.Expression: ...
def parse_python(source: str | bytes, mode: Literal["exec", "eval"] = "exec") -> ast.mod:
    """`ast.parse`, without a fault of Python 3.11 (gh-106905): it raises SystemError if a second source is parsed meanwhile.

    That happens where garbage is collected during the first, as of a task whose exception nobody read: Python logs its traceback,
    and to mark the place in a line it parses that line. The next try finds this garbage gone.
    """
    for _ in range(_TRIES - 1):
        try:
            return ast.parse(source, mode=mode)  # noqa: TID251 - this is the place for it
        except SystemError:
            continue
    return ast.parse(source, mode=mode)  # noqa: TID251
