"""Guesses on a CUDA device: milliseconds of a pass with 0, 1, 3 and 7 of them, and tokens per second. Needs torch, numpy and
safetensors; nothing else.

Qwen3-0.6B's shape. A random model's siblings agree in nothing, so this one is made to write what is known before: the rows of its
head are the embeddings of the tokens before them, large enough that what the layers add does not matter. So after any token comes
the next one of the vocabulary. Groups of 8 requests have one prompt, with KV of their own, and a sibling that has written
everything before them. A set share of what is then found is replaced by another token: so a guess is right with that chance if
those before it are. Everything else is the engine's own: looking for guesses, the choice of how many, passes, drawing, learning.
"""

# ruff: noqa: SLF001 - what is guessed, and how many, is set inside of the engine

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from engine_cuda import SHAPE, new_runner
from engine_load import Flat
from report import Row, say

from sandlot.model.engine.cuda import CudaRunner
from sandlot.model.engine.engine import Engine
from sandlot.model.engine.kernels import draw
from sandlot.model.engine.request import Request
from sandlot.model.engine.siblings import NUM_KINDS, WIDTHS, Guess, Siblings
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Shape

BATCHES = (1, 8, 32, 256)
GUESSES = (0, 1, 3, 7)
SHARES = (0.6, 0.8)
"""The chance of a guess, if those before it are right. On the CPU `rookie` had 0.59 to 0.77 of all guesses accepted."""
MEMBERS, TOKENS_IN, TOKENS_OUT = 8, 512, 320
WARM, PASSES = 14, 32
ENOUGH_S = 33.0
"""No way of a load is begun later than this after the start: it must end in 40 seconds."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the passes of one way took; those in which a graph was recorded are left out."""

    passes: int
    pass_ms: float
    host_ms: float
    """Of these, for looking for guesses and learning."""
    tokens_per_s: float
    tokens_per_pass: float
    """For each request."""
    accepted: float
    """Of what was guessed."""


class Taught(Siblings):
    """Siblings of which one has written everything before the others; some of what is found is made wrong."""

    def __init__(self, share: float, most: int | None) -> None:
        super().__init__()
        self._share, self._most = share, most
        self._dice = np.random.default_rng(0)
        self._taught: set[bytes] = set()

    def join(self, prompt: bytes, session: str = "") -> bytes:
        name = super().join(prompt, session)
        if name not in self._taught:
            self._taught.add(name)
            last = int.from_bytes(prompt[-4:], "little")
            written = np.arange(last + 1, last + 1 + TOKENS_OUT, dtype=np.int32)
            self.learn(name, prompt[-WIDTHS[0] :] + written.tobytes(), TOKENS_OUT)
        return name

    def guess(self, name: bytes, spelled: bytes, most: int, *rest: Any) -> Guess:
        found = super().guess(name, spelled, most if self._most is None else min(most, self._most), *rest)
        wrong = self._dice.random(len(found.tokens)) >= self._share
        return Guess([token + 13 * int(off) for token, off in zip(found.tokens, wrong, strict=True)], found.kinds)


class Free:
    """In place of the time of a pass and of rates: guesses cost nothing and are right, so that all that are found are checked."""

    def of(self, tokens: Any) -> Any:
        return np.ones(len(tokens))

    def current(self) -> list[float]:
        return [1.0] * NUM_KINDS

    def note(self, *_: Any, **__: Any) -> None:
        pass

    def age(self) -> None:
        pass


def measured() -> tuple[dict[str, Any], dict[str, Any], dict[str, float], list[Row]]:
    """(ours, without guesses, ratios, rows)."""
    begun = time.perf_counter()

    def tell(what: object) -> None:
        say(f"{time.perf_counter() - begun:5.1f} s: {what}")

    decoder = counting_decoder(SHAPE, torch.device("cuda"))
    tell("made the model")
    ours: dict[str, Any] = {}
    off: dict[str, Any] = {}
    for batch in BATCHES:
        load = Flat(batch, TOKENS_IN, TOKENS_OUT)
        runner = new_runner(decoder, batch, TOKENS_IN + TOKENS_OUT)
        ways: dict[str, Callable[[Engine], None] | None] = {"off": None}
        ways |= {f"{most} guesses": (lambda it, most=most: _force(it, most)) for most in GUESSES}
        ways |= {f"share {share}": (lambda it, share=share: _teach(it, share)) for share in SHARES}
        for way, prepare in ways.items():
            if time.perf_counter() - begun > ENOUGH_S:
                tell(f"left out, since it has taken long: batch {batch}, {way}")
                continue
            found = played(runner, load, prepare)
            if prepare is None:
                off[f"batch {batch}"] = found
            else:
                ours.setdefault(f"batch {batch}", {})[way] = found
            tell(f"batch {batch}, {way}: {found}; {len(runner._graphs) + len(runner._guessed_graphs)} graphs")
        del runner
    return _summary(ours, off)


def counting_decoder(shape: Shape, device: torch.device) -> Decoder:
    """After any token it writes the next one of the vocabulary."""
    torch.manual_seed(0)
    with device:
        decoder = Decoder(replace(shape, tied=False)).to(torch.bfloat16 if device.type == "cuda" else torch.float32)
    with torch.no_grad():
        for weight in decoder.parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.02)
        decoder.head.weight.copy_(decoder.embedding.weight.roll(1, 0) * (1024 / shape.hidden))
        decoder.embedding.weight.mul_(400.0)
    return decoder.requires_grad_(requires_grad=False)


def _teach(it: Engine, share: float, most: int | None = None) -> None:
    assert it._speculation is not None
    it._speculation._siblings = Taught(share, most)


def _force(it: Engine, most: int) -> None:
    """Check so many guesses of every request in every pass, if they pay or not."""
    _teach(it, SHARES[0], most)
    free: Any = Free()
    assert it._speculation is not None
    it._speculation._time = it._speculation._rates = free
    it._speculation._most = max(1, most) * len(it._seats.taken)


def played(runner: CudaRunner, load: Flat, prepare: Callable[[Engine], None] | None) -> Found:
    """Passes in which every request decodes: with guesses as prepared, or without any and launched ahead."""
    it = Engine(
        runner,
        blocks=runner.scratch,
        context=load.tokens_in + load.tokens_out,
        max_batch=load.requests,
        chunk=32768,
        share=False,
        pick=draw,
        speculate="off" if prepare is None else "siblings",
    )
    host = [0.0]
    if prepare is not None:
        prepare(it)
        it._speculation.extend = _timed(it._speculation.extend, host)
        it._speculation.learn = _timed(it._speculation.learn, host)
    prompts = Flat(-(-load.requests // MEMBERS), load.tokens_in, 1).prompts()
    asked = [
        it.submit(Request(ids=prompts[number // MEMBERS], max_tokens=load.tokens_out, seed=number, temperature=0.5))
        for number in range(load.requests)
    ]
    for _ in range(-(-load.requests * load.tokens_in // 32768) + WARM):
        it.step()
    steps: list[tuple[float, float, int]] = []
    counted = it.gauges
    guessed, accepted = counted.num_guessed, counted.num_accepted
    for _ in range(PASSES):
        graphs, sampled = len(runner._graphs) + len(runner._guessed_graphs), counted.num_sampled
        host[0], began = 0.0, time.perf_counter()
        if it.step():
            raise RuntimeError(f"a request of {load} has ended; the figures would be of fewer")
        took = time.perf_counter() - began
        if len(runner._graphs) + len(runner._guessed_graphs) == graphs:
            steps.append((took, host[0], counted.num_sampled - sampled))
    _check_text(it, prompts)
    for number in asked:
        it.cancel(number)
    it.step()
    took, in_host, sampled = (list(each) for each in zip(*steps, strict=True))
    guessed, accepted = counted.num_guessed - guessed, counted.num_accepted - accepted
    return Found(
        len(steps),
        round(statistics.median(took) * 1e3, 3),
        round(statistics.median(in_host) * 1e3, 3),
        round(sum(sampled) / sum(took), 1),
        round(sum(sampled) / load.requests / len(steps), 2),
        round(accepted / guessed, 2) if guessed else 0.0,
    )


def _timed(call: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    def timed(*given: Any) -> Any:
        began = time.perf_counter()
        found = call(*given)
        spent[0] += time.perf_counter() - began
        return found

    return timed


def _check_text(it: Engine, prompts: list[list[int]]) -> None:
    """Every request must have written what the load says, or guesses were not right as often as it says."""
    lasts = {prompt[-1] for prompt in prompts}
    for sequence in it._seats:
        first, total = sequence.num_prompt, int(it._seats.totals[sequence.seat])
        text = it._seats.ids[sequence.seat, first - 1 : total].tolist()
        if text[0] not in lasts or text != list(itertools.islice(itertools.count(text[0]), len(text))):
            raise RuntimeError(f"the model wrote {text[:8]} and not the tokens in their order")


def _summary(ours: dict[str, Any], off: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, float], list[Row]]:
    rows: list[Row] = []
    ratios: dict[str, float] = {}
    for what, ways in ours.items():
        load = f"{what}, {TOKENS_IN} tokens"
        forced = {way: found for way, found in ways.items() if "guesses" in way}
        columns = {way: f"{found.pass_ms:.2f}" for way, found in forced.items()}
        host = {"of it on the host": f"{list(forced.values())[-1].host_ms:.2f}"} if forced else {}
        rows.append(
            Row(f"{load}: ms of a pass launched ahead, then in turn with guesses", f"{off[what].pass_ms:.2f}", columns | host)
        )
        for way, found in ways.items():
            if way not in forced:
                ratio = ratios[f"{what}, {way}"] = round(found.tokens_per_s / off[what].tokens_per_s, 2)
                rows.append(
                    Row(
                        f"{load}: tokens per second, guesses right with {way.partition(' ')[2]}",
                        found.tokens_per_s,
                        {
                            "without guesses": off[what].tokens_per_s,
                            "ratio": f"{ratio:.2f}",
                            "tokens per pass": f"{found.tokens_per_pass:.2f}",
                            "accepted of guessed": f"{found.accepted:.2f}",
                            "of it on the host": f"{found.host_ms:.2f} of {found.pass_ms:.2f} ms",
                        },
                    )
                )
    plain = {what: {way: _figures(found) for way, found in ways.items()} for what, ways in ours.items()}
    return plain, {"off": {what: _figures(found) for what, found in off.items()}}, ratios, rows


def _figures(found: Found) -> dict[str, float]:
    return {name: getattr(found, name) for name in Found.__slots__}
