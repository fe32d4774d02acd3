"""Log-probabilities of given tokens, by the trainer's forward pass and under given sampling settings."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sandlot.model.engine.sampler import GREEDY_BELOW, Settings, cut_to_top
from sandlot.model.nn.attention import causal_attend
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder, stored_dtype

_AT_ONCE = 512
"""Tokens whose logits are in memory at the same time."""


@torch.no_grad()
def token_logprobs(
    decoder: Decoder, ids: Sequence[int], *, temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0
) -> list[float]:
    """The log-probability of each id given those before it; NaN for the first."""
    device = decoder.embedding.weight.device
    tokens = torch.tensor(list(ids), dtype=torch.long, device=device)
    if len(tokens) < 2:
        return [float("nan")] * len(tokens)
    hidden = decoder(tokens[:-1], torch.arange(len(tokens) - 1, device=device), causal_attend())
    found = [float("nan")]
    for begin in range(0, len(hidden), _AT_ONCE):
        logits = decoder.logits(hidden[begin : begin + _AT_ONCE]).float()
        wanted = tokens[begin + 1 : begin + 1 + len(logits)]
        logprobs = distribution(logits, temperature, top_p, top_k).gather(-1, wanted[:, None])[:, 0]
        found += (float(value) for value in logprobs.cpu())
    return found


def distribution(logits: Tensor, temperature: float, top_p: float = 1.0, top_k: int = 0) -> Tensor:
    """Log-probabilities `[tokens, vocabulary]` of the distribution that a sampler uses; one-hot at temperature 0."""
    if temperature < GREEDY_BELOW:
        best = logits.argmax(-1, keepdim=True)
        return torch.full_like(logits, -torch.inf).scatter(-1, best, 0.0)
    num = len(logits)
    unused = np.zeros(num, np.int64)  # nothing is sampled
    settings = Settings(np.full(num, temperature), np.full(num, top_p), np.full(num, top_k), unused.astype(np.uint64), unused)
    heat = torch.full((num,), temperature, device=logits.device)
    return (cut_to_top(logits, heat, settings) / temperature).log_softmax(-1)


def sampled_in_fp32(folder: Path) -> bool:
    """True if the weights are stored in fp32, so that our engine computes in fp32 by default."""
    return stored_dtype(folder) == torch.float32


def folder_logprobs(
    folder: Path, *, temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0
) -> Callable[[Sequence[int]], list[float]]:
    """`token_logprobs` of the model in a folder, in fp32; `ValueError` if it has no model or an id is not in its vocabulary."""
    decoder = load_folder(folder, dtype=torch.float32).eval()

    def logprobs(ids: Sequence[int]) -> list[float]:
        if max(ids, default=0) >= decoder.shape.vocabulary:
            raise ValueError(
                f"token {max(ids)} is not in the vocabulary of {folder}, which has {decoder.shape.vocabulary} tokens"
            )
        return token_logprobs(decoder, ids, temperature=temperature, top_p=top_p, top_k=top_k)

    return logprobs
