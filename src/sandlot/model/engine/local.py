"""`ports.TokenModel` over an engine in this process."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import anyio
import msgspec
import torch

from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import ModelError, boundary
from sandlot.core.ports.model import Sampled, Sampling
from sandlot.core.types import Dtype
from sandlot.model.engine.batch import Runner
from sandlot.model.engine.blocks import KvDtype
from sandlot.model.engine.cache import KVCache
from sandlot.model.engine.engine import Decode, Engine, OldKv
from sandlot.model.engine.eviction import EvictionName, eviction_named
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.precision import choose_precision
from sandlot.model.engine.request import Completion, Request
from sandlot.model.engine.sampler import Pick, pick_by_inverse
from sandlot.model.engine.siblings import Speculate
from sandlot.model.engine.worker import EngineWorker
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder, stored_dtype
from sandlot.model.nn.lora import read_adapter
from sandlot.model.nn.packed import pack_linears
from sandlot.model.nn.shape import Shape

Weights = Mapping[str, torch.Tensor]
"""A decoder's state by parameter names."""

MakeRunner = Callable[[Decoder, int, int, KvDtype], Runner]
"""(decoder, blocks, block size, how keys and values are stored) -> runner."""

_CLOSE_S = 60.0
"""Time for the last step when closing."""


class LocalConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory and batch limits of an engine."""

    kv_bytes: int = 2**30
    """Bytes for the KV cache."""
    kv_dtype: KvDtype = "same"
    """How keys and values are stored (`cache.py`); with 8 bits about twice as many tokens fit, and log-probabilities differ."""
    block_size: int | None = None
    """Tokens per KV block; None: 16, on a GPU 64."""
    max_batch: int = 32
    """Maximum running requests."""
    chunk: int | None = None
    """Maximum tokens per step; None: 512, on a GPU 32,768, so that it does not wait for the host."""
    context: int | None = None
    """Maximum tokens of a request, prompt and completion; None: the model's context length."""
    patience_s: float = 600.0
    """Maximum time of a request, including queueing."""
    old_kv: OldKv = "recompute"
    eviction: EvictionName = "turns"
    """Which cached blocks go first when memory is short (`eviction.py`)."""
    speculate: Speculate = "off"
    """Whether tokens are guessed from what siblings have written (`speculation.py`)."""
    dtype: Dtype | None = None
    """The data type to compute in; None: chosen for the processor (`precision.py`)."""
    max_adapters: int = 8
    """Adapters in memory, also old versions that requests still use."""
    max_adapter_rank: int = 64


def plain_runner(decoder: Decoder, blocks: int, block_size: int, kv_dtype: KvDtype = "same") -> Runner:
    """`MakeRunner` for the CPU; packs the decoder's layers if that is faster."""
    return PlainRunner(pack_linears(decoder), blocks=blocks, block_size=block_size, kv_dtype=kv_dtype)


@asynccontextmanager
async def open_local(
    model: Path | Decoder,
    *,
    name: str = "",
    config: LocalConfig | None = None,
    runner: MakeRunner | None = None,
    decode: Decode | None = None,
) -> AsyncGenerator["LocalModel"]:
    """Load a folder, or use a decoder, and sample from it in this process until the context ends.

    A folder is loaded to the GPU if there is one. By default the runner is that of the decoder's device. `decode` is
    needed for stop texts; a folder has its own.
    """
    with boundary(ModelError, f"loading {model if isinstance(model, Path) else 'the model'}"):
        device = default_device() if isinstance(model, Path) else model.embedding.weight.device.type
        on_gpu = device == "cuda"
        config = _with_defaults(config or LocalConfig(), on_gpu=on_gpu)
        named = config.dtype
        decoder = model if isinstance(model, Decoder) else await off_loop("load_folder", lambda: _load(model, named, device))
        if decode is None and isinstance(model, Path):
            decode = await off_loop("tokenizer", lambda: _decode_of(model))
        own_runner, pick = _cuda_parts(config) if on_gpu else (plain_runner, pick_by_inverse)
        engine = _build_engine(decoder, config, runner or own_runner, pick, decode)
    local = LocalModel(name or str(model if isinstance(model, Path) else decoder.shape.family), decoder, engine, config)
    try:
        yield local
    finally:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await local.close()


class LocalModel:
    """`ports.TokenModel` with its own engine."""

    def __init__(self, name: str, decoder: Decoder, engine: Engine, config: LocalConfig) -> None:
        self.name = name
        self._decoder = decoder
        self._config = config
        self.context = engine.context
        """Maximum tokens of prompt and completion."""
        self.prefix_log = engine.prefix_log
        """What its prefix cache stores and drops; any thread may read it."""
        self._worker = EngineWorker(engine)
        self._loading = anyio.Lock()
        self.adapters: dict[str, int] = {}
        """The loaded adapters by name, with their versions."""

    @property
    def cache_tokens(self) -> int:
        """Tokens that its KV cache holds at most."""
        assert self._config.block_size is not None
        return int(self.metrics()["kv_blocks"]) * self._config.block_size

    @property
    def dtype(self) -> str:
        """The data type it computes in."""
        return _dtype_name(self._decoder.embedding.weight.dtype)

    async def sample(
        self,
        ids: Sequence[int],
        sampling: Sampling,
        *,
        stop_ids: Sequence[int] = (),
        session: str = "",
        adapter: str = "",
    ) -> Sampled:
        """Continue exactly these ids, with an adapter if one is named; cancelling frees the request's blocks."""
        self._check(ids, stop_ids)
        room = self.context - len(ids)
        request = Request(
            ids=ids,
            max_tokens=room if sampling.max_tokens is None else min(sampling.max_tokens, room),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=sampling.seed,
            stop_ids=tuple(stop_ids),
            stop=sampling.stop,
            session=session,
            deadline=time.monotonic() + self._config.patience_s,
            adapter=adapter,
        )
        return self._sampled(await self._worker.ask(request))

    async def release(self, session: str) -> None:
        """End a session: its cached prefix is no longer preferred."""
        await self._worker.between_steps(lambda engine: engine.release(session))

    async def update(self, version: int, weights: Weights) -> None:
        """Sample with these weights from the next token on; each token records its weight version."""
        state = self._decoder.state_dict()
        wrong = sorted(state.keys() ^ weights.keys()) or sorted(
            name for name, tensor in state.items() if tensor.shape != weights[name].shape
        )
        if wrong:
            raise ModelError(f"weights of version {version} do not match the model: {', '.join(wrong[:5])}", kind="request")

        def put() -> None:
            with torch.no_grad():
                for name, tensor in state.items():
                    tensor.copy_(weights[name])

        await self._worker.between_steps(lambda engine: engine.update(version, put))

    async def load_adapter(self, name: str, folder: Path, *, replace: bool = False, within: Path | None = None) -> int:
        """Load an adapter folder in PEFT's format, and return its version; requests with `adapter=name` use it from now on.

        With `replace`, the name may be in use: its requests finish on what they began with. One load at a time, so that folders
        that are refused do not fill the memory. Files that are not below `within` when they are opened are refused.
        """
        shape, dtype = self._decoder.shape, self._decoder.embedding.weight.dtype
        async with self._loading:
            try:
                weights = await off_loop(
                    "read_adapter",
                    lambda: read_adapter(folder, shape, dtype=dtype, max_rank=self._config.max_adapter_rank, within=within),
                )
            except (ValueError, OSError) as error:
                raise ModelError(f"the adapter `{name}` cannot be loaded: {error}", kind="request") from error
            await self._change_adapters(lambda engine: engine.load_adapter(name, weights, replace=replace))
            return self.adapters[name]

    async def remove_adapter(self, name: str) -> None:
        """Refuse requests for an adapter from now on; those that use it finish."""
        async with self._loading:
            await self._change_adapters(lambda engine: engine.remove_adapter(name))

    async def _change_adapters(self, change: Callable[[Engine], object]) -> None:
        def order(engine: Engine) -> None:
            change(engine)
            self.adapters = engine.adapters  # here, because who gave the order may be cancelled, and the order is carried out

        await self._worker.between_steps(order)

    def with_adapter(self, name: str) -> "AdaptedModel":
        """The same model with an adapter."""
        return AdaptedModel(self, name)

    def metrics(self) -> dict[str, float]:
        """Recent metrics: KV use, hit rate, occupancy, queue times, rates, version."""
        return self._worker.metrics

    async def close(self) -> None:
        """Stop; pending requests get `ModelError`."""
        await self._worker.close()

    def _check(self, ids: Sequence[int], stop_ids: Sequence[int]) -> None:
        if len(ids) >= self.context:
            raise ModelError(f"the prompt has {len(ids)} tokens; the context is {self.context}", kind="context")
        vocabulary = self._decoder.shape.vocabulary
        wrong = [token for token in (*ids, *stop_ids) if not 0 <= token < vocabulary]
        if wrong:
            raise ModelError(f"token {wrong[0]} is not in the vocabulary of {vocabulary}", kind="request")

    def _sampled(self, completion: Completion) -> Sampled:
        if completion.stop == "deadline":
            raise ModelError(f"no answer within {self._config.patience_s:g} s", kind="timeout", retryable=True)
        if completion.stop == "failed":
            raise ModelError(completion.error)
        return Sampled(
            ids=completion.ids.astype("<i4").tobytes(),
            logprobs=completion.logprobs.astype("<f4").tobytes(),
            versions=tuple((len(list(run)), version) for version, run in groupby(completion.versions.tolist())),
            stop=completion.stop,
            cached=completion.cached,
            dtype=self.dtype,
        )


@dataclass(frozen=True, slots=True)
class AdaptedModel:
    """`ports.TokenModel` of an engine with one of its adapters."""

    base: LocalModel
    name: str

    @property
    def context(self) -> int:
        """As the base model's."""
        return self.base.context

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        """Continue exactly these ids with what the name means now."""
        return await self.base.sample(ids, sampling, stop_ids=stop_ids, session=session, adapter=self.name)

    async def release(self, session: str) -> None:
        """End a session."""
        await self.base.release(session)


def _attention_cost(shape: Shape) -> float:
    """The cost of attending to one earlier token, relative to the cost of a token's matrices."""
    per_layer = shape.hidden * (shape.heads + shape.kv_heads) * 2 * shape.head + 3 * shape.hidden * shape.mlp
    return 2 * shape.heads * shape.head * shape.layers / (per_layer * shape.layers + shape.hidden * shape.vocabulary)


def _build_engine(decoder: Decoder, config: LocalConfig, runner: MakeRunner, pick: Pick, decode: Decode | None) -> Engine:
    shape, dtype = decoder.shape, decoder.embedding.weight.dtype
    context = min(config.context or shape.context, shape.context)
    assert config.block_size is not None
    assert config.chunk is not None
    most = config.max_batch * -(-context // config.block_size)
    blocks = min(config.kv_bytes // KVCache.block_bytes(shape, config.block_size, dtype, config.kv_dtype), most)
    return Engine(
        runner(decoder, blocks, config.block_size, config.kv_dtype),
        blocks=blocks,
        context=context,
        max_batch=config.max_batch,
        chunk=config.chunk,
        eviction=eviction_named(config.eviction, _attention_cost(shape)),
        pick=pick,
        old_kv=config.old_kv,
        speculate=config.speculate,
        decode=decode,
        max_adapters=config.max_adapters,
    )


def default_device() -> str:
    """Where a model is loaded to."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def _load(folder: Path, named: Dtype | None, device: str) -> Decoder:
    chosen = choose_precision(_dtype_name(stored_dtype(folder)), named, on_gpu=device == "cuda")
    return load_folder(folder, dtype=getattr(torch, chosen.dtype), device=device)


def _dtype_name(dtype: torch.dtype) -> str:
    """Torch's name of a data type, such as `bfloat16`."""
    return str(dtype).removeprefix("torch.")


def _with_defaults(config: LocalConfig, *, on_gpu: bool) -> LocalConfig:
    """The config with defaults for the device."""
    block_size, chunk = (64, 32768) if on_gpu else (16, 512)
    return msgspec.structs.replace(
        config, block_size=config.block_size or block_size, chunk=config.chunk or max(chunk, config.max_batch + 1)
    )


def _cuda_parts(config: LocalConfig) -> tuple[MakeRunner, Pick]:
    """Runner and sampler for a GPU."""
    from sandlot.model.engine.cuda import CudaRunner  # noqa: PLC0415 - Triton is installed only with a GPU
    from sandlot.model.engine.kernels import draw  # noqa: PLC0415 - as above

    def runner(decoder: Decoder, blocks: int, block_size: int, kv_dtype: KvDtype) -> Runner:
        return CudaRunner(
            decoder,
            blocks=blocks,
            block_size=block_size,
            max_batch=config.max_batch,
            max_context=config.context,
            kv_dtype=kv_dtype,
        )

    return runner, draw


def _decode_of(folder: Path) -> Decode:
    from tokenizers import Tokenizer  # noqa: PLC0415 - only needed for folders

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda ids: tokenizer.decode(ids, skip_special_tokens=False)
