"""Log-probabilities of tokens that are already there, by the trainer's own forward, under the settings they were sampled with.

Temperature, top-k and top-p are applied as the sampler applies them: scores outside the k best go, then those outside the
smallest set that reaches top-p; ties at the edge stay in; what is left is the distribution a token was drawn from.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from sandlot.nn.attention import causal
from sandlot.nn.decoder import Decoder

AT_ONCE = 512
"""Tokens whose scores over the whole vocabulary are held at the same time."""

GREEDY_BELOW = 1e-5
"""Temperatures under this are 0."""


@torch.no_grad()
def token_logprobs(
    decoder: Decoder, ids: Sequence[int], *, temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0
) -> list[float]:
    """For each id its log-probability after those before it; the first, which nothing comes before, is NaN."""
    device = decoder.embedding.weight.device
    tokens = torch.tensor(list(ids), dtype=torch.long, device=device)
    if len(tokens) < 2:
        return [float("nan")] * len(tokens)
    hidden = decoder(tokens[:-1], torch.arange(len(tokens) - 1, device=device), causal())
    found: list[float] = [float("nan")]
    for begin in range(0, len(hidden), AT_ONCE):
        logits = decoder.logits(hidden[begin : begin + AT_ONCE]).float()
        wanted = tokens[begin + 1 : begin + 1 + len(logits)]
        logprobs = distribution(logits, temperature, top_p, top_k).gather(-1, wanted[:, None])[:, 0]
        found += (float(value) for value in logprobs)
    return found


def distribution(logits: Tensor, temperature: float, top_p: float = 1.0, top_k: int = 0) -> Tensor:
    """Log-probabilities `[tokens, vocabulary]` of what a sampler with these settings draws from."""
    if temperature < GREEDY_BELOW:
        best = logits.argmax(-1, keepdim=True)
        return torch.full_like(logits, -torch.inf).scatter(-1, best, 0.0)
    if 0 < top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p < 1.0:
        best = logits.sort(-1, descending=True).values
        before = (best / temperature).softmax(-1).cumsum(-1, dtype=torch.float64).roll(1, -1)
        before[:, 0] = 0.0
        num_kept = (before < top_p).sum(-1, keepdim=True).clamp_(min=1)
        logits = logits.masked_fill(logits < best.gather(-1, num_kept - 1), -torch.inf)
    return (logits / temperature).log_softmax(-1)
