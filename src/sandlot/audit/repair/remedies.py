"""Which remedies are tried for which finding. There are few of them, and each is a change that reviewers make by hand."""

import ast
from collections.abc import Callable, Iterator, Mapping

from sandlot.audit.effect import Direction, direction_of
from sandlot.audit.finding import Finding
from sandlot.audit.repair import fairer, stricter
from sandlot.audit.repair.edits import CodeChange, TextEdit
from sandlot.audit.repair.grading_code import GradingFunction, grading_functions
from sandlot.audit.repair.plays import PlayRecord, witness_plays
from sandlot.audit.repair.rubric_files import changes_of_rubrics, required_first

_Remedy = Callable[[GradingFunction], Iterator[CodeChange]]
_ACCEPTS: tuple[_Remedy, ...] = (
    stricter.narrower,
    stricter.same_set,
    stricter.whole_pattern,
    stricter.whole_answer,
    stricter.literal,
    fairer.default_of_nothing,
    fairer.by_value,
)
_REFUSES: tuple[_Remedy, ...] = (fairer.both_sides, fairer.by_value)


def changes_for(record: PlayRecord, sources: Mapping[str, str], finding: Finding) -> Iterator[CodeChange]:
    """Changes that may remove a finding, the smallest remedies first."""
    if record.description is None:
        return
    functions = grading_functions(record.description, sources, finding)
    for remedy in _remedies(finding):
        for function in functions:
            yield from remedy(function)
    if finding.code.startswith("D09"):
        for function in functions:
            yield from fairer.not_met_on_error(function, finding)
    if direction_of(finding) is Direction.ACCEPTS_WRONG:
        yield from changes_of_rubrics(sources, finding)
        others = _met_by_golden_alone(record, finding)
        yield from required_first(sources, finding, others)
        for function in functions:
            yield from _requires(function, others)


def _remedies(finding: Finding) -> tuple[_Remedy, ...]:
    if finding.code.startswith("D04"):
        return (fairer.default_of_nothing, fairer.errors_raise)
    if finding.code.startswith("D06"):
        return (fairer.unrounded, fairer.bounded)
    if direction_of(finding) is Direction.ACCEPTS_WRONG:
        return _ACCEPTS
    return _REFUSES if finding.code.startswith(("D22", "D15", "D13")) else ()


def _met_by_golden_alone(record: PlayRecord, finding: Finding) -> tuple[str, ...]:
    """The checks that golden meets on every task, and the witness does not."""
    golden = [set(play.met) for play in record.plays if play.is_golden]
    wrong = [set(play.met) for play in witness_plays(record.plays, finding)]
    if not golden or not wrong:
        return ()
    return tuple(sorted(golden[0].intersection(*golden).difference(*wrong)))


def _requires(code: GradingFunction, others: tuple[str, ...]) -> Iterator[CodeChange]:
    """`@env.check(points=1)` becomes `@env.check(points=1, requires=["other"])`."""
    for mark in code.function.node.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and mark.func.attr == "check":
            if any(keyword.arg in {"requires", "gate"} for keyword in mark.keywords):
                continue
            end = code.source.span(mark)[1] - 1
            for other in (name for name in others if name != code.function.node.name):
                yield CodeChange(code.file, f"requires `{other}`", (TextEdit(end, end, f', requires=["{other}"]'),))
