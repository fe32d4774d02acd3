"""Where tools truncate texts: the lengths that slices in their code keep."""

import ast

from sandlot.audit.probes.static.code import Code, Function, Part

_MIN_CHARS = 40
"""Shorter slices are titles and names."""


def kept_lengths(code: Code) -> set[int]:
    """Every fixed length that a slice in a tool's code keeps."""
    return {
        length
        for function in code.working_in(Part.TOOL)
        for node in function.nodes()
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and _from_start(node.slice)
        if (length := _number(code, function, node.slice.upper)) is not None and length >= _MIN_CHARS
    }


def _from_start(cut: ast.Slice) -> bool:
    return cut.step is None and (cut.lower is None or (isinstance(cut.lower, ast.Constant) and cut.lower.value == 0))


def _number(code: Code, function: Function, node: ast.expr | None) -> int | None:
    if isinstance(node, ast.Name):
        node = code.value_of(function.module, node.id)
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None
