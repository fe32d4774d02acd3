"""One training step on rows that share nothing: forward and backward, next to transformers and a plain compiled decoder.

    make bench NAME=train_step                          a small decoder on the CPU
    make bench NAME=train_step ARGS="--device cuda"     the Qwen3-0.6B shape on a GPU (needs torch, numpy, msgspec, transformers)

All compute the same loss on the same rows in one micro-batch: weights in fp32, on a GPU with bf16 autocast, logits of trained
tokens only and in chunks that are recomputed. FLOP are counted as in `forest.py`; what is recomputed is not counted. Memory is
the peak of the step less what the weights held before it.
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from forest import QWEN, cost, examples, flat, row
from report import Report, machine, publish, say
from report import Row as Line
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Shape
from sandlot.train.rows import Row
from sandlot.train.tally import Tally
from sandlot.train.trainer import Optimisation, Trainer

NAME = "train_step"
SMALL = replace(QWEN, vocabulary=4096, hidden=256, layers=6, heads=8, kv_heads=4, head=32, mlp=768)
CHUNK = 2048
Step = Callable[[], Any]


@dataclass(frozen=True)
class Work:
    """Rows of one length: a prompt that is read and an answer that is trained."""

    rows: int
    prompt: int
    answer: int

    @property
    def name(self) -> str:
        return f"{self.rows} rows of {self.prompt} + {self.answer}"

    def build(self, vocabulary: int) -> list[Row]:
        rng = np.random.default_rng(0)
        sizes = ((self.prompt, False), (self.answer, True))
        return [row(rng, n, [(rng.integers(0, vocabulary, size), said) for size, said in sizes]) for n in range(self.rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--skip-peers", action="store_true", help="ours only; the table is left alone")
    flags = parser.parse_args()
    device = torch.device(flags.device)
    big = device.type == "cuda"
    shape = QWEN if big else SMALL
    works = [Work(8, 2048, 2048), Work(16, 512, 512)] if big else [Work(4, 128, 128)]
    figures: dict[str, dict[str, Any]] = {}
    for work in works:
        figures[work.name] = dict(measured(shape, work, device, flags.repeats, peers=not flags.skip_peers))
    where = machine()
    if big:
        where["gpu"] = torch.cuda.get_device_name()
    ratios = {
        f"{work}, {ours} over {peer}": each[ours]["tokens_per_s"] / each[peer]["tokens_per_s"]
        for work, each in figures.items()
        for ours, peer in (
            ("compiled", "transformers"),
            ("compiled, recomputed", "transformers, recomputed"),
            ("compiled", "plain"),
        )
        if peer in each
    }
    table = Report(f"{NAME}-cuda" if big else NAME, figures, {}, ratios, list(lines(figures, ratios)), where)
    publish(table, write_table=not flags.skip_peers)


def measured(
    shape: Shape, work: Work, device: torch.device, repeats: int, *, peers: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each way to compute the step, one after another; nothing of one is left when the next begins."""
    rows = work.build(shape.vocabulary)
    trained = sum(int(r.trained.sum()) for r in rows)
    with torch.device("meta"):
        blocks = sum(p.numel() for p in Decoder(shape).blocks.parameters())
    flop = cost(shape, blocks, flat([r.ids for r in rows]), trained)
    tokens = sum(map(len, rows))
    for name, opened in ways(shape, rows, device, peers=peers).items():
        try:
            figure = timed(opened(), device, repeats)
        except torch.OutOfMemoryError:
            figure = {"seconds": float("nan"), "first_s": float("nan"), "gib": float("nan")}
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        figure["tokens_per_s"], figure["tflops"] = tokens / figure["seconds"], flop / figure["seconds"] / 1e12
        say(f"{work.name}, {name}: {figure}")
        yield name, figure


def ways(shape: Shape, rows: list[Row], device: torch.device, *, peers: bool) -> dict[str, Callable[[], Step]]:
    ours = {
        "plain": Optimisation(compiled=False, tokens=sys.maxsize),
        "compiled": Optimisation(compiled=True, tokens=sys.maxsize),
        "plain, recomputed": Optimisation(compiled=False, recompute="everything", tokens=sys.maxsize),
        "compiled, recomputed but for attention": Optimisation(compiled=True, recompute="all but attention", tokens=sys.maxsize),
        "compiled, recomputed": Optimisation(compiled=True, recompute="everything", tokens=sys.maxsize),
    }
    found: dict[str, Callable[[], Step]] = {
        name: lambda chosen=chosen: own_step(shape, rows, device, chosen) for name, chosen in ours.items()
    }
    if peers:
        found["transformers"] = lambda: transformers_step(shape, rows, device, recompute=False)
        found["transformers, recomputed"] = lambda: transformers_step(shape, rows, device, recompute=True)
        found["a plain decoder, compiled"] = lambda: plain_step(shape, rows, device)
    return found


def timed(step: Step, device: torch.device, repeats: int) -> dict[str, Any]:
    on_gpu = device.type == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    before = torch.cuda.memory_allocated() if on_gpu else 0
    seconds = []
    for number in range(repeats + 2):
        if on_gpu and number == 2:
            torch.cuda.reset_peak_memory_stats()
        wait()
        started = time.perf_counter()
        step()
        wait()
        seconds.append(time.perf_counter() - started)
    peak = (torch.cuda.max_memory_allocated() - before) / 2**30 if on_gpu else float("nan")
    return {"seconds": statistics.median(seconds[2:]), "first_s": seconds[0], "gib": peak}


# -- the ways ------------------------------------------------------------------------------------------------------


def own_step(shape: Shape, rows: list[Row], device: torch.device, optimisation: Optimisation) -> Step:
    torch.manual_seed(0)
    with device:
        trainer = Trainer(Decoder(shape), optimisation)
    batch = examples(rows)

    def step() -> None:
        trainer.optimiser.zero_grad(set_to_none=True)
        trainer._loss(batch, [len(rows)], {"old": None, "reference": None}, Tally()).backward()  # noqa: SLF001 - what an update does, without the optimiser

    return step


def row_loss(head: nn.Module, rows: list[Row], device: torch.device, scored: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    """What turns hidden states `[rows, tokens, hidden]` into the same loss: a clipped ratio on trained tokens."""
    ids = torch.tensor(np.stack([r.ids for r in rows]).astype(np.int64), device=device)
    trained = torch.tensor(np.stack([r.trained for r in rows]), device=device)
    batch = examples(rows)
    signal = torch.tensor(np.stack([e.streams[0].signal for e in batch]), device=device)[trained]
    weight = torch.tensor(np.stack([e.streams[0].weight for e in batch]), device=device)[trained]
    targets = ids[trained]

    def loss(hidden: Tensor) -> Tensor:
        before = hidden[:, :-1][trained[:, 1:]]
        parts = [
            checkpoint(scored, head, before[at : at + CHUNK], targets[at : at + CHUNK], use_reentrant=False)
            for at in range(0, len(targets), CHUNK)
        ]
        logprobs = torch.cat(parts)
        ratio = (logprobs - logprobs.detach()).exp()
        return (-torch.minimum(ratio * signal, ratio.clamp(0.8, 1.28) * signal) * weight).sum()

    return loss


def chunk_scores(head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    logits = head(hidden).float()
    return logits.gather(1, targets[:, None])[:, 0] - torch.logsumexp(logits, -1)


def transformers_step(shape: Shape, rows: list[Row], device: torch.device, *, recompute: bool) -> Step:
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        "qwen3", vocab_size=shape.vocabulary, hidden_size=shape.hidden, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, head_dim=shape.head, intermediate_size=shape.mlp,
        max_position_embeddings=shape.context, rope_theta=shape.rope.theta, tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    torch.manual_seed(0)
    with device:
        model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    if recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    ids = torch.tensor(np.stack([r.ids for r in rows]).astype(np.int64), device=device)
    loss = row_loss(model.lm_head, rows, device, chunk_scores)
    return lambda: run_backward(model, lambda: loss(model.model(input_ids=ids).last_hidden_state), device)


def plain_step(shape: Shape, rows: list[Row], device: torch.device) -> Step:
    """A decoder without forests, adapters or an engine, its layers and its loss compiled: the most this design can give."""
    torch.manual_seed(0)
    with device:
        decoder = Decoder(shape)
    ids = torch.tensor(np.stack([r.ids for r in rows]).astype(np.int64), device=device)
    count, length = ids.shape
    cos, sin = (x[:, 0] for x in decoder.angles(torch.arange(length, device=device), torch.float32))

    def turned(x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    def layer(block: Any, x: Tensor) -> Tensor:
        heads = block.qkv(block.before_attention(x)).view(count, length, -1, shape.head).transpose(1, 2)
        q, k, v = heads.split((shape.heads, shape.kv_heads, shape.kv_heads), dim=1)
        q, k = turned(block.q_norm(q)).to(v.dtype), turned(block.k_norm(k)).to(v.dtype)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + block.output(out.transpose(1, 2).flatten(2))
        gate, up = block.gate_up(block.before_mlp(x)).chunk(2, dim=-1)
        return x + block.down(F.silu(gate) * up)

    fused, scored = torch.compile(layer, dynamic=False), torch.compile(chunk_scores, dynamic=False)
    loss = row_loss(decoder.head, rows, device, scored)

    def hidden() -> Tensor:
        x = decoder.embedding(ids)
        for block in decoder.blocks:
            x = fused(block, x)
        return decoder.norm(x)

    return lambda: run_backward(decoder, lambda: loss(hidden()), device)


def run_backward(model: nn.Module, loss: Callable[[], Tensor], device: torch.device) -> None:
    model.zero_grad(set_to_none=True)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        value = loss()
    value.backward()


# -- the table -----------------------------------------------------------------------------------------------------


def lines(figures: dict[str, dict[str, Any]], ratios: dict[str, float]) -> Iterator[Line]:
    for work, each in figures.items():
        for ours, others in (("compiled", ("plain", "transformers", "a plain decoder, compiled")),
                             ("compiled, recomputed but for attention", ()),
                             ("compiled, recomputed", ("plain, recomputed", "transformers, recomputed"))):  # fmt: skip
            beside = {other.removesuffix(", recomputed"): other for other in others if other in each}
            for unit, words in (("tokens_per_s", "tokens per second"), ("tflops", "TFLOP/s"), ("gib", "GiB of the step")):
                peers = {name: round(each[other][unit], 3) for name, other in beside.items()}
                if each[ours][unit] == each[ours][unit]:
                    yield Line(f"{work}{ours.removeprefix('compiled')}: {words}", round(each[ours][unit], 3), peers)
        yield Line(f"{work}: seconds of the first step", each["compiled"]["first_s"], {"plain": each["plain"]["first_s"]})
    for name, ratio in ratios.items():
        yield Line(name, round(ratio, 2), target=">= 1.9" if name.endswith("compiled over transformers") else "")


if __name__ == "__main__":
    main()
