"""Serve a model by the OpenAI protocol. This is what `sandlot serve --model` calls."""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from starlette.types import ASGIApp

from sandlot.core.access import SERVE_TOKEN, require_token
from sandlot.core.address import Address
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.types import Dtype
from sandlot.model.engine.blocks import KvDtype
from sandlot.model.engine.eviction import EvictionName
from sandlot.model.engine.siblings import Speculate
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.shape import read_shape
from sandlot.model.render.open import open_renderer
from sandlot.model.wire.listening import serve_app
from sandlot.serve.guard import Guard
from sandlot.serve.model.adapters import ADAPTER_NAME, ServedAdapters
from sandlot.serve.model.cache import ServedCache
from sandlot.serve.model.routes import model_app
from sandlot.serve.model.server import ModelServer

_AT_ONCE = 8192
"""Completions running or waiting; the engine itself runs `--max-batch` of them."""


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where a model is served, and until when."""

    host: str = "127.0.0.1"
    port: int = 8900
    """0 takes any free port."""
    unix: Path | None = None
    """A unix socket instead of host and port."""
    allow_hosts: tuple[str, ...] = ()
    """Further host names that clients may use."""
    token: str | None = None
    """What clients must send: `Authorization: Bearer TOKEN`. An address beyond this machine needs one."""
    drain_s: float = 30.0
    """How long running requests may take after SIGTERM."""
    until_eof: bool = False
    """Also stop when standard input ends."""
    kv_events: bool | None = None
    """Whether clients may read what the prefix cache holds: the ids of all prompts. None: only at a unix socket."""

    @property
    def shows_cache(self) -> bool:
        """Whether `/v1/kv_events` answers."""
        return self.unix is not None if self.kv_events is None else self.kv_events


@dataclass(frozen=True, slots=True)
class ModelShare:
    """What a served model uses: its key-value cache, requests at once, guesses, number type.

    Of the cache: GiB, how it is stored, and what it drops first. And its adapters: those it begins with (name and folder), the
    folder below which clients may load more, and how many of which rank there may be.
    """

    kv_gib: float = 1.0
    kv_dtype: KvDtype = "same"
    eviction: EvictionName = "turns"
    max_batch: int = 32
    speculate: Speculate = "off"
    dtype: Dtype | None = None
    adapters: tuple[tuple[str, Path], ...] = ()
    adapters_from: Path | None = None
    max_adapters: int = 8
    max_adapter_rank: int = 64

    @property
    def has_adapters(self) -> bool:
        """Whether requests may name one."""
        return bool(self.adapters) or self.adapters_from is not None


async def serve_model(
    spec: str, place: ModelPlace | None = None, share: ModelShare | None = None, *, ready: Callable[[str], None] = lambda _: None
) -> None:
    """Serve until SIGTERM or Ctrl-C, then let running requests finish; `ready` is called with what is served, and where."""
    place, share = place or ModelPlace(), share or ModelShare()
    if place.unix is None:
        require_token(Address(place.host, place.port), place.token, SERVE_TOKEN)
    try:
        from sandlot.model.engine.local import LocalConfig, default_device, open_local  # noqa: PLC0415 - torch is an extra
    except ImportError as error:
        raise ConfigError(f"serving a model needs the torch extra ({error}); install it: pip install 'sandlot[torch]'") from error
    if share.kv_gib <= 0 or share.max_batch < 1:
        raise ConfigError(f"--kv-gib is {share.kv_gib:g} and --max-batch {share.max_batch}; both must be positive")
    _require_adapters(spec, share, default_device())
    if share.has_adapters and place.kv_events:
        raise ConfigError("--kv-events does not say whose blocks they are, so a server with adapters reports none; leave it out")
    folder = await anyio.to_thread.run_sync(model_folder, spec)
    renderer = await anyio.to_thread.run_sync(open_renderer, folder)
    config = LocalConfig(
        kv_bytes=int(share.kv_gib * 2**30),
        kv_dtype=share.kv_dtype,
        max_batch=share.max_batch,
        eviction=share.eviction,
        speculate=share.speculate,
        dtype=share.dtype,
        max_adapters=share.max_adapters,
        max_adapter_rank=share.max_adapter_rank,
    )
    async with open_local(folder, name=spec, config=config) as model:
        for adapter, place_of in share.adapters:
            try:
                await model.load_adapter(adapter, place_of)
            except ModelError as error:
                raise ConfigError(f"--adapter {adapter}={place_of}: {error}") from error
        server = ModelServer(
            model,
            renderer,
            renderer.tokenizer,
            vocabulary=read_shape(folder).vocabulary,
            at_once=_AT_ONCE,
            gauges=model.metrics,
            # Events do not say whose blocks they are, so with adapters there are none.
            cache=ServedCache(model.cache_tokens, model.prefix_log if place.shows_cache and not share.has_adapters else None),
            adapters=ServedAdapters(model, share.adapters_from) if share.has_adapters else None,
        )
        opening = serve_app(guarded_app(server, place), host=place.host, port=place.port, unix=place.unix, drain_s=place.drain_s)
        async with opening as address:
            ready(f"{spec} in {model.dtype} at {address}")
            await _told_to_stop(until_eof=place.until_eof)


def guarded_app(server: ModelServer, place: ModelPlace) -> ASGIApp:
    """What is served at a place: at a unix socket, which is for its owner only, without a guard."""
    app = model_app(server)
    return app if place.unix is not None else Guard(app, place.host, place.allow_hosts, token=place.token)


def _require_adapters(spec: str, share: ModelShare, device: str) -> None:
    if share.max_adapters < 1 or share.max_adapter_rank < 1:
        raise ConfigError(
            f"--max-adapters is {share.max_adapters} and --max-adapter-rank {share.max_adapter_rank}; both must be positive"
        )
    if share.adapters_from is not None and not share.adapters_from.is_dir():
        raise ConfigError(f"--adapters-from {share.adapters_from}: there is no such folder")
    if share.has_adapters and device == "cuda":
        raise ConfigError(
            "--adapter and --adapters-from are for the CPU, and the model would be loaded to a GPU; serve the merged weights "
            "(`model/` of a checkpoint), use vLLM, or hide the GPU (`CUDA_VISIBLE_DEVICES=`)"
        )
    for name, _ in share.adapters:
        if not ADAPTER_NAME.fullmatch(name) or name == spec:
            raise ConfigError(
                f"--adapter: {name!r} is not a name for an adapter; use letters, digits and `_.:/@-`, and not `{spec}`"
            )


async def _told_to_stop(*, until_eof: bool) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_signalled, group.cancel_scope)
        if until_eof:
            group.start_soon(_ended, group.cancel_scope)


async def _signalled(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


async def _ended(scope: anyio.CancelScope) -> None:
    """Whoever started us holds the other end; it closes when they die, however they do."""
    with open(os.dup(sys.stdin.fileno()), "rb", buffering=0) as stream:  # noqa: ASYNC230, PTH123 - a descriptor, read when readable
        while True:
            await anyio.wait_readable(stream)
            if not stream.read(4096):
                break
    scope.cancel()
