"""Serves an environment of OpenEnv for Sandlot, in a Python that has `openenv-core`. It needs nothing of Sandlot.

The environment's own web application is served by uvicorn, as OpenEnv's projects do it, but at a Unix socket in a folder that no
other user can enter, and not at a port. See `request_loop.py` for requests.
"""

import asyncio
import importlib
import os
import shutil
import sys

from request_loop import answer_requests

POLL_S = 0.02


class ServerService:
    """The requests of Sandlot."""

    def __init__(self):
        self.socket = ""
        self.serving = None

    async def load(self, folder, app, socket):
        """Serve the application at the socket until this process ends."""
        self.socket = socket
        sys.path.insert(0, folder)  # as with `uvicorn server.app:app` in the folder
        module, _, name = app.partition(":")
        application = getattr(importlib.import_module(module), name)
        server = uvicorn.Server(uvicorn.Config(application, uds=socket, log_level="warning", access_log=False))
        self.serving = asyncio.get_running_loop().create_task(server.serve())
        while not server.started:
            if self.serving.done():
                raise RuntimeError("the application did not start")
            await asyncio.sleep(POLL_S)
        return {}

    def leave(self):
        """Remove the socket's folder: whoever made it has ended."""
        if self.socket:
            shutil.rmtree(os.path.dirname(self.socket), ignore_errors=True)


if __name__ == "__main__":
    import uvicorn

    asyncio.run(answer_requests(ServerService()))
