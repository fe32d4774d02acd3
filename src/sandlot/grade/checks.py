"""How a check function is called, and what it may return.

A check returns `True`, `False`, a number from 0 to 1, or a pair of that and a reason. Anything else is an error with the check's
name and the value: a check that returns None by accident must not count as not met. A check that asks for something missing from
the evidence is not met; any other exception is the grader's failure, and the rollout has no score.
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
from sandlot.core.text import encodable
from sandlot.grade.score import verdict_of

Function = Callable[..., Any]
_MAX_EVIDENCE_CHARS = 4000
"""Maximum length of a stored reason."""


@dataclass(frozen=True, slots=True)
class Binding:
    """How a function takes the evidence and the task: by position, by name, or not at all."""

    positional: tuple[str, ...]
    named: tuple[tuple[str, str], ...]
    on_loop: bool
    """True for an async function."""

    def arguments(self, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of one call, from `{"evidence": ..., "task": ...}`."""
        return [given[slot] for slot in self.positional], {name: given[slot] for name, slot in self.named}


def binding(function: Function, names: frozenset[str]) -> Binding:
    """How to call a function with `evidence`, `task` and arguments of these names; `TypeError` if it does not fit.

    Parameters named `evidence` and `task` get them, in any position. If there are none, the first two required parameters
    without an argument get them. A function may leave out what it does not need.
    """
    hashable = isinstance(function, Hashable)  # pyright: ignore[reportUnnecessaryIsInstance] - an author's callable may not be
    return (_cached_binding if hashable else _binding)(function, names)


def _binding(function: Function, names: frozenset[str]) -> Binding:
    parameters = list(inspect.signature(function).parameters.values())
    reserved = names & {"evidence", "task"}
    if reserved:
        raise TypeError(f"an argument is named `{min(reserved)}`, which Sandlot passes itself; rename it")
    slots = {parameter.name: parameter.name for parameter in parameters if parameter.name in {"evidence", "task"}}
    left = [] if slots else ["evidence", "task"]
    kinds = inspect.Parameter
    for parameter in parameters:
        by_place = parameter.kind in {kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD}
        if left and by_place and parameter.default is kinds.empty and parameter.name not in {*slots, *names}:
            slots[parameter.name] = left.pop(0)
    positional = [slots[p.name] for p in parameters if p.kind is kinds.POSITIONAL_ONLY and p.name in slots]
    if any(parameter.kind is kinds.VAR_POSITIONAL for parameter in parameters) and not slots:
        positional = ["evidence", "task"]  # a wrapper with `*args`
    keywords = [(p.name, slots[p.name]) for p in parameters if p.name in slots and p.kind is not kinds.POSITIONAL_ONLY]
    inspect.signature(function).bind(*positional, **dict(keywords), **dict.fromkeys(names))
    return Binding(positional=tuple(positional), named=tuple(keywords), on_loop=is_async(function))


_cached_binding = functools.lru_cache(maxsize=4096)(_binding)  # reading a signature takes longer than most checks


def run_check(check: PythonCheck, function: Function, evidence: Evidence, task: Task) -> CheckResult:
    """Call a plain check function and return its result."""
    try:
        positional, named = _arguments(check, function, evidence, task)
        return result_from(check, function(*positional, **named))
    except BaseException as error:  # noqa: BLE001 - raised again as GradeError; SystemExit in a thread must not end the run
        return _not_met(check, function, error)


async def run_check_async(check: PythonCheck, function: Function, evidence: Evidence, task: Task) -> CheckResult:
    """Await an async check, or run an isolated one in a child process, and return its result."""
    try:
        positional, named = _arguments(check, function, evidence, task)
        if check.isolate:
            return result_from(check, await isolate.call(function, *positional, **named))
        return result_from(check, await function(*positional, **named))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above; cancellation passes through
        return _not_met(check, function, error)


def result_from(check: Check, returned: Any) -> CheckResult:
    """The result for a returned value; `GradeError` if it is not a value from 0 to 1, alone or with a reason."""
    value, text = returned, ""
    if type(returned) is tuple:
        pair = cast("tuple[Any, ...]", returned)
        if len(pair) != 2 or type(pair[1]) is not str:
            raise GradeError(f"check `{check.id}` returned {reprlib.repr(pair)}; return a pair (value, reason)", kind="bad_value")
        value, text = pair
    return result_of(check, _number_of(check, value), text)


def _number_of(check: Check, value: Any) -> float:
    """The value of a check as a float. Only real booleans and numbers are accepted, no objects that behave like them."""
    if type(value) not in {bool, int, float} and _is_numpy_scalar(value):
        value = value.item()
    if type(value) not in {bool, int, float}:
        shown = f"{reprlib.repr(value)} (a `{type(value).__name__}`)"
        raise GradeError(f"check `{check.id}` returned {shown}; return True, False or a number from 0 to 1", kind="bad_value")
    number = float(value) if -2 < value < 2 else math.nan  # a huge int does not fit into a float; NaN fails the comparison below
    if not 0.0 <= number <= 1.0:
        raise GradeError(
            f"check `{check.id}` returned {reprlib.repr(value)}; return True, False or a number from 0 to 1", kind="bad_value"
        )
    return number


def _is_numpy_scalar(value: Any) -> bool:
    """True for numpy's own scalars. Does not import numpy: a check that returns one has imported it.

    Another thread may be importing numpy now, and the module may have only some of its names.
    """
    numpy = sys.modules.get("numpy")
    generic = vars(numpy).get("generic") if numpy is not None else None
    return isinstance(generic, type) and issubclass(cast("type[Any]", type(value)), generic)


def result_of(check: Check, value: float, evidence: str = "") -> CheckResult:
    """The result of a check with this value."""
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

    If the agent made the evidence unusable (kind `cut`), a check with negative points counts as met: too many files must not
    avoid a penalty.
    """
    return result_of(check, 1.0 if error.kind == "cut" and check.points < 0 else 0.0, str(error))


def suppressed_result(check: Check, why: str) -> CheckResult:
    """The result of a check that did not run."""
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
    """Arguments with every string that is exactly `$key.a.b` or `$data.a.b` replaced by that value of the task.

    A string that begins with `$$` loses one `$` and is not replaced. `LookupError` names an unknown path.
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
            raise LookupError(f"`${root}.{path}`: task `{task.id}` has no `{word}` there; it has: {there or 'nothing'}")
    return value


def _arguments(check: PythonCheck, function: Function, evidence: Evidence, task: Task) -> tuple[list[Any], dict[str, Any]]:
    positional, named = binding(function, frozenset(check.args)).arguments({"evidence": evidence, "task": task})
    return positional, named | cast("dict[str, Any]", substitute_values(check.args, task))


def _not_met(check: PythonCheck, function: Function, error: BaseException) -> CheckResult:
    """The result if something was missing from the evidence; any other error is raised as `GradeError`."""
    if isinstance(error, NotInEvidence):
        return result_without(check, error)
    if isinstance(error, GradeError) and error.kind == "bad_value":
        raise error
    kind = error.kind if isinstance(error, SandlotError) else "crash"
    what = f"check `{check.id}` ({name_of(function)}{_line_of(error)})"
    named = GradeError(f"{what}: {type(error).__name__}: {_message_of(error)}", kind=kind)
    named.original = error
    raise named from error


def _message_of(error: BaseException) -> str:
    """The message of an error, even if its `__str__` raises."""
    try:
        return encodable(str(error))[:2000]
    except Exception as second:  # noqa: BLE001 - the author's `__str__` may raise anything
        return f"(its message could not be read: {type(second).__name__})"


def _line_of(error: BaseException) -> str:
    """`, line N` of the place that raised, if it is outside this file."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f", line {frame.tb_lineno}" if frame is not None and frame.tb_frame.f_code.co_filename != __file__ else ""
