"""A script that calls every tool once, for probes that compare two worlds."""

from collections.abc import Iterator
from typing import Any

from sandlot.audit.case import Case, script_of
from sandlot.audit.probes.scripted.reach import properties_of, required_of
from sandlot.audit.subject import Act, Call, Script, Trial
from sandlot.core.ports.world import ToolSpec
from sandlot.core.types import Json


def tour_script(case: Case, golden: Trial) -> Script:
    """Every tool once, up to 12, with the values that golden used under the same names, else a default."""
    known: dict[str, Any] = {}
    own: dict[str, Call] = {}
    for act in golden_acts(golden):
        if isinstance(act, Call):
            own.setdefault(act.tool, act)
            known |= act.arguments
    calls: list[Call] = []
    for spec in case.description.tools:
        arguments = {name: known.get(name, _default_value(properties_of(spec).get(name, {}))) for name in required_of(spec)}
        calls.append(own.get(spec.name) or Call(spec.name, arguments))
    return Script(name="tour", turns=tuple((call,) for call in calls[:12]))


def _default_value(schema: Json) -> Any:
    """A harmless value of the type."""
    if schema.get("enum"):
        return schema["enum"][0]
    plain: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": False, "array": [], "object": {}}
    return plain.get(schema.get("type", ""), "a")


def golden_acts(golden: Trial) -> Iterator[Act]:
    """The golden solution's acts, in order."""
    for turn in script_of(golden, "golden").turns:
        yield from turn


def free_texts(spec: ToolSpec) -> set[str]:
    """Names of arguments that take any text."""
    return {name for name, inner in properties_of(spec).items() if inner.get("type") == "string" and "enum" not in inner}
