"""Token models for tests: a tiny random decoder that samples honestly, and one that says what a script wants it to."""

from collections.abc import Sequence

import numpy as np
import torch

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampled, Sampling
from sandlot.core.tokens import packed_ids
from sandlot.model.engine.logprobs import distribution, token_logprobs
from sandlot.model.nn.attention import causal_attend
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Shape


def tiny_decoder(vocabulary: int = 512, seed: int = 0) -> Decoder:
    """Two layers of random weights, spread enough that tokens differ in probability."""
    shape = Shape(family="llama", vocabulary=vocabulary, hidden=32, layers=2, heads=4, kv_heads=2, head=8, mlp=64, context=4096)
    generator = torch.Generator().manual_seed(seed)
    decoder = Decoder(shape).eval()
    with torch.no_grad():
        for parameter in decoder.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.4, generator=generator)
    return decoder


class TinyModel:
    """`ports.TokenModel` without cache or batching: the slow obvious one."""

    def __init__(self, decoder: Decoder | None = None, context: int = 4096, version: int = 0) -> None:
        self.decoder = decoder or tiny_decoder()
        self.name = "tiny"
        self.context = context
        self.version = version
        self.prompts: list[list[int]] = []
        self.released: list[str] = []

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        self.prompts.append(list(ids))
        if len(ids) >= self.context:
            raise ModelError("too long", kind="context")
        chosen = self.choose(list(ids), sampling, stop_ids)
        stopped = chosen[-1] in stop_ids
        return self.sampled(list(ids), chosen, sampling, "stop" if stopped else "length")

    def choose(self, ids: list[int], sampling: Sampling, stop_ids: Sequence[int]) -> list[int]:
        random = torch.Generator().manual_seed(sampling.seed or 0)
        chosen: list[int] = []
        while len(chosen) < (sampling.max_tokens or 16) and not (chosen and chosen[-1] in stop_ids):
            so_far = torch.tensor(ids + chosen)
            with torch.no_grad():
                hidden = self.decoder(so_far, torch.arange(len(so_far)), causal_attend())
                logits = self.decoder.logits(hidden[-1:]).float()
            likely = distribution(logits, sampling.temperature, sampling.top_p, sampling.top_k).exp()
            chosen.append(int(torch.multinomial(likely, 1, generator=random)))
        return chosen

    def sampled(self, ids: list[int], chosen: list[int], sampling: Sampling, stop: str) -> Sampled:
        logprobs = token_logprobs(
            self.decoder, ids + chosen, temperature=sampling.temperature, top_p=sampling.top_p, top_k=sampling.top_k
        )[len(ids) :]
        return Sampled(
            ids=packed_ids(chosen),
            logprobs=np.asarray(logprobs, dtype="<f4").tobytes(),
            versions=((len(chosen), self.version),),
            stop=stop,
        )

    async def release(self, session: str) -> None:
        self.released.append(session)


class ForcedModel(TinyModel):
    """Says the next of its turns, whatever it is asked, with the probabilities the decoder gives them."""

    def __init__(self, turns: Sequence[Sequence[int]], decoder: Decoder | None = None, **settings) -> None:
        super().__init__(decoder, **settings)
        self.turns = [list(turn) for turn in turns]

    def choose(self, ids: list[int], sampling: Sampling, stop_ids: Sequence[int]) -> list[int]:
        return self.turns.pop(0)
