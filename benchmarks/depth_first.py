"""Forests over the token budget: computed whole, cut into forests that fit, and depth first; seconds, memory, gradients.

    make bench NAME=depth_first                              a small decoder on the CPU
    make bench NAME=depth_first ARGS="--device cuda"         the Qwen3-0.6B shape on a GPU (needs torch, numpy and msgspec)

Depth first computes every token once more, some a third time, and shared ones no more than that; a cut computes shared ones again
in every forest, forward and back. The trainer takes what is less work.
"""

import argparse
import statistics
import sys
import time

import torch
from forest import QWEN, SMALL, agents, single_turn
from report import Report, Row, publish, say

from sandlot.model.nn.decoder import Decoder
from sandlot.train.forest.depth_first import pieces_of
from sandlot.train.forest.forest import cut_rows, forest_of
from sandlot.train.forest.forward import forward_rows

NAME = "depth_first"


def shapes(vocabulary, scale):
    """Groups, and the budget of each, made smaller by a factor."""
    answers, turns = [512 // scale] * 64, (20, 128 // scale, 256 // scale)
    return {
        "prompt 8192, 64 answers of 512": (single_turn(vocabulary, 8192 // scale, answers), 10240 // scale),
        "4 agents, system 2048, 20 turns of 128 + 256": (agents(vocabulary, 2048 // scale, *turns, 4), 8192 // scale),
    }


def computed(decoder, rows, budget):
    """Loss and gradients of these rows, the forest in pieces where it is over the budget."""
    logprobs = forward_rows(decoder, rows, tokens=budget, recompute="everything").logprobs
    loss = logprobs.sum() / 1000  # a curved function of them would magnify the rounding of bf16
    loss.backward()


def measured(decoder, work, repeats):
    """Median seconds, the most GiB of a GPU beyond what was there before, and the gradients."""
    device = decoder.embedding.weight.device

    def once():
        decoder.zero_grad(set_to_none=True)
        for rows, budget in work:
            computed(decoder, rows, budget)
        if device.type == "cuda":
            torch.cuda.synchronize()

    once()
    before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - started)
    peak = (torch.cuda.max_memory_allocated() - before) / 2**30 if device.type == "cuda" else None
    gradients = torch.cat([p.grad.detach().float().flatten().cpu() for p in decoder.parameters() if p.grad is not None])
    return {"seconds": statistics.median(seconds), "peak_gib": peak}, gradients


def compared(decoder, rows, budget, repeats):
    """The three ways."""
    ids = [row.ids for row in rows]
    forest = forest_of(ids)
    ways = {
        "whole": [(rows, sys.maxsize)],
        "cut": [([rows[number] for number in cut.rows], sys.maxsize) for cut in cut_rows(ids, budget)],
        "depth first": [(rows, budget)],
    }
    entry = {"tokens": len(forest), "budget": budget, "pieces": len(pieces_of(forest, budget)), "cuts": len(ways["cut"])}
    kept = None
    for way, work in ways.items():
        entry[way], gradients = measured(decoder, work, repeats)
        kept = gradients if kept is None else kept
        entry[way]["apart"] = float((gradients - kept).norm() / kept.norm())
    return entry


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    big = options.device == "cuda"
    shape = QWEN if big else SMALL
    torch.manual_seed(0)
    with torch.device(options.device):
        decoder = Decoder(shape)
    decoder = decoder.to(torch.bfloat16 if big else torch.float32)
    found, lines = {}, []
    for name, ((ways, _), budget) in shapes(shape.vocabulary, 1 if big else 32).items():
        found[name] = entry = compared(decoder, ways["rows"], budget, options.repeats)
        say(f"{name}: {entry}")
        others = {way: entry[way]["seconds"] for way in ("whole", "cut")}
        lines.append(Row(f"{name}: seconds", entry["depth first"]["seconds"], others))
        lines.append(Row("gradients apart, of their norm", entry["depth first"]["apart"], {"cut": entry["cut"]["apart"]}))
    ratios = {name: entry["cut"]["seconds"] / entry["depth first"]["seconds"] for name, entry in found.items()}
    publish(Report(NAME, {"work": found}, {}, ratios, lines), write_table=False)


if __name__ == "__main__":
    main()
