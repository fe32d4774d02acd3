"""Training on a token forest next to training on rows, with the same decoder, attention and loss in one run.

    make bench NAME=forest                              a small decoder on the CPU: does it work, is it exact?
    make bench NAME=forest ARGS="--device cuda"         the Qwen3-0.6B shape on a GPU (needs torch, numpy and msgspec)
    make bench NAME=forest ARGS="--device cuda --deep"  forests over the token budget: depth first next to whole and cut

Baselines: (a) a row for each model call (`calls`), (b) merged rows (`rows`). A forest shares prompts and everything else that is
alike; where a group has one turn that is (c), merged rows that share their prompts. The formula counts 6 P FLOP a token,
12 L d a pair that attention looks at, and the vocabulary for tokens that are trained, which sharing does not save.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace

import numpy as np
import torch

from sandlot.nn.attention import forest as dense_forest
from sandlot.nn.decoder import Decoder
from sandlot.nn.shape import Rope, Shape
from sandlot.train import forward
from sandlot.train.algorithms import Example, Stream
from sandlot.train.attention import forest_attention
from sandlot.train.components import Clip, Value
from sandlot.train.depth_first import pieces_of
from sandlot.train.forest import Forest, cuts, forest_of
from sandlot.train.rows import Row
from sandlot.train.trainer import Optimisation, Tally, Trainer

NAME = "forest"
QWEN = Shape(family="qwen3", vocabulary=151936, hidden=1024, layers=28, heads=16, kv_heads=8, head=128, mlp=3072, context=40960,
             tied=True, qk_norm=True, rope=Rope(theta=1e6))  # fmt: skip
SMALL = replace(QWEN, vocabulary=2048, hidden=128, layers=4, heads=4, kv_heads=2, head=32, mlp=384)


def row(rng, number, pieces):
    """A row of (ids, trained) pieces."""
    ids = np.concatenate([ids for ids, _ in pieces]).astype(np.int32)
    trained = np.concatenate([np.full(len(ids), spoken) for ids, spoken in pieces])
    return Row(
        rollout=("t", number),
        ids=ids,
        trained=trained,
        logprobs=rng.normal(-2, 0.5, len(ids)).astype(np.float32),
        versions=np.where(trained, 0, -1).astype(np.int32),
        turns=np.where(trained, 0, -1).astype(np.int32),
    )


def single_turn(vocabulary, prompt, answer, group):
    """A group of one-turn rollouts; every way but the last is one row a rollout."""
    rng = np.random.default_rng(0)
    asked = rng.integers(0, vocabulary, prompt)
    rows = [row(rng, n, [(asked, False), (rng.integers(0, vocabulary, answer), True)]) for n in range(group)]
    return {"calls": rows, "rows": rows, "forest": rows}


def agents(vocabulary, system, turns, said, seen, group):
    """A group of agents with tools: a system prompt, then turns of `said` tokens sampled and `seen` tokens read."""
    rng = np.random.default_rng(1)
    asked = rng.integers(0, vocabulary, system)
    merged, calls = [], []
    for number in range(group):
        pieces = [(asked, False)]
        for _ in range(turns):
            spoken = rng.integers(0, vocabulary, said)
            calls.append(row(rng, number, [(np.concatenate([ids for ids, _ in pieces]), False), (spoken, True)]))
            pieces += [(spoken, True), (rng.integers(0, vocabulary, seen), False)]
        merged.append(row(rng, number, pieces[:-1]))
    return {"calls": calls, "rows": merged, "forest": merged}


def flat(rows):
    """Rows side by side, nothing shared."""
    starts = np.cumsum([0, *(len(ids) for ids in rows)])
    paths = tuple(np.arange(start, start + len(ids)) for start, ids in zip(starts, rows, strict=False))
    depth = np.concatenate([np.arange(len(ids)) for ids in rows])
    return Forest(
        ids=np.concatenate(rows).astype(np.int64),
        depth=depth,
        parent=np.where(depth > 0, np.arange(len(depth)) - 1, -1),
        last=np.repeat(starts[1:], [len(ids) for ids in rows]),
        paths=paths,
    )


def cost(shape, parameters, forest, trained):
    attention = 12 * shape.layers * shape.heads * shape.head * forest.seen
    return 6 * parameters * len(forest) + attention + 6 * shape.vocabulary * shape.hidden * trained


def examples(rows):
    rng = np.random.default_rng(2)
    total = sum(int(r.trained.sum()) for r in rows)
    return [
        Example(
            r, (Stream(Clip(0.2, 0.28), rng.normal(0, 1, len(r)).astype(np.float32), (r.trained / total).astype(np.float32)),)
        )
        for r in rows
    ]


def timed(trainer, rows, built, repeats):
    """Seconds of one update of everything but the optimiser's own step."""
    forward.forest_of = built
    device = trainer.device

    def once():
        trainer.optimiser.zero_grad(set_to_none=True)
        columns = {"old": None, "reference": None}
        loss = trainer._loss(examples(rows), [len(rows)], columns, Tally())  # noqa: SLF001 - what an update does, without the optimiser
        loss.backward()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return loss

    once()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - started)
    forward.forest_of = forest_of
    return statistics.median(seconds)


def exactness(device):
    """The clipped loss, the critic's, and all their gradients against rows alone, in fp64."""
    shape = replace(SMALL, layers=2)
    torch.manual_seed(0)
    decoder = Decoder(shape).to(device=device, dtype=torch.float64)
    trainer = Trainer(decoder, Optimisation(), critic=True)
    torch.nn.init.normal_(trainer.critic.weight, 0, 0.1)
    rows = agents(2048, 40, 4, 8, 12, 6)["rows"]
    rng = np.random.default_rng(3)
    batch = [
        replace(
            example,
            streams=(*example.streams, Stream(Value(None), rng.normal(0, 1, len(example.row)).astype(np.float32), example.streams[0].weight)),  # noqa: E501 - one thing
        )
        for example in examples(rows)
    ]  # fmt: skip
    forward.forest_attention = dense_forest
    found = []
    for built in (forest_of, flat):
        forward.forest_of = built
        loss = trainer._loss(batch, [len(batch)], {"old": None, "reference": None}, Tally())  # noqa: SLF001 - as above
        found.append((loss.item(), torch.autograd.grad(loss, trainer.parameters)))
    forward.forest_of = forest_of
    forward.forest_attention = forest_attention
    one, other = found
    return {
        "loss": abs(one[0] - other[0]),
        "gradients": max(float((a - b).abs().max()) for a, b in zip(one[1], other[1], strict=True)),
    }


def most_alive(device, work):
    """What `work` gives, and the most bytes of the GPU it took beyond what was there; None on the CPU."""
    if device.type != "cuda":
        return work(), None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = work()
    torch.cuda.synchronize()
    return result, torch.cuda.max_memory_allocated() - before


def update(trainer, rows, tokens):
    """One update but for the optimiser's step, as `Trainer` does it, whole or in pieces: loss, and gradients."""
    trainer.optimisation = replace(trainer.optimisation, tokens=tokens)
    trainer.optimiser.zero_grad(set_to_none=True)
    loss = trainer._loss(examples(rows), [len(rows)], {"old": None, "reference": None}, Tally())  # noqa: SLF001 - as above
    loss.backward()
    if trainer.device.type == "cuda":
        torch.cuda.synchronize()
    return float(loss.detach())


def cut_update(trainer, rows, tokens):
    """The same with the rows cut into forests that fit, shared prefixes computed again in each."""
    whole = examples(rows)
    trainer.optimisation = replace(trainer.optimisation, tokens=sys.maxsize)
    trainer.optimiser.zero_grad(set_to_none=True)
    total = 0.0
    for cut in cuts([r.ids for r in rows], tokens):
        chosen = [whole[number] for number in cut.rows]
        loss = trainer._loss(chosen, [len(chosen)], {"old": None, "reference": None}, Tally())  # noqa: SLF001 - as above
        loss.backward()
        total += float(loss.detach())
    if trainer.device.type == "cuda":
        torch.cuda.synchronize()
    return total


def deep_exactness(device):
    """How far gradients in pieces are from the whole's, as a share of their norm: in fp32, and as the trainer computes them.

    On a GPU the trainer multiplies in bf16, so that two orders of one sum are some thousandths apart.
    """
    torch.manual_seed(0)
    trainer = Trainer(Decoder(SMALL).to(device), Optimisation())
    rows = agents(2048, 300, 6, 16, 40, 6)["rows"]

    def plain(tokens):
        trainer.optimiser.zero_grad(set_to_none=True)
        result = forward.seen(trainer.decoder, rows, tokens=tokens)
        (result.logprobs.sin().sum() / len(result.logprobs)).backward()
        return [p.grad.clone() for p in trainer.parameters]

    def learned(tokens):
        update(trainer, rows, tokens)
        return [p.grad.clone() for p in trainer.parameters]

    found = {}
    for way, gradients in {"fp32": plain, "trainer": learned}.items():
        whole, pieces = gradients(sys.maxsize), gradients(512)
        norm = sum(float(g.square().sum()) for g in whole) ** 0.5
        found[way] = sum(float((a - b).square().sum()) for a, b in zip(whole, pieces, strict=True)) ** 0.5 / norm
    return found


def deep(trainer, big, repeats):
    """Seconds, most memory alive and how far gradients are apart: whole forest, cut, and depth first."""
    scale = 1 if big else 32
    vocabulary = trainer.decoder.shape.vocabulary
    work = {
        "prompt 8192, answer 512, group of 64": (single_turn(vocabulary, 8192 // scale, 512 // scale, 64), 10240 // scale),
        "agents: system 2048, 20 turns of 128 + 256, group of 4": (
            agents(vocabulary, 2048 // scale, 20, 128 // scale, 256 // scale, 4), 8192 // scale,
        ),
    }  # fmt: skip
    results = {"exact": deep_exactness(trainer.device)}
    print(json.dumps(results), flush=True)
    for name, (ways, tokens) in work.items():
        rows = ways["forest"]
        forest = forest_of([r.ids for r in rows])
        entry = {"tokens": len(forest), "budget": tokens, "pieces": len(pieces_of(forest, tokens))}
        kept = None
        for way, once in {
            "whole": lambda rows=rows: update(trainer, rows, sys.maxsize),
            "cut": lambda rows=rows, tokens=tokens: cut_update(trainer, rows, tokens),
            "depth first": lambda rows=rows, tokens=tokens: update(trainer, rows, tokens),
        }.items():
            loss, peak = most_alive(trainer.device, once)
            gradients = [None if p.grad is None else p.grad.float().clone() for p in trainer.parameters]
            kept = kept or (loss, gradients)
            norm = sum(float(g.square().sum()) for g in kept[1] if g is not None) ** 0.5
            apart = sum(float((a - b).square().sum()) for a, b in zip(gradients, kept[1], strict=True) if a is not None) ** 0.5
            del gradients
            trainer.optimiser.zero_grad(set_to_none=True)
            _, peak = most_alive(trainer.device, once)  # once more: the first time compiles
            seconds = []
            for _ in range(repeats):
                started = time.perf_counter()
                once()
                seconds.append(time.perf_counter() - started)
            entry[way] = {
                "seconds": statistics.median(seconds),
                "peak_gib": None if peak is None else peak / 2**30,
                "loss_apart": abs(loss - kept[0]),
                "gradients_apart": apart / norm,
            }
        results[name] = entry
        print(name, json.dumps(entry, indent=1), flush=True)
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--deep", action="store_true", help="forests over the token budget, depth first")
    options = parser.parse_args()
    device = torch.device(options.device)
    big = device.type == "cuda"
    shape = QWEN if big else SMALL
    torch.manual_seed(0)
    with device:
        decoder = Decoder(shape)
    decoder = decoder.to(torch.bfloat16 if big else torch.float32)
    trainer = Trainer(decoder, Optimisation(recompute=True, tokens=sys.maxsize))
    if options.deep:
        print(json.dumps({"name": NAME, "device": options.device, "deep": deep(trainer, big, options.repeats)}))
        return
    parameters = sum(p.numel() for p in decoder.parameters()) - shape.vocabulary * shape.hidden
    scale = 1 if big else 16
    work = {
        "prompt 4096, answer 1024, group of 16": single_turn(shape.vocabulary, 4096 // scale, 1024 // scale, 16),
        "prompt 8192, answer 512, group of 32": single_turn(shape.vocabulary, 8192 // scale, 512 // scale, 32 if big else 8),
        "agents: system 2048, 10 turns of 64 + 128, group of 8": agents(
            shape.vocabulary, 2048 // scale, 10, 64 // scale, 128 // scale, 8
        ),
    }
    results = {"exact_fp64": exactness(device), "work": {}}
    for name, ways in work.items():
        forests = {
            "calls": flat([r.ids for r in ways["calls"]]),
            "rows": flat([r.ids for r in ways["rows"]]),
            "forest": forest_of([r.ids for r in ways["forest"]]),
        }
        entry = {}
        trained = sum(int(r.trained.sum()) for r in ways["forest"])
        for way in ("rows", "calls", "forest"):
            if way == "calls" and ways["calls"] is ways["rows"]:
                continue
            seconds = timed(trainer, ways[way], forest_of if way == "forest" else flat, options.repeats)
            entry[way] = {"tokens": len(forests[way]), "seconds": seconds, "cost": cost(shape, parameters, forests[way], trained)}
        for way in [way for way in entry if way != "forest"]:
            entry[way]["speedup"] = entry[way]["seconds"] / entry["forest"]["seconds"]
            entry[way]["formula"] = entry[way]["cost"] / entry["forest"]["cost"]
            entry[way]["share_of_formula"] = entry[way]["speedup"] / entry[way]["formula"]
        results["work"][name] = entry
        print(name, json.dumps(entry, indent=1), flush=True)
    print(json.dumps({"name": NAME, "device": options.device, **results}))


if __name__ == "__main__":
    main()
