"""OpenEnv's own client plays environments that we serve: `make test-interop KIND=openenv`. `OPENENV_PYTHON` has openenv-core."""

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import anyio
import anyio.to_thread
import pytest
from openenv_peer import THEIRS, python_with, served

import sandlot
from drive.command_line import ENVIRONMENTS, NOTES
from sandlot import Run
from sandlot.core.trace import Message, ToolCall
from sandlot.core.types import Role
from sandlot.env.importing import import_environment
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.interop.exporting import export_environment
from sandlot.interop.openenv.server import OpenEnvPlace, serve_openenv
from sandlot.interop.openenv.world import score_of_episode
from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config
from sandlot.wiring.config import ModelConfig

PLAYER = anyio.Path(__file__).parent / "openenv_player.py"


async def their_results(url: str, moves: dict, file) -> list:
    file.write_text(json.dumps(moves))
    done = await anyio.run_process([THEIRS, str(PLAYER), url, str(file)], stderr=None)
    return json.loads(done.stdout.decode().splitlines()[-1])


async def golden_moves(env, tasks, place) -> dict:
    config = RunConfig(env=str(env), model=ModelConfig(spec="scripted:golden"), select=Selection(tasks=tasks))
    golden = await run_config(config, place=place)
    return {
        task: [
            {"text": turn.text, "calls": [{"name": call.name, "arguments": call.arguments} for call in turn.calls]}
            for turn in (node.message for node in golden.trace(task).nodes)
            if turn.role == "assistant"
        ]
        for task in tasks
    }


IDLE = [{"text": "I have nothing to say."}]


@pytest.mark.parametrize("env", [NOTES, ENVIRONMENTS / "arithmetic"], ids=lambda env: env.name)
async def test_golden_moves_get_full_marks_and_idle_ones_none(tmp_path, env):
    tasks = tuple(task.id for task in tasks_of(load(env))[:8])
    moves = await golden_moves(env, tasks, tmp_path / "golden")
    told, to_tell = anyio.create_memory_object_stream[str](1)
    with told, to_tell:
        async with anyio.create_task_group() as group:

            async def serve():
                place = OpenEnvPlace(port=0, run=tmp_path / "run", token="of-this-test")
                await serve_openenv(str(env), place, ready=told.send_nowait)

            group.start_soon(serve)
            url = (await to_tell.receive()).partition(": ")[2].partition(",")[0]
            url = url.replace("//", "//any:of-this-test@")
            assert await their_results(url, moves, tmp_path / "moves.json") == [[1.0, True]] * len(tasks)
            idle = dict.fromkeys(tasks, IDLE)
            assert await their_results(url, idle, tmp_path / "idle.json") == [[0.0, True]] * len(tasks)
            group.cancel_scope.cancel()
    run = Run(tmp_path / "run")
    assert {run.trace(task, 0).reward for task in tasks} == {1.0}


async def exported(env, folder):
    """An exported folder, and a Python that has both packages, as after `pip install sandlot openenv-core`."""
    await anyio.to_thread.run_sync(export_environment, "openenv", env, folder)
    python, packages = python_with(folder.with_name("venv"), THEIRS, sys.executable)
    with (packages / "others.pth").open("a") as places:
        places.write(f"{Path(sandlot.__file__).parents[1]}\n")
    return python


@pytest.mark.parametrize("env", [NOTES, ENVIRONMENTS / "arithmetic"], ids=lambda env: env.name)
async def test_an_exported_folder_is_valid_and_served_by_openenv_itself(tmp_path, env):
    folder = tmp_path / "folder"
    if env.is_file():  # only what is in a folder of its own is copied
        (tmp_path / "own").mkdir()
        env = Path(shutil.copy(env, tmp_path / "own" / "environment.py"))
    python = await exported(env, folder)
    command = [str(Path(THEIRS).with_name("openenv")), "validate"]
    report = json.loads((await anyio.run_process([*command, str(folder), "--json"], check=False)).stdout)
    assert report["issues"] == ["Missing uv.lock - run 'uv lock' to generate it"]  # what `uv lock` writes
    tasks = tuple(task.id for task in tasks_of(load(env))[:8])
    moves = await golden_moves(env, tasks, tmp_path / "golden")
    with served("-m", "uvicorn", "server.app:app", "--log-level", "warning", "--port", cwd=folder, python=python) as url:
        await anyio.run_process([*command, "--url", url])
        assert await their_results(url, moves, tmp_path / "moves.json") == [[1.0, True]] * len(tasks)
        assert await their_results(url, dict.fromkeys(tasks, IDLE), tmp_path / "idle.json") == [[0.0, True]] * len(tasks)
    run = Run(folder / "runs" / f"openenv-{load(env).name}")
    assert [run.trace(task, number).reward for task in tasks for number in (0, 1)] == [1.0, 0.0] * len(tasks)


async def test_an_exported_folder_is_read_back(tmp_path):
    env, folder = ENVIRONMENTS / "arithmetic", tmp_path / "folder"
    python = await exported(env, folder)
    await anyio.to_thread.run_sync(import_environment, "openenv", f"{folder}?python={python}&seeds=4", tmp_path / "back")
    back = load(tmp_path / "back")
    moves = await golden_moves(env, tuple(task.id for task in tasks_of(load(env))[:4]), tmp_path / "golden")
    for seed, golden in enumerate(moves.values()):
        for actions, score in ((golden, 1.0), (IDLE, 0.0)):
            async with back.session(f"seed-{seed}") as session:
                await session.reset()
                for number, action in enumerate(actions):
                    await session.step(Message(role=Role.ASSISTANT, parts=(ToolCall(f"c{number}", "act", action),)))
                state = SimpleNamespace(state=dict(session.world.state))
            assert score_of_episode(state, 0.0, 1.0, last=False)[0] == score
