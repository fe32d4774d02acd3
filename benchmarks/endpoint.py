"""A fake OpenAI-compatible endpoint: always right, as slow as asked, able to hold many thousand connections.

It does the sum in the last user message (`17 + 25`, `-`, `*`), so that every framework has right answers to grade. With
`--tool-turns N` it calls the first tool it is offered for N turns and then answers. Each reply waits `--latency` seconds, drawn
evenly from plus or minus half. With `--knee N` a reply takes longer if more than N are under way, so that fewer are answered in a
second; with `--most N` more than N are refused (429). It is a process of its own: its CPU is reported by `/stats` and charged to
nobody.
"""

import argparse
import asyncio
import json
import random
import re
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import add, mul, sub
from pathlib import Path
from typing import Any

from report import plain_environment

SUM = re.compile(r"(\d+)\s*([-+*])\s*(\d+)")
OPERATIONS = {"+": add, "-": sub, "*": mul}


@dataclass(slots=True)
class Endpoint:
    """What it was asked to be, and what it has seen."""

    latency_s: float
    tool_turns: int
    arguments: str
    knee: int = 0
    most: int = 0
    requests: int = 0
    refused: int = 0
    waiting: int = 0
    most_waiting: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    async def reply_after_a_while(self, body: dict[str, Any]) -> dict[str, Any]:
        self.first_s = self.first_s or time.time()
        self.requests += 1
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            if self.latency_s:
                crowd = max(1.0, self.waiting / self.knee) ** 1.5 if self.knee else 1.0
                await asyncio.sleep(self.latency_s * crowd * self.rng.uniform(0.5, 1.5))
        finally:
            self.waiting -= 1
            self.last_s = time.time()
        return completion(body, message_for(body, self), self.requests)

    def stats(self) -> dict[str, Any]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "requests": self.requests,
            "refused": self.refused,
            "most_waiting": self.most_waiting,
            "from_s": self.first_s,
            "until_s": self.last_s,
            "cpu_s": round(used.ru_utime + used.ru_stime, 3),
        }


def message_for(body: dict[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    messages = body.get("messages", [])
    taken = sum(message["role"] == "assistant" for message in messages)
    if taken < endpoint.tool_turns and body.get("tools"):
        function = {"name": body["tools"][0]["function"]["name"], "arguments": endpoint.arguments}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{taken}", "type": "function", "function": function}],
        }
    return {"role": "assistant", "content": answer_to(messages)}


def answer_to(messages: list[dict[str, Any]]) -> str:
    for message in reversed(messages):
        if message["role"] == "user" and (found := SUM.search(str(message["content"]))):
            return str(OPERATIONS[found[2]](int(found[1]), int(found[3])))
    return "4"


def completion(body: dict[str, Any], message: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model", "fake"),
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24},
    }


def as_events(whole: dict[str, Any]) -> bytes:
    """The same reply for a client that asks to stream (verifiers does): one piece, then the end."""
    (choice,) = whole["choices"]
    delta = dict(choice["message"])
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(delta["tool_calls"])]
    piece = {"index": 0, "delta": delta, "finish_reason": choice["finish_reason"]}
    event = {**whole, "object": "chat.completion.chunk", "choices": [piece]}
    return b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n"


def raise_open_files() -> int:
    """As many open files as this machine lets an ordinary process have; children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


async def serve(endpoint: Endpoint) -> None:
    from aiohttp import web

    async def chat(request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        if endpoint.most and endpoint.waiting >= endpoint.most:
            endpoint.refused += 1
            return web.json_response({"error": {"message": "too many requests at once"}}, status=429)
        whole = await endpoint.reply_after_a_while(body)
        if body.get("stream"):
            return web.Response(body=as_events(whole), content_type="text/event-stream")
        return web.Response(body=json.dumps(whole).encode(), content_type="application/json")

    async def models(_request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "fake", "object": "model"}]})

    async def stats(_request: web.Request) -> web.Response:
        return web.json_response(endpoint.stats())

    app = web.Application(client_max_size=64 * 2**20)
    app.add_routes([web.post("/v1/chat/completions", chat), web.get("/v1/models", models), web.get("/stats", stats)])
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=600)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=8192)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # whoever started it closes the pipe, alive or dead
    await runner.cleanup()


@dataclass(frozen=True, slots=True)
class Running:
    """An endpoint in another process."""

    url: str

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/stats") as response:
            return json.load(response)


@contextmanager
def running(
    *, latency_s: float = 0.0, tool_turns: int = 0, arguments: str = "{}", knee: int = 0, most: int = 0
) -> Iterator[Running]:
    """Start one, and give its base URL; it ends with the context, or with this process."""
    flags = ["--latency", str(latency_s), "--tool-turns", str(tool_turns), "--arguments", arguments]
    flags += ["--knee", str(knee), "--most", str(most)]
    argv = [sys.executable, str(Path(__file__)), *flags]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=plain_environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Running(f"http://127.0.0.1:{int(process.stdout.readline())}/v1")
        finally:
            process.stdin.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="mean seconds before each reply")
    parser.add_argument("--tool-turns", type=int, default=0, help="turns that call the first tool before the answer")
    parser.add_argument("--arguments", default="{}", help="JSON arguments of those calls")
    parser.add_argument("--knee", type=int, default=0, help="replies under way beyond which each takes longer; 0 for none")
    parser.add_argument("--most", type=int, default=0, help="replies under way beyond which requests are refused; 0 for none")
    flags = parser.parse_args()
    raise_open_files()
    asyncio.run(serve(Endpoint(flags.latency, flags.tool_turns, flags.arguments, flags.knee, flags.most)))


if __name__ == "__main__":
    main()
