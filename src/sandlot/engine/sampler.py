# pyright: reportUnknownMemberType=false
"""Drawing tokens: temperature, top-k, top-p, and the log-probability of what was drawn, for a whole batch at once.

Each draw uses one uniform number, a hash of the request's seed and the token's position, against the cumulated distribution in
the vocabulary's order. So a request's tokens do not depend on which others run beside it, nor on the device.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

GREEDY_BELOW = 1e-5
"""Temperatures under this are 0: scores divided by them would overflow."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Arrays, one entry a draw."""

    temperature: NDArray[np.float64]
    top_p: NDArray[np.float64]
    top_k: NDArray[np.int64]
    seed: NDArray[np.uint64]
    position: NDArray[np.int64]

    @staticmethod
    def empty(count: int) -> "Settings":
        """Room for `count`."""
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
        """Those entries, at these positions."""
        return Settings(self.temperature[rows], self.top_p[rows], self.top_k[rows], self.seed[rows], position)

    def uniform(self) -> NDArray[np.float64]:
        """A number in [0, 1) for each, by seed and position alone."""
        mixed = _mixed(_mixed(self.seed) + self.position.astype(np.uint64))
        return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64: every bit of the input moves every bit of the output."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def draw(logits: Tensor, settings: Settings) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """A token for every row of `[W, vocabulary]`, and its log-probability under the distribution it was drawn from.

    At temperature 0 it is the likeliest token, and the log-probability the model's own: that of a certainty would say nothing.
    Scores that are not numbers give a log-probability that is not one either. One copy from the device.
    """
    greedy = settings.temperature < GREEDY_BELOW
    if greedy.all():
        chosen, probabilities = logits.argmax(-1), logits.softmax(-1)
    else:
        device = logits.device
        moved = torch.from_numpy(np.stack((np.where(greedy, 1.0, settings.temperature), settings.uniform()))).to(device)
        probabilities = _cut(logits / moved[0].to(logits.dtype)[:, None], settings, greedy).softmax(-1)
        chosen = _inverse(probabilities, moved[1])
        if greedy.any():
            chosen = torch.where(torch.from_numpy(greedy).to(device), logits.argmax(-1), chosen)
    taken = probabilities.gather(-1, chosen[:, None])[:, 0].log()
    ids, logprobs = torch.stack((chosen.double(), taken.double())).cpu().numpy()
    return ids.astype(np.int64), logprobs


def _inverse(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """The first token at which the cumulated probability passes the number. Tokens of probability 0 are never it."""
    total = probabilities.cumsum(-1, dtype=torch.float64)
    last = total[:, -1:]
    target = torch.minimum(uniform[:, None] * last, torch.nextafter(last, torch.zeros_like(last)))
    return torch.searchsorted(total, target, right=True)[:, 0].clamp_(max=probabilities.shape[-1] - 1)


def _cut(scores: Tensor, settings: Settings, greedy: NDArray[np.bool_]) -> Tensor:
    """Scores outside top-k and top-p become minus infinity. Ties at the edge stay in."""
    vocabulary = scores.shape[-1]
    by_k = np.flatnonzero((settings.top_k > 0) & (settings.top_k < vocabulary) & ~greedy)
    if len(by_k):
        rows, k = _moved(by_k, scores.device), _moved(settings.top_k[by_k], scores.device)
        best = scores[rows].topk(int(settings.top_k[by_k].max()), dim=-1).values
        edge = best.gather(-1, k[:, None] - 1)
        scores[rows] = scores[rows].masked_fill(scores[rows] < edge, -torch.inf)
    by_p = np.flatnonzero((settings.top_p < 1.0) & ~greedy)
    if len(by_p):
        rows = _moved(by_p, scores.device)
        best = scores[rows].sort(-1, descending=True).values
        before = best.softmax(-1).cumsum(-1, dtype=torch.float64).roll(1, -1)
        before[:, 0] = 0.0
        top_p = torch.from_numpy(settings.top_p[by_p]).to(scores.device)
        # Kept are the tokens before which less than top_p has been cumulated: the smallest set that reaches it.
        num_kept = (before < top_p[:, None]).sum(-1, keepdim=True).clamp_(min=1)
        edge = best.gather(-1, num_kept - 1)
        scores[rows] = scores[rows].masked_fill(scores[rows] < edge, -torch.inf)
    return scores


def _moved(values: NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(values).to(device, non_blocking=True)
