"""Environments of OpenEnv, served by openenv-core, played by its own client and as ours: `make test-interop KIND=openenv`."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from openenv_peer import THEIRS, python_with, served

import sandlot
from sandlot.core.errors import AuthorError
from sandlot.core.trace import Message, ToolCall
from sandlot.core.types import Role
from sandlot.env.importing import import_environment
from sandlot.interop.openenv.world import score_of_episode

HERE = Path(__file__).parent
SAMPLES = str(HERE / "openenv_samples.py")
PLAY = """
import asyncio, json, sys
from openenv.core.generic_client import GenericEnvClient
async def play(url, seed, actions):
    async with GenericEnvClient(base_url=url) as client:
        result = await client.reset(seed=seed)
        rewards = []
        for action in actions:
            result = await client.step(action)
            rewards.append(result.reward)
            if result.done:
                break
        return [rewards, result.done]
async def main(url, games):
    print(json.dumps([await play(url, seed, actions) for seed, actions in games]))
asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
"""


def theirs(url, games):
    """What OpenEnv's own client gets for (seed, actions): rewards, and whether the episode is over."""
    done = subprocess.run([THEIRS, "-c", PLAY, url, json.dumps(games)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def ours(env, task, calls):
    async def run():
        async with env.session(task) as session:
            await session.reset()
            for number, (name, arguments) in enumerate(calls):
                call = ToolCall(f"c{number}", name, arguments)
                await session.step(Message(role=Role.ASSISTANT, parts=(call,)))
            return dict(session.world.state)

    return anyio.run(run)


GUESSES = [list(range(1, 9)), [8, 1], [4], [8, 5, 5]]


def score(state, low, high):
    return score_of_episode(SimpleNamespace(state=state), low, high, last=False)[0]


def test_the_rewards_are_equal_on_the_same_actions(tmp_path):
    with served(SAMPLES, "guessing") as url:
        import_environment("openenv", f"{url}?seeds=3&score=0..4", tmp_path / "env")
        env = sandlot.load(tmp_path / "env")
        games = [(seed, guesses) for seed in range(3) for guesses in GUESSES]
        results = theirs(url, [(seed, [{"number": number} for number in guesses]) for seed, guesses in games])
        for (seed, guesses), (rewards, done) in zip(games, results, strict=True):
            state = ours(env, f"seed-{seed}", [("act", {"number": number}) for number in guesses])
            assert (state["rewards"], state["done"]) == (rewards, done)
            earned = sum(reward or 0.0 for reward in rewards) if done else 0.0  # leaving early is worth nothing here
            assert score(state, 0.0, 4.0) == pytest.approx(earned / 4)


def test_mcp_tools_are_tools(tmp_path):
    with served(SAMPLES, "counter") as url:
        import_environment("openenv", f"{url}?seeds=1", tmp_path / "env")
        env = sandlot.load(tmp_path / "env")
        calls = [("add", {"amount": 3}), ("add", {"amount": 4}), ("finish", {})]
        actions = [{"type": "call_tool", "tool_name": name, "arguments": arguments} for name, arguments in calls]
        state = ours(env, "seed-0", calls)
        assert [state["rewards"], state["done"]] == theirs(url, [(0, actions)])[0]
        assert score(state, 0.0, 1.0) == pytest.approx(0.7)


def test_what_breaks_there_has_no_reward(tmp_path):
    with served(SAMPLES, "guessing") as url:
        import_environment("openenv", f"{url}?seeds=1&score=0..2", tmp_path / "env")
        env = sandlot.load(tmp_path / "env")
        with pytest.raises(AuthorError, match="99 breaks it"):
            ours(env, "seed-0", [("act", {"number": 99})])
        state = ours(env, "seed-0", [("act", {"number": "many"})])  # refused, and the agent is told
        assert (state["steps"], score(state, 0.0, 2.0)) == (0, 0.0)


def test_rollouts_wait_for_a_server_with_one_session(tmp_path):
    with served(SAMPLES, "single") as url:
        import_environment("openenv", f"{url}?seeds=4&score=0..2", tmp_path / "env")
        run = sandlot.run(str(tmp_path / "env"), "scripted:noop", runs=tmp_path / "runs")
        assert [row.outcome for row in run.rows] == ["scored"] * 4


@pytest.fixture
def echo(tmp_path):
    """The environment that `openenv init` writes: it echoes, and a longer message earns more."""
    subprocess.run([Path(THEIRS).with_name("openenv"), "init", "echo_env"], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path / "echo_env"


MESSAGES = (["Hello", "", "Hello, World!"], ["x"], ["\u00e9t\u00e9", "two words"])


@pytest.mark.parametrize("form", ["folder", "package"])
def test_a_folder_or_a_package_is_served_by_us_with_the_same_rewards(tmp_path, echo, form):
    games = [(0, [{"message": message} for message in messages]) for messages in MESSAGES]
    with served("-m", "uvicorn", "server.app:app", "--log-level", "warning", "--port", cwd=echo) as url:
        results = theirs(url, games)
    python, name = THEIRS, str(echo)
    if form == "package":  # a Python of its own, which has the package beside what theirs has
        python, packages = python_with(tmp_path / "venv", THEIRS)
        echo.rename(packages / "echo_env")
        name = "echo_env"
    import_environment("openenv", f"{name}?python={python}&seeds=1&score=0..10", tmp_path / "env")
    env = sandlot.load(tmp_path / "env")
    for (_, actions), (rewards, done) in zip(games, results, strict=True):
        state = ours(env, "seed-0", [("act", action) for action in actions])
        assert (state["rewards"], state["done"]) == (rewards, done)


def test_a_source_without_a_copy_is_run_and_audited(tmp_path, echo):
    source = f"openenv:{echo}?python={THEIRS}&seeds=2&steps=1&score=0..100"
    run = sandlot.run(source, "scripted:random", runs=tmp_path / "runs")
    assert [row.outcome for row in run.rows] == ["scored"] * 2
    audit = [Path(sys.executable).with_name("sandlot"), "audit", source, "--layer", "static", "--json"]
    found = json.loads(subprocess.run(audit, capture_output=True, text=True, cwd=tmp_path, check=False).stdout.splitlines()[-1])
    assert found["tasks"] == 2
