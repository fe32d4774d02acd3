"""The routes of a model server: completions, chat, models, adapters, sessions, cache events, health, metrics."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sandlot.core.errors import ModelError
from sandlot.model.wire.failure import short_line
from sandlot.model.wire.http import decode_body, json_response, read_body
from sandlot.model.wire.kv_events import KV_EVENTS_PATH
from sandlot.observe.metrics import CONTENT_TYPE
from sandlot.serve.model.adapters import LoadRequest, ServedAdapters, UnloadRequest
from sandlot.serve.model.chat import chat_completions
from sandlot.serve.model.completions import completions
from sandlot.serve.model.server import ModelServer, error_body, server_of

_LONGEST_NUMBER = 15
_SMALL_BODY = 2**16
"""Limit of a request body that names a folder."""


def model_app(server: ModelServer) -> Starlette:
    """The ASGI application of a model server."""
    app = Starlette(
        routes=[
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
            Route("/v1/models", _models),
            Route("/v1/load_lora_adapter", _load_adapter, methods=["POST"]),
            Route("/v1/unload_lora_adapter", _unload_adapter, methods=["POST"]),
            Route("/v1/sessions/{session:path}", _release, methods=["DELETE"]),
            Route(KV_EVENTS_PATH, _kv_events),
            Route(KV_EVENTS_PATH + "/{stream}/{after}", _kv_events),
            Route("/health", _health),
            Route("/metrics", _metrics),
        ],
        exception_handlers={HTTPException: _failure, ModelError: _failure},
    )
    app.state.server = server
    return app


async def _models(request: Request) -> Response:
    server = server_of(request)
    model, cache = server.model, server.cache.tokens
    card = {"id": model.name, "object": "model", "owned_by": "sandlot", "max_model_len": model.context, "cache_tokens": cache}
    adapters = dict(server.adapters.versions) if server.adapters is not None else dict[str, int]()
    more = [card | {"id": name, "parent": model.name, "version": version} for name, version in adapters.items()]
    return json_response({"object": "list", "data": [card, *more]})


async def _load_adapter(request: Request) -> Response:
    wanted = decode_body(await read_body(request, _SMALL_BODY), LoadRequest)
    return PlainTextResponse(await _adapters_of(request).load(wanted))


async def _unload_adapter(request: Request) -> Response:
    wanted = decode_body(await read_body(request, _SMALL_BODY), UnloadRequest)
    return PlainTextResponse(await _adapters_of(request).unload(wanted))


def _adapters_of(request: Request) -> ServedAdapters:
    adapters = server_of(request).adapters
    if adapters is None:
        raise HTTPException(404, "this server has no adapters; start it with `--adapter NAME=FOLDER` or `--adapters-from FOLDER`")
    return adapters


async def _release(request: Request) -> Response:
    await server_of(request).model.release(request.path_params["session"])
    return Response(status_code=204)


async def _kv_events(request: Request) -> Response:
    after = request.path_params.get("after", "0")
    if not (after.isascii() and after.isdigit() and len(after) <= _LONGEST_NUMBER):
        raise HTTPException(400, f"`{short_line(after)}`: give the number of the last event, or none for a snapshot")
    body = await server_of(request).cache.read(request.path_params.get("stream", ""), int(after))
    return Response(body, media_type="application/json")


async def _health(request: Request) -> Response:
    server = server_of(request)
    return json_response({"status": "ok", "model": server.model.name, "renderer": server.renderer.name})


async def _metrics(request: Request) -> Response:
    return PlainTextResponse(server_of(request).metrics.text(), media_type=CONTENT_TYPE)


async def _failure(request: Request, error: Exception) -> Response:
    status, body = error_body(error)
    server_of(request).metrics.count(request.url.path, status)
    retry = {"Retry-After": "1"} if status in {429, 503} else {}
    return json_response({"error": body}, status, retry | dict(getattr(error, "headers", None) or {}))
