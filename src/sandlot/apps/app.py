"""An app: a ready part of worlds, such as mail or chat. One file is enough to write one.

An `App` is a declaration: the tables of its state as SQL, its tools, its events, its pages. A world opens it (`live.py`): a
fresh SQLite database in memory, copied from the base state in about a millisecond. Its tools take the `LiveApp` first.

A tool's schema comes from the function's type hints, or from the recorded schema of a public MCP server (`recorded.py`). Then
the function's parameters are the recorded arguments in snake_case (or `**given`), and wrong arguments are reported as that server
does.
"""

import copy
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from sandlot.apps.issues import ArgumentIssue, argument_issues, is_too_large, with_whole_numbers, zod_text
from sandlot.apps.pages import Routes
from sandlot.apps.recorded import RecordedServer, RecordedTool
from sandlot.core.concurrency import author
from sandlot.core.errors import ConfigError, ToolError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.types import Json
from sandlot.tools.arguments import clean
from sandlot.tools.schema import signature_of

_F = TypeVar("_F", bound=Callable[..., Any])
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
CALL_S = 20.0
"""World time that one tool call takes, if the app does not say."""

WordIssues = Callable[[RecordedTool, Sequence[ArgumentIssue]], str]
"""Words wrong arguments as the product does."""


def _zod_error(_tool: RecordedTool, issues: Sequence[ArgumentIssue]) -> str:
    return f"Error: {zod_text(issues)}"


@dataclass(frozen=True, slots=True)
class AppFunction:
    """One tool of an app: what agents see of it, and the function that does it."""

    spec: ToolSpec
    function: Callable[..., Any]
    check: Callable[[Json], dict[str, Any]]
    """The keyword arguments for the function; `ToolError` if the arguments are wrong."""
    takes_s: float
    """World time that a call takes."""


@dataclass(slots=True)
class AppParts:
    """What the decorators of an app have collected."""

    tools: dict[str, AppFunction] = field(default_factory=dict[str, AppFunction])
    events: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    routes: Routes = field(default_factory=Routes)


class App:
    """A ready part of worlds: give it to `Environment(apps=[...])`.

    - `name`: what it is called in a world: `world.apps.NAME`, `evidence.apps.NAME`.
    - `schema`: its tables, as SQL. Every table needs a rowid, which is the default. Triggers may keep search indexes up to date.
    - `server`: the recorded public MCP server whose tools it offers; None for tools of its own.
    - `word_issues`: words wrong arguments as that server does; the default is what zod 3 writes.
    - `call_s`: world time that a call takes.

    The decorators register functions; all of them get the `LiveApp` first.

    ```python
    from sandlot.apps import App, LiveApp

    notes = App("notes", schema="CREATE TABLE note (owner TEXT, text TEXT)")


    @notes.tool
    def add_note(app: LiveApp, text: str) -> str:
        "Keep a note."
        app.insert("note", owner=app.actor, text=text)
        return "kept"
    ```
    """

    def __init__(
        self,
        name: str,
        *,
        schema: str = "",
        server: RecordedServer | None = None,
        word_issues: WordIssues = _zod_error,
        call_s: float = CALL_S,
    ) -> None:
        if not _NAME.match(name):
            raise ConfigError(f"app name {name!r}: use up to 32 lower-case letters, digits and `_`, starting with a letter")
        self.name = name
        self.schema = schema
        self.server = server
        self.parts = AppParts()
        self._word_issues = word_issues
        self._call_s = call_s

    def __repr__(self) -> str:
        return f"<App {self.name!r}: {len(self.parts.tools)} tools>"

    @overload
    def tool(self, function: _F) -> _F: ...
    @overload
    def tool(self, *, name: str | None = None, takes_s: float | None = None) -> Callable[[_F], _F]: ...
    def tool(
        self, function: _F | None = None, *, name: str | None = None, takes_s: float | None = None
    ) -> _F | Callable[[_F], _F]:
        """Mark a tool: `def send(app, to: str) -> str`. Works as `@app.tool` and as `@app.tool(...)`.

        With a recorded server that has a tool of this name, the schema and the description are the recorded ones. Raise
        `ToolError` for a request that cannot be done: then nothing has changed, in no app of the world.

        - `name`: the tool's name, if it is not the function's (without a leading underscore).
        - `takes_s`: world time that a call takes.
        """

        def mark(marked: _F) -> _F:
            called = name or marked.__name__.lstrip("_")
            if called in self.parts.tools:
                raise ConfigError(f"{author.location_of(marked)}: app `{self.name}` has two tools named `{called}`")
            takes = self._call_s if takes_s is None else takes_s
            recorded = [each for each in self.server.tools if each.name == called] if self.server else []
            made = self._recorded(marked, recorded[0], takes) if recorded else self._own(marked, called, takes)
            self.parts.tools[called] = made
            return marked

        return mark if function is None else mark(function)

    def event(self, function: _F) -> _F:
        """Mark something that happens at a time: `def mail_arrives(app, **data)`. `LiveApp.schedule` plans it by its name."""
        self.parts.events[function.__name__] = function
        return function

    def page(self, method: str, path: str) -> Callable[[_F], _F]:
        """Mark a page: `@app.page("GET", "/note/{id}")` before `def show(app, request, id) -> PageResponse`."""

        def mark(marked: _F) -> _F:
            self.parts.routes.add(method, path, marked)
            return marked

        return mark

    def offering(self, *tools: str) -> "App":
        """The same app with only these tools; without names, with none. `ConfigError` if it has no such tool."""
        for name in tools:
            if name not in self.parts.tools:
                raise ConfigError(f"app `{self.name}` has no tool `{name}`; it has: {', '.join(self.parts.tools)}")
        other = copy.copy(self)
        other.parts = AppParts({name: self.parts.tools[name] for name in tools}, self.parts.events, self.parts.routes)
        return other

    def _own(self, function: Callable[..., Any], name: str, takes_s: float) -> AppFunction:
        signature = signature_of(function, given="app")

        def check(arguments: Json) -> dict[str, Any]:
            given = with_whole_numbers(signature.parameters, arguments)
            _require_storable(given)
            return signature.check(given)

        spec = ToolSpec(name=name, description=clean(signature.description), parameters=signature.parameters)
        return AppFunction(spec, function, check, takes_s)

    def _recorded(self, function: Callable[..., Any], tool: RecordedTool, takes_s: float) -> AppFunction:
        """The tool with a recorded schema; `ConfigError` if the function does not take the recorded arguments."""
        recorded = {_snake_case(name): name for name in tool.input_schema.get("properties", {})}
        parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "app"]
        taken = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
        missing = set(recorded) - set(taken) if len(taken) == len(parameters) else set[str]()
        if missing or set(taken) - set(recorded):
            where = f"{author.location_of(function)}: tool `{tool.name}` of app `{self.name}`"
            raise ConfigError(f"{where} takes {', '.join(taken) or 'nothing'}; recorded: {', '.join(recorded) or 'nothing'}")

        def check(arguments: Json) -> dict[str, Any]:
            if issues := argument_issues(tool.input_schema, arguments):
                raise ToolError(self._word_issues(tool, issues))
            given = with_whole_numbers(tool.input_schema, arguments)
            _require_storable(given)
            return {name: given[theirs] for name, theirs in recorded.items() if theirs in given}

        spec = ToolSpec(name=tool.name, description=tool.description, parameters=tool.input_schema)
        return AppFunction(spec, function, check, takes_s)


def _require_storable(arguments: Json) -> None:
    """`ToolError` names the first argument with a number that no database holds."""
    for name, value in arguments.items():
        if is_too_large(value):
            raise ToolError(
                f"argument `{name[:100]}`: expected finite numbers, and whole ones of at most 64 bits with their sign"
            )


def _snake_case(name: str) -> str:
    """`maxResults`, `max-results` and `max_results` as `max_results`."""
    return _CAMEL.sub(lambda match: f"_{match[1]}", name).replace("-", "_").lower()
