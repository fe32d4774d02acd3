"""Several adapters in one batch on a CUDA device, next to none. Needs torch, numpy and safetensors; nothing else.

Qwen3-0.6B's shape with random weights: speed does not depend on what they say.
"""

import statistics
import time
from typing import Any

import torch
from adapters import COUNTS, RANK
from engine_cuda import BLOCK, new_decoder, new_runner
from engine_load import Flat
from report import Row, say

from sandlot.model.engine.cuda import CudaRunner
from sandlot.model.engine.engine import Engine
from sandlot.model.engine.kernels import draw
from sandlot.model.engine.request import Request
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.mixed import AdapterWeights

DECODING = (Flat(1, 512, 64), Flat(8, 512, 64), Flat(32, 512, 64), Flat(256, 512, 64))
PROMPTS = Flat(64, 512, 1)


def measured() -> tuple[dict[str, Any], dict[str, Any], dict[str, float], list[Row]]:
    """(ours, the base model's, ratios, rows)."""
    decoder = new_decoder()
    adapters = [random_adapter(decoder, seed) for seed in range(max(COUNTS))]
    ours: dict[str, Any] = {}
    base: dict[str, Any] = {}
    rows: list[Row] = []
    for load in (*DECODING, PROMPTS):
        is_prompts = load.tokens_out == 1
        runner = new_runner(decoder, load.requests, load.tokens_in + load.tokens_out + 8 * BLOCK)
        found = {count: played(runner, load, adapters[:count]) for count in COUNTS}
        what = f"{'prompts' if is_prompts else 'decoding'}, {load.requests} x {load.tokens_in} tokens: ms"
        say(f"{what}: {found}")
        ours[what] = {str(count): found[count] for count in COUNTS[1:]}
        base[what] = found[0]
        times = {f"{count} adapters": f"{found[count]:.2f}" for count in COUNTS[1:]}
        ratios = {f"{count} adapters / base": f"{found[0] / found[count]:.2f}" for count in COUNTS[1:]}
        rows.append(Row(f"{what} of the base model, then with adapters", f"{found[0]:.2f}", times | ratios))
    ratios = {f"{what}, {count}": base[what] / took for what, each in ours.items() for count, took in each.items()}
    return ours, {"base": base}, ratios, rows


def random_adapter(decoder: Decoder, seed: int) -> AdapterWeights:
    """One on every linear layer, small enough that the model still samples."""
    chance = torch.Generator().manual_seed(seed)
    linears: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for name, each in decoder.blocks.named_modules():
        if isinstance(each, torch.nn.Linear):
            rows = RANK * {"qkv": 3, "gate_up": 2}.get(name.rpartition(".")[2], 1)  # a layer of several has as many parts
            linears[f"blocks.{name}"] = (
                torch.randn(rows, each.in_features, generator=chance) * 0.01,
                torch.randn(rows, each.out_features, generator=chance) * 0.01,
            )
    return AdapterWeights(RANK, linears)


def played(runner: CudaRunner, load: Flat, adapters: list[AdapterWeights]) -> float:
    """Milliseconds: the median decoding step, or all prompts at best of three."""
    took: list[float] = []
    for _ in range(4 if load.tokens_out == 1 else 2):  # the first compiles and records
        steps = _steps(runner, load, adapters)
        took.append(sum(steps) if load.tokens_out == 1 else statistics.median(steps[2:]))
    return min(took[1:]) * 1e3


def _steps(runner: CudaRunner, load: Flat, adapters: list[AdapterWeights]) -> list[float]:
    context = load.tokens_in + load.tokens_out + 8 * BLOCK
    engine = Engine(runner, blocks=runner.scratch, context=context, max_batch=load.requests, chunk=32768, pick=draw)
    for number, weights in enumerate(adapters):
        engine.load_adapter(str(number), weights)
    for number, ids in enumerate(load.prompts()):
        adapter = str(number % len(adapters)) if adapters else ""
        engine.submit(Request(ids=ids, max_tokens=load.tokens_out, seed=number, adapter=adapter))
    torch.cuda.synchronize()
    steps: list[float] = []
    while not engine.is_idle:
        began = time.perf_counter()
        engine.step()
        steps.append(time.perf_counter() - began)
    return steps
