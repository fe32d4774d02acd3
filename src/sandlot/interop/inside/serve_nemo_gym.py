"""Runs a resources server of NeMo Gym for Sandlot, in a Python that has the package `nemo-gym`. It needs nothing of Sandlot.

Every line of standard input is a request, every line of standard output an answer: see `package_process.py`. The server's own web
application is made as NeMo Gym does it, and asked within this process: no port is opened and no Ray is started. A rollout is a
session with its own cookies: `/seed_session`, its tools, `/verify`. Servers that ask a model or another server have none here:
whatever they answer then, the session fails.
"""

import asyncio
import contextvars
import importlib.util
import inspect
import sys
from pathlib import Path

from request_loop import answer_requests

MAX_BYTES = 16 * 2**20
ASKED = contextvars.ContextVar("asked")
"""The names of the servers that the server has asked, in the session whose request runs."""


def server_class(folder):
    """The server that the folder's `app.py` defines."""
    for place in (folder.parent.parent, folder):  # as `resources_servers.NAME`, and with modules beside `app.py`
        sys.path.insert(0, str(place))
    spec = importlib.util.spec_from_file_location(f"resources_servers.{folder.name}.app", folder / "app.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = [each for each in vars(module).values() if inspect.isclass(each) and issubclass(each, SimpleResourcesServer)]
    own = [each for each in found if each.__module__ == spec.name]
    if len(own) != 1:
        raise TypeError(f"`app.py` defines {len(own)} resources servers; there must be one")
    return own[0]


def settings_of(folder, config):
    """The server's settings in a file of its folder `configs`; none if no file is named."""
    if config:
        for entry in OmegaConf.to_container(OmegaConf.load(folder / "configs" / config), resolve=False).values():
            servers = entry.get("resources_servers") if isinstance(entry, dict) else None
            if servers:
                return dict(next(iter(servers.values())))
    return {}


def client_without_servers(asked_by_none):
    """The server's client of other servers. It notes who was asked: a server may catch the error, and score without its judge."""

    class ClientWithoutServers(ServerClient):
        async def request(self, server_name, *args, **kwargs):  # noqa: ARG002 - the shape of NeMo Gym's client
            ASKED.get(asked_by_none).append(str(server_name))
            raise ConnectionError(f"there is no server `{server_name}` here")

        get = request
        post = request

    return ClientWithoutServers(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=OmegaConf.create()
    )


class ServerSession:
    """A rollout's cookies, and the other servers that were asked in it."""

    def __init__(self, app):
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://resources")
        self.asked = []


class ResourcesService:
    """The requests of Sandlot."""

    def __init__(self):
        self.app = None
        self.sessions = {}
        self.asked_by_none = []
        """The servers that were asked outside of any session, such as by a thread: no session can be trusted then."""

    async def load(self, folder, config):
        """Make the server's web application, and say what it is."""
        folder = Path(folder)
        made = server_class(folder)
        settings = {"entrypoint": "app.py"} | settings_of(folder, config) | {"host": "127.0.0.1", "port": 1, "name": folder.name}
        client = client_without_servers(self.asked_by_none)
        server = made(config=made.model_fields["config"].annotation(**settings), server_client=client)
        self.app = server.setup_webserver()
        return {"name": made.__name__, "description": str(settings.get("description") or "")}

    async def begin(self, rollout, row):
        """Open a session for a row."""
        self.sessions[rollout] = ServerSession(self.app)
        await self.found(rollout, "seed_session", row)
        return {}

    async def call(self, rollout, name, arguments):
        """A call of a tool. The server's refusal is an answer; its crash is not."""
        answer = await self.post(rollout, name, arguments)
        if answer.status_code >= 500:
            raise ValueError(f"`/{name}` has the status {answer.status_code}: {answer.text[:500]}")
        return {"text": answer.text[:MAX_BYTES], "refused": answer.status_code >= 400}

    async def verify(self, rollout, row, response):
        """The reward of the server."""
        found = await self.found(rollout, "verify", row | {"response": response})
        return {"reward": found["reward"]}

    async def post(self, rollout, name, body):
        """Ask an endpoint; an error if the server has asked another server, which is not there."""
        session = self.sessions[rollout]
        ASKED.set(session.asked)
        answer = await session.http.post(f"/{name}", json=body)
        for other in (*session.asked, *self.asked_by_none):
            raise ValueError(f"the server asked another server, `{other}`; there is none, so `/{name}` has no answer that counts")
        return answer

    async def found(self, rollout, name, body):
        """What an endpoint answers; an error for anything but success."""
        answer = await self.post(rollout, name, body)
        if answer.status_code != 200:
            raise ValueError(f"`/{name}` has the status {answer.status_code}: {answer.text[:500]}")
        return answer.json()

    async def drop(self, rollout):
        """Forget a session."""
        session = self.sessions.pop(rollout, None)
        if session is not None:
            await session.http.aclose()
        return {}


if __name__ == "__main__":
    import httpx
    from nemo_gym.base_resources_server import SimpleResourcesServer
    from nemo_gym.server_utils import BaseServerConfig, ServerClient
    from omegaconf import OmegaConf

    asyncio.run(answer_requests(ResourcesService()))
