"""A server that speaks OpenEnv's protocol, and one that does not keep to it, imported and played."""

import json
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import anyio
import anyio.from_thread
import pytest
from aiohttp import web

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Message, ToolCall
from sandlot.core.types import Role
from sandlot.env.importing import import_environment
from sandlot.interop.openenv import client as client_module
from sandlot.interop.openenv.importer import OpenEnvImporter
from sandlot.interop.openenv.world import score_of_episode

SCHEMA = {
    "action": {
        "type": "object",
        "properties": {"number": {"type": "integer"}, "metadata": {"type": "object"}},
        "required": ["number"],
    }
}


def step(reward=None, *, done=False, **observation):
    return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": done}}


def error(code, message="it broke"):
    return {"type": "error", "data": {"code": code, "message": message}}


@dataclass
class Late:
    """A reply that takes its time."""

    reply: dict
    seconds: float


def halves(action):
    """The server's answer to an action: half a point, and the end with 2."""
    return step(0.5, done=action.get("number") == 2, seen=action)


@contextmanager
def serving(answer=halves, schema=SCHEMA, begin=lambda data: step(hello=data.get("seed")), **pages):
    """The address of a server that begins episodes with `begin` and answers actions with `answer`. It may have other pages."""

    async def connect(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            asked = json.loads(message.data)
            reply = begin(asked["data"]) if asked["type"] == "reset" else answer(asked["data"])
            if isinstance(reply, Late):
                await anyio.sleep(reply.seconds)
                reply = reply.reply
            if reply is None:
                break
            await socket.send_str(reply if isinstance(reply, str) else json.dumps(reply))
        return socket

    async def page(_):
        return web.json_response(schema)

    async def start():
        app = web.Application()
        routes = {"ws": connect, "schema": page, **pages}
        app.add_routes([web.get(f"/{name}", handler) for name, handler in routes.items()])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    with anyio.from_thread.start_blocking_portal() as portal:
        runner = portal.call(start)
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            portal.call(runner.cleanup)


class Lost(Exception):  # noqa: N818 - an end, not an error
    """The rollout is lost by a crash; the message says which."""


async def left_by(session):
    """The final state; `Lost` if no check of the rollout counts."""
    record = await session.gather("")
    if record.crashed:
        raise Lost(record.crashed[""])
    return record.state


def play(env, *calls):
    async def run():
        async with env.session("seed-1") as session:
            await session.reset()
            results = []
            for number, (name, arguments) in enumerate(calls):
                message = Message(role=Role.ASSISTANT, parts=(ToolCall(f"c{number}", name, arguments),))
                results.append((await session.step(message)).messages[0].results[0])
            return results, await left_by(session)

    return anyio.run(run)


def imported(url, tmp_path, query="?seeds=2"):
    report = import_environment("openenv", url + query, tmp_path / "env")
    return report, sandlot.load(tmp_path / "env")


def test_an_action_is_a_tool_and_rewards_are_recorded(tmp_path):
    with serving() as url:
        report, env = imported(url, tmp_path)
        assert [task.id for task in report.tasks] == ["seed-0", "seed-1"]
        results, state = play(env, ("look", {}), ("act", {"number": 1}), ("act", {"number": 2}), ("act", {"number": 3}))
    assert '"hello": 1' in results[0].text
    assert '"number": 1' in results[1].text
    assert "The episode is over." in results[2].text
    assert results[3].error
    assert state == {"steps": 2, "limit": 100, "refused": 0, "rewards": [0.5, 0.5], "done": True}
    (tool,) = json.loads((tmp_path / "env" / "tools.json").read_text())
    assert list(tool["parameters"]["properties"]) == ["number"]


@pytest.mark.parametrize("query", ["?seeds=2", "?seeds=2&score=-2..1"])
def test_doing_nothing_is_worth_nothing_and_a_run_is_graded(tmp_path, query):
    with serving() as url:
        _, env = imported(url, tmp_path, query)
        run = sandlot.run(env, "scripted:noop", runs=tmp_path / "runs")
        assert [row.score for row in run.rows] == [0.0, 0.0]


def test_mcp_tools_become_tools(tmp_path):
    tools = [
        {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    ]

    def answer(action):
        return step(tools=tools) if action["type"] == "list_tools" else step(1.0, done=True, got=action)

    with serving(answer, {"action": {"properties": {"tool_name": {}, "arguments": {}}}}) as url:
        _, env = imported(url, tmp_path)
        results, state = play(env, ("add", {"x": 3}))
    assert '"tool_name": "add"' in results[0].text
    assert state["rewards"] == [1.0]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda _: error("EXECUTION_ERROR"), "it broke"),
        (lambda _: None, "closed the connection"),
        (lambda _: "no json", "no answer"),
        (lambda _: "[" * 100_000, "no answer"),
        (lambda _: {"type": "observation", "data": {"reward": "much"}}, "no answer"),
        (lambda _: {"type": "state", "data": {}}, "answered `step` with `state`"),
        (lambda _: '{"type": "observation", "data": {"observation": {}, "reward": 1e999}}', "no answer"),
        (lambda _: json.dumps(step(text="x" * 17_000_000)), "more than"),
    ],
)
def test_a_server_that_breaks_at_an_action_loses_the_rollout(tmp_path, answer, told):
    with serving(answer) as url:
        _, env = imported(url, tmp_path)
        with pytest.raises(Lost, match=told):
            play(env, ("act", {"number": 1}))


def test_an_action_that_the_server_refuses_is_told_to_the_agent(tmp_path):
    with serving(lambda _: error("VALIDATION_ERROR", "number is missing")) as url:
        _, env = imported(url, tmp_path)
        results, state = play(env, ("act", {}))
    assert (results[0].error, "number is missing" in results[0].text, state["steps"]) == (True, True, 0)


@pytest.mark.parametrize(("reward", "high", "score"), [(None, 1.0, None), (3.0, 1.0, None), (3.0, 4.0, 0.75), (0.0, 1.0, 0.0)])
def test_a_score_is_never_made_up(reward, high, score):
    evidence = SimpleNamespace(state={"steps": 1, "limit": 9, "refused": 0, "rewards": [reward], "done": True})
    if score is None:
        with pytest.raises(ValueError, match=r"no reward|not from 0 to 1"):
            score_of_episode(evidence, 0.0, high, last=False)
    else:
        assert score_of_episode(evidence, 0.0, high, last=True)[0] == score


@pytest.mark.parametrize(("steps", "done", "score"), [(2, False, 0.0), (3, False, 0.5), (2, True, 0.5)])
def test_an_episode_that_is_left_early_is_worth_nothing(steps, done, score):
    evidence = SimpleNamespace(state={"steps": steps, "limit": 3, "refused": 0, "rewards": [-0.5], "done": done})
    assert score_of_episode(evidence, -2.0, 1.0, last=False)[0] == score


def test_the_steps_end(tmp_path):
    with serving() as url:
        _, env = imported(url, tmp_path, "?seeds=2&steps=1&score=0..2")
        results, state = play(env, ("act", {"number": 1}), ("act", {"number": 1}))
    assert (results[1].error, "all 1 steps are used" in results[1].text, state["steps"]) == (True, True, 1)


def test_a_late_answer_is_never_that_of_the_next_action(tmp_path):
    with serving(lambda action: Late(halves(action), 1.0)) as url:
        _, env = imported(url, tmp_path)
        env.limits = env.limits.but({"tool_s": 0.2})
        with pytest.raises(Lost, match="has not answered"):
            play(env, ("act", {"number": 1}), ("act", {"number": 3}))


def test_no_answer_loses_the_rollout_before_the_tool_times_out(tmp_path, monkeypatch):
    with serving(lambda action: Late(halves(action), 1.0)) as url:
        _, env = imported(url, tmp_path)
        assert env.limits.tool_s > client_module.ANSWER_S
        assert env.limits.provision_s > client_module.FULL_S
        monkeypatch.setattr(client_module, "ANSWER_S", 0.2)
        with pytest.raises(Lost, match="did not answer `step`"):
            play(env, ("act", {"number": 1}))


def test_an_action_that_fits_the_schema_and_is_refused_is_a_crash_that_changed_nothing(tmp_path):
    described = {"action": {"title": "Guess", "properties": {"number": {"title": "Number", "type": "integer"}}}}
    with serving(lambda _: error("VALIDATION_ERROR"), described) as url:
        _, env = imported(url, tmp_path)
        assert play(env, ("act", {"number": "many"}))[0][0].error
        results, state = play(env, ("act", {"number": 1}), ("look", {}))
        assert ([result.error for result in results], state["steps"]) == ([True, False], 0)


def test_refusals_that_cannot_be_checked_are_no_score(tmp_path):
    with serving(lambda _: error("VALIDATION_ERROR"), {"action": {"properties": {"n": {"$ref": "#/x"}}}}) as url:
        _, env = imported(url, tmp_path)
        _, state = play(env, ("act", {"n": 1}))
    with pytest.raises(ValueError, match="refused all 1 actions"):
        score_of_episode(SimpleNamespace(state=state), 0.0, 1.0, last=False)


def test_a_redirect_is_not_followed(tmp_path):
    asked = []

    async def inside(request):
        asked.append(request.path)
        return web.Response()

    async def elsewhere(_):
        raise web.HTTPFound("/inside")

    with serving(ws=elsewhere, inside=inside) as url, pytest.raises(ConfigError, match="sends elsewhere"):
        imported(url, tmp_path)
    assert asked == []


def in_pieces(value, status=200):
    async def page(request):
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        for piece in json.dumps(value).partition(" "):
            await response.write(piece.encode())
            await anyio.sleep(0.05)
        return response

    return page


def test_a_page_that_comes_in_pieces_is_read_whole(tmp_path, monkeypatch):
    with serving(metadata=in_pieces({"name": "Grid"})) as url:
        assert imported(url, tmp_path)[1].name == "openenv-Grid"
        monkeypatch.setattr(client_module, "MAX_MESSAGE_BYTES", 10)
        with pytest.raises(ConfigError, match="more than 10 bytes"):
            OpenEnvImporter().digest(url)


def test_only_an_absent_page_is_left_out(tmp_path):
    with serving(metadata=in_pieces({"name": "Grid"}, 500)) as url, pytest.raises(ConfigError, match="status 500"):
        imported(url, tmp_path)


def test_a_full_server_in_the_middle_of_an_episode_loses_the_rollout(tmp_path):
    with serving(lambda _: error("CAPACITY_REACHED")) as url:
        _, env = imported(url, tmp_path)
        with pytest.raises(Lost, match="CAPACITY_REACHED"):
            play(env, ("act", {"number": 1}))


MCP = {"action": {"properties": {"tool_name": {}, "arguments": {}}}}


def test_a_server_that_refuses_to_list_its_tools_is_an_error(tmp_path):
    with serving(lambda _: error("VALIDATION_ERROR"), MCP) as url, pytest.raises(ConfigError, match="does not take this action"):
        imported(url, tmp_path)


def test_the_digest_changes_with_the_tools_and_what_the_server_says(tmp_path):
    def digest_of(tool, name):
        tools = [{"name": tool, "description": "Adds.", "input_schema": {"type": "object"}}]
        with serving(lambda _: step(tools=tools), MCP, metadata=in_pieces({"name": name})) as url:
            return OpenEnvImporter().digest(url)

    assert len({digest_of("add", "a"), digest_of("sub", "a"), digest_of("add", "b")}) == 3
    assert digest_of("add", "a") == digest_of("add", "a")


def test_a_full_server_is_waited_for(tmp_path):
    answers = iter([step(), step(), error("CAPACITY_REACHED"), error("CAPACITY_REACHED"), step(hello=1)])
    with serving(begin=lambda _: next(answers)) as url:
        _, env = imported(url, tmp_path)
        results, _ = play(env, ("look", {}))
    assert '"hello": 1' in results[0].text


def test_the_token_is_in_a_variable_and_not_in_the_folder(tmp_path, monkeypatch):
    with serving() as url:
        with pytest.raises(ConfigError, match="`MY_TOKEN`"):
            imported(url, tmp_path, "?token_variable=MY_TOKEN")
        monkeypatch.setenv("MY_TOKEN", "very\nsecret")
        with pytest.raises(ConfigError, match="`MY_TOKEN`"):
            imported(url, tmp_path, "?token_variable=MY_TOKEN")
        monkeypatch.setenv("MY_TOKEN", "very secret\n")
        imported(url, tmp_path, "?token_variable=MY_TOKEN")
    written = "".join(path.read_text() for path in (tmp_path / "env").rglob("*") if path.is_file())
    assert "MY_TOKEN" in written
    assert "very secret" not in written


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("file:///etc/passwd", "no address"),
        ("http://x:secret@127.0.0.1:1", "holds a password"),
        ("http://127.0.0.1:1?seeds=0", "no number from 1"),
        ("http://127.0.0.1:1?seeds=1e9", "no number from 1"),
        ("http://127.0.0.1:1?score=1", "no range"),
        ("http://127.0.0.1:1?reward=best", "`sum` or `last`"),
        ("http://127.0.0.1:1?seed=1", "unknown `seed`"),
        ("http://127.0.0.1:1", "cannot be read"),
        ("http://127.0.0.1:1?token_variable=OPENAI_API_KEY", "must end in `_TOKEN`"),
    ],
)
def test_a_wrong_source_is_an_error_that_says_so(tmp_path, source, told, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "very secret")
    with pytest.raises(ConfigError, match=told):
        OpenEnvImporter().write(source, tmp_path, limit=None)


@pytest.mark.parametrize("schema", [{}, {"action": 3}, {"action": {"properties": []}}])
def test_a_server_that_does_not_name_its_actions_is_refused(tmp_path, schema):
    with serving(schema=schema) as url, pytest.raises(ConfigError, match="which actions it takes"):
        imported(url, tmp_path)
