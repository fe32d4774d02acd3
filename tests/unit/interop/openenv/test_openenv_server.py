"""An environment served to OpenEnv clients: the messages of its protocol, over a real WebSocket."""

import base64
from contextlib import asynccontextmanager

import aiohttp
import anyio
import pytest

from drive.command_line import ENVIRONMENTS
from sandlot import Run
from sandlot.core.errors import ConfigError
from sandlot.interop.openenv.server import OpenEnvPlace, serve_openenv


@asynccontextmanager
async def served(tmp_path, **options):
    """The URL of the server."""
    place = OpenEnvPlace(port=0, run=tmp_path / "run", **options)
    told, to_tell = anyio.create_memory_object_stream[str](1)
    async with anyio.create_task_group() as group:

        async def serve():
            await serve_openenv(str(ENVIRONMENTS / "arithmetic"), place, ready=told.send_nowait)

        group.start_soon(serve)
        yield (await to_tell.receive()).partition(": ")[2].partition(",")[0]
        group.cancel_scope.cancel()
    told.close()
    to_tell.close()


async def ask(socket, kind, data=None):
    await socket.send_json({"type": kind} | ({} if data is None else {"data": data}))
    reply = await socket.receive_json(timeout=30)
    return reply["type"], reply["data"]


def right_answer(question: str) -> str:
    first, sign, second = question.removeprefix("What is ").partition("?")[0].split()
    return str({"+": int(first) + int(second), "-": int(first) - int(second), "*": int(first) * int(second)}[sign])


async def test_the_reward_comes_with_the_last_step_and_the_rollout_is_stored(tmp_path):
    async with served(tmp_path) as url, aiohttp.ClientSession() as http, http.ws_connect(f"{url}/ws") as socket:
        for task, text, reward in (("arithmetic-0", None, 1.0), ("arithmetic-1", "none", 0.0)):
            kind, data = await ask(socket, "reset", {"task": task, "episode_id": "mine"})
            assert (kind, data["reward"], data["done"]) == ("observation", None, False)
            assert (await ask(socket, "state"))[1] == {"episode_id": "mine", "step_count": 0, "task": task}
            said = text or right_answer(data["observation"]["messages"][-1]["content"])
            _, data = await ask(socket, "step", {"text": said})
            assert (data["reward"], data["done"]) == (reward, True)
    run = Run(tmp_path / "run")
    assert [run.trace(f"arithmetic-{number}").reward for number in range(2)] == [1.0, 0.0]


async def test_tasks_follow_each_other_or_are_named_by_a_seed(tmp_path):
    async with served(tmp_path) as url, aiohttp.ClientSession() as http, http.ws_connect(f"{url}/ws") as socket:
        seen = []
        for data in ({}, {}, {"seed": 0}, {"seed": 1}):
            await ask(socket, "reset", data)
            seen.append((await ask(socket, "state"))[1]["task"])
        assert seen == ["arithmetic-0", "arithmetic-1"] * 2


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("no json", "INVALID_JSON"),
        ('{"a":' * 50_000, "INVALID_JSON"),
        ("[1]", "VALIDATION_ERROR"),
        ('{"type": "exec"}', "UNKNOWN_TYPE"),
        ('{"type": "step", "data": {"text": "1"}}', "SESSION_ERROR"),
        ('{"type": "reset", "data": {"task": "none"}}', "EXECUTION_ERROR"),
        ('{"type": "reset", "data": [1]}', "VALIDATION_ERROR"),
    ],
)
async def test_a_wrong_message_is_an_error_and_the_next_is_answered(tmp_path, line, code):
    async with served(tmp_path) as url, aiohttp.ClientSession() as http, http.ws_connect(f"{url}/ws") as socket:
        await socket.send_str(line)
        reply = await socket.receive_json(timeout=30)
        assert (reply["type"], reply["data"]["code"]) == ("error", code)
        assert (await ask(socket, "reset"))[0] == "observation"
        assert (await ask(socket, "step", {"txt": "1"}))[1]["code"] == "VALIDATION_ERROR"


async def test_web_pages_are_refused(tmp_path):
    async with served(tmp_path) as url, aiohttp.ClientSession() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await http.ws_connect(f"{url}/ws", headers={"Origin": "http://evil.example"})
        async with http.get(f"{url}/health") as response:
            assert await response.json() == {"status": "healthy"}


async def test_an_unknown_task_is_refused_at_the_start(tmp_path):
    with pytest.raises(ConfigError, match="has no task `none`"):
        await serve_openenv(str(ENVIRONMENTS / "arithmetic"), OpenEnvPlace(port=0, run=tmp_path / "run", task="none"), ready=str)


async def test_without_the_token_nobody_plays(tmp_path):
    async with served(tmp_path, token="correct horse battery") as url, aiohttp.ClientSession() as http:
        wrong = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic !!"}, {"Authorization": "correct horse battery"}]
        for headers in wrong:
            for page in ("ws", "schema", "health"):
                async with http.get(f"{url}/{page}", headers=headers) as response:
                    assert (response.status, "token" in await response.text()) == (401, True)
        for headers in (
            {"Authorization": "Bearer correct horse battery"},
            {"Authorization": "Basic " + base64.b64encode(b"x:correct horse battery").decode()},
        ):
            async with http.ws_connect(f"{url}/ws", headers=headers) as socket:
                assert (await ask(socket, "reset", {}))[0] == "observation"


@pytest.mark.parametrize(("options", "told"), [({"host": "0.0.0.0"}, "--token"), ({"token": "short"}, "16 or more")])
async def test_an_open_address_wants_a_token_and_a_long_one(tmp_path, options, told):
    place = OpenEnvPlace(port=0, run=tmp_path / "run", **options)
    with pytest.raises(ConfigError, match=told):
        await serve_openenv(str(ENVIRONMENTS / "arithmetic"), place, ready=print)
