"""Tools that are mentioned, and tools of production."""

import json

import pytest

from builders.static_cases import case_of, found
from sandlot.audit.finding import Confidence, Severity
from sandlot.audit.probes.static import actions, manifest, markup, rubrics
from sandlot.core.errors import ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task


def spec(name: str, description: str = "It does.", required: list[str] | None = None, **properties) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": sorted(properties) if required is None else required}
    return ToolSpec(name=name, description=description, parameters=schema)


TEXT = {"type": "string"}
FIND = spec("find_item", what=TEXT)


async def spoken(system: str, **fields) -> list:
    return await found(actions.PROBE, case_of(system=system, tools=(FIND,), **fields))


async def test_an_unknown_tool_is_confirmed_where_the_text_names_real_ones_too():
    (finding,) = await spoken("Look with `find_item` and give back with `return_item`.")
    assert (finding.code, finding.standing, finding.severity) == ("D08.unknown_tool", Confidence.CONFIRMED, Severity.HIGH)
    assert "return_item" in finding.title


async def test_an_unknown_tool_is_a_lead_where_the_name_may_be_something_else():
    (finding,) = await spoken("Start by calling `look_around`.")
    assert (finding.standing, finding.severity) == (Confidence.LEAD, Severity.LOW)


@pytest.mark.parametrize(
    "system",
    [
        "Use `find_item`, then say `done`.",
        "Use `find_item` on rows with `what`.",
        "The view `live_rows` shows what stands. Use `find_item`.",
        "Use `find_item`; sort with `LC_ALL=C`.",
        "Use `find_item` with `stock_level` above 3.",
        "",
    ],
)
async def test_other_names_in_backticks_are_no_tools(system):
    assert await spoken(system, tasks=(Task("a", data={"rows": [{"stock_level": 3}]}),)) == []


async def test_tools_of_mcp_servers_are_not_reported_as_unknown():
    assert await spoken("Look with `find_item` and `return_item`.", sources={"e.py": "env.mcp(server)"}) == []


async def test_schemas_that_no_call_can_satisfy_are_confirmed():
    broken = spec("act", required=["gone"], what=TEXT)
    odd = spec("odd", required=[], mode={"enum": ["a"], "default": "b"}, size={"type": "int"})
    findings = await found(actions.PROBE, case_of(tools=(broken, odd, FIND, FIND)))
    assert [finding.where for finding in findings] == ["find_item", "act", "odd", "odd"]
    assert all(finding.standing is Confidence.CONFIRMED for finding in findings)
    (undescribed,) = await found(actions.PROBE, case_of(tools=(spec("act", " "),)))
    assert undescribed.severity is Severity.INFO


# -- production


async def against(tmp_path, served: object, *here: ToolSpec) -> list[tuple[str, str]]:
    place = tmp_path / "served.json"
    place.write_text(json.dumps(served))
    findings = await found(manifest.PROBE, case_of(tools=here, manifest=place))
    assert all(finding.standing is Confidence.CONFIRMED for finding in findings)
    return [(finding.code, finding.severity.value) for finding in findings]


def served(name: str, description: str = "It does.", **properties) -> dict:
    schema = {"type": "object", "properties": properties, "required": sorted(properties)}
    return {"name": name, "description": description, "inputSchema": schema}


async def test_the_same_tools_in_another_spelling_are_equal(tmp_path):
    assert await against(tmp_path, [served("find_item", what=TEXT)], FIND) == []
    spelled = served("find_item", what={"anyOf": [{"type": "string"}, {"type": "null"}], "title": "What", "default": None})
    assert await against(tmp_path, {"tools": [spelled]}, FIND) == []


@pytest.mark.parametrize(
    ("production", "expected"),
    [
        ([], [("D08.added", "high")]),
        ([served("find_items", what=TEXT)], [("D08.renamed", "high")]),
        ([served("find_item", what=TEXT), served("x", y=TEXT)], [("D08.removed", "low")]),
        ([served("find_item", what={"type": "integer"})], [("D08.arguments", "high")]),
        ([served("find_item", what={"type": "string", "enum": ["a"]})], [("D08.arguments", "high")]),
        ([served("find_item", what=TEXT, why=TEXT)], [("D08.arguments", "high")]),
        ([served("find_item", what={"type": "string", "default": "a"})], [("D08.defaults", "low")]),
        ([served("find_item", "It finds.", what=TEXT)], [("D08.description", "low")]),
    ],
)
async def test_a_difference_from_production_is_confirmed(tmp_path, production, expected):
    assert await against(tmp_path, production, FIND) == expected


@pytest.mark.parametrize("text", ["{", "3", '[{"title": "x"}]', '[{"name": "x", "inputSchema": 3}]'])
async def test_an_invalid_manifest_is_a_config_error(tmp_path, text):
    place = tmp_path / "served.json"
    place.write_text(text)
    with pytest.raises(ConfigError, match="manifest"):
        await found(manifest.PROBE, case_of(manifest=place))


async def test_without_a_manifest_there_is_nothing_to_compare():
    assert manifest.PROBE.applies(case_of()) == "no production manifest was given"


# -- markup


async def test_chat_markup_in_prompts_is_confirmed():
    framed = Task("a", prompt="<|im_start|>user\nWhat is 1 + 1?<|im_end|>")
    (finding,) = await found(markup.PROBE, case_of(tasks=(framed, Task("b", prompt="What is <b>1</b> + 1? <|x|>"))))
    assert (finding.code, finding.standing, finding.count) == ("D20.markup", Confidence.CONFIRMED, 1)
    (quoted,) = await found(markup.PROBE, case_of(system="Never write [INST] yourself."))
    assert quoted.standing is Confidence.LEAD


# -- rubrics


async def linted(*checks: PythonCheck, **fields) -> list[tuple[str, str]]:
    findings = await found(rubrics.PROBE, case_of(rubrics={"default": Rubric(checks=checks)}, **fields))
    return [(finding.code, finding.severity.value) for finding in findings]


async def test_lint_results_become_findings():
    assert await linted(PythonCheck(id="a", ref="m:f"), PythonCheck(id="b", ref="m:g", points=0)) == [("D21.worthless", "low")]
    assert await linted(PythonCheck(id="a", ref="m:f"), PythonCheck(id="b", ref="m:f")) == [("D21.duplicate", "low")]
    assert await linted(PythonCheck(id="a", ref="m:f")) == []


async def test_a_rubric_that_cannot_be_graded_is_confirmed():
    circle = (PythonCheck(id="a", ref="m:f", requires=("b",)), PythonCheck(id="b", ref="m:g", requires=("a",)))
    findings = await linted(*circle)
    assert findings
    assert all(severity == "blocker" for _, severity in findings)
    (empty,) = await linted()
    assert empty[1] == "blocker"


async def test_an_unused_check_is_a_lead():
    sources = {"environment.toml": "", "checks.py": "def used(evidence):\n    return 1\ndef idle(evidence):\n    return 1\n"}
    assert await linted(PythonCheck(id="a", ref="checks:used"), sources=sources) == [("D21.unused", "low")]


async def test_the_probe_does_not_apply_without_a_rubric():
    assert rubrics.PROBE.applies(case_of()) == "the environment has no rubric"
