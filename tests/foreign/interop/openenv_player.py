"""Run by a Python that has `openenv-core`: its own client plays the given moves.

    python openenv_player.py URL MOVES

MOVES is a JSON file: for each task a list of actions. Prints the rewards as JSON.
"""

import asyncio
import json
import sys
from pathlib import Path

from openenv.core.generic_client import GenericEnvClient


async def play(url, task, actions):
    async with GenericEnvClient(base_url=url) as client:
        result = await client.reset(task=task)
        for action in actions:
            assert not result.done
            result = await client.step(action)
        state = await client.state()
        assert (state["task"], state["step_count"]) == (task, len(actions))
        return [result.reward, result.done]


async def main(url, moves):
    results = await asyncio.gather(*(play(url, task, actions) for task, actions in moves.items()))  # noqa: TID251 - their loop
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))
