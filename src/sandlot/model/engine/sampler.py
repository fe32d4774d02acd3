# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Sampling a batch of tokens: temperature, top-k, top-p, and the log-probability of each sampled token.

Each token is sampled by inverse CDF in vocabulary order, with one uniform number: a hash of the request's seed and the token's
position. So a request's tokens do not depend on other requests or on the device.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from numpy.typing import NDArray
from torch import Tensor

_CHUNK = 256
"""Vocabulary entries per chunk of the cumulative sum."""

GREEDY_BELOW = 1e-5
"""Lower temperatures count as 0: dividing logits by them would overflow."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Sampling settings as arrays, one entry per token to sample."""

    temperature: NDArray[np.float64]
    top_p: NDArray[np.float64]
    top_k: NDArray[np.int64]
    seed: NDArray[np.uint64]
    position: NDArray[np.int64]

    @staticmethod
    def empty(count: int) -> "Settings":
        """Default settings for `count` entries."""
        return Settings(
            np.ones(count), np.ones(count), np.zeros(count, np.int64), np.zeros(count, np.uint64), np.zeros(count, np.int64)
        )

    def put(self, row: int, temperature: float, top_p: float, top_k: int, seed: int) -> None:
        """Set one entry."""
        self.temperature[row] = temperature
        self.top_p[row] = top_p
        self.top_k[row] = top_k
        self.seed[row] = seed % 2**64

    def of(self, rows: NDArray[np.int64], position: NDArray[np.int64]) -> "Settings":
        """The entries of these rows, with positions."""
        return Settings(self.temperature[rows], self.top_p[rows], self.top_k[rows], self.seed[rows], position)

    def uniform(self) -> NDArray[np.float64]:
        """A number in [0, 1) per entry, from seed and position only."""
        mixed = _splitmix64(_splitmix64(self.seed) + self.position.astype(np.uint64))
        return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _splitmix64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 hash."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


Pick = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(logits `[W, vocabulary]`, temperatures `[W]` fp32, uniform numbers `[W]` fp64) -> (tokens, log-probabilities)."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Sampled tokens, which may still be on their way to the host."""

    ids: Tensor
    """`[W]` on the device; each is in the vocabulary, also where the logits are NaN."""
    _both: Tensor
    _copied: torch.cuda.Event | None

    def result(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Tokens and log-probabilities, when they are there."""
        if self._copied is not None:
            self._copied.synchronize()
        both = self._both.numpy()
        return both[0].astype(np.int64), both[1]


def draw(logits: Tensor, settings: Settings, pick: Pick) -> Drawn:
    """Sample a token for every row of `[W, vocabulary]`, with its log-probability.

    At temperature 0 the log-probability is 0. NaN logits give NaN log-probabilities. Results reach the host in one copy.
    """
    heat = np.where(settings.temperature < GREEDY_BELOW, 0.0, settings.temperature)
    moved = torch.from_numpy(np.stack((heat, settings.uniform()))).to(logits.device, non_blocking=True)
    temperature = moved[0].float()
    if heat.any():
        ids, logprobs = pick(cut_to_top(logits, temperature, settings), temperature, moved[1])
    else:
        ids, logprobs = _likeliest(logits)
    both = torch.stack((ids.double(), logprobs.double()))
    ids = ids.clamp(0, logits.shape[-1] - 1)
    if both.device.type != "cuda":
        return Drawn(ids, both, None)
    there = torch.empty(both.shape, dtype=both.dtype, pin_memory=True).copy_(both, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record()
    return Drawn(ids, there, copied)


def pick_by_inverse(logits: Tensor, temperature: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """`Pick` in plain PyTorch: the first token where the cumulative probability exceeds the uniform number.

    First the chunk is found, then the token in it: a cumulative sum over the whole vocabulary is slow.
    """
    greedy = temperature == 0
    probabilities = (logits / temperature.masked_fill(greedy, 1.0).to(logits.dtype)[:, None]).softmax(-1)
    chunks = F.pad(probabilities, (0, -logits.shape[-1] % _CHUNK)).unflatten(-1, (-1, _CHUNK))
    mass = chunks.sum(-1).double()  # summed in fp64, all of them would be copied first
    total = mass.cumsum(-1)
    aim = uniform[:, None] * total[:, -1:]
    chunk = _first_above(total, aim)
    before = total.gather(-1, chunk) - mass.gather(-1, chunk)
    inside = chunks.gather(1, chunk[:, :, None].expand(-1, -1, _CHUNK))[:, 0].cumsum(-1, dtype=torch.float64)
    # In proportion: the two sums differ by rounding, which would else all fall to the chunk's last token.
    within = (aim - before) * (inside[:, -1:] / mass.gather(-1, chunk))
    drawn = (chunk * _CHUNK + _first_above(inside, within))[:, 0].clamp_(max=logits.shape[-1] - 1)
    logprobs = probabilities.gather(-1, drawn[:, None])[:, 0].log()
    if not greedy.any():  # the maximum costs as much as the softmax
        return drawn, logprobs
    best, certain = _likeliest(logits)
    return torch.where(greedy, best, drawn), torch.where(greedy, certain, logprobs)


def _first_above(total: Tensor, aim: Tensor) -> Tensor:
    """The first index where a cumulative sum exceeds the target; if rounding puts it past the end, the last that increases."""
    last = total[:, -1:]
    aim = torch.minimum(aim.clamp(min=0.0), torch.nextafter(last, torch.zeros_like(last)))
    return torch.searchsorted(total, aim, right=True).clamp_(max=total.shape[-1] - 1)


def _likeliest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The best token with log-probability 0, or NaN if the logits are NaN."""
    most, best = logits.max(-1)
    return best, most - most


def cut_to_top(logits: Tensor, temperature: Tensor, settings: Settings) -> Tensor:
    """Logits outside top-k and top-p become minus infinity. Ties at the threshold stay."""
    greedy, vocabulary, device = settings.temperature < GREEDY_BELOW, logits.shape[-1], logits.device
    by_k = np.flatnonzero((settings.top_k > 0) & (settings.top_k < vocabulary) & ~greedy)
    by_p = np.flatnonzero((settings.top_p < 1.0) & ~greedy)
    if len(by_k) or len(by_p):
        logits = logits.clone()
    if len(by_k):
        rows, k = _to_device(by_k, device), _to_device(settings.top_k[by_k], device)
        scores = logits[rows]
        best = scores.topk(int(settings.top_k[by_k].max()), dim=-1).values
        logits[rows] = scores.masked_fill(scores < best.gather(-1, k[:, None] - 1), -torch.inf)
    if len(by_p):
        rows = _to_device(by_p, device)
        scores = logits[rows]
        best = scores.sort(-1, descending=True).values
        before = (best / temperature[rows].to(best.dtype)[:, None]).softmax(-1).cumsum(-1, dtype=torch.float64).roll(1, -1)
        before[:, 0] = 0.0
        top_p = torch.from_numpy(settings.top_p[by_p]).to(device)
        # The smallest set of tokens whose probability reaches top_p.
        num_kept = (before < top_p[:, None]).sum(-1, keepdim=True).clamp_(min=1)
        logits[rows] = scores.masked_fill(scores < best.gather(-1, num_kept - 1), -torch.inf)
    return logits


def _to_device(values: NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(values).to(device, non_blocking=True)
