"""OpenEnv's own client plays environments that we serve: `make test-interop KIND=openenv`. `OPENENV_PYTHON` has openenv-core."""

import json
import os

import anyio
import pytest

from command_line import ENVIRONMENTS, NOTES
from sandlot import Run
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.interop.openenv.server import OpenEnvPlace, serve_openenv
from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config
from sandlot.wiring.config import ModelConfig

PLAYER = anyio.Path(__file__).parent / "openenv_player.py"


async def their_results(url: str, moves: dict, file) -> list:
    file.write_text(json.dumps(moves))
    done = await anyio.run_process([os.environ["OPENENV_PYTHON"], str(PLAYER), url, str(file)], stderr=None)
    return json.loads(done.stdout.decode().splitlines()[-1])


@pytest.mark.parametrize("env", [NOTES, ENVIRONMENTS / "arithmetic"], ids=lambda env: env.name)
async def test_golden_moves_get_full_marks_and_idle_ones_none(tmp_path, env):
    tasks = tuple(task.id for task in tasks_of(load(env))[:8])
    config = RunConfig(env=str(env), model=ModelConfig(spec="scripted:golden"), select=Selection(tasks=tasks))
    golden = await run_config(config, place=tmp_path / "golden")
    moves = {
        task: [
            {"text": turn.text, "calls": [{"name": call.name, "arguments": call.arguments} for call in turn.calls]}
            for turn in (node.message for node in golden.trace(task).nodes)
            if turn.role == "assistant"
        ]
        for task in tasks
    }
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
            idle = {task: [{"text": "I have nothing to say."}] for task in tasks}
            assert await their_results(url, idle, tmp_path / "idle.json") == [[0.0, True]] * len(tasks)
            group.cancel_scope.cancel()
    run = Run(tmp_path / "run")
    assert {run.trace(task, 0).reward for task in tasks} == {1.0}
