"""D08: the environment's tools compared with those of production.

The manifest is a JSON list of MCP tools (or an object with `tools`), each with a name, a description and `inputSchema`. Compared
are tool names, arguments (required, types, choices, defaults) and descriptions. The spelling of a schema does not matter: titles,
order, and `anyOf` with null for an optional value are ignored.
"""

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.core.errors import ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.types import Json

_ALIKE = 0.75
"""With this similarity of names, or the same arguments, a tool counts as renamed."""
_FIX = "take the tools from the production manifest, or change production"


async def _look(case: Case) -> list[Finding]:
    """The tools are those of production."""
    assert case.manifest is not None
    served = {tool.name: tool for tool in _read_manifest(case.manifest)}
    here = {tool.name: tool for tool in case.description.tools}
    found = list(_name_findings(here, served))
    for name in here.keys() & served.keys():
        found += _tool_findings(here[name], served[name])
    return sorted(found, key=lambda finding: (finding.severity is Severity.LOW, finding.where or ""))


def _read_manifest(path: Path) -> list[ToolSpec]:
    """The tools of a manifest; `ConfigError` if it is invalid."""
    try:
        said: Any = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"manifest `{path}` cannot be read: {error}") from error
    listed: Any = cast("Json", said).get("tools") if isinstance(said, dict) else said
    if not isinstance(listed, list):
        raise ConfigError(f"manifest `{path}`: give a JSON list of tools, or an object with `tools`")
    return [_spec(item, path) for item in cast("list[Any]", listed)]


def _spec(item: Any, path: Path) -> ToolSpec:
    tool = cast("Json", item) if isinstance(item, dict) else {}
    schema: Any = tool.get("inputSchema", tool.get("input_schema", tool.get("parameters", {})))
    if not isinstance(tool.get("name"), str) or not isinstance(schema, dict):
        raise ConfigError(
            f"manifest `{path}`: each tool needs a `name` and an `inputSchema`; found {str(cast('object', item))[:120]}"
        )
    return ToolSpec(name=tool["name"], description=str(tool.get("description") or ""), parameters=cast("Json", schema))


# -- names -------------------------------------------------------------------------------------------------------------


def _name_findings(here: dict[str, ToolSpec], served: dict[str, ToolSpec]) -> Iterator[Finding]:
    ours, theirs = set(here) - set(served), set(served) - set(here)
    for name in sorted(ours):
        twin = next((other for other in sorted(theirs) if _alike(here[name], served[other])), None)
        if twin is not None:
            theirs.discard(twin)
            yield _finding(
                name, f"tool `{name}` is called `{twin}` in production", {"here": name, "served": twin}, "renamed", Severity.HIGH
            )
        else:
            title = f"tool `{name}` does not exist in production"
            yield _finding(name, title, {"served": sorted(served)}, "added", Severity.HIGH)
    for name in sorted(theirs):
        title = f"tool `{name}` of production is missing here"
        yield _finding(name, title, {"here": sorted(here)}, "removed", Severity.LOW)


def _alike(one: ToolSpec, other: ToolSpec) -> bool:
    left, right = _arguments(one), _arguments(other)
    same = bool(left) and left.keys() == right.keys()
    return same or difflib.SequenceMatcher(None, one.name, other.name).ratio() >= _ALIKE


# -- one tool ----------------------------------------------------------------------------------------------------------


def _tool_findings(here: ToolSpec, served: ToolSpec) -> Iterator[Finding]:
    ours, theirs = _arguments(here), _arguments(served)
    differences: Json = {}
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in theirs:
            differences[name] = "does not exist in production"
        elif name not in ours:
            differences[name] = "is missing here"
        else:
            parts = [part for part in ("required", "type", "enum", "items") if ours[name].get(part) != theirs[name].get(part)]
            for part in parts:
                differences[f"{name}.{part}"] = f"{ours[name].get(part)!r} here, {theirs[name].get(part)!r} in production"
    if differences:
        words = "; ".join(f"`{name}` {what}" for name, what in differences.items())
        title = f"tool `{here.name}` has different arguments in production: {words}"
        yield _finding(here.name, title, differences, "arguments", Severity.HIGH)
    defaults = {
        name: f"{ours[name].get('default')!r} here, {theirs[name].get('default')!r} in production"
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name].get("default") != theirs[name].get("default")
    }
    if defaults:
        title = f"tool `{here.name}` has different defaults in production: {', '.join(f'`{name}`' for name in defaults)}"
        yield _finding(here.name, title, defaults, "defaults", Severity.LOW)
    if " ".join(here.description.split()) != " ".join(served.description.split()):
        words = {"here": here.description[:300], "served": served.description[:300]}
        yield _finding(
            here.name, f"tool `{here.name}` has a different description in production", words, "description", Severity.LOW
        )


def _arguments(tool: ToolSpec) -> dict[str, Json]:
    """Each argument as a flat record: type, choices, default, required."""
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required")
    names = cast("list[Any]", required) if isinstance(required, list) else []
    found = cast("Json", properties) if isinstance(properties, dict) else {}
    return {name: _flat(schema) | {"required": name in names} for name, schema in found.items()}


def _flat(schema: Any) -> Json:
    if not isinstance(schema, dict):
        return {}
    given = dict(cast("Json", schema))
    kinds = _kinds(given)
    for option in cast("list[Any]", given.get("anyOf") or given.get("oneOf") or []):
        inner = cast("Json", option) if isinstance(option, dict) else {}
        kinds |= _kinds(inner)
        given |= {part: inner[part] for part in ("enum", "items") if part in inner}
    if "const" in given:
        given["enum"] = [given["const"]]
    choices = sorted(map(repr, cast("list[Any]", given["enum"]))) if isinstance(given.get("enum"), list) else None
    items = _flat(given["items"]) if isinstance(given.get("items"), dict) else None
    return {"type": sorted(kinds - {"null"}), "enum": choices, "items": items, "default": given.get("default")}


def _kinds(schema: Json) -> set[str]:
    kind = schema.get("type")
    if kind is None and isinstance(schema.get("enum"), list):
        return {"string"} if all(isinstance(each, str) for each in cast("list[Any]", schema["enum"])) else set()
    return {str(each) for each in cast("list[Any]", kind)} if isinstance(kind, list) else {str(kind)} if kind else set()


def _finding(tool: str, title: str, compared: Json, variant: str, severity: Severity) -> Finding:
    witness = Witness(inputs={"tool": tool, "compared": compared}, expected="the tools of production", observed=title)
    short = title if len(title) <= 300 else f"{title[:297]}..."
    return make_finding(f"D08.{variant}", short, witness, severity=severity, where=tool, fix=_FIX)


PROBE = Probe(
    "production-tools",
    Layer.STATIC,
    ("D08",),
    _look,
    lambda case: None if case.manifest else "no production manifest was given",
)
