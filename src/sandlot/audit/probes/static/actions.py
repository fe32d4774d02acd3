"""D08: tools that are mentioned but do not exist, and schemas that no call can satisfy.

A name in backticks may be a table, a file or a word. It counts as a tool if the words before it say so (`use`, `call`, `with`,
...) and it is spelled like one. It is confirmed if the same text mentions a real tool in the same way.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.subject import Description
from sandlot.core.ports.world import ToolSpec
from sandlot.core.types import Json

_MENTIONED = re.compile(
    r"\b(?P<verb>use|uses|using|call|calls|calling|with|via|through|run|invoke|by|tools?)\s+(?:the\s+)?(?:tools?\s+)?"
    r"`(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<call>\([^`]*\))?`",
    re.IGNORECASE,
)
_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_FIX = "derive schema, handler and prompt from one source"


async def _look(case: Case) -> list[Finding]:
    """Texts mention only tools that exist, and calls can satisfy every schema."""
    said = case.description
    found = list(find_unknown_tools(said))
    twice = [name for name, count in Counter(tool.name for tool in said.tools).items() if count > 1]
    found += [_schema_finding(name, f"two tools are called `{name}`", {}, Severity.HIGH) for name in twice]
    for tool in said.tools:
        found += _schema(tool)
    return found


def _serves_others(said: Description) -> bool:
    """True if there are MCP servers or other sources, whose tools are known only when a world is open."""
    return any(mark in text for text in said.sources.values() for mark in (".mcp(", ".use(", "[[mcp]]"))


# -- mentioned tools ---------------------------------------------------------------------------------------------------


def find_unknown_tools(said: Description) -> Iterator[Finding]:
    """Tools that a prompt or a description mentions and that do not exist."""
    tools = {tool.name for tool in said.tools}
    if not tools or _serves_others(said):
        return
    texts = {"the system prompt": [("", said.system)], "a prompt": [(task.id, task.prompt) for task in said.tasks]}
    texts["a tool's description"] = [("", tool.description) for tool in said.tools]
    known = _other_names(said)
    for place, pairs in texts.items():
        missing: dict[str, list[tuple[str, str, bool]]] = {}
        for task, text in pairs:
            names = list(_MENTIONED.finditer(text))
            settled = any(match["name"] in tools for match in names)
            for match in names:
                name = match["name"]
                looks = "_" in name.strip("_") or match["call"] is not None
                if name not in tools and looks and name.casefold() not in known:
                    missing.setdefault(name, []).append((task, text, settled))
        for name, seen in missing.items():
            yield _missing(place, name, seen, sorted(tools))


def _other_names(said: Description) -> set[str]:
    """Names with another meaning here: arguments, and words of the tasks' data and keys."""
    names = {str(name).casefold() for tool in said.tools for name in _properties(tool)}
    for task in said.tasks[:200]:
        names |= {word.casefold() for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", f"{task.data} {task.key}"[:50_000])}
    return names


def _missing(place: str, name: str, seen: list[tuple[str, str, bool]], tools: list[str]) -> Finding:
    task, text, settled = next((each for each in seen if each[2]), seen[0])
    at = text.find(f"`{name}")
    witness = Witness(
        inputs={"text": text[max(0, at - 150) : at + 150], "tools": tools},
        expected=f"a tool called `{name}`",
        observed=f"the tools are {', '.join(tools)}",
    )
    title = f"{place} mentions the tool `{name}`, which does not exist"
    severity = Severity.HIGH if settled else Severity.LOW
    return make_finding(
        "D08.unknown_tool", title, witness, severity=severity, sure=settled, task=task or None, count=len(seen), fix=_FIX
    )


# -- schemas -----------------------------------------------------------------------------------------------------------


def _properties(tool: ToolSpec) -> Json:
    found = tool.parameters.get("properties")
    return cast("Json", found) if isinstance(found, dict) else {}


def _schema(tool: ToolSpec) -> Iterator[Finding]:
    properties = _properties(tool)
    required = tool.parameters.get("required")
    names = cast("list[Any]", required) if isinstance(required, list) else []
    lost = [str(name) for name in names if name not in properties]
    if lost:
        title = f"tool `{tool.name}` requires {', '.join(f'`{name}`' for name in lost)}, but declares no such argument"
        yield _schema_finding(tool.name, title, tool.parameters, Severity.HIGH)
    for name, schema in properties.items():
        fault = _fault(schema)
        if fault is not None:
            yield _schema_finding(tool.name, f"argument `{name}` of `{tool.name}` {fault}", {"schema": schema}, Severity.LOW)
    if not tool.description.strip():
        title = f"tool `{tool.name}` has no description"
        yield make_finding("D08.undescribed", title, severity=Severity.INFO, where=tool.name, fix="give it a docstring")


def _fault(schema: Any) -> str | None:
    if not isinstance(schema, dict):
        return "has no schema"
    given = cast("Json", schema)
    kind, choices = given.get("type"), given.get("enum")
    if isinstance(kind, str) and kind not in _TYPES:
        return f"has the type `{kind}`, which JSON Schema does not have"
    if choices == []:
        return "allows no value at all"
    if isinstance(choices, list) and given.get("default") is not None and given["default"] not in choices:
        return f"has the default {given['default']!r}, which is not among its allowed values"
    return None


def _schema_finding(tool: str, title: str, schema: Json, severity: Severity) -> Finding:
    witness = Witness(inputs={"tool": tool, "schema": schema}, expected="a schema that calls can satisfy", observed=title)
    return make_finding("D08.schema", title, witness, severity=severity, where=tool, fix=_FIX)


PROBE = Probe("tool-schemas", Layer.STATIC, ("D08",), _look)
