"""The tools of an app as the agent's tools. A call takes world time, then runs as one act of the agent's identity."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from sandlot.apps.app import App, AppFunction
from sandlot.apps.live import LiveApp, LiveApps
from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ToolError, boundary
from sandlot.core.ports.world import Tool, ToolSpec, World
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.core.types import Json
from sandlot.tools.arguments import checked_arguments, clean


@dataclass(frozen=True, slots=True)
class AppTool:
    """Implements the `Tool` port for one tool of an app."""

    app: App
    made: AppFunction

    @property
    def spec(self) -> ToolSpec:
        """Name, description, schema."""
        return self.made.spec

    @property
    def concurrent(self) -> bool:
        """Always False: the calls of one turn share the databases and the clock."""
        return False

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Check the arguments, let the time of the call pass, run it. After an error nothing has changed but the time."""
        apps = cast("LiveApps", world.apps)
        live = apps[self.app.name]
        try:
            given = checked_arguments(call)
            with boundary(AuthorError, f"tool `{self.spec.name}`"):
                value = await self._run(apps, live, given)
        except ToolError as error:
            return ToolResult(call=call.id, text=clean(str(error)), error=True)
        return ToolResult(call=call.id, text=self._text(value))

    async def _run(self, apps: LiveApps, live: LiveApp, given: Json) -> Any:
        if not author.is_async(self.made.function):
            return await author.call(self._act, apps, live, given)
        async with apps.async_turn():
            await author.call(apps.pass_time, self.made.takes_s)
            keywords = self.made.check(given)
            with apps.acting(self.spec.name):
                value = await self.made.function(live, **keywords)
                apps.require_room()
                return value

    def _act(self, apps: LiveApps, live: LiveApp, given: Json) -> Any:
        with apps.turn():
            apps.pass_time(self.made.takes_s)
            return self._act_now(apps, live, given)

    def _act_now(self, apps: LiveApps, live: LiveApp, given: Json) -> Any:
        keywords = self.made.check(given)
        with apps.acting(self.spec.name):
            value = self.made.function(live, **keywords)
            apps.require_room()
            return value

    def _text(self, value: Any) -> str:
        if isinstance(value, str):
            return clean(value)
        try:
            return "ok" if value is None else msgspec.json.encode(value).decode()
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise AuthorError(
                f"tool `{self.spec.name}` returned a `{type(value).__name__}` that cannot be written as JSON ({error});"
                " return text or plain data"
            ) from error


def tools_of(apps: Sequence[App]) -> list[Tool]:
    """The tools of all apps, app by app, in the order of the recorded server."""
    return [AppTool(app, made) for app in apps for made in _ordered(app)]


def _ordered(app: App) -> list[AppFunction]:
    order = [tool.name for tool in app.server.tools] if app.server else []
    found = app.parts.tools
    return [found[name] for name in order if name in found] + [made for name, made in found.items() if name not in order]
