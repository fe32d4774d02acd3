"""What every app promises. A new app adds itself to `APPS`.

An app that stands for a product is compared with the recorded public MCP server, as `sandlot serve` offers it to the official
client.
"""

from contextlib import asynccontextmanager
from typing import Any

import jsonschema
import pytest
from mcp import Client

from sandlot.apps import ACCOUNTING, CALENDAR, CHAT, CODE, CRM, DIRECTORY, FILES, MAIL, TICKETS, WAITING, WIKI, App, LiveApps
from sandlot.apps.live import empty_snapshot
from sandlot.apps.tool import tools_of
from sandlot.core.task import Task
from sandlot.env.environment import Environment
from sandlot.serve.environment.connection import open_connection

APPS = {app.name: app for app in (MAIL, CHAT, CALENDAR, DIRECTORY, TICKETS, WIKI, CRM, ACCOUNTING, FILES, CODE, WAITING)}
SUBSETS = {"directory": 6, "code": 26, "tickets": 40, "wiki": 20, "crm": 17, "accounting": 25}
"""Apps that offer a named subset of the recorded tools, with how many; the others offer all."""
OWN = {"directory": "hr_"}
"""How the names of an app's own tools begin, beside those of a public server."""
RECORDED = {name: app for name, app in APPS.items() if app.server is not None}


@pytest.fixture(params=APPS)
def app(request: pytest.FixtureRequest) -> App:
    return APPS[request.param]


@asynccontextmanager
async def connected(app: App):
    env = Environment("served", apps=[app])
    task = Task("one", prompt="Look around.")
    async with (
        open_connection("served", lambda: env.session(task), None) as connection,
        Client(connection.server) as client,
    ):
        yield client


@pytest.mark.parametrize("name", RECORDED)
async def test_the_tools_as_served_are_the_recorded_ones(name: str):
    app = RECORDED[name]
    assert app.server is not None
    async with connected(app) as client:
        served = {tool.name: tool for tool in (await client.list_tools()).tools}
    served.pop("finish")
    recorded = {tool.name: tool for tool in app.server.tools}
    offered = {tool: spec for tool, spec in served.items() if not tool.startswith(OWN.get(name, "-"))}
    assert set(offered) <= set(recorded)
    assert len(offered) == SUBSETS.get(name, len(recorded))
    for tool, spec in offered.items():
        known = recorded[tool]
        assert (spec.description or "", spec.input_schema) == (known.description, known.input_schema), tool


async def test_every_tool_answers_the_official_client(app: App):
    """With no arguments: each tool returns something, and none breaks the environment."""
    async with connected(app) as client:
        for tool in app.parts.tools:
            result = await client.call_tool(tool, {})
            assert "the environment failed" not in result.content[0].text, result.content[0].text


def test_every_schema_is_valid(app: App):
    for tool in tools_of([app]):
        jsonschema.Draft202012Validator.check_schema(tool.spec.parameters)


def test_two_cold_starts_have_the_same_bytes(app: App):
    assert dict(empty_snapshot([app]).states) == dict(empty_snapshot([app]).states)


HOSTILE: list[Any] = [
    "' OR 1=1 --", '") OR 1 --', "%", "*", "\x00", "\ud800", "a" * 200_000, "(" * 500, "-" * 500, "{" * 500, '"', "NEAR(", 2**63,
    -1, 1e308, True, None, [], {}, ["x"] * 5000, {"a": {"b": ["c"]}},
]  # fmt: skip


async def test_hostile_arguments_never_break_the_environment(app: App):
    """Each value in each argument: a result or an error that the agent reads, never a failure of the environment."""
    from worlds.apps import AppWorld

    world = AppWorld([app], actor="ada@corp.example")
    for tool in tools_of([app]):
        properties: dict[str, Any] = tool.spec.parameters.get("properties", {})
        for value in HOSTILE:
            fitting = {name: _fitted(schema, value) for name, schema in properties.items()}
            await world.result(tool.spec.name, **fitting)
            await world.result(tool.spec.name, **dict.fromkeys(properties, value))


def _fitted(schema: dict[str, Any], value: Any) -> Any:
    """The value where the schema allows its type; in a list or an object where it asks for one."""
    match schema.get("type"):
        case "array":
            return [_fitted(schema.get("items", {}), value)]
        case "object":
            return {name: _fitted(inner, value) for name, inner in schema.get("properties", {}).items()}
        case "string" if "enum" in schema:
            return schema["enum"][0]
        case "number" | "integer":
            return value if isinstance(value, int | float) else 1
        case "string":
            return value if isinstance(value, str) else str(value)
        case _:
            return value


def test_closing_frees_the_databases(app: App):
    apps = LiveApps([app], empty_snapshot([app]))
    apps.close()
