"""Honest small stand-ins for vLLM and SGLang: their dialects over any token model, on a local port.

`spoil` changes a reply before it is sent, for tests of what must not be believed.
"""

from collections.abc import Awaitable, Callable

import anyio
from aiohttp import web

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampling
from sandlot.core.trace import Tokens


class FakeEngine:
    """Serves `/v1/models`, and `/v1/completions` as vLLM or `/generate` as SGLang does."""

    def __init__(
        self,
        model,
        *,
        spoil: Callable[[dict], object] = lambda body: body,
        raw_logprobs: bool = False,
        load: Callable[[str], tuple[int, str] | None] | None = None,
        port: int = 0,
    ):
        self.model = model
        self.load = load
        """Takes adapters while it runs: None for a name it loads, else status and message; without it there is no such path."""
        self.adapters: list[str] = []
        self.spoil = spoil
        self.raw_logprobs = raw_logprobs
        self.requests: list[dict] = []
        self.released: list[str] = []
        """The sessions that ended, as our own server is told."""
        self.num_listed = 0
        """How often it was asked for its models."""
        self.port = port
        """0 for any; the one it got while it serves, so that another can take its place."""
        self.url = ""
        self.kv_events: Callable[[str], web.StreamResponse | Awaitable[web.StreamResponse]] | None = None
        """What `/v1/kv_events` answers to the rest of a path; None if there is no such path."""
        self.num_polled = 0
        self.cache_tokens: int | None = None
        """What it says to hold at most."""
        self.metrics: str | None = None
        """What `/metrics` says; None if there is no such path."""

    async def __aenter__(self):
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/generate", self._generate)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/kv_events{rest:.*}", self._kv_events)
        app.router.add_delete("/v1/sessions/{name}", self._release)
        if self.load is not None:
            app.router.add_post("/v1/load_lora_adapter", self._load)
            app.router.add_post("/v1/unload_lora_adapter", self._unload)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1, handle_signals=False, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()

    async def _metrics(self, http: web.Request) -> web.Response:
        return web.Response(status=404) if self.metrics is None else web.Response(text=self.metrics)

    async def _kv_events(self, http: web.Request) -> web.StreamResponse:
        self.num_polled += 1
        if self.kv_events is None:
            return web.Response(status=404)
        reply = self.kv_events(http.match_info["rest"])
        if not isinstance(reply, web.StreamResponse):
            reply = await reply
        if not isinstance(reply, web.Response):  # a body without an end
            await reply.prepare(http)
            while True:
                await reply.write(b" ")
                await anyio.sleep(0.01)
        return reply

    async def _models(self, http: web.Request) -> web.Response:
        self.num_listed += 1
        card = {"id": "m", "max_model_len": self.model.context, "cache_tokens": self.cache_tokens}
        cards = [card, *({"id": name, "parent": "m"} for name in self.adapters)]
        return web.json_response({"data": cards})

    async def _release(self, http: web.Request) -> web.Response:
        self.released.append(http.match_info["name"])
        return web.Response(status=204)

    async def _load(self, http: web.Request) -> web.Response:
        body = await http.json()
        self.requests.append(body)
        refusal = self.load(body["lora_name"])
        if refusal is not None:
            return web.json_response({"error": {"message": refusal[1]}}, status=refusal[0])
        self.adapters.append(body["lora_name"])
        return web.Response(text="Success")

    async def _unload(self, http: web.Request) -> web.Response:
        self.adapters.remove((await http.json())["lora_name"])
        return web.Response(text="Success")

    async def _completions(self, http: web.Request) -> web.Response:
        body = await http.json()
        self.requests.append(body)
        if "return_token_ids" not in body:
            return web.json_response(self._probe(body["temperature"]))
        stop_ids = body["stop_token_ids"] if body["ignore_eos"] else ()
        reply = await self._sampled(body["prompt"], body["max_tokens"], body.get("seed"), stop_ids)
        if isinstance(reply, web.Response):
            return reply
        ids, logprobs, stop, cached = reply
        choice = {"index": 0, "text": "", "token_ids": ids, "logprobs": {"token_logprobs": logprobs}, "finish_reason": stop}
        usage = {"prompt_tokens": len(body["prompt"]), "prompt_tokens_details": {"cached_tokens": cached}}
        return web.json_response(self.spoil({"model": body["model"], "choices": [choice], "usage": usage}))

    def _probe(self, temperature: float) -> dict:
        heat = 1.0 if self.raw_logprobs else temperature
        return {"choices": [{"logprobs": {"top_logprobs": [{"a": -0.1 / heat, "b": -3.0 / heat}]}}]}

    async def _generate(self, http: web.Request) -> web.Response:
        body = await http.json()
        self.requests.append(body)
        settings = body["sampling_params"]
        reply = await self._sampled(body["input_ids"], settings["max_new_tokens"], None, settings["stop_token_ids"])
        if isinstance(reply, web.Response):
            return reply
        ids, logprobs, stop, cached = reply
        meta = {
            "output_token_logprobs": [[value, each, None] for value, each in zip(logprobs, ids, strict=True)],
            "finish_reason": {"type": stop, "matched": ids[-1]} if stop == "stop" else {"type": stop, "length": len(ids)},
            "prompt_tokens": len(body["input_ids"]),
            "cached_tokens": cached,
            "weight_version": "7",
        }
        return web.json_response(self.spoil({"text": "", "output_ids": ids, "meta_info": meta}))

    async def _sampled(self, ids, max_tokens, seed, stop_ids):
        sampling = Sampling(max_tokens=max_tokens, seed=seed)
        try:
            sampled = await self.model.sample(ids, sampling, stop_ids=stop_ids)
        except ModelError as error:
            status = 400 if error.kind == "context" else 500
            return web.json_response({"error": {"message": str(error)}}, status=status)
        tokens = Tokens(ids=sampled.ids, logprobs=sampled.logprobs)
        return tokens.ids_array().tolist(), tokens.logprobs_array().tolist(), sampled.stop, sampled.cached
