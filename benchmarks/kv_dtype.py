"""`make bench NAME=kv_dtype`: what keys and values in 8 bits do to log-probabilities.

A text that nobody here wrote, Python's own reference, goes through the engine's runner 16 tokens at a time, so that almost all
keys and values are read from the cache, as when decoding. Weights and arithmetic are fp32. Nothing is timed, so the machine may
have other work.
"""

import argparse
from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import Any

import torch
from report import Report, Row, publish, say
from torch import Tensor

from sandlot.model.engine.batch import Batch
from sandlot.model.engine.blocks import KvDtype
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder
from sandlot.model.render.open import open_renderer

NAME = "kv_dtype"
BLOCK, STEP = 16, 16
TEXTS = ("class", "import", "types")
"""Chapters of Python's reference."""
WAYS: tuple[KvDtype, ...] = ("int8", "fp8")


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one way from fp32, over all tokens."""

    mean: float
    """Of the absolute difference of the next token's log-probability."""
    most: float
    """Its 99th percentile."""
    divergence: float
    """Mean KL divergence of the distribution from that in fp32."""
    same: float
    """Share of tokens whose likeliest successor is the same."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few tokens, and the table is left alone: does it work?")
    flags = parser.parse_args()
    rows: list[Row] = []
    ours: dict[str, Any] = {}
    for name, tokens in (("rookie", 768), ("smollm2", 1536)):
        folder = model_folder(name)
        tokenizer = open_renderer(folder).tokenizer
        texts = [tokenizer.encode_text(topics[text])[: 64 if flags.small else tokens] for text in TEXTS]
        decoder = load_folder(folder, dtype=torch.float32)
        exact = [logprobs_of(decoder, ids, "same") for ids in texts]
        for stored in WAYS:
            found = difference(texts, exact, [logprobs_of(decoder, ids, stored) for ids in texts])
            say(f"{name}, {stored}: {found}")
            ours[f"{name}, {stored}"] = found
            others = {
                "99th percentile": f"{found.most:.4f}",
                "KL": f"{found.divergence:.2e}",
                "likeliest token the same": f"{found.same:.4f}",
            }
            rows.append(Row(f"{name}, {stored}: mean difference of a token's log-probability", f"{found.mean:.5f}", others))
    publish(Report(NAME, {what: vars_of(found) for what, found in ours.items()}, {}, {}, rows), write_table=not flags.small)


def vars_of(found: Difference) -> dict[str, float]:
    return {"mean": found.mean, "p99": found.most, "kl": found.divergence, "same": found.same}


@torch.inference_mode()
def logprobs_of(decoder: Decoder, ids: list[int], stored: KvDtype) -> Tensor:
    """`[tokens, vocabulary]` of a text, computed a few tokens at a time."""
    blocks = -(-len(ids) // BLOCK)
    runner = PlainRunner(decoder, blocks=blocks, block_size=BLOCK, kv_dtype=stored)
    table = torch.arange(blocks, dtype=torch.int32)[None]
    found: list[Tensor] = []
    for first in range(0, len(ids), STEP):
        part = torch.tensor(ids[first : first + STEP])
        places = torch.arange(first, first + len(part))
        starts, lengths = (torch.tensor(x, dtype=torch.int32) for x in ([0, len(part)], [first + len(part)]))
        batch = Batch(part, places, places, starts, lengths, table, torch.arange(len(part)), len(part))
        found.append(runner.forward(batch).log_softmax(-1))
    return torch.cat(found)


def difference(texts: list[list[int]], exact: list[Tensor], found: list[Tensor]) -> Difference:
    deltas, divergences, same = [], [], []
    for ids, one, other in zip(texts, exact, found, strict=True):
        following = torch.tensor(ids[1:])[:, None]
        deltas.append((one[:-1].gather(1, following) - other[:-1].gather(1, following)).abs()[:, 0])
        divergences.append((one.exp() * (one - other)).sum(-1))
        same.append((one.argmax(-1) == other.argmax(-1)).float())
    delta = torch.cat(deltas)
    mean, most = float(delta.mean()), float(delta.quantile(0.99))
    return Difference(mean, most, float(torch.cat(divergences).mean()), float(torch.cat(same).mean()))


if __name__ == "__main__":
    main()
