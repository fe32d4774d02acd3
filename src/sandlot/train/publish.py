"""Publishing weights to the model that samples: the engine of this process, or a running server, which gets adapters.

Every sampled token records the version of its weights. A server loads its own weights, so before the first rollout its
log-probabilities of some tokens are compared with the trainer's.
"""

import hashlib
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Protocol

import numpy as np

from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Renderer, Sampling, TokenModel
from sandlot.core.trace import text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.served_adapters import AdaptedTokens, open_adapted
from sandlot.model.endpoint.tokens import RemoteConfig, remote_config
from sandlot.model.engine.local import LocalConfig, LocalModel, open_local
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.lora import merged_state, save_adapter
from sandlot.train.leader import Learner
from sandlot.train.recipe import Recipe, without_secrets
from sandlot.train.rows import Row
from sandlot.wiring.models import require_listener

_PROBE = "Name three colours, and say where each is seen."
_PROBED = 32
"""Number of tokens on which server and trainer are compared."""
_APART = 0.3
"""Largest mean difference of log-probabilities for the same model. bf16 alone makes a few hundredths."""


class Publisher(Protocol):
    """Sends weights to the model that samples."""

    @property
    def model(self) -> TokenModel:
        """The model that samples with the weights published last."""
        ...

    async def publish(self, version: int, decoder: Decoder) -> None:
        """Make the model sample with the decoder's weights, as this version, from the next request on or sooner."""
        ...


@dataclass(frozen=True, slots=True)
class _InProcess:
    """Publishes to the engine of this process, between two of its steps."""

    model: LocalModel

    async def publish(self, version: int, decoder: Decoder) -> None:
        """Copy the weights; with adapters, the merged ones."""
        weights = await off_loop("weights", lambda: merged_state(decoder))
        await self.model.update(version, weights)


@dataclass(frozen=True, slots=True)
class IntoServer:
    """Publishes to a server of vLLM or our own, through a folder that it reads."""

    model: AdaptedTokens
    folder: Path
    base: str

    async def publish(self, version: int, decoder: Decoder) -> None:
        """Write the adapters to a new folder and load them: a run that rolled back publishes a version twice."""
        place = self.folder / f"{version:06d}-{token_hex(4)}"
        await off_loop("adapter", lambda: save_adapter(decoder, place, base=self.base))
        await self.model.load(version, place)
        await off_loop("cleaning", lambda: self._clean(set(self.model.loaded.values())))

    def _clean(self, needed: set[Path]) -> None:
        """Remove adapters that the server no longer uses, and those of earlier sittings."""
        for path in self.folder.iterdir():
            if path not in needed:
                shutil.rmtree(path, ignore_errors=True)


@asynccontextmanager
async def open_publisher(
    recipe: Recipe, sampled: Decoder | None, path: Path, base: Path, time_s: float
) -> AsyncGenerator[Publisher]:
    """The publisher of a recipe; `sampled` is the engine's own copy of the weights, if it is in this process."""
    if recipe.server is None:
        assert sampled is not None
        config = LocalConfig(max_batch=min(recipe.at_once, 128), chunk=1024, speculate=recipe.speculate)
        async with open_local(sampled, name=recipe.model, config=config) as local:
            yield _InProcess(local)
        return
    config = served_config(recipe, request_s=0.9 * time_s)
    await require_listener(config.url)
    folder = _adapter_folder(path)
    async with open_adapted(config, _owner_of(recipe, folder), recipe.sampling) as adapted:
        yield IntoServer(adapted, folder, str(base))


def _adapter_folder(path: Path) -> Path:
    """The folder of a run's adapters, as an absolute path for the server."""
    return path.resolve() / "published"


def _owner_of(recipe: Recipe, folder: Path) -> str:
    """The name of the run's adapters, from the path of the run: a continued run recognises those that it left loaded."""
    name = re.sub(r"[^A-Za-z0-9_]", "-", recipe.name).lstrip("-")[:64] or "run"  # our own server takes no others
    return f"{name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def served_config(recipe: Recipe, request_s: float) -> RemoteConfig:
    """The settings of a recipe's server."""
    scheme, _, rest = (recipe.server or "").partition(":")
    match scheme:
        case "vllm" | "sandlot":
            named = remote_config(scheme, rest)
            return RemoteConfig(model=named.model, url=named.url, dialect=scheme, at_once=recipe.at_once, request_s=request_s)
        case _:
            told = without_secrets(recipe.server or "")
            raise ConfigError(
                f"recipe `{recipe.name}`: server `{told}`: weights are published to `vllm:NAME@URL` and `sandlot:NAME@URL` only"
            )


async def require_agreement(model: TokenModel, learner: Learner, renderer: Renderer, sampling: Sampling) -> float:
    """The mean difference of log-probabilities on tokens that the model samples; `ConfigError` if the weights differ."""
    given = renderer.render([text_message(Role.USER, _PROBE)], ())
    asked = Sampling(max_tokens=_PROBED, temperature=sampling.temperature or 1.0, seed=0)
    sampled = await model.sample(given, asked, stop_ids=renderer.stop_ids)
    ids, told = np.frombuffer(sampled.ids, "<i4"), np.frombuffer(sampled.logprobs, "<f4")
    vocabulary = (await off_loop("whole", learner.whole)).shape.vocabulary
    if ids.max() >= vocabulary:
        raise ConfigError(
            f"`{model.name}` sampled token {ids.max()}, but the recipe's model has {vocabulary} tokens: it serves another model"
        )
    row = probe_row(given, ids, told)
    (own,) = await off_loop("logprobs", lambda: learner.logprobs([row]))
    apart = float(np.abs(own - told).mean())
    if apart > _APART:
        raise ConfigError(
            f"`{model.name}` and the recipe's model differ by {apart:.2f} in mean log-probability: the server has other "
            "weights; start it with the folder that the recipe's `model` names"
        )
    return apart


def probe_row(given: list[int], ids: np.ndarray, logprobs: np.ndarray) -> Row:
    """One sampled turn as a row."""
    before, after = len(given), len(ids)
    return Row(
        rollout=("probe", 0),
        ids=np.concatenate((np.array(given, np.int32), ids)),
        trained=np.repeat(np.array([False, True]), (before, after)),
        logprobs=np.concatenate((np.zeros(before, np.float32), logprobs)),
        versions=np.repeat(np.array([-1, 0], np.int32), (before, after)),
        turns=np.repeat(np.array([-1, 0], np.int32), (before, after)),
    )
