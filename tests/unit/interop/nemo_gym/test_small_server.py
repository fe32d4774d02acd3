"""Resources servers of a small package with NeMo Gym's interface: what they, their rows and their files do to us."""

import json
import site
import venv

import anyio
import pytest

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Message, Text, ToolCall
from sandlot.core.types import Role
from sandlot.env.importing import import_environment

OMEGACONF = """
import json

class OmegaConf:
    create = staticmethod(dict)
    load = staticmethod(lambda file: json.loads(file.read_text()))
    to_container = staticmethod(lambda given, resolve: given)
"""
SERVER_UTILS = """
from pydantic import BaseModel

class BaseServerConfig(BaseModel):
    host: str
    port: int

class ServerClient(BaseModel):
    head_server_config: BaseServerConfig
    global_config_dict: dict

    async def request(self, server_name, url_path, method, **kwargs):
        raise KeyError(server_name)

    async def post(self, server_name, url_path, **kwargs):
        return await self.request(server_name, url_path, "POST", **kwargs)
"""
BASE_RESOURCES_SERVER = """
from nemo_gym.server_utils import ServerClient
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

class Config(BaseModel):
    reward: float = 1.0

class SimpleResourcesServer(BaseModel):
    config: Config
    server_client: ServerClient

    async def _seed(self, request):
        return JSONResponse({})

    async def _echo(self, request):
        return JSONResponse(await request.json())

    async def _verify(self, request):
        return JSONResponse({"reward": await self.verify(await request.json())})

    def setup_webserver(self):
        points = {"/seed_session": self._seed, "/echo": self._echo, "/verify": self._verify}
        return Starlette(routes=[Route(name, function, methods=["POST"]) for name, function in points.items()])
"""
APP = """
from nemo_gym.base_resources_server import SimpleResourcesServer

class Small(SimpleResourcesServer):
    async def verify(self, body):
        BODY
"""


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gym")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    package = folder / "package"
    (package / "nemo_gym").mkdir(parents=True)
    (package / "nemo_gym-0.4.0.dist-info").mkdir()
    files = {
        "httpx.py": "from httpx2 import ASGITransport, AsyncClient",
        "omegaconf.py": OMEGACONF,
        "nemo_gym/__init__.py": "",
        "nemo_gym/server_utils.py": SERVER_UTILS,
        "nemo_gym/base_resources_server.py": BASE_RESOURCES_SERVER,
        "nemo_gym-0.4.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: nemo-gym\nVersion: 0.4.0\n",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    (place,) = (folder / "venv").glob("lib/python3*/site-packages")
    (place / "packages.pth").write_text("\n".join([str(package), *site.getsitepackages()]))
    return folder / "venv" / "bin" / "python"


def row(prompt):
    tool = {"type": "function", "name": "echo", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}
    return json.dumps({"responses_create_params": {"input": prompt, "tools": [tool]}}, ensure_ascii=False)


ROWS = (row("Say yes."),)


@pytest.fixture
def imported(tmp_path, python):
    def write(body="return self.config.reward", rows=ROWS, configs=(), query=""):
        server = tmp_path / "resources_servers" / "small"
        (server / "data").mkdir(parents=True, exist_ok=True)
        (server / "configs").mkdir(exist_ok=True)
        (server / "app.py").write_text(APP.replace("BODY", body.replace("\n", "\n        ")))
        (server / "data" / "example.jsonl").write_text("\n".join(rows))
        for name, reward in configs:
            settings = {"small": {"resources_servers": {"small": {"reward": reward}}}}
            (server / "configs" / name).write_text(json.dumps(settings))
        report = import_environment("nemo-gym", f"{server}?python={python}{query}", tmp_path / "env")
        return sandlot.load(tmp_path / "env"), report

    return write


def outcomes(env, tmp_path):
    return {trace.task: trace.outcome for trace in sandlot.run(env, "scripted:constant:yes", at_once=1, runs=tmp_path / "runs")}


ASKS_ITS_JUDGE = """
import asyncio
where = body["responses_create_params"]["input"]
try:
    if "itself" in where:
        await self.server_client.post(server_name='judge', url_path='/v1/responses')
    elif "task" in where:
        await asyncio.create_task(self.server_client.post(server_name='judge', url_path='/v1/responses'))
    elif "thread" in where:
        await asyncio.get_running_loop().run_in_executor(None, asyncio.run, self.server_client.post('judge', '/x'))
except Exception:
    pass
return 0.5
"""


def test_a_server_that_scores_without_its_judge_gives_no_reward(imported, tmp_path):
    env, _ = imported(ASKS_ITS_JUDGE, rows=tuple(map(row, ("itself", "in a task", "nowhere", "in a thread"))))
    *failed, scored, by_thread = (each for _, each in sorted(outcomes(env, tmp_path).items()))
    failed.append(by_thread)  # the last: what a thread asks is of no session, and spoils all that follow
    assert [(each.side, "asked another server, `judge`" in each.message) for each in failed] == [("grader", True)] * 3
    assert scored.score.value == 0.5


def test_calls_whose_ids_repeat_keep_their_own_results(imported, tmp_path):
    items = "[item for item in body['response']['output'] if item['type'] == 'function_call_output']"
    env, _ = imported(
        f"items = {items}\n"
        "words = [item['output'] for item in items]\n"
        "ids = {item['call_id'] for item in items}\n"
        "return float(len(ids) == 4 and [word[9:-2] for word in words] == ['a', 'b', 'c', 'd'])"
    )

    def calls(*words):
        return Message(
            role=Role.ASSISTANT, parts=tuple(ToolCall(id="call_0", name="echo", arguments={"word": word}) for word in words)
        )

    async def play():
        async with env.session("small-0") as session:
            await session.reset()
            await session.step(calls("a", "b"))
            await session.step(calls("c", "d"))
            await session.step(Message(role=Role.ASSISTANT, parts=(Text("Done."),)))
            return (await session.gather("Done.")).state["verified"]

    assert anyio.run(play) == {"reward": 1.0}


def test_a_row_ends_at_a_line_feed_only_and_one_that_cannot_be_read_is_left_out(imported):
    deep = '{"responses_create_params": ' + "[" * 100_000 + "]" * 100_000 + "}"
    env, report = imported(rows=(row("One\u2028and\u0085two."), deep, "{", row("Last.")))
    assert [task.prompt for task in sandlot.tasks_of(env)] == ["One\u2028and\u0085two.", "Last."]
    assert [left.what for left in report.left_out] == ["row 1", "row 2"]


def test_a_server_whose_files_have_changed_since_the_import_is_not_run(imported, tmp_path):
    env, _ = imported("return 0.0")
    (tmp_path / "resources_servers" / "small" / "app.py").write_text(APP.replace("BODY", "return 1.0"))
    with pytest.raises(ConfigError, match="import it again"):
        outcomes(env, tmp_path)


def test_of_several_settings_one_must_be_named(imported, tmp_path):
    configs = (("a.yaml", 0.25), ("b.yaml", 0.75))
    with pytest.raises(ConfigError, match=r"`a\.yaml`, `b\.yaml`; name one with `\?config=FILE`"):
        imported(configs=configs)
    env, _ = imported(configs=configs, query="&config=b.yaml")
    assert outcomes(env, tmp_path)["small-0"].score.value == 0.75


def test_a_server_scores_and_the_only_settings_need_no_name(imported, tmp_path):
    env, report = imported(configs=(("a.yaml", 0.25),))
    assert report.version == "0.4.0"
    assert outcomes(env, tmp_path)["small-0"].score.value == 0.25


def test_a_server_that_breaks_loses_the_rollout(imported):
    env, _ = imported()
    assert env.on_crash == "lose"
