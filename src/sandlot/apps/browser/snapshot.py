"""A page's accessibility tree as compact text, with a reference for each element that can be acted on.

The text has the form that the public Playwright MCP server uses: one line for each element with its role, name, state and
reference. References stay the same while the page stays, and are never used again for another element.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

_MAX_DEPTH = 60
"""Levels of nesting shown."""
_MAX_NODES = 20_000
"""Nodes of one tree that are read."""
_MAX_TEXT_CHARS = 2_000
"""Characters shown of one name or text."""

_ROLES = {
    "RootWebArea": "document",
    "StaticText": "text",
    "Canvas": "img",
    "DescriptionList": "list",
    "DescriptionListDetail": "definition",
    "DescriptionListTerm": "term",
    "Details": "group",
    "DisclosureTriangle": "button",
    "Figcaption": "caption",
    "MenuListOption": "option",
    "ListBoxOption": "option",
    "Date": "textbox",
    "InputTime": "textbox",
    "image": "img",
    "searchbox": "searchbox",
}
"""What the browser calls a role, and its name here, where the two differ."""
_TRANSPARENT = {
    *(
        "",
        "none",
        "generic",
        "Abbr",
        "LabelText",
        "Legend",
        "MenuListPopup",
        "Section",
        "code",
        "emphasis",
        "mark",
        "presentation",
    ),
    *("rowgroup", "strong", "subscript", "superscript", "time", "GenericContainer", "LayoutTable", "LayoutTableRow"),
    *("LayoutTableCell", "document", "HeaderAsNonLandmark", "FooterAsNonLandmark", "SectionHeader", "SectionFooter"),
}
"""Roles that are not shown; their children take their place."""
_HIDDEN = {"InlineTextBox", "LineBreak", "ListMarker", "IframePresentational", "splitter"}
_ACTABLE = {
    *("button", "checkbox", "combobox", "link", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio", "radio", "searchbox"),
    *("slider", "spinbutton", "switch", "tab", "textbox", "treeitem"),
}
_PLACES = {
    *(
        "alert",
        "alertdialog",
        "article",
        "banner",
        "complementary",
        "contentinfo",
        "dialog",
        "form",
        "group",
        "img",
        "list",
        "listitem",
    ),
    *("main", "menu", "navigation", "region", "row", "search", "status", "tabpanel", "table", "tablist"),
}
_NAMELESS = {"row", "listitem", "paragraph"}
"""Roles whose name would only repeat what they contain."""
_ENTRIES = {"textbox", "searchbox", "spinbutton", "slider", "combobox"}


@dataclass(frozen=True, slots=True)
class Element:
    """An element of the page that has a reference."""

    ref: str
    backend: int
    """The browser's number of the DOM node."""
    role: str
    name: str


@dataclass(slots=True)
class References:
    """The references of one tab. They are counted on across pages, so that an old one never means a new element."""

    count: int = 0
    by_ref: dict[str, Element] = field(default_factory=dict[str, Element])
    _by_node: dict[int, str] = field(default_factory=dict[int, str])

    def forget(self) -> None:
        """Drop all: the page has changed."""
        self.by_ref.clear()
        self._by_node.clear()

    def name(self, backend: int, role: str, name: str) -> str:
        """The reference of a node; a new one if it has none."""
        ref = self._by_node.get(backend)
        if ref is None:
            self.count += 1
            ref = self._by_node[backend] = f"e{self.count}"
        self.by_ref[ref] = Element(ref, backend, role, name)
        return ref


@dataclass(slots=True)
class _Item:
    """One line of the snapshot, with what is nested in it."""

    role: str
    name: str = ""
    marks: str = ""
    value: str = ""
    url: str = ""
    items: list["_Item"] = field(default_factory=list["_Item"])


class _Tree:
    """The nodes of one accessibility tree, by id. Each is shown once: a page in the sandbox could send a tree with cycles."""

    def __init__(self, nodes: Sequence[dict[str, Any]], references: References) -> None:
        self._nodes = {node["nodeId"]: node for node in nodes[:_MAX_NODES]}
        self._references = references
        self._seen: set[str] = set()

    def item(self, node: dict[str, Any], depth: int) -> _Item:
        """A node and what is in it."""
        self._seen.add(node["nodeId"])
        role, name = _role(node), _text(node, "name")
        item = _Item(role, "" if role in _NAMELESS else name, self._marks(node, role, name), url=_property(node, "url"))
        if role in _ENTRIES:
            item.value = _text(node, "value")
        if role in {"textbox", "searchbox", "spinbutton", "slider", "option"}:
            return item
        if depth < _MAX_DEPTH:
            item.items = _joined([self.item(child, depth + 1) for child in self._shown(node)])
        if item.name:
            item.items = [each for each in item.items if each.role != "text" or each.name not in item.name]
        return item

    def _shown(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The nodes below, with those that are not shown replaced by their own."""
        waiting = [(child, False) for child in reversed(node.get("childIds", ()))]
        while waiting:
            number, in_label = waiting.pop()
            child = self._nodes.get(number)
            if child is None or number in self._seen:
                continue
            self._seen.add(number)
            role = _role(child)
            if role in _HIDDEN or (role == "text" and (in_label or not _text(child, "name").strip())):
                continue
            if child.get("ignored") or role in _TRANSPARENT:
                label = in_label or role == "LabelText"
                waiting += [(each, label) for each in reversed(child.get("childIds", ()))]
            else:
                yield child

    def _marks(self, node: dict[str, Any], role: str, name: str) -> str:
        marks: list[str] = []
        level = _property(node, "level")
        if level and role == "heading":
            marks.append(f"level={level}")
        for mark in ("checked", "pressed"):
            state = _property(node, mark)
            if state in {"true", "mixed"}:
                marks.append(mark if state == "true" else f"{mark}=mixed")
        marks += [mark for mark in ("disabled", "expanded", "selected") if _property(node, mark) == "True"]
        if _property(node, "focused") == "True" and role in _ACTABLE:
            marks.append("active")
        backend = node.get("backendDOMNodeId")
        if backend and (role in _ACTABLE or role in _PLACES):
            marks.append(f"ref={self._references.name(backend, role, name)}")
        return "".join(f" [{mark}]" for mark in marks)


def _role(node: dict[str, Any]) -> str:
    role = str(node.get("role", {}).get("value", ""))
    return _ROLES.get(role, role)


def _text(node: dict[str, Any], what: str) -> str:
    text = " ".join(str(node.get(what, {}).get("value", "")).split())
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}..."


def _property(node: dict[str, Any], name: str) -> str:
    return next((str(each["value"].get("value", "")) for each in node.get("properties", ()) if each["name"] == name), "")


def _joined(items: list[_Item]) -> list[_Item]:
    """Neighbouring pieces of text as one."""
    joined: list[_Item] = []
    for is_text, group in groupby(items, lambda item: item.role == "text"):
        found = list(group)
        joined += [_Item("text", " ".join(item.name for item in found))] if is_text else found
    return joined


def _lines(items: Sequence[_Item], depth: int) -> Iterator[str]:
    for item in items:
        head = "  " * depth + "- "
        if item.role == "text":
            yield f"{head}text: {item.name}"
            continue
        line = f"{head}{item.role}{f' {_quoted(item.name)}' if item.name else ''}{item.marks}"
        only = item.items[0] if len(item.items) == 1 and item.items[0].role == "text" and not item.url else None
        if only or (item.value and not item.items):
            yield f"{line}: {only.name if only else item.value}"
            continue
        yield line + (":" if item.items or item.url else "")
        if item.url:
            yield f"{head[:-2]}  - /url: {item.url}"
        yield from _lines(item.items, depth + 1)


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def snapshot_text(nodes: Sequence[dict[str, Any]], references: References, root: int | None = None, depth: int = 0) -> str:
    """The tree as text; with `root`, only what is in that DOM node; with `depth`, only so many levels."""
    if not nodes:
        return ""
    tree = _Tree(nodes, references)
    start = nodes[0] if root is None else next((node for node in nodes if node.get("backendDOMNodeId") == root), None)
    if start is None:
        return ""
    whole = tree.item(start, 0)
    items = whole.items if root is None else [whole]
    lines = _lines(items, 0)
    return "\n".join(line for line in lines if not depth or (len(line) - len(line.lstrip())) // 2 < depth)
