"""Training on a token forest next to training on rows, with the same decoder, attention and loss in one run.

    make bench NAME=forest                              a small decoder on the CPU: does it work, is it exact?
    make bench NAME=forest ARGS="--device cuda"         the Qwen3-0.6B shape on a GPU; needs torch, numpy and msgspec, and uses
                                                        flash-attn-4 if it is there

Baselines: (a) a row for each model call (`calls`), (b) merged rows (`rows`), (c) merged rows whose group shares its prompt
(`prompts`). A forest shares whatever is alike; rollouts that part at their first token share no more than (c). The formula counts
6 P FLOP a token, 12 L d a pair that attention looks at, and the vocabulary for trained tokens, which sharing does not save. The
backward pass computes all but attention again, and attention too in (a) and where merged rows would not fit a GPU otherwise.
"""

import argparse
import statistics
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import torch
from report import Report, publish, say
from report import Row as Line

from sandlot.model.nn.attention import dense_forest_attend as dense_forest
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Rope, Shape
from sandlot.train.algorithms.algorithms import TokenLoss, TrainingRow
from sandlot.train.algorithms.losses import Clip, Value
from sandlot.train.forest import forward
from sandlot.train.forest.attention import forest_attention
from sandlot.train.forest.flash_attention import has_flash
from sandlot.train.forest.forest import Forest, forest_of
from sandlot.train.rows import Row
from sandlot.train.tally import Tally
from sandlot.train.trainer import Optimisation, Trainer

NAME = "forest"
QWEN = Shape(family="qwen3", vocabulary=151936, hidden=1024, layers=28, heads=16, kv_heads=8, head=128, mlp=3072, context=40960,
             tied=True, qk_norm=True, rope=Rope(theta=1e6))  # fmt: skip
FITS = 160_000
"""Tokens of merged rows up to which the results of attention fit the memory of a GPU."""
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


def single_turn(vocabulary, prompt, answers):
    """A group of one-turn rollouts, with answers of these lengths: one row a rollout, however it is merged."""
    rng = np.random.default_rng(0)
    asked = rng.integers(0, vocabulary, prompt)
    rows = [row(rng, n, [(asked, False), (rng.integers(0, vocabulary, answer), True)]) for n, answer in enumerate(answers)]
    return {"calls": rows, "rows": rows}, prompt


def agents(vocabulary, system, turns, said, seen, group, parting=(0,)):
    """A group of agents with tools: a system prompt, then turns of `said` tokens sampled and `seen` tokens read.

    Half of those that are still together part at each of these turns; what is left at the end parts at the last of them.
    """
    rng = np.random.default_rng(1)
    asked = rng.integers(0, vocabulary, system)
    pieces = [[(asked, False)] for _ in range(group)]
    calls = []
    for turn in range(turns):
        apart = group if turn >= parting[-1] else 2 ** sum(turn >= at for at in parting)
        fresh = [[rng.integers(0, vocabulary, size) for size in (said, seen)] for _ in range(apart)]
        for number, own in enumerate(pieces):
            spoken, read = fresh[number * apart // group]
            calls.append(row(rng, number, [(np.concatenate([ids for ids, _ in own]), False), (spoken, True)]))
            own += [(spoken, True), (read, False)]
    return {"calls": calls, "rows": [row(rng, number, own[:-1]) for number, own in enumerate(pieces)]}, system


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


def sharing(prompt):
    """What makes forests in which rows share these first tokens and nothing else."""

    def built(rows):
        rest = flat([ids[prompt:] for ids in rows])
        size = prompt + len(rest)
        first = np.arange(prompt)
        return Forest(
            ids=np.concatenate((rows[0][:prompt], rest.ids)).astype(np.int64),
            depth=np.concatenate((first, rest.depth + prompt)),
            parent=np.concatenate((first - 1, np.where(rest.depth > 0, rest.parent + prompt, prompt - 1))),
            last=np.concatenate((np.full(prompt, size), rest.last + prompt)),
            paths=tuple(np.concatenate((first, path + prompt)) for path in rest.paths),
        )

    return built


def cost(shape, parameters, forest, trained):
    attention = 12 * shape.layers * shape.heads * shape.head * forest.seen
    return 6 * parameters * len(forest) + attention + 6 * shape.vocabulary * shape.hidden * trained


def examples(rows):
    rng = np.random.default_rng(2)
    total = sum(int(r.trained.sum()) for r in rows)
    return [
        TrainingRow(
            r, (TokenLoss(Clip(0.2, 0.28), rng.normal(0, 1, len(r)).astype(np.float32), (r.trained / total).astype(np.float32)),)
        )
        for r in rows
    ]


@contextmanager
def forests_by(built):
    """The trainer's forward with another way to make a forest of rows."""
    forward.forest_of = built
    try:
        yield
    finally:
        forward.forest_of = forest_of


def timed(trainer, rows, built, repeats):
    """Seconds of one update of everything but the optimiser's own step."""

    batch = examples(rows)

    def once():
        trainer.optimiser.zero_grad(set_to_none=True)
        loss = trainer._loss(batch, [len(rows)], {"old": None, "reference": None}, Tally())  # noqa: SLF001 - what an update does, without the optimiser
        loss.backward()
        if trainer.device.type == "cuda":
            torch.cuda.synchronize()

    with forests_by(built):
        once()
        seconds = []
        for _ in range(repeats):
            started = time.perf_counter()
            once()
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def exactness(device):
    """The clipped loss, the critic's, and all their gradients against rows alone, in fp64."""
    shape = replace(SMALL, layers=2)
    torch.manual_seed(0)
    decoder = Decoder(shape).to(device=device, dtype=torch.float64)
    trainer = Trainer(decoder, Optimisation(), critic=True)
    torch.nn.init.normal_(trainer.critic.weight, 0, 0.1)
    rows = agents(2048, 40, 4, 8, 12, 6, (0, 2))[0]["rows"]
    rng = np.random.default_rng(3)
    batch = [
        replace(
            example,
            streams=(*example.streams, TokenLoss(Value(None), rng.normal(0, 1, len(example.row)).astype(np.float32), example.streams[0].weight)),  # noqa: E501 - one thing
        )
        for example in examples(rows)
    ]  # fmt: skip
    forward.forest_attention = dense_forest
    found = []
    for built in (forest_of, flat):
        with forests_by(built):
            loss = trainer._loss(batch, [len(batch)], {"old": None, "reference": None}, Tally())  # noqa: SLF001 - as above
            found.append((loss.item(), torch.autograd.grad(loss, trainer.parameters)))
    forward.forest_attention = forest_attention
    one, other = found
    return {
        "loss": abs(one[0] - other[0]),
        "gradients": max(float((a - b).abs().max()) for a, b in zip(one[1], other[1], strict=True)),
    }


def shapes(vocabulary, scale):
    """Work of realistic shapes, made smaller by a factor, and how many tokens each group's prompt has."""
    rng = np.random.default_rng(4)
    uneven = rng.integers(200 // scale, 1800 // scale, 16)
    turns = (10, 64 // scale, 128 // scale)
    return {
        "prompt 4096, 16 answers of 1024": single_turn(vocabulary, 4096 // scale, [1024 // scale] * 16),
        "prompt 8192, 32 answers of 512": single_turn(vocabulary, 8192 // scale, [512 // scale] * 32),
        "prompt 3000, 16 answers of 200 to 1800": single_turn(vocabulary, 3000 // scale, uneven),
        "8 agents, system 2048, 10 turns of 64 + 128": agents(vocabulary, 2048 // scale, *turns, 8),
        "the same, parting at turns 3, 5 and 7": agents(vocabulary, 2048 // scale, *turns, 8, (3, 5, 7)),
    }


def compared(trainer, shape, ways, prompt, repeats):
    """Each way of computing one group: its tokens, its seconds, and what sharing should save and saves."""
    parameters = sum(p.numel() for p in trainer.decoder.parameters()) - shape.vocabulary * shape.hidden
    trained = sum(int(r.trained.sum()) for r in ways["rows"])
    made = {"rows": (ways["rows"], flat), "prompts": (ways["rows"], sharing(prompt)), "forest": (ways["rows"], forest_of)}
    if ways["calls"] is not ways["rows"]:
        made = {"calls": (ways["calls"], flat), **made}
    entry = {}
    for way, (rows, built) in made.items():
        forest = built([r.ids for r in rows])
        fits = way != "calls" and sum(len(r) for r in ways["rows"]) <= FITS
        trainer.optimisation = replace(trainer.optimisation, recompute="all but attention" if fits else "everything")
        seconds = timed(trainer, rows, built, repeats)
        entry[way] = {"tokens": len(forest), "seconds": seconds, "cost": cost(shape, parameters, forest, trained)}
    for way in [way for way in entry if way != "forest"]:
        entry[way]["speedup"] = entry[way]["seconds"] / entry["forest"]["seconds"]
        entry[way]["formula"] = entry[way]["cost"] / entry["forest"]["cost"]
        entry[way]["share_of_formula"] = entry[way]["speedup"] / entry[way]["formula"]
    return entry


def masked_by(device):
    """What computes attention with a forest's mask."""
    if device.type != "cuda":
        return "a dense mask"
    with_flash = has_flash(torch.bfloat16, QWEN.heads, QWEN.kv_heads, QWEN.head)
    return f"flash-attn-4 {version('flash-attn-4')}" if with_flash else f"FlexAttention of torch {torch.__version__}"


def lines(exact, work):
    """Seconds each, and how much of what the formula promises over merged rows came true."""
    yield Line("largest difference to rows in fp64, loss", exact["loss"])
    yield Line("the same, any gradient", exact["gradients"])
    told = {"calls": "a row a call", "rows": "merged rows", "prompts": "with shared prompts"}
    for name, entry in work.items():
        others = {told[way]: f"{each['seconds']:.3f}" for way, each in entry.items() if way != "forest"}
        yield Line(f"{name}: seconds", f"{entry['forest']['seconds']:.3f}", others)
        gains = {told[way]: f"{each['speedup']:.2f} of {each['formula']:.2f}" for way, each in entry.items() if way != "forest"}
        yield Line("times faster than each, of the formula's", "", gains)
        yield Line("the share of it, over merged rows", entry["rows"]["share_of_formula"], target=">= 0.9")


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--table", help="write this section of README.md")
    options = parser.parse_args()
    device = torch.device(options.device)
    big = device.type == "cuda"
    shape = QWEN if big else SMALL
    torch.manual_seed(0)
    with device:
        decoder = Decoder(shape)
    trainer = Trainer(decoder.to(torch.bfloat16 if big else torch.float32), Optimisation(tokens=sys.maxsize))
    exact, work = exactness(device), {}
    for name, (ways, prompt) in shapes(shape.vocabulary, 1 if big else 16).items():
        work[name] = compared(trainer, shape, ways, prompt, options.repeats)
        say(f"{name}: {work[name]}")
    ratios = {
        f"{name}, over {way}": each["speedup"] for name, entry in work.items() for way, each in entry.items() if way != "forest"
    }
    ours = {"exact_fp64": exact, "work": work, "masked_by": masked_by(device)}
    told = [Line("attention with a mask by", ours["masked_by"]), *lines(exact, work)]
    publish(Report(options.table or NAME, ours, {}, ratios, told), write_table=options.table is not None)


if __name__ == "__main__":
    main()
