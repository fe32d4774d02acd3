"""Apps opened without an environment, for tests: their tools called by name, as the agent calls them."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from sandlot.apps.app import App
from sandlot.apps.live import LiveApps, empty_snapshot
from sandlot.apps.tool import tools_of
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.sandbox.memory import MemoryFiles


class AppWorld:
    """A world with these apps, filled, in which the agent acts as `actor`."""

    def __init__(self, apps: Sequence[App], fill: Callable[[LiveApps], None] | None = None, actor: str = "") -> None:
        self.declared = apps
        self.apps = LiveApps(apps, empty_snapshot(apps))
        if fill is not None:
            with self.apps.acting("base"):
                fill(self.apps)
        self.apps.journal.clear()
        self.base = self.apps.freeze()
        self.apps.actor = actor
        self.apps.begin()
        self.apps.world = MemoryFiles()  # pyright: ignore[reportAttributeAccessIssue] - reads and writes as a world does

    async def result(self, tool: str, **arguments: Any) -> ToolResult:
        found = next(each for each in tools_of(self.declared) if each.spec.name == tool)
        world: Any = SimpleNamespace(apps=self.apps)
        return await found.call(world, ToolCall(id="1", name=tool, arguments=arguments))

    async def call(self, tool: str, **arguments: Any) -> str:
        return (await self.result(tool, **arguments)).text


def dump(rows: Callable[[str], list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables of an app."""
    tables = rows("SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' AND name NOT LIKE 'sqlite_%'")
    return {table["name"]: rows(f'SELECT rowid AS "#", * FROM "{table["name"]}" ORDER BY rowid') for table in tables}
