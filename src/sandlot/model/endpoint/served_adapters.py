"""A server whose LoRA adapter is replaced while it samples, vLLM or our own: each weight version is an adapter with its own name.

A request names the newest adapter when it is sent, so all of its tokens are of one version. An adapter is unloaded once a newer
one is loaded and its last request has ended. Names contain a digest of the adapter, so a server that caches by name cannot mix
versions.
"""

import hashlib
import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import msgspec

from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Sampled, Sampling
from sandlot.model.endpoint.replicated import ReplicatedTokens, open_tokens
from sandlot.model.endpoint.retry import Patience, call_with_retries
from sandlot.model.endpoint.tokens import RemoteConfig, RemoteTokens
from sandlot.model.wire.failure import is_unavailable
from sandlot.model.wire.server_load import LoadOf

_log = logging.getLogger(__name__)

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
_CLOSE_S = 30.0
"""Time for the server to unload the remaining adapters."""
_HOW = "start vLLM with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment and `--enable-lora`"


@asynccontextmanager
async def open_adapted(
    config: RemoteConfig,
    owner: str,
    sampling: Sampling | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    patience: Patience | None = None,
) -> AsyncGenerator["AdaptedTokens"]:
    """Open the server's model; `load` its first adapter before sampling.

    Adapter names begin with `owner`. Adapters that an earlier run of the same owner left loaded are unloaded.
    """
    if config.dialect == "sglang":
        raise ConfigError(
            f"{config.public_name}: adapters can be replaced in vLLM and our own server only; give `vllm:NAME@URL` or "
            "`sandlot:NAME@URL`"
        )
    patience = patience or Patience(config.patience_s)
    async with open_tokens(config, sampling, environ=environ, patience=patience) as tokens:
        adapted = AdaptedTokens(tokens, owner, patience, is_own=config.dialect == "sandlot")
        await adapted.unload_leftovers()
        try:
            yield adapted
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await adapted.close()


@dataclass(slots=True)
class _Adapter:
    """A loaded adapter."""

    name: str
    version: int
    folder: Path
    tokens: RemoteTokens | ReplicatedTokens
    requests: int = 0
    """Running requests that name it."""


class AdaptedTokens:
    """`ports.TokenModel` with the newest adapter. Open it with `open_adapted`."""

    def __init__(self, tokens: RemoteTokens | ReplicatedTokens, owner: str, patience: Patience, *, is_own: bool = False) -> None:
        """With `is_own`, the servers are our own, which only matters for advice."""
        self.name = tokens.name
        self.context = tokens.context
        self._tokens = tokens
        self._owner = owner
        self._patience = patience
        self._advice = _own_advice if is_own else _vllm_advice
        self._adapters: list[_Adapter] = []
        """The loaded adapters, newest last."""
        if isinstance(tokens, ReplicatedTokens):
            tokens.prepare_with(self._load_all)

    def __repr__(self) -> str:
        return f"AdaptedTokens({self.name!r})"

    @property
    def loaded(self) -> dict[str, Path]:
        """Names and folders of the loaded adapters, newest last. The server may read these folders again."""
        return {adapter.name: adapter.folder for adapter in self._adapters}

    @property
    def server_load(self) -> LoadOf:
        """How to ask how busy the servers are."""
        return self._tokens.server_load

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        """Continue exactly these ids with the newest version."""
        if not self._adapters:
            raise ModelError(f"{self.name}: no adapter is loaded yet", kind="request")
        adapter = self._adapters[-1]
        adapter.requests += 1
        try:
            sampled = await adapter.tokens.sample(ids, sampling, stop_ids=stop_ids, session=session)
        finally:
            adapter.requests -= 1
            if adapter.requests == 0 and adapter in self._adapters[:-1]:
                with anyio.move_on_after(_CLOSE_S, shield=True):
                    await self._unload(adapter)
        return msgspec.structs.replace(sampled, versions=((len(sampled.ids) // 4, adapter.version),))

    async def release(self, session: str) -> None:
        """Report the end of a rollout to servers that have sessions, and to a router, which remembers where each rollout is."""
        await self._tokens.release(session)

    async def load(self, version: int, folder: Path) -> None:
        """Load the adapter in `folder` and use it from the next request on.

        The server must see the folder under the same path. The folder must stay while `loaded` lists it.
        """
        digest = await off_loop("digest_of", lambda: _digest_of(folder))
        name = f"{self._owner}-{version:06d}-{digest}"
        if self._adapters and self._adapters[-1].name == name:
            return
        old = next((adapter for adapter in self._adapters if adapter.name == name), None)
        if old is None:
            await self._load(name, version, folder)
            self._adapters.append(_Adapter(name, version, folder, self._tokens.with_adapter(name)))
        else:  # an earlier version is used again while requests still name it
            self._adapters.remove(old)
            self._adapters.append(old)
        for idle in [adapter for adapter in self._adapters[:-1] if adapter.requests == 0]:
            await self._unload(idle)

    async def unload_leftovers(self) -> None:
        """Unload adapters that an earlier run of this owner left."""
        left = {model.id for model in await self._tokens.list_models() if model.id.startswith(f"{self._owner}-")}
        for name in sorted(left - self.loaded.keys()):
            await self._send_unload(name)

    async def close(self) -> None:
        """Unload all adapters."""
        for adapter in list(self._adapters):
            await self._unload(adapter)

    async def _load(self, name: str, version: int, folder: Path) -> None:
        await call_with_retries(self._patience, lambda: self._load_into(self._tokens, name, version, folder))

    async def _load_into(
        self, tokens: RemoteTokens | ReplicatedTokens, name: str, version: int, folder: Path
    ) -> ModelError | None:
        """Load an adapter into one server or all; what failed, else None."""
        body = msgspec.json.encode({"lora_name": name, "lora_path": str(folder)})
        for error in await tokens.post_to_all(LOAD, body):
            # A request whose reply was lost may have loaded it; the same name means the same adapter.
            if error is None or "already been loaded" in str(error):
                continue
            # vLLM refuses with a 500, and would refuse a retry too.
            if is_unavailable(error):
                return error
            advice = self._advice(error, folder)
            return ModelError(f"the adapter of version {version} was not loaded: {error}. {advice}", kind=error.kind)
        return None

    async def _load_all(self, server: RemoteTokens) -> ModelError | None:
        """Load everything that requests may name into a server that comes back."""
        loaded: set[str] = set()
        while more := [adapter for adapter in self._adapters if adapter.name not in loaded]:  # a newer one may come meanwhile
            error = await self._load_into(server, more[0].name, more[0].version, more[0].folder)
            if error is not None:
                return error
            loaded.add(more[0].name)
        return None

    async def _unload(self, adapter: _Adapter) -> None:
        if adapter in self._adapters:
            self._adapters.remove(adapter)
            await self._send_unload(adapter.name)

    async def _send_unload(self, name: str) -> None:
        """Request it once; an adapter that stays only costs the server memory, since its name is not used again."""
        for error in await self._tokens.post_to_all(UNLOAD, msgspec.json.encode({"lora_name": name})):
            if error is not None:
                _log.warning("an adapter was not unloaded", extra={"adapter": name, "error": str(error)})


def _digest_of(folder: Path) -> str:
    """Digest of an adapter's files, for its name."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _same_path(folder: Path) -> str:
    return f"The server reads the adapter itself: it must see {folder} under the same path, for example on a shared disk"


def _own_advice(error: ModelError, folder: Path) -> str:
    """What to do if our own server has refused an adapter."""
    lowered = str(error).lower()
    if "no adapter found" in lowered:
        return _same_path(folder)
    if "adapters in memory" in lowered:
        return "Versions that requests still use take a place each: raise `--max-adapters`, or lower the recipe's `staleness`"
    if "rank is" in lowered:
        return "Start it with `--max-adapter-rank` of the recipe's `lora` or more"
    return f"Start it with `sandlot serve --model M --adapters-from FOLDER`, where FOLDER is above {folder}"


def _vllm_advice(error: ModelError, folder: Path) -> str:
    """What to do if vLLM has refused an adapter."""
    lowered = str(error).lower()
    if "no adapter found" in lowered:
        return _same_path(folder)
    if error.kind == "not_found":
        return f"The server does not load adapters at runtime: {_HOW}"
    if "rank" in lowered:
        return "Start vLLM with `--max-lora-rank` of the recipe's `lora` or more"
    if "lora" in lowered and "enable" in lowered:
        return f"Adapters are disabled in the server: {_HOW}"
    return f"Check how it was started: {_HOW}, and `--max-lora-rank` of the recipe's `lora` or more"
