"""What the engine is compared with, and small models to compare them on."""

import itertools
import math

import numpy as np
import torch

from sandlot.model.engine.blocks import Blocks
from sandlot.model.engine.engine import Engine
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Completion, Request
from sandlot.model.engine.siblings import Speculate
from sandlot.model.nn.attention import causal_attend
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Shape

VOCABULARY = 64
CONTEXT = 96
BLOCK = 4
SHAPE = Shape(
    family="qwen3",
    vocabulary=VOCABULARY,
    hidden=32,
    layers=2,
    heads=4,
    kv_heads=2,
    head=8,
    mlp=48,
    context=256,
    qk_norm=True,
    tied=True,
)


def decoder(seed: int = 0, shape: Shape = SHAPE) -> Decoder:
    torch.manual_seed(seed)
    model = Decoder(shape)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.25)
    return model.requires_grad_(False)


def sharp(seed: int = 0) -> Decoder:
    """A decoder whose tokens are likely enough to be guessed."""
    model = decoder(seed)
    model.norm.weight.mul_(4.0)
    return model


speculate: Speculate = "off"
"""What engines do that are made here and not told otherwise."""


def engine(model: Decoder, *, blocks: int = 64, max_batch: int = 4, chunk: int = 16, **rest) -> Engine:
    runner = PlainRunner(model, blocks=blocks, block_size=BLOCK)
    settings = {"speculate": speculate, "clock": itertools.count().__next__, **rest}  # a clock that repeats itself
    return Engine(runner, blocks=blocks, context=CONTEXT, max_batch=max_batch, chunk=chunk, **settings)


def prompt(seed: int, count: int) -> list[int]:
    return np.random.default_rng(seed).integers(VOCABULARY, size=count).tolist()


def check_blocks(blocks: Blocks) -> None:
    """The counts of a pool agree with each other."""
    held = sum(count > 0 for count in blocks._counts)
    idle = sum(blocks.is_idle(block) for block in range(blocks.total))
    assert held + blocks.num_free == blocks.total
    assert len(set(blocks._free)) == blocks.num_free, "a block is free twice"
    assert idle == blocks.num_idle


def spoken(ids: list[int]) -> str:
    """A tokenizer for tests: one letter a token."""
    return "".join(chr(ord("!") + token) for token in ids)


def finish(it: Engine, *, most: int = 10_000) -> dict[int, Completion]:
    """Step until nothing is left to do."""
    finished: dict[int, Completion] = {}
    for _ in range(most):
        if it.is_idle:
            return finished
        finished |= {each.id: each for each in it.step()}
    raise AssertionError(f"still busy after {most} steps: {it.metrics()}")


def scores(model: Decoder, ids: list[int]) -> torch.Tensor:
    """Logits of the next token, by a whole forward pass."""
    with torch.inference_mode():
        hidden = model(torch.tensor(ids), torch.arange(len(ids)), causal_attend())
        return model.logits(hidden[-1])


def twin(model: Decoder, request: Request) -> tuple[list[int], list[float]]:
    """The same request with no cache and no batching."""
    known, logprobs = list(request.ids), []
    while len(logprobs) < request.max_tokens:
        token, logprob = drawn(scores(model, known), request, len(known))
        known.append(token)
        logprobs.append(logprob)
        text = spoken(known[len(request.ids) :])
        if token in request.stop_ids or any(stop in text for stop in request.stop):
            break
    return known[len(request.ids) :], logprobs


def redrawn(models: Decoder | dict[int, Decoder], request: Request, answer: Completion) -> tuple[list[int], list[float]]:
    """What the twin draws at each place of an answer after what stands before it, with the weights said to have sampled it.

    If that is the answer itself, the twin would have given it: one pass for each version instead of one for each token.
    """
    known, versions = [*request.ids, *answer.ids.tolist()], answer.versions.tolist()
    models = dict.fromkeys(versions, models) if isinstance(models, Decoder) else models
    with torch.inference_mode():
        logits = {
            version: models[version].logits(models[version](torch.tensor(known), torch.arange(len(known)), causal_attend()))
            for version in set(versions)
        }
    first = len(request.ids)
    pairs = [drawn(logits[version][at - 1], request, at) for at, version in enumerate(versions, first)]
    return [token for token, _ in pairs], [logprob for _, logprob in pairs]


def load(model: Decoder, other: Decoder) -> None:
    """Weights in place."""
    with torch.no_grad():
        for weight, new in zip(model.parameters(), other.parameters(), strict=True):
            weight.copy_(new)


def drawn(logits: torch.Tensor, request: Request, position: int) -> tuple[int, float]:
    """One token, token by token: the sampler's rule spelled out."""
    if request.temperature == 0:
        return int(logits.argmax()), 0.0
    scaled = (logits / request.temperature).tolist()
    order = sorted(range(len(scaled)), key=lambda token: -scaled[token])
    kept = order[: request.top_k] if request.top_k else order
    weights = {token: math.exp(scaled[token] - scaled[kept[0]]) for token in kept}
    total, sofar, nucleus = sum(weights.values()), 0.0, []
    for token in kept:
        if sofar / total < request.top_p or not nucleus:
            nucleus.append(token)
        sofar += weights[token]
    total = sum(weights[token] for token in nucleus)
    target, sofar = uniform(request.seed, position) * total, 0.0
    for token in sorted(nucleus):
        sofar += weights[token]
        if sofar > target:
            return token, math.log(weights[token] / total)
    raise AssertionError("the cumulated probability never passed the number")


def uniform(seed: int, position: int) -> float:
    def mixed(x: int) -> int:
        x = (x + 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    return (mixed((mixed(seed) + position) % 2**64) >> 11) * 2.0**-53
