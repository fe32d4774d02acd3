"""Run by a Python that has `verifiers`: its own `generate` on rows of an environment, with a model behind an endpoint.

    python verifiers_rewards.py FOLDER MODULE ARGUMENTS ROWS URL

Prints a JSON list: the reward, the error and the metrics of each row. Without rows (`-`), its own `evaluate` runs.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import verifiers as vf
from verifiers.types import ClientConfig


async def main(folder, module, arguments, rows, url):
    sys.path.insert(0, folder)
    os.environ["FAKE_KEY"] = "none"
    env = vf.load_environment(module, **json.loads(arguments))
    inputs = [json.loads(line) for line in rows.splitlines()]
    for number, row in enumerate(inputs):
        row["example_id"] = number
    client = ClientConfig(api_base_url=url, api_key_var="FAKE_KEY", max_retries=0)
    if inputs:
        done = await env.generate(inputs, client=client, model="fake", independent_scoring=True, on_progress=[])
    else:
        done = await env.evaluate(client=client, model="fake", on_progress=[])
    found = sorted(done["outputs"], key=lambda each: each["example_id"])
    sys.stdout.write(
        json.dumps([{"reward": each["reward"], "error": bool(each.get("error")), "metrics": each["metrics"]} for each in found])
    )


if __name__ == "__main__":
    folder, module, arguments, rows, url = sys.argv[1:]
    asyncio.run(main(folder, module, arguments, "" if rows == "-" else Path(rows).read_text(), url))
