"""Environments of OpenEnv: of a server that runs, of a folder, or of an installed package.

    openenv:http://127.0.0.1:8000                     20 tasks, each a seed; the sum of the rewards is from 0 to 1
    openenv:echo_env?python=/venvs/echo/bin/python    an installed package; its server is started when it is needed
    openenv:environments/echo_env?python=...          a folder with `openenv.yaml`, likewise
    openenv:...?seeds=5&score=-1..1&steps=50          other numbers: what is worth nothing and what is full marks; maximum steps
    openenv:...?reward=last                           the last reward counts, and not the sum
    openenv:URL?token_variable=NAME                   the environment variable with the server's token; it ends in `_TOKEN`

Of a server that runs, Sandlot runs nothing: it only sends actions to that address.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import anyio.from_thread
import msgspec

from sandlot.core.errors import AuthorError, ConfigError, ToolError
from sandlot.core.ports.importer import ImportedTask, ImportReport
from sandlot.core.ports.world import ToolSpec
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.text import one_line
from sandlot.core.types import Json, digest
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, write_environment
from sandlot.interop.openenv.client import ANSWER_S, FULL_S, OpenEnvAddress, OpenEnvStep, open_session, read_page
from sandlot.interop.openenv.servers import LOAD_S, OwnServer, OwnServerProcess, RunningServer
from sandlot.interop.openenv.source import read_source
from sandlot.interop.openenv.world import ACT, LOOK, shown

_T = TypeVar("_T")
_SPARE_TURNS = 8
"""Turns besides the steps: to look, to correct an action, to say that it is done."""
_MAX_TOOLS = 500
_WORLD = '''\
"""An environment of OpenEnv. {about}"""

from pathlib import Path

from sandlot.interop.openenv.servers import {kind}
from sandlot.interop.openenv.world import OpenEnvWorld

SERVER = {server!r}
TOOLS = Path(__file__).with_name("tools.json")
SOURCES = [OpenEnvWorld(server=SERVER, tools=TOOLS, steps={steps})]
'''
_RUNNING = "Its server must run at this address."
_OWN = "Its server is started in a process of its own, with its own Python."
_REPEATED = "the same seed began with another observation the second time: this environment does not keep to its seed"
_CHECKS = '''\
"""The environment's own rewards: {what} as a share of full marks."""

from sandlot import Evidence, Task
from sandlot.interop.openenv.world import score_of_episode


def reward(evidence: Evidence, task: Task) -> tuple[float, str]:
    return score_of_episode(evidence, {low!r}, {high!r}, last={last!r})
'''


class _ActionSchema(msgspec.Struct, frozen=True):
    properties: Json


class _McpTool(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    input_schema: Json | None = None


class OpenEnvImporter:
    """`openenv:URL`, `openenv:FOLDER`, `openenv:PACKAGE` (port `Importer`)."""

    kind = "openenv"

    def digest(self, source: str) -> str:
        """Changes with a folder's files, or with what a server says of itself: the schema of actions, its tools, its name."""
        server = read_source(source).server
        if isinstance(server, OwnServer):
            return digest(msgspec.json.encode(server))
        return digest(msgspec.json.encode(_asked(server, _read_facts), order="deterministic"))

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment; `ConfigError` if no server answers, or it does not say which actions it takes."""
        named = read_source(source)
        server = named.server
        facts, notes = _asked(server, _read_all)
        tasks = [_task(facts, seed) for seed in range(named.seeds if limit is None else min(limit, named.seeds))]
        what = "the last one" if named.last else "their sum"
        own = isinstance(server, OwnServer)
        draft = EnvironmentDraft(
            name=environment_name(f"openenv-{facts.name}"),
            settings={
                "description": f"{facts.name}, played at {'its own' if own else 'an'} OpenEnv server.",
                "on_crash": "lose",  # the episode and its reward are the server's
                "limits": {
                    "turns": named.steps + _SPARE_TURNS,
                    "tool_s": ANSWER_S + 30,  # the client's own limits come first: what is late is a failure of the environment
                    "provision_s": FULL_S + 30 + (LOAD_S if own else 0.0),
                },
            },
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="reward", ref="checks:reward"),))},
            code={
                "world.py": _WORLD.format(
                    about=_OWN if own else _RUNNING, kind=type(server).__name__, server=server, steps=named.steps
                ),
                "tools.json": msgspec.json.format(msgspec.json.encode(facts.tools), indent=1).decode() + "\n",
                "checks.py": _CHECKS.format(what=what, low=named.scale.low, high=named.scale.high, last=named.last),
            },
        )
        write_environment(folder, draft)
        place = server.folder if isinstance(server, OwnServer) else server.url
        return ImportReport(
            kind=self.kind,
            source=source,
            package=server.package or Path(server.folder).name if isinstance(server, OwnServer) else "openenv",
            version=facts.version,
            tasks=tuple(ImportedTask(id=task.id, origin=f"{place} seed {task.data['seed']}") for task in tasks),
            notes=(*notes, *_server_notes(server)),
        )


def _server_notes(server: RunningServer | OwnServer) -> tuple[str, ...]:
    if isinstance(server, RunningServer):
        return ("the server must run while the environment is used",)
    return (
        f"its server runs on this machine, in a process of its own, with {server.requires} of `{server.python}`",
        "a server that does not answer in time is ended: the rollouts that it has fail, and the next one starts it again",
    )


def _asked(server: RunningServer | OwnServer, ask: Callable[[OpenEnvAddress], Awaitable[_T]]) -> _T:
    """Ask the server from a thread of its own, so that importing works inside of an event loop too. One of ours ends then."""
    started = None
    try:
        started = OwnServerProcess(server) if isinstance(server, OwnServer) else None
        with anyio.from_thread.start_blocking_portal() as portal:
            return portal.call(ask, started.address if started else portal.call(server.address))
    except (AuthorError, ToolError) as error:
        raise ConfigError(str(error)) from error
    finally:
        if started is not None:
            started.close()


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a server says of itself."""

    schema: Json
    name: str
    version: str
    about: str
    tools: list[Json]


async def _read_facts(address: OpenEnvAddress) -> _Facts:
    schema = await read_page(address, "/schema")
    page = await read_page(address, "/metadata", absent={})  # not all servers have one
    tools = await _read_tools(address) if _takes_mcp(schema) else [_act(schema)]
    return _Facts(
        schema=schema,
        name=one_line(str(page.get("name") or urlsplit(address.url).hostname), 80),
        version=one_line(str(page.get("version") or ""), 40),
        about=one_line(str(page.get("description") or ""), 2_000),
        tools=tools,
    )


async def _read_tools(address: OpenEnvAddress) -> list[Json]:
    async with open_session(address, 0) as (client, _):
        return _mcp_tools(await client.step({"type": "list_tools"}))


async def _read_all(address: OpenEnvAddress) -> tuple[_Facts, list[str]]:
    facts, begun = await _read_facts(address), list[str]()
    for _ in range(2):
        async with open_session(address, 0) as (_, first):
            begun.append(shown(first))
    return facts, ["no golden solutions: OpenEnv has none", *([_REPEATED] if begun[0] != begun[1] else [])]


def _takes_mcp(schema: Json) -> bool:
    """True if the actions are calls of MCP tools: the schema is of `CallToolAction`, or of the bare `Action`."""
    action = schema.get("action")
    try:
        properties = msgspec.convert(action, _ActionSchema).properties
    except msgspec.ValidationError:
        raise ConfigError("the server's `/schema` does not say which actions it takes") from None
    return "tool_name" in properties or set(properties) <= {"metadata"}


def _mcp_tools(step: OpenEnvStep) -> list[Json]:
    try:
        tools = msgspec.convert(step.observation.get("tools"), list[_McpTool])
    except msgspec.ValidationError as error:
        raise ConfigError(f"the server's list of tools cannot be read: {error}") from error
    names = [tool.name for tool in tools]
    if not tools or len(tools) > _MAX_TOOLS or len(set(names)) < len(names) or {ACT, LOOK} & set(names):
        raise ConfigError(
            f"the server has no tools, more than {_MAX_TOOLS}, or two of one name; or one is called `{ACT}` or `{LOOK}`"
        )
    return [
        msgspec.to_builtins(
            ToolSpec(
                name=tool.name,
                description=(tool.description or "").strip(),
                parameters=tool.input_schema or {"type": "object", "properties": {}},
            )
        )
        for tool in tools
    ]


def _act(schema: Json) -> Json:
    action: Json = dict(schema["action"])
    action["properties"] = {name: each for name, each in action["properties"].items() if name != "metadata"}
    about = one_line(str(action.pop("description", "")), 2_000)
    spec = ToolSpec(name=ACT, description=f"Act in the environment. {about}".strip(), parameters={**action, "type": "object"})
    return msgspec.to_builtins(spec)


def _task(facts: _Facts, seed: int) -> Task:
    about = f" It says of itself: {facts.about}" if facts.about else ""
    prompt = (
        f"You are in the environment `{facts.name}`.{about} `{LOOK}` shows the last observation; the other tools act. "
        "Get as much reward as you can. When the episode is over, or nothing is left to do, say that you are done."
    )
    return Task(f"seed-{seed}", prompt=prompt, data={"seed": seed})
