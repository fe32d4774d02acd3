"""Environments of a running OpenEnv server.

    openenv:http://127.0.0.1:8000                     20 tasks, each a seed; the sum of the rewards is from 0 to 1
    openenv:URL?seeds=5&score=-1..1&steps=50          other numbers: what is worth nothing and what is full marks; maximum steps
    openenv:URL?reward=last                           the last reward counts, and not the sum
    openenv:URL?token_variable=NAME                   the environment variable with the server's token; it ends in `_TOKEN`

The server runs where you started it, and Sandlot runs nothing of it: it only sends actions to that address.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, urlsplit

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
from sandlot.interop.gyms.source import ScoreRange, read_score_range
from sandlot.interop.openenv.client import ANSWER_S, FULL_S, OpenEnvStep, open_session, read_page
from sandlot.interop.openenv.world import ACT, LOOK, shown

_T = TypeVar("_T")
_MAX_SEEDS = 100_000
_MAX_STEPS = 10_000
_SPARE_TURNS = 8
"""Turns besides the steps: to look, to correct an action, to say that it is done."""
_MAX_TOOLS = 500
_OPTIONS = ("seeds", "score", "steps", "reward", "token_variable")
_WORLD = '''\
"""An environment of an OpenEnv server. It must run at this address."""

from pathlib import Path

from sandlot.interop.openenv.world import OpenEnvWorld

TOOLS = Path(__file__).with_name("tools.json")
SOURCES = [OpenEnvWorld(url={url!r}, token_variable={token_variable!r}, tools=TOOLS, steps={steps})]
'''
_CHECKS = '''\
"""The environment's own rewards: {what} as a share of full marks."""

from sandlot import Evidence, Task
from sandlot.interop.openenv.world import score_of_episode


def reward(evidence: Evidence, task: Task) -> tuple[float, str]:
    return score_of_episode(evidence, {low!r}, {high!r}, last={last!r})
'''


@dataclass(frozen=True, slots=True)
class _Source:
    url: str
    seeds: int
    steps: int
    scale: ScoreRange
    last: bool
    token_variable: str


class _ActionSchema(msgspec.Struct, frozen=True):
    properties: Json


class _McpTool(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    input_schema: Json | None = None


class OpenEnvImporter:
    """`openenv:URL` (port `Importer`)."""

    kind = "openenv"

    def digest(self, source: str) -> str:
        """Changes with the schema of the environment's actions, its tools, and what it says of itself."""
        named = _read_source(source)
        facts = _asked(lambda: _read_facts(named))
        return digest(msgspec.json.encode(facts, order="deterministic"))

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment; `ConfigError` if no server answers, or it does not say which actions it takes."""
        named = _read_source(source)
        facts = _asked(lambda: _read_facts(named))
        notes = _asked(lambda: _read_notes(named))
        name = environment_name(f"openenv-{facts.name}")
        tasks = [_task(facts, seed) for seed in range(named.seeds if limit is None else min(limit, named.seeds))]
        what = "the last one" if named.last else "their sum"
        draft = EnvironmentDraft(
            name=name,
            settings={
                "description": f"{facts.name}, played at an OpenEnv server.",
                "limits": {
                    "turns": named.steps + _SPARE_TURNS,
                    "tool_s": ANSWER_S + 30,  # the client's own limits come first: what is late is a failure of the environment
                    "provision_s": FULL_S + 30,
                },
            },
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="reward", ref="checks:reward"),))},
            code={
                "world.py": _WORLD.format(url=named.url, token_variable=named.token_variable, steps=named.steps),
                "tools.json": msgspec.json.format(msgspec.json.encode(facts.tools), indent=1).decode() + "\n",
                "checks.py": _CHECKS.format(what=what, low=named.scale.low, high=named.scale.high, last=named.last),
            },
        )
        write_environment(folder, draft)
        return ImportReport(
            kind=self.kind,
            source=source,
            package="openenv",
            version=facts.version,
            tasks=tuple(ImportedTask(id=task.id, origin=f"{named.url} seed {task.data['seed']}") for task in tasks),
            notes=notes,
        )


def _read_source(source: str) -> _Source:
    url, _, query = source.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := set(options) - set(_OPTIONS):
        raise ConfigError(f"`{source}`: unknown `{min(unknown)}`; there are: {', '.join(_OPTIONS)}")
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"`{url}` is no address of an OpenEnv server; write `http://HOST:PORT`. Start a folder's server first")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("the address holds a password, which would be written into the environment; use `?token_variable=NAME`")
    scale = read_score_range(options.get("score", "0..1"))
    if scale is None:
        raise ConfigError(f"`score={options['score']}` is no range; write `?score=LOW..HIGH`, such as `?score=-1..1`")
    if options.get("reward", "sum") not in {"sum", "last"}:
        raise ConfigError(f"`reward={options['reward']}`: it is `sum` or `last`")
    return _Source(
        url=url.rstrip("/"),
        seeds=_number(options, "seeds", 20, _MAX_SEEDS),
        steps=_number(options, "steps", 100, _MAX_STEPS),
        scale=scale,
        last=options.get("reward") == "last",
        token_variable=options.get("token_variable", ""),
    )


def _number(options: dict[str, str], name: str, default: int, most: int) -> int:
    text = options.get(name, str(default))
    if not text.isdecimal() or not 1 <= int(text[:9]) <= most or len(text) > 9:
        raise ConfigError(f"`{name}={text[:40]}` is no number from 1 to {most:,}")
    return int(text)


def _asked(ask: Callable[[], Awaitable[_T]]) -> _T:
    """Ask the server from a thread of its own, so that importing works inside of an event loop too."""
    try:
        with anyio.from_thread.start_blocking_portal() as portal:
            return portal.call(ask)
    except (AuthorError, ToolError) as error:
        raise ConfigError(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a server says of itself."""

    schema: Json
    name: str
    version: str
    about: str
    tools: list[Json]


async def _read_facts(named: _Source) -> _Facts:
    schema = await read_page(f"{named.url}/schema", named.token_variable)
    page = await read_page(f"{named.url}/metadata", named.token_variable, absent={})  # not all servers have one
    tools = await _read_tools(named) if _takes_mcp(schema) else [_act(schema)]
    return _Facts(
        schema=schema,
        name=one_line(str(page.get("name") or urlsplit(named.url).hostname), 80),
        version=one_line(str(page.get("version") or ""), 40),
        about=one_line(str(page.get("description") or ""), 2_000),
        tools=tools,
    )


async def _read_tools(named: _Source) -> list[Json]:
    async with open_session(named.url, named.token_variable, 0) as (client, _):
        return _mcp_tools(await client.step({"type": "list_tools"}))


async def _read_notes(named: _Source) -> tuple[str, ...]:
    begun: list[str] = []
    for _ in range(2):
        async with open_session(named.url, named.token_variable, 0) as (_, first):
            begun.append(shown(first))
    notes = ["no golden solutions: OpenEnv has none", "the server must run while the environment is used"]
    if begun[0] != begun[1]:
        notes.append("the same seed began with another observation the second time: this environment does not keep to its seed")
    return tuple(notes)


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
