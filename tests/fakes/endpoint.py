"""An honest OpenAI-compatible endpoint for tests: real HTTP on a local port, with programmable behaviour.

    async with FakeEndpoint([says("hi"), status(429, {"Retry-After": "1"})]) as endpoint:
        ... endpoint.url, endpoint.requests

Replies are played in order; when they run out, `then` answers (by default it says "ok"). As a program it serves on a free port
and prints its URL: `python tests/fakes/endpoint.py --latency-s 0.5`.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import anyio
from aiohttp import web


@dataclass(frozen=True)
class Answer:
    """One HTTP reply. `cut` closes the connection in the middle; `drop` closes it before any byte; `hang` never answers."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    drop: bool = False
    hang: bool = False


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: dict[str, str]
    body: dict


def completion(message: dict, finish: str | None = "stop", usage: dict | None = None) -> Answer:
    """A well-formed reply around any message."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15} if usage is None else usage
    choice = {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": finish}
    whole = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "fake", "choices": [choice], "usage": usage}
    return Answer(json.dumps(whole).encode())


def says(text: str, usage: dict | None = None) -> Answer:
    return completion({"content": text}, usage=usage)


def calls(*wanted: tuple[str, str]) -> Answer:
    """A reply with tool calls, each a name and its arguments as JSON text."""
    listed = [
        {"id": f"c{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(wanted)
    ]
    return completion({"content": None, "tool_calls": listed}, "tool_calls")


def status(number: int, headers: dict[str, str] | None = None, /, **error: object) -> Answer:
    """A refusal in OpenAI's shape."""
    body = {"error": {"message": f"status {number}", "type": "test", "code": None} | error}
    return Answer(json.dumps(body).encode(), number, headers or {})


def lists(*names: str) -> Answer:
    """A list of models."""
    return Answer(json.dumps({"data": [{"id": name} for name in names]}).encode())


Reaction = Callable[[Request], Answer]


class FakeEndpoint:
    """Serves `POST {url}/chat/completions` for as long as the context lives, and remembers what it was asked."""

    def __init__(
        self,
        answers: Iterable[Answer] = (),
        *,
        then: Answer | Reaction | None = None,
        latency_s: float = 0.0,
        refuse_above: int | None = None,
        keep: bool = True,
        listing: Answer | None = None,
    ):
        self.answers = list(answers)
        self.listing = listing or status(404)
        """The answer to `GET {url}/models`."""
        self.num_listed = 0
        self.then = says("ok") if then is None else then
        self.latency_s = latency_s
        self.refuse_above = refuse_above
        """Requests beyond this many at once are answered with a 429 without delay."""
        self.num_refused = 0
        self.keep = keep
        self.requests: list[Request] = []
        self.at_once = 0
        self.most_at_once = 0
        self.url = ""
        self.asked = anyio.Event()
        """Set by the first request."""
        self._released = anyio.Event()

    async def __aenter__(self):
        app = web.Application(client_max_size=2**30)
        app.router.add_post("/v1/chat/completions", self._serve)
        app.router.add_post("/v1/messages", self._serve)
        app.router.add_get("/v1/models", self._list)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=8192)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_):
        self._released.set()
        await self._runner.cleanup()

    def _next(self, request: Request) -> Answer:
        if self.answers:
            return self.answers.pop(0)
        return self.then if isinstance(self.then, Answer) else self.then(request)

    async def _serve(self, http: web.Request) -> web.StreamResponse:
        request = Request(http.path_qs, dict(http.headers), await http.json() if self.keep else {})
        if self.keep:
            self.requests.append(request)
        self.asked.set()
        if self.refuse_above is not None and self.at_once >= self.refuse_above:
            self.num_refused += 1
            return await self._send(http, status(429))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            answer = self._next(request)
            if self.latency_s:
                await anyio.sleep(self.latency_s)
            return await self._send(http, answer)
        finally:
            self.at_once -= 1

    async def _list(self, http: web.Request) -> web.StreamResponse:
        self.num_listed += 1
        return await self._send(http, self.listing)

    async def _send(self, http: web.Request, answer: Answer) -> web.StreamResponse:
        if answer.hang:
            await self._released.wait()
        if answer.drop or answer.hang:
            if http.transport is not None:  # the client may have left while it waited
                http.transport.close()
            return web.Response()
        if not answer.cut:
            return web.Response(
                body=answer.body, status=answer.status, headers={"Content-Type": "application/json"} | answer.headers
            )
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"} | answer.headers)
        response.enable_chunked_encoding()
        await response.prepare(http)
        await response.write(answer.body)
        http.transport.close()
        return response


async def serve(latency_s: float) -> None:
    async with FakeEndpoint(latency_s=latency_s, keep=False) as endpoint:
        print(endpoint.url, flush=True)  # noqa: T201 - the starter reads the address here
        await anyio.sleep_forever()


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-s", type=float, default=0.0)
    anyio.run(serve, parser.parse_args().latency_s)
