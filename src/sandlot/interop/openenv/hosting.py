"""Rollouts of an environment for servers of OpenEnv: `sandlot serve --openenv`, and openenv-core's own in an exported folder.

The environment is opened in an event loop of its own, since the sessions call it from threads.
"""

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread

from sandlot.core.errors import ConfigError
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.interop.driven_server import DrivenService
from sandlot.interop.openenv.session import OpenEnvSession
from sandlot.interop.stage import StageConfig, open_stage

MAX_SESSIONS = 256


@asynccontextmanager
async def opened_service(
    env: Environment, run: Path, *, judge: str | None = None
) -> AsyncGenerator[tuple[DrivenService, list[str]]]:
    """The rollouts of an environment, and the names of its tasks."""
    config = StageConfig(env=env, run=run, model="openenv", training=False, judge=judge, at_once=MAX_SESSIONS)
    with anyio.from_thread.start_blocking_portal() as portal:
        opened = portal.wrap_async_context_manager(open_stage(config))
        stage = await anyio.to_thread.run_sync(opened.__enter__)
        try:
            yield DrivenService(portal, stage), list(stage.tasks)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(opened.__exit__, None, None, None)


class HostedEnvironment:
    """An exported environment that openenv-core's server serves: it is open while the server runs."""

    def __init__(self, home: Path, run: Path | None = None, judge: str | None = None) -> None:
        """Rollouts are stored in `run`; None: `runs/openenv-ENV` in the folder where the server was started."""
        self._env = load(home)
        self._run = run or Path("runs") / f"openenv-{self._env.name}"
        self._judge = judge
        self._opened: tuple[DrivenService, list[str]] | None = None
        self._turn = itertools.count()

    def open_while_served(self, app: Any) -> Any:
        """The web application, made to open the environment when it starts and to close it when it ends."""
        inner = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(given: Any) -> AsyncGenerator[Any]:
            async with opened_service(self._env, self._run, judge=self._judge) as opened, inner(given) as state:
                self._opened = opened
                try:
                    yield state
                finally:
                    self._opened = None

        app.router.lifespan_context = lifespan
        return app

    def session(self) -> OpenEnvSession:
        """A session of one client."""
        if self._opened is None:
            raise ConfigError("the environment is not open: its server has not started, or runs without its lifespan")
        service, tasks = self._opened
        return OpenEnvSession(service, tasks, lambda: tasks[next(self._turn) % len(tasks)])
