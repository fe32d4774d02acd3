"""What an update costs besides forward and backward: the optimiser's step, and the weights' way into the engine.

    make bench NAME=train_update      the Qwen3-0.6B shape on a GPU (needs torch, numpy, msgspec)

The trainer's own optimiser, next to the same AdamW as torch computes it by default. Both read weights, gradients and two moments
and write all but the gradients: 28 bytes for each fp32 weight, which the memory's speed bounds.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from forest import QWEN
from report import Report, Row, machine, publish, say
from torch import nn
from train_step import SMALL

from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.lora import merged_state
from sandlot.train.trainer import Optimisation, Trainer

NAME = "train_update"
BYTES = 28
REPEATS = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny sizes, and the table is left alone: does it work?")
    flags = parser.parse_args()
    device = torch.device(flags.device)
    on_gpu = device.type == "cuda"
    shape = replace(SMALL, layers=1) if flags.small else QWEN
    where = machine()
    if on_gpu:
        where["gpu"] = torch.cuda.get_device_name()
    torch.manual_seed(0)
    with device:
        trainer, sampled = Trainer(Decoder(shape), Optimisation()), Decoder(shape)
    default = torch.optim.AdamW(trainer.parameters, lr=1e-5, betas=(0.9, 0.95), weight_decay=0.0)
    for parameter in trainer.parameters:
        parameter.grad = torch.randn_like(parameter)
    count = sum(parameter.numel() for parameter in trainer.parameters)

    ours = {
        "weights": count,
        "step": measured(trainer.optimiser.step, device),
        "norm": measured(lambda: nn.utils.clip_grad_norm_(trainer.parameters, 1.0), device),
        "hand_over": measured(lambda: hand_over(trainer.decoder, sampled), device),
    }
    peers = {"torch's default": {"step": measured(default.step, device)}}
    say(f"{ours} {peers}")
    other = peers["torch's default"]["step"]
    ours["step"]["gb_per_s"] = BYTES * count / ours["step"]["ms"] / 1e6
    rows = [
        Row("weights, millions", count / 1e6),
        Row("AdamW, ms", ours["step"]["ms"], {"torch's default": other["ms"]}),
        Row("GB per second of what it must read and write", ours["step"]["gb_per_s"]),
        Row("GiB it needs besides", ours["step"]["gib"], {"torch's default": other["gib"]}),
        Row("the gradient's norm, ms", ours["norm"]["ms"]),
        Row("weights to the engine, ms", ours["hand_over"]["ms"]),
    ]
    ratios = {"AdamW, times as fast as torch's default": other["ms"] / ours["step"]["ms"]}
    publish(Report(f"{NAME}-cuda", ours, peers, ratios, rows, where), write_table=on_gpu and not flags.small)


@torch.no_grad()
def hand_over(learned: Decoder, sampled: Decoder) -> None:
    """What publishing does between two steps of the engine."""
    weights = merged_state(learned)
    for name, tensor in sampled.state_dict().items():
        tensor.copy_(weights[name])


def measured(act: Callable[[], Any], device: torch.device) -> dict[str, float]:
    """The median of its milliseconds, and the memory it took for a time."""
    on_gpu = device.type == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    act()  # allocates the moments
    wait()
    before = torch.cuda.memory_allocated() if on_gpu else 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        act()
        wait()
        seconds.append(time.perf_counter() - started)
    peak = (torch.cuda.max_memory_allocated() - before) / 2**30 if on_gpu else 0.0
    return {"ms": statistics.median(seconds) * 1e3, "gib": peak}


if __name__ == "__main__":
    main()
