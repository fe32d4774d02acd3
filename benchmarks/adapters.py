"""Tokens per CPU-second of decoding with requests of several adapters in one batch, and of none.

    make bench NAME=adapters
    make bench NAME=adapters ARGS="--device cuda"     ms a step on a GPU (needs torch, numpy and safetensors)

Every request of a batch has an adapter of rank 16 on all linear layers, dealt out in turn; with 0 all are the base model's. The
same short prompts and lengths, one thread, the ways in turn in one process, because the machine has other work; the least
CPU-seconds of each count.
"""

import argparse
import copy
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from report import Report, Row, publish, say

from sandlot.model.engine.engine import Engine
from sandlot.model.engine.request import Request
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.lora import add_adapters, read_adapter, save_adapter
from sandlot.model.nn.mixed import AdapterWeights
from sandlot.model.nn.packed import pack_linears

NAME = "adapters"
COUNTS = (0, 1, 4, 8)
BATCHES = (8, 32)
RANK = 16
BLOCK, CONTEXT, PROMPT = 16, 256, 8
TOKENS = {"rookie": 64, "smollm2": 24}
TIMES = {"rookie": 3, "smollm2": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="tiny sizes, and the table is left alone: does it work?")
    parser.add_argument("--only", choices=tuple(TOKENS), help="one model, and the table is of it alone")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    flags = parser.parse_args()
    if flags.device == "cuda":
        from adapters_cuda import measured as measured_on_gpu

        publish(Report(f"{NAME}-cuda", *measured_on_gpu()), write_table=True)
        return
    from sandlot.model.engine.precision import choose_precision  # a GPU machine may lack what these need
    from sandlot.model.engine.weights import model_folder
    from sandlot.model.nn.folder import load_folder, stored_dtype

    torch.set_num_threads(1)
    rows: list[Row] = []
    ours: dict[str, Any] = {}
    base: dict[str, Any] = {}
    for name in (flags.only,) if flags.only else TOKENS:
        folder = model_folder(name)
        chosen = choose_precision(str(stored_dtype(folder)).removeprefix("torch.")).dtype
        decoder = load_folder(folder, dtype=getattr(torch, chosen))
        adapters = made_adapters(decoder)
        pack_linears(decoder)
        for batch in BATCHES:
            tokens, times = (4, 1) if flags.small else (TOKENS[name], TIMES[name])
            found = measured(decoder, adapters, batch, tokens, times)
            what = f"{name} in {chosen}, batch {batch}"
            say(f"{what}: {found}")
            ours[what] = {str(count): found[count] for count in COUNTS[1:]}
            base[what] = found[0]
            ratios = {f"{count} adapters / base": f"{found[count] / found[0]:.2f}" for count in COUNTS[1:]}
            rates = {f"{count} adapters": found[count] for count in COUNTS[1:]}
            rows.append(Row(f"{what}: tokens per CPU-second of the base model, then with adapters", found[0], rates | ratios))
    ratios = {f"{what}, {count}": rate / base[what] for what, rates in ours.items() for count, rate in rates.items()}
    publish(Report(NAME, ours, {"base": base}, ratios, rows), write_table=not flags.small)


def made_adapters(decoder: Decoder) -> list[AdapterWeights]:
    """Random ones, small enough that the model still samples."""
    made: list[AdapterWeights] = []
    for seed in range(max(COUNTS)):
        adapted = add_adapters(copy.deepcopy(decoder), RANK, seed=seed)
        with torch.no_grad():
            for parameter in adapted.parameters():
                if parameter.requires_grad:
                    parameter.normal_(std=0.01)
        with tempfile.TemporaryDirectory() as folder:
            save_adapter(adapted, Path(folder) / "adapter")
            made.append(read_adapter(Path(folder) / "adapter", decoder.shape, dtype=decoder.embedding.weight.dtype))
    return made


def measured(decoder: Decoder, adapters: list[AdapterWeights], batch: int, tokens: int, times: int) -> dict[int, float]:
    """Tokens per CPU-second by the number of adapters."""
    best: dict[int, float] = {}
    for _ in range(times + 1):  # the first makes kernels
        for count in COUNTS:
            cpu_s = played(decoder, adapters[:count], batch, tokens)
            best[count] = min(cpu_s, best.get(count, cpu_s))
    return {count: batch * tokens / cpu_s for count, cpu_s in best.items()}


def played(decoder: Decoder, adapters: list[AdapterWeights], batch: int, tokens: int) -> float:
    from sandlot.model.engine.local import plain_runner

    blocks = batch * CONTEXT // BLOCK
    engine = Engine(plain_runner(decoder, blocks, BLOCK), blocks=blocks, context=CONTEXT, max_batch=batch, chunk=512)
    for number, weights in enumerate(adapters):
        engine.load_adapter(str(number), weights)
    for number in range(batch):
        adapter = str(number % len(adapters)) if adapters else ""
        ids = [1 + (number * PROMPT + place) % 900 for place in range(PROMPT)]
        engine.submit(Request(ids=ids, max_tokens=tokens, seed=number, adapter=adapter))
    began = time.process_time()
    while not engine.is_idle:
        engine.step()
    return time.process_time() - began


if __name__ == "__main__":
    main()
