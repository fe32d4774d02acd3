"""D04 in code: errors that become scores or ordinary results.

Parsing an agent's text may fail, and `except ValueError: return False` is then right. Reported are handlers that catch every
error, or timeouts and infrastructure errors, and continue as if nothing had happened. A check that wraps its own work and returns
a fixed score for every error is confirmed by its code alone.
"""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import replace

from sandlot.audit.finding import Severity
from sandlot.audit.probes.static.code import Code, Function, Module, Part, last_name
from sandlot.audit.probes.static.sighting import Sighting, code_probe, sighting_at

_BROAD = frozenset({"Exception", "BaseException"})
_LATE = frozenset({"TimeoutError", "TimeoutExpired", "CancelledError", "ReadTimeout", "ConnectTimeout", "Timeout", "WouldBlock"})
_INFRASTRUCTURE = frozenset(
    {"ConnectionError", "HTTPError", "RequestException", "URLError", "SandboxError", "ModelError", "OSError"}
)
_RUNS = frozenset({"exec", "spawn", "start", "run", "check_output", "check_call", "Popen", "communicate", "grading_sandbox"})
"""Calls that may run the agent's code, whose timeout may rightly score 0."""

_RAISE = "raise the error: a check that cannot decide must not give a score"
_SAY = "raise `ToolError`, or report the failure in the result"


def _look(code: Code) -> Iterator[Sighting]:
    """No error handler in tools, setup or checks hides a failure."""
    for function in code.working_in(Part.CHECK, Part.TOOL, Part.SETUP, Part.USER):
        for node in function.nodes():
            if isinstance(node, ast.Try):
                yield from _handlers(code, function, node)
                yield from _unreachable(function, node)
            elif isinstance(node, ast.With | ast.AsyncWith):
                yield from _scopes(function, node)


def _handlers(code: Code, function: Function, node: ast.Try) -> Iterator[Sighting]:
    for handler in node.handlers:
        names = _caught(function.module, handler)
        hides = _hides_how(handler)
        if not hides or (Part.CHECK not in function.parts and _reports_failure(handler)):
            continue
        fix = _RAISE if Part.CHECK in function.parts else _SAY
        if names & _BROAD or handler.type is None:
            title = f"catches every error and {hides}"
            sighting = sighting_at(function, handler, "D04.swallowed", title, fix)
            yield replace(sighting, shown=ast.unparse(node)[:800]) if _scores_errors(code, function, node, handler) else sighting
        elif names & (_LATE | _INFRASTRUCTURE) and not names - _LATE - _INFRASTRUCTURE:
            runs = any(
                isinstance(inner, ast.Call) and last_name(inner.func) in _RUNS for part in node.body for inner in ast.walk(part)
            )
            late = bool(names & _LATE)
            title = f"turns {'a timeout' if late else 'an infrastructure error'} into an ordinary result: it {hides}"
            yield sighting_at(function, handler, "D04.timeout", title, fix, Severity.LOW if runs or not late else Severity.HIGH)


def _scores_errors(code: Code, function: Function, node: ast.Try, handler: ast.ExceptHandler) -> bool:
    """True if a check's own work is inside the `try`, so that every failure gets the handler's fixed score."""
    if Part.CHECK not in function.marked or not isinstance(handler.body[-1], ast.Return):
        return False
    value = handler.body[-1].value
    value = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
    inside = [inner for statement in node.body for inner in ast.walk(statement)]
    works = any(
        isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and code.callee(function.module, inner.func)
        for inner in inside
    )
    keys = any(isinstance(inner, ast.Attribute) and inner.attr == "key" for inner in inside)
    return works and keys and isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def _caught(module: Module, handler: ast.ExceptHandler) -> set[str]:
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
    return {module.full_name(each).rpartition(".")[2] for each in types}


def _hides_how(handler: ast.ExceptHandler) -> str | None:
    """What a handler does instead of raising, in words; None if it may raise."""
    if any(isinstance(node, ast.Raise) for statement in handler.body for node in ast.walk(statement)):
        return None
    for statement in handler.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Return):
                return f"returns `{ast.unparse(node.value)[:40]}`" if node.value is not None else "returns"
    if all(isinstance(statement, ast.Pass | ast.Continue) or _is_docstring(statement) for statement in handler.body):
        return "continues"
    if any(isinstance(statement, ast.Assign) for statement in handler.body):
        return "uses a default value"
    return None


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _reports_failure(handler: ast.ExceptHandler) -> bool:
    """True if the handler passes the error on, or uses words that report a failure."""
    for statement in handler.body:
        for node in ast.walk(statement):
            if handler.name and isinstance(node, ast.Name) and node.id == handler.name:
                return True
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _says_failure(node.value):
                return True
    return False


def _says_failure(text: str) -> bool:
    low = text.casefold()
    return any(
        word in low
        for word in ("error", "fail", "timed out", "time-out", "timeout", "could not", "cannot", "unavailable", "invalid")
    )


def _unreachable(function: Function, node: ast.Try) -> Iterator[Sighting]:
    """A handler after another that already catches its errors."""
    before: list[type[BaseException]] = []
    for handler in node.handlers:
        types = [_builtin(name) for name in _caught(function.module, handler)]
        if types and before and all(each is not None and issubclass(each, tuple(before)) for each in types):
            title = (
                f"never reaches its handler of {ast.unparse(handler.type) if handler.type else 'the rest'}: one above catches it"
            )
            yield sighting_at(function, handler, "D04.order", title, "put the narrower handler first", Severity.LOW)
        before += [each for each in types if each is not None]


def _builtin(name: str) -> type[BaseException] | None:
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _scopes(function: Function, node: ast.With | ast.AsyncWith) -> Iterator[Sighting]:
    """`suppress(Exception)`, and cancel scopes without a check for the timeout."""
    for item in node.items:
        call = item.context_expr
        if not isinstance(call, ast.Call):
            continue
        name = last_name(call.func)
        if name == "suppress" and any(last_name(each) in _BROAD | _LATE for each in call.args):
            fix = _RAISE if Part.CHECK in function.parts else _SAY
            yield sighting_at(function, node, "D04.swallowed", "suppresses every error and continues", fix)
        if name == "move_on_after" and not any(_asks_whether_late(each) for each in function.nodes()):
            title = "continues after a timeout without checking for it"
            fix = "use `fail_after`, or check `cancelled_caught` and raise"
            yield sighting_at(function, node, "D04.timeout", title, fix)


def _asks_whether_late(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in {"cancelled_caught", "cancel_called"}


PROBE = code_probe("swallowed-errors", ("D04",), _look)
