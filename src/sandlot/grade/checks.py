"""How one check function is called, and what its answer may be.

A check says `True`, `False`, a number from 0 to 1, or a pair of that and a sentence. Everything else is refused with the check's
name and the value: a check that returns None by accident must not look like a *no*. What is not in the evidence is not met;
any other error is the grader's, and leaves the rollout without a score.
"""

import functools
import inspect
import math
import reprlib
import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sandlot.core.concurrency import isolate
from sandlot.core.concurrency.author import is_async, name_of
from sandlot.core.errors import GradeError, NotInEvidence, SandlotError
from sandlot.core.ports.grading import Evidence
from sandlot.core.rubric import Check, CheckResult, CheckVerdict, PythonCheck
from sandlot.core.task import Task
from sandlot.grade.score import verdict_of
from sandlot.grade.state import encodable

Function = Callable[..., Any]
_MAX_EVIDENCE_CHARS = 4000
"""What is kept of the sentence a check returns."""


@dataclass(frozen=True, slots=True)
class Binding:
    """How a function wants the evidence and the task: by position, by name, or not at all."""

    positional: tuple[str, ...]
    named: tuple[tuple[str, str], ...]
    on_loop: bool
    """True for an async function."""

    def arguments(self, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of one call, from `{"evidence": ..., "task": ...}`."""
        return [given[slot] for slot in self.positional], {name: given[slot] for name, slot in self.named}


def binding(function: Function, names: frozenset[str]) -> Binding:
    """How to call it with `evidence`, `task` and arguments of these names; `TypeError` says what does not fit.

    Parameters called `evidence` and `task` get them, whatever their place. If none is called so, the first two required ones
    that no argument fills do. A function may leave out what it does not need.
    """
    hashable = isinstance(function, Hashable)  # pyright: ignore[reportUnnecessaryIsInstance] - an author's callable may not be
    return (_cached_binding if hashable else _binding)(function, names)


def _binding(function: Function, names: frozenset[str]) -> Binding:
    parameters = list(inspect.signature(function).parameters.values())
    reserved = names & {"evidence", "task"}
    if reserved:
        raise TypeError(f"an argument is called `{min(reserved)}`, which is given by Sandlot; rename it")
    slots = {parameter.name: parameter.name for parameter in parameters if parameter.name in {"evidence", "task"}}
    left = [] if slots else ["evidence", "task"]
    kinds = inspect.Parameter
    for parameter in parameters:
        by_place = parameter.kind in {kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD}
        if left and by_place and parameter.default is kinds.empty and parameter.name not in {*slots, *names}:
            slots[parameter.name] = left.pop(0)
    positional = [slots[p.name] for p in parameters if p.kind is kinds.POSITIONAL_ONLY and p.name in slots]
    if any(parameter.kind is kinds.VAR_POSITIONAL for parameter in parameters) and not slots:
        positional = ["evidence", "task"]  # a wrapper that passes everything on
    keywords = [(p.name, slots[p.name]) for p in parameters if p.name in slots and p.kind is not kinds.POSITIONAL_ONLY]
    inspect.signature(function).bind(*positional, **dict(keywords), **dict.fromkeys(names))
    return Binding(positional=tuple(positional), named=tuple(keywords), on_loop=is_async(function))


_cached_binding = functools.lru_cache(maxsize=4096)(_binding)  # reading a signature costs more than most checks


def run_check(check: PythonCheck, function: Function, evidence: Evidence, task: Task) -> CheckResult:
    """Call a sync check and settle what it said."""
    try:
        positional, named = _arguments(check, function, evidence, task)
        return result_from(check, function(*positional, **named))
    except BaseException as error:  # noqa: BLE001 - raised again as the grader's; SystemExit in a thread must not end the run
        return _not_met(check, function, error)


async def run_check_async(check: PythonCheck, function: Function, evidence: Evidence, task: Task) -> CheckResult:
    """Await an async check, or an isolated one in a process of its own, and settle what it said."""
    try:
        positional, named = _arguments(check, function, evidence, task)
        if check.isolate:
            return result_from(check, await isolate.call(function, *positional, **named))
        return result_from(check, await function(*positional, **named))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above; cancellation passes through
        return _not_met(check, function, error)


def result_from(check: Check, returned: Any) -> CheckResult:
    """The result of what a check returned; `GradeError` unless it is a value from 0 to 1, alone or with a sentence."""
    value, text = returned, ""
    if type(returned) is tuple:
        pair = cast("tuple[Any, ...]", returned)
        if len(pair) != 2 or type(pair[1]) is not str:
            raise GradeError(f"check `{check.id}` returned {reprlib.repr(pair)}; a pair is (value, text)", kind="bad_value")
        value, text = pair
    return result_of(check, _number_of(check, value), text)


def _number_of(check: Check, value: Any) -> float:
    """The number a check means. Only real booleans and numbers count: an object that merely behaves like one does not."""
    if type(value) not in {bool, int, float} and _is_numpy_scalar(value):
        value = value.item()
    if type(value) not in {bool, int, float}:
        shown = f"{reprlib.repr(value)} (a `{type(value).__name__}`)"
        raise GradeError(f"check `{check.id}` returned {shown}; return True, False or a number from 0 to 1", kind="bad_value")
    number = float(value) if -2 < value < 2 else math.nan  # a huge int does not fit a float; NaN fails the comparison too
    if not 0.0 <= number <= 1.0:
        raise GradeError(
            f"check `{check.id}` returned {reprlib.repr(value)}; return True, False or a number from 0 to 1", kind="bad_value"
        )
    return number


def _is_numpy_scalar(value: Any) -> bool:
    """True for numpy's own scalars. Does not import numpy: a check that returns one has imported it.

    Another thread may be importing numpy right now, and then the module has only some of its names.
    """
    numpy = sys.modules.get("numpy")
    generic = vars(numpy).get("generic") if numpy is not None else None
    return isinstance(generic, type) and issubclass(cast("type[Any]", type(value)), generic)


def result_of(check: Check, value: float, evidence: str = "") -> CheckResult:
    """The result of a check that came out at `value`."""
    text = (
        evidence
        if len(evidence) <= _MAX_EVIDENCE_CHARS
        else evidence[:_MAX_EVIDENCE_CHARS] + f"... ({len(evidence):,} characters)"
    )
    return CheckResult(
        id=check.id,
        verdict=verdict_of(value),
        value=value + 0.0,
        points=check.points * value + 0.0,  # + 0.0: a negative check that is not met earns 0, not -0
        worth=check.points,
        evidence=encodable(text),
        tags=check.tags,
    )


def result_without(check: Check, error: NotInEvidence) -> CheckResult:
    """The result of a check whose evidence is missing: not met.

    A check with negative points counts as met if the agent kept it from an answer: leaving too much must not save a penalty.
    """
    return result_of(check, 1.0 if error.kind == "cut" and check.points < 0 else 0.0, str(error))


def suppressed_result(check: Check, why: str) -> CheckResult:
    """The result of a check that was not asked."""
    return CheckResult(
        id=check.id,
        verdict=CheckVerdict.SUPPRESSED,
        value=0.0,
        points=0.0,
        worth=check.points,
        evidence=encodable(why),
        tags=check.tags,
    )


def substitute_values(value: Any, task: Task) -> Any:
    """Arguments with every string that is exactly `$key.a.b` or `$data.a.b` replaced by the task's value there.

    `$$` at the start stands for one `$` that is left alone. `LookupError` says which path is unknown, and what there is.
    """
    if isinstance(value, str):
        if value.startswith("$$"):
            return value[1:]
        head, _, path = value.partition(".")
        return _looked_up(task, head[1:], path) if head in {"$key", "$data"} and path else value
    if isinstance(value, dict):
        return {key: substitute_values(item, task) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [substitute_values(item, task) for item in cast("list[Any]", value)]
    return value


def _looked_up(task: Task, root: str, path: str) -> Any:
    value: Any = task.key if root == "key" else task.data
    for word in path.split("."):
        if isinstance(value, Mapping) and word in value:
            value = cast("Mapping[str, Any]", value)[word]
        elif isinstance(value, list | tuple) and word.isdecimal() and int(word) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(word)]
        else:
            there = (
                ", ".join(f"`{key}`" for key in list(cast("Mapping[str, Any]", value))[:8])
                if isinstance(value, Mapping)
                else "nothing"
            )
            raise LookupError(f"`${root}.{path}`: task `{task.id}` has no `{word}` there; there is: {there or 'nothing'}")
    return value


def _arguments(check: PythonCheck, function: Function, evidence: Evidence, task: Task) -> tuple[list[Any], dict[str, Any]]:
    positional, named = binding(function, frozenset(check.args)).arguments({"evidence": evidence, "task": task})
    return positional, named | cast("dict[str, Any]", substitute_values(check.args, task))


def _not_met(check: PythonCheck, function: Function, error: BaseException) -> CheckResult:
    """The result if something was merely missing from the evidence; anything else is raised as the grader's failure."""
    if isinstance(error, NotInEvidence):
        return result_without(check, error)
    if isinstance(error, GradeError) and error.kind == "bad_value":
        raise error
    kind = error.kind if isinstance(error, SandlotError) else "crash"
    what = f"check `{check.id}` ({name_of(function)}{_line_of(error)})"
    named = GradeError(f"{what}: {type(error).__name__}: {_said(error)}", kind=kind)
    named.original = error
    raise named from error


def _said(error: BaseException) -> str:
    """What an error says, even if saying it raises."""
    try:
        return encodable(str(error))[:2000]
    except Exception as second:  # noqa: BLE001 - the author's __str__ is broken as well
        return f"(its message could not be read: {type(second).__name__})"


def _line_of(error: BaseException) -> str:
    """Where it was raised, as `, line N`, if that is outside this file."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f", line {frame.tb_lineno}" if frame is not None and frame.tb_frame.f_code.co_filename != __file__ else ""
