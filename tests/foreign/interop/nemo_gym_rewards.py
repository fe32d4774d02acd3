"""What a resources server of NeMo Gym gives for answers: `python nemo_gym_rewards.py NAME`, answers as JSON on standard input.

It does what NeMo Gym's simple agent does: `/seed_session`, a request for each call, `/verify`.
"""

import inspect
import json
import sys
from importlib import import_module

from fastapi.testclient import TestClient
from nemo_gym.base_resources_server import SimpleResourcesServer
from nemo_gym.server_utils import BaseServerConfig, ServerClient
from omegaconf import OmegaConf


def reward(app, answer):
    with TestClient(app) as http:
        http.post("/seed_session", json=answer["row"]).raise_for_status()
        output = []
        for number, call in enumerate(answer["calls"]):
            arguments = json.dumps(call["arguments"])
            output.append({"type": "function_call", "call_id": f"c{number}", "name": call["name"], "arguments": arguments})
            result = http.post(f"/{call['name']}", json=call["arguments"]).text
            output.append({"type": "function_call_output", "call_id": f"c{number}", "output": result})
        content = [{"type": "output_text", "text": answer["text"], "annotations": []}]
        output.append({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content})
        response = {"id": "r", "object": "response", "created_at": 0, "model": "m", "output": output}
        response |= {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
        verified = http.post("/verify", json=answer["row"] | {"response": response})
        verified.raise_for_status()
        return verified.json()["reward"]


def main():
    name = sys.argv[1]
    module = import_module(f"resources_servers.{name}.app")
    classes = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__]
    (made,) = [each for each in classes if issubclass(each, SimpleResourcesServer)]
    config = made.model_fields["config"].annotation(host="127.0.0.1", port=1, entrypoint="app.py", name=name)
    client = ServerClient(head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=OmegaConf.create())
    app = made(config=config, server_client=client).setup_webserver()
    sys.stdout.write(json.dumps([reward(app, answer) for answer in json.load(sys.stdin)]) + "\n")


if __name__ == "__main__":
    main()
