from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandlot.apps.browser.snapshot import References, snapshot_text


def node(number: int, role: str, name: str = "", children: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    properties = [{"name": key, "value": {"value": value}} for key, value in more.pop("properties", {}).items()]
    return {
        "nodeId": str(number),
        "role": {"value": role},
        "name": {"value": name},
        "childIds": [str(child) for child in children],
        "backendDOMNodeId": 100 + number,
        "properties": properties,
        **more,
    }


PAGE = [
    node(1, "RootWebArea", "Shop", (2, 3, 9)),
    node(2, "heading", "Kettles", (), properties={"level": 1}),
    node(3, "generic", "", (4, 6, 7)),
    node(4, "LabelText", "", (5, 8)),
    node(5, "StaticText", "Quantity"),
    node(6, "StaticText", "In"),
    node(7, "StaticText", "stock"),
    node(8, "textbox", "Quantity", (), value={"value": "2"}, properties={"focused": True}),
    node(9, "link", 'The "best" one', (10,), properties={"url": "http://shop.example/1"}),
    node(10, "StaticText", 'The "best" one'),
]


def test_a_page_is_shown_as_lines_with_roles_names_states_and_references():
    assert snapshot_text(PAGE, References()).splitlines() == [
        '- heading "Kettles" [level=1]',
        '- textbox "Quantity" [active] [ref=e1]: 2',
        "- text: In stock",
        '- link "The \\"best\\" one" [ref=e2]:',
        "  - /url: http://shop.example/1",
    ]


def test_references_stay_on_a_page_and_are_not_used_again_on_the_next():
    references = References()
    first = snapshot_text(PAGE, references)
    assert snapshot_text(PAGE, references) == first
    references.forget()
    assert "e1" not in references.by_ref
    assert "[ref=e3]" in snapshot_text(PAGE, references)


def test_part_of_a_page_and_few_levels_can_be_asked_for():
    assert snapshot_text(PAGE, References(), root=109).startswith("- link")
    assert "/url" not in snapshot_text(PAGE, References(), depth=1)
    assert snapshot_text(PAGE, References(), root=999) == ""
    assert snapshot_text([], References()) == ""


def test_a_page_nested_without_end_is_cut_off():
    deep = [node(1, "RootWebArea", "", (2,)), *(node(number, "list", "", (number + 1,)) for number in range(2, 5000))]
    assert len(snapshot_text(deep, References()).splitlines()) < 100


def test_hidden_layers_without_end_are_no_trouble():
    deep = [node(1, "RootWebArea", "", (2,)), *(node(number, "generic", "", (number + 1,)) for number in range(2, 5000))]
    assert snapshot_text([*deep, node(5000, "button", "Go")], References()) == '- button "Go" [ref=e1]'


@given(st.lists(st.sampled_from(["button", "link", "generic", "StaticText", "list", "textbox", "row"]), max_size=40), st.data())
def test_every_shown_reference_leads_to_its_own_element(roles: list[str], data: st.DataObject):
    nodes = [node(1, "RootWebArea")]
    for number, role in enumerate(roles, 2):
        parent = data.draw(st.integers(0, len(nodes) - 1))
        nodes[parent]["childIds"].append(str(number))
        nodes.append(node(number, role, f"name {number}"))
    references = References()
    text = snapshot_text(nodes, references)
    shown = [ref for ref in references.by_ref if f"[ref={ref}]" in text]
    assert len({references.by_ref[ref].backend for ref in shown}) == len(shown)
    assert text.count("[ref=") == len(shown)


def test_a_forged_tree_with_cycles_and_doubled_children_ends_with_each_node_once():
    cycle = [node(1, "RootWebArea", "", (2, 3)), node(2, "generic", "", (2, 1, 3)), node(3, "list", "", (3, 2))]
    assert snapshot_text(cycle, References()) == "- list [ref=e1]"
    doubled = [node(number, "list", "", (number + 1, number + 1)) for number in range(61)]
    assert len(snapshot_text(doubled, References()).splitlines()) == 60
