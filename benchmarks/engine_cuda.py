"""The engine on one CUDA device next to transformers' continuous batching. Needs torch, numpy, transformers; nothing else.

Qwen3-0.6B's shape with random weights: speed does not depend on what they say.
"""

import gc
import time
from typing import Any, get_args

import torch
from engine_load import Agents, Flat, play_agents, play_flat, play_update
from report import Row, say

from sandlot.model.engine.blocks import KvDtype
from sandlot.model.engine.cache import KVCache
from sandlot.model.engine.cuda import CudaRunner
from sandlot.model.engine.engine import Engine
from sandlot.model.engine.kernels import draw
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Rope, Shape, config_of

SHAPE = Shape(
    family="qwen3", vocabulary=151_936, hidden=1024, layers=28, heads=16, kv_heads=8, head=128, mlp=3072, context=40_960,
    rope=Rope(theta=1_000_000.0), tied=True, qk_norm=True,
)  # fmt: skip
BANDWIDTH = 4.3e12
"""Bytes a second that a copy reaches on an H200."""
MATRIX = 790e12
"""FLOP/s of a bf16 matrix product of 8192 x 8192 x 8192 on an H200."""
BLOCK = 64
DECODING = (Flat(1, 512, 64), Flat(8, 512, 64), Flat(32, 512, 64), Flat(1, 32_000, 32), Flat(8, 32_000, 32))
"""Loads whose decoding steps are timed beside the main one's."""
EIGHT_BITS = (Flat(256, 512, 64), Flat(8, 32_000, 32), Flat(16, 32_000, 32))
"""Loads whose decoding steps are timed with each type that keys and values can be stored in."""
PROMPTS = (Flat(64, 512, 1), Flat(8, 4096, 1), Flat(1, 32_768, 1))


def measured(*, small: bool, skip_peers: bool) -> tuple[dict[str, Any], dict[str, Any], dict[str, float], list[Row]]:
    """(ours, peers, ratios, rows) of the CUDA half."""
    load = Flat(32, 128, 32) if small else Flat(256, 512, 256)
    agents = Agents(groups=2, turns=3, system=512) if small else Agents()
    decoder = new_decoder()
    ours: dict[str, Any] = {"load": vars_of(load)}
    context = max(load.tokens_in + load.tokens_out, agents.context)
    runner = new_runner(decoder, load.requests, context)
    play_flat(_engine(runner, load.requests, context), Flat(load.requests, load.tokens_in, 8))  # compile and record
    cost = play_flat(_engine(runner, load.requests, context), load)
    ours["flat"] = {**cost.figures(), **_roofline(decoder, cost.decoding)}
    say(f"flat: {ours['flat']}")
    if not small:
        ours["decoding"] = [_decoding(decoder, each) for each in DECODING]
        ours["stored"] = [_decoding(decoder, each, stored) for each in EIGHT_BITS for stored in get_args(KvDtype)]
        ours["prompts"] = [_prompts(decoder, each) for each in PROMPTS]
    for name, share in (("agents", True), ("agents_without_tree", False)):
        ours[name] = play_agents(_engine(runner, load.requests, context, share=share), agents)
        say(f"{name}: {ours[name]}")
    ours["update"] = play_update(_engine(runner, load.requests, context), load, _put(decoder))
    say(f"update: {ours['update']}")
    del runner
    peers = {} if skip_peers else {"transformers": _transformers(decoder, load)}
    return ours, peers, *_summary(ours, peers)


def vars_of(load: Flat) -> dict[str, int]:
    return {"requests": load.requests, "tokens_in": load.tokens_in, "tokens_out": load.tokens_out}


def new_decoder() -> Decoder:
    torch.manual_seed(0)
    with torch.device("cuda"):
        decoder = Decoder(SHAPE).to(torch.bfloat16)
    with torch.no_grad():
        for weight in decoder.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.02)
    return decoder.requires_grad_(requires_grad=False)


def _free_memory() -> None:
    """Free runners that are over: graphs and what recorded them hold each other."""
    gc.collect()
    torch.cuda.empty_cache()


def new_runner(decoder: Decoder, max_batch: int, context: int, stored: KvDtype = "same") -> CudaRunner:
    _free_memory()
    most = 64 * 2**30 // KVCache.block_bytes(SHAPE, BLOCK, torch.bfloat16, stored)
    blocks = min(most, max_batch * -(-context // BLOCK))
    return CudaRunner(decoder, blocks=blocks, block_size=BLOCK, max_batch=max_batch, max_context=context, kv_dtype=stored)


def _engine(runner: CudaRunner, max_batch: int, context: int, *, share: bool = True) -> Engine:
    return Engine(runner, blocks=runner.scratch, context=context, max_batch=max_batch, chunk=32768, share=share, pick=draw)


def _roofline(decoder: Decoder, decoding: list[tuple[float, int]], stored: KvDtype = "same") -> dict[str, float]:
    """What reading all weights and all KV once a step would take, of what the steps took."""
    weights = sum(weight.numel() * weight.element_size() for weight in decoder.parameters())
    per_token = KVCache.block_bytes(SHAPE, 1, torch.bfloat16, stored)
    steady = decoding[len(decoding) // 10 :]
    least = sum((weights + tokens * per_token) / BANDWIDTH for _, tokens in steady)
    took = sum(seconds for seconds, _ in steady)
    return {"decode_step_ms": round(took / len(steady) * 1e3, 3), "roofline_share": round(least / took, 4)}


def _decoding(decoder: Decoder, load: Flat, stored: KvDtype = "same") -> dict[str, Any]:
    """The decoding steps of a load."""
    context = load.tokens_in + load.tokens_out + 8 * BLOCK
    runner = new_runner(decoder, load.requests, context, stored)
    play_flat(_engine(runner, load.requests, context), Flat(load.requests, load.tokens_in, 8))  # compile and record
    cost = play_flat(_engine(runner, load.requests, context), load)
    figures = {"load": vars_of(load), "stored": stored, **_roofline(decoder, cost.decoding, stored)}
    say(f"decoding: {figures}")
    return figures


def _prompts(decoder: Decoder, load: Flat) -> dict[str, Any]:
    """Prompts alone: the best of three after two to warm up, as FLOP/s of what their matrix products and attention need."""
    context = load.tokens_in + 8 * BLOCK
    runner = new_runner(decoder, load.requests, context)
    tokens = load.requests * load.tokens_in
    took = min([play_flat(_engine(runner, load.requests, context), load).wall_s for _ in range(5)][2:])
    layers = sum(weight.numel() for weight in decoder.blocks.parameters())
    pairs = tokens * (load.tokens_in + 1) / 2
    attention = 4 * SHAPE.layers * SHAPE.heads * SHAPE.head * pairs
    flops = 2 * layers * tokens + attention + 2 * load.requests * SHAPE.vocabulary * SHAPE.hidden
    figures = {
        "load": vars_of(load),
        "tokens_per_s": round(tokens / took),
        "tflops": round(flops / took / 1e12, 1),
        "share": round(flops / took / MATRIX, 3),
    }
    say(f"prompts: {figures}")
    return figures


def _put(decoder: Decoder) -> Any:
    """New weights that already lie on the device: what is measured is the engine's pause."""
    fresh = [weight.detach().clone() for weight in decoder.parameters()]

    def put() -> None:
        with torch.no_grad():
            for weight, new in zip(decoder.parameters(), fresh, strict=True):
                weight.copy_(new)
        torch.cuda.synchronize()

    return put


def _transformers(decoder: Decoder, load: Flat) -> dict[str, Any]:
    import transformers
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    del decoder
    _free_memory()
    config = AutoConfig.for_model(**config_of(SHAPE))
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    settings = GenerationConfig(max_new_tokens=load.tokens_out, do_sample=True, temperature=1.0, eos_token_id=-1, pad_token_id=0)
    model.generate_batch(
        inputs=load.prompts()[:4], generation_config=GenerationConfig(**{**settings.to_dict(), "max_new_tokens": 4})
    )
    begun = time.perf_counter()
    answers = model.generate_batch(inputs=load.prompts(), generation_config=settings)
    seconds = time.perf_counter() - begun
    tokens = sum(len(answer.generated_tokens) for answer in answers.values())
    figures = {"version": transformers.__version__, "tokens": tokens, "tokens_per_s": round(tokens / seconds, 1)}
    say(f"transformers: {figures}")
    return figures


def _said(figures: dict[str, Any]) -> str:
    load = figures["load"]
    return f"{load['requests']} x {load['tokens_in']} tokens"


def _summary(ours: dict[str, Any], peers: dict[str, Any]) -> tuple[dict[str, float], list[Row]]:
    flat, agents, without, update = (ours[name] for name in ("flat", "agents", "agents_without_tree", "update"))
    load = ours["load"]
    theirs = {name: peer["tokens_per_s"] for name, peer in peers.items()}
    ratios = {f"times_{name}": round(flat["tokens_per_s"] / speed, 2) for name, speed in theirs.items()}
    ratios["tree_on_to_off"] = round(agents["tokens_per_s"] / without["tokens_per_s"], 2)
    rows = [
        Row(
            f"tokens per second, {load['requests']} x ({load['tokens_in']} in + {load['tokens_out']} out)",
            flat["tokens_per_s"],
            theirs,
        ),
        Row("times transformers, end to end", ratios.get("times_transformers", ""), target=">= 32"),
        Row("decoding, share of the bandwidth roofline", flat["roofline_share"], target=">= 0.8"),
        Row("decoding, ms a step", flat["decode_step_ms"]),
        *(
            Row(f"the same at {_said(each)}: share, ms", f"{each['roofline_share']:.3f}, {each['decode_step_ms']:.2f}")
            for each in ours.get("decoding", ())
        ),
        *(
            Row(
                f"keys and values as {each['stored']}, {_said(each)}: share, ms",
                f"{each['roofline_share']:.3f}, {each['decode_step_ms']:.2f}",
            )
            for each in ours.get("stored", ())
        ),
        *(Row(f"prompts, {_said(each)}: tokens per second", each["tokens_per_s"]) for each in ours.get("prompts", ())),
        *(
            Row(f"prompts, {_said(each)}: share of the matrix-product rate", each["share"], target=">= 0.6")
            for each in ours.get("prompts", ())
        ),
        Row("agents with the prefix tree, tokens per second", agents["tokens_per_s"]),
        Row("the same without it", without["tokens_per_s"]),
        Row("prefix hits, share of the ideal", agents["hits_of_ideal"], target=">= 0.9"),
        Row("requests lost in a weight update under load", update["lost"], target="0"),
        Row("weight update: ms in which no step runs", update["update_ms"]),
        Row("weight update: ms until a next token", update["first_token_after_ms"]),
        Row("weight update: ms until everyone decodes again", update["all_running_again_after_ms"]),
    ]
    return ratios, rows
