"""D18 between seats: tools that act with root's rights in the sandbox that several seats share.

Commands of a seat's call run as its own user. What a tool runs as root, and files that it reads or writes at a path of the
agent's, are not kept apart.
"""

import ast
from collections.abc import Iterator

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer
from sandlot.audit.probes.static.code import Code, Function, Part, read_code
from sandlot.audit.probes.static.sighting import Sighting, findings_from, sighting_at

_RUNS = frozenset({"exec", "spawn", "start"})
_FILES = frozenset({"read", "write", "list"})


def _sightings(code: Code) -> Iterator[Sighting]:
    for function in code.working_in(Part.TOOL, Part.USER):
        own = {parameter.arg for parameter in function.parameters} - {"world"}
        for node in function.nodes():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                yield from _of_call(function, node, node.func, own)


def _of_call(function: Function, node: ast.Call, called: ast.Attribute, own: set[str]) -> Iterator[Sighting]:
    if not (isinstance(called.value, ast.Name) and called.value.id == "world"):
        return
    users = [each.value for each in node.keywords if each.arg == "user"]
    if called.attr in _RUNS and any(isinstance(user, ast.Constant) and user.value in {"root", "0", "0:0"} for user in users):
        title = "runs a command as root in the sandbox that the seats share"
        yield sighting_at(function, node, "D18.seats", title, "leave `user` out: the command then runs as the seat that calls")
    if called.attr in _FILES and node.args and own & {each.id for each in ast.walk(node.args[0]) if isinstance(each, ast.Name)}:
        title = f"calls `world.{called.attr}` with a path of the seat's: it reaches the files of every seat"
        fix = "check the path, or let the seat's own user do it: `world.exec` runs as the seat"
        yield sighting_at(function, node, "D18.seats", title, fix)


async def _look(case: Case) -> list[Finding]:
    """No tool gives a seat root's rights in the sandbox that the seats share."""
    return findings_from(_sightings(read_code(case)))


def _applies(case: Case) -> str | None:
    said = case.description
    return None if said.seats and said.image is not None else "there are no seats that share a sandbox"


PROBE = Probe("shared-seats", Layer.STATIC, ("D18",), _look, _applies)
