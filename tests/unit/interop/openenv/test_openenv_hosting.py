"""An exported environment is open while its server runs. With openenv-core: tests/foreign/interop/openenv_conformance.py."""

import anyio.to_thread
import pytest
from starlette.applications import Starlette

from drive.command_line import ENVIRONMENTS
from sandlot.core.errors import ConfigError
from sandlot.interop.openenv.hosting import HostedEnvironment


async def test_sessions_share_the_turn_of_tasks_while_the_server_runs(tmp_path):
    hosted = HostedEnvironment(ENVIRONMENTS / "arithmetic", run=tmp_path / "run")
    app = hosted.open_while_served(Starlette())
    with pytest.raises(ConfigError, match="has not started"):
        hosted.session()
    async with app.router.lifespan_context(app):
        for task in ("arithmetic-0", "arithmetic-1"):
            session = hosted.session()
            await anyio.to_thread.run_sync(session.reset, {})
            assert session.state["task"] == task
            await anyio.to_thread.run_sync(session.drop)
    with pytest.raises(ConfigError, match="not open"):
        hosted.session()
