"""The accessibility tree as text: one line per element, indented, with a reference that clicks can name.

What it says comes from applications: shapes are checked, names are made one line, and depth, lines and text have limits.
"""

from collections.abc import Sequence
from typing import Any, cast

from sandlot.core.errors import ToolError
from sandlot.core.text import one_line

MAX_LINES = 700
MAX_NODES = 1_500
"""Elements that the reader inside is asked for at most; more of them are forged."""
MAX_NUMBER = 10**9
"""References of elements are below this."""
_MAX_INDENT = 12
_NAME_CHARS = 120
_TEXT_CHARS = 1_500
_PLAIN = {"filler", "panel", "section", "viewport", "scroll pane", "unknown", "redundant object", "layered pane", "root pane"}
"""Roles that only arrange others: without a name they are not shown."""
_WORDS = {
    "push button": "button",
    "table cell": "cell",
    "page tab": "tab",
    "page tab list": "tabs",
    "check menu item": "check item",
}


def tree_text(nodes: object, text: str = "") -> tuple[str, int]:
    """The lines of the tree, and how many were left out. With `text`, only elements that have it, with those above them."""
    lines: list[tuple[int, str]] = []
    depths: list[tuple[int, int]] = []
    for node in _checked(nodes):
        while depths and depths[-1][0] >= node["depth"]:
            depths.pop()
        indent = depths[-1][1] + 1 if depths else 0
        if node["role"] in _PLAIN and not node["name"] and not node.get("text"):
            depths.append((node["depth"], indent - 1))
            continue
        depths.append((node["depth"], indent))
        lines.append((min(indent, _MAX_INDENT), _line(node)))
    if text:
        lines = _with_text(lines, text.casefold())
    shown = [f"{'  ' * indent}- {line}" for indent, line in lines[:MAX_LINES]]
    return "\n".join(shown), max(0, len(lines) - MAX_LINES)


def _checked(nodes: object) -> list[dict[str, Any]]:
    """Nodes whose fields have their types; `ToolError` if an application has forged something else."""
    found = cast("list[Any]", nodes) if isinstance(nodes, list) else None
    if found is None or len(found) > MAX_NODES or not all(map(_is_node, found)):
        raise ToolError("the accessibility tree cannot be read; try again, or use `desktop_screenshot`")
    return found


def _is_node(node: object) -> bool:
    fields = cast("dict[str, Any]", node) if isinstance(node, dict) else {}
    kinds = (("depth", int), ("number", int), ("role", str), ("name", str), ("states", list))
    typed = all(isinstance(fields.get(key), kind) for key, kind in kinds) and isinstance(fields.get("text", ""), str)
    return typed and 0 <= fields["number"] < MAX_NUMBER and all(isinstance(state, str) for state in fields["states"])


def _line(node: dict[str, Any]) -> str:
    role = _WORDS.get(node["role"], one_line(node["role"], 40))
    name = f' "{_quoted(node["name"].strip(), _NAME_CHARS)}"' if node["name"].strip() else ""
    states = "".join(f" [{one_line(state, 20)}]" for state in node["states"][:8])
    text = node.get("text", "")
    value = f': "{_quoted(text, _TEXT_CHARS)}"' if text else ""
    length = node.get("length", 0)
    more = (
        f" ({length} characters in all)" if isinstance(length, int) and MAX_NUMBER > length > min(len(text), _TEXT_CHARS) else ""
    )
    return f"{role}{name} [e{node['number']}]{states}{value}{more}"


def _quoted(text: str, most: int) -> str:
    """Text on one line, with newlines and tabs escaped, without other control characters."""
    kept = text[:most].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    plain = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in kept)
    return plain + ("..." if len(text) > most else "")


def _with_text(lines: Sequence[tuple[int, str]], text: str) -> list[tuple[int, str]]:
    found: set[int] = set()
    above: list[int] = []
    for number, (indent, line) in enumerate(lines):
        while above and lines[above[-1]][0] >= indent:
            above.pop()
        above.append(number)
        if text in line.casefold():
            found.update(above)
    return [lines[number] for number in sorted(found)]
