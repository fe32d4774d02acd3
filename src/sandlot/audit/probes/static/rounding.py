"""D06 in code and rubrics: scores that lose detail by rounding or clipping.

`int(answer == key)` turns a verdict into a number, which is fine; `round(hits / total)` turns a share into all or nothing. A
check must stay within 0 and 1; a rubric that clips below full marks or above 0 loses differences.
"""

import ast
from collections.abc import Iterator

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity
from sandlot.audit.probes.static.code import Code, Function, Part, names_in, read_code
from sandlot.audit.probes.static.sighting import Sighting, findings_from, sighting_at
from sandlot.audit.probes.static.trust import verdicts_of
from sandlot.audit.subject import Description

_FINE = 3
"""Rounding to this many digits or more is harmless."""


async def _look(case: Case) -> list[Finding]:
    """Scores are neither rounded nor clipped."""
    return findings_from([*_rounded(read_code(case)), *_clipped(case.description)])


def _rounded(code: Code) -> Iterator[Sighting]:
    for function in code.working_in(Part.CHECK):
        if not function.marked & {Part.CHECK}:
            continue  # only returned scores count, not what other functions compute
        for value in verdicts_of(function):
            for node in ast.walk(value):
                yield from _coarse(function, node)


def _coarse(function: Function, node: ast.AST) -> Iterator[Sighting]:
    fix = "return the share as it is"
    match node:
        case ast.Call(func=ast.Name(id="round"), args=[inner, *digits]) if _is_share(function, inner):
            places = digits[0].value if digits and isinstance(digits[0], ast.Constant) else 0
            if isinstance(places, int) and places < _FINE:
                severity = Severity.LOW if places else Severity.HIGH
                title = f"rounds its score to {places} digits" if places else "rounds its score to all or nothing"
                yield sighting_at(function, node, "D06.rounded", title, fix, severity)
        case ast.Call(func=ast.Name(id="int"), args=[inner]) if _is_share(function, inner):
            yield sighting_at(function, node, "D06.rounded", "truncates its score to a whole number", fix)
        case ast.Call(func=ast.Attribute(attr="floor" | "ceil" | "trunc"), args=[inner]) if _is_share(function, inner):
            yield sighting_at(function, node, "D06.rounded", "rounds its score to a whole number", fix)
        case ast.BinOp(op=ast.FloorDiv()):
            yield sighting_at(function, node, "D06.rounded", "uses integer division for its score", fix, Severity.LOW)
        case _:
            return


def _is_share(function: Function, node: ast.expr) -> bool:
    """True if it divides, or uses a name that was assigned a division."""
    if _divides(node):
        return True
    given = function.assigned()
    return any(_divides(value) for name in names_in(node) for value in given.get(name, ()))


def _divides(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div) for inner in ast.walk(node))


def _clipped(description: Description) -> Iterator[Sighting]:
    for name, rubric in description.rubrics.items():
        low, high = rubric.clip
        where = f"rubrics/{name}.json" if f"rubrics/{name}.json" in description.sources else f"rubric {name}"
        if high < 1:
            title = f"rubric `{name}` clips scores at {high:g}: everything above scores the same"
            yield Sighting("D06.clip", title, where, "clip at 1")
        if low > 0:
            title = f"rubric `{name}` raises every score to at least {low:g}: everything below scores the same"
            yield Sighting("D06.clip", title, where, "clip at 0")


PROBE = Probe("rounded-scores", Layer.STATIC, ("D06",), _look)
