"""Which rule of eviction finds most in a cache that is too small: rollouts with turns, in groups, that wait for their tools.

The engine and its prefix tree are the real ones; the model is tiny, since only tokens are counted. Every turn ends with a tool
call that takes a number of engine steps, so that many rollouts wait at any time and their blocks are idle. `perfect` is a cache
that forgets nothing.
"""

import heapq
import sys
from dataclasses import dataclass
from random import Random

import torch
from report import Report, Row, publish, say

from sandlot.model.engine.engine import Engine
from sandlot.model.engine.eviction import EvictionName, eviction_named
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Request
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.shape import Shape

NAME = "eviction"
BLOCK = 16
RULES: tuple[EvictionName, ...] = ("turns", "lru", "cost")
SHAPE = Shape(family="llama", vocabulary=512, hidden=16, layers=1, heads=1, kv_heads=1, head=16, mlp=16, context=4096)
ATTENTION = 1 / 4096
"""Cost of attending to one earlier token, relative to that of a token's matrices; about that of a model of 0.6B parameters."""


@dataclass(frozen=True, slots=True)
class Load:
    """Groups of rollouts; `at_once` of them are under way, each as soon as one before has ended."""

    groups: int = 10
    members: int = 4
    turns: int = 6
    system: int = 96
    task: int = 96
    observation: tuple[int, int] = (16, 96)
    sampled: int = 16
    tool_steps: tuple[int, int] = (2, 120)
    at_once: int = 16


@dataclass(slots=True)
class Talk:
    group: int
    member: int
    ids: list[int]
    random: Random
    turn: int = 0


def hits(load: Load, rule: EvictionName, tokens: int) -> tuple[int, int]:
    """Prompt tokens found in a cache of so many tokens, and all of them."""
    torch.manual_seed(0)
    blocks = tokens // BLOCK
    runner = PlainRunner(Decoder(SHAPE), blocks=blocks, block_size=BLOCK)
    engine = Engine(runner, blocks=blocks, context=SHAPE.context, max_batch=8, eviction=eviction_named(rule, ATTENTION))
    shared = Random(0)
    system = some(shared, load.system)
    tasks = [some(shared, load.task) for _ in range(load.groups)]
    talks = [
        Talk(group, member, system + tasks[group], Random(f"{group}/{member}"))
        for group in range(load.groups)
        for member in range(load.members)
    ]
    waiting = [(0, number) for number in range(load.at_once)]
    started, running, step = load.at_once, dict[int, int](), 0
    while waiting or running:
        if not running:
            step = max(step, waiting[0][0])
        while waiting and waiting[0][0] <= step:
            number = heapq.heappop(waiting)[1]
            talk = talks[number]
            request = Request(ids=talk.ids, max_tokens=load.sampled, seed=number, session=str(number))
            running[engine.submit(request)] = number
        for done in engine.step():
            number = running.pop(done.id)
            talk = talks[number]
            talk.turn += 1
            talk.ids = talk.ids + done.ids.tolist() + some(talk.random, talk.random.randint(*load.observation))
            if talk.turn < load.turns:
                heapq.heappush(waiting, (step + talk.random.randint(*load.tool_steps), number))
                continue
            engine.release(str(number))
            if started < len(talks):
                heapq.heappush(waiting, (step, started))
                started += 1
        step += 1
    found = engine.metrics()
    if found["finished"] != len(talks) * load.turns:
        raise RuntimeError(f"{found['finished']} turns ended of {load}; its figures would mean nothing")
    return int(found["cached_tokens"]), int(found["prompt_tokens"])


def some(random: Random, count: int) -> list[int]:
    return [random.randrange(SHAPE.vocabulary) for _ in range(count)]


def main() -> None:
    """Every rule at every size of the cache."""
    small = "--small" in sys.argv
    load = Load(groups=4, turns=4) if small else Load()
    torch.set_num_threads(1)
    perfect, total = hits(load, "lru", 2**20)
    sizes = (2048, 4096) if small else (2048, 3072, 4096)
    rows: list[Row] = []
    ours: dict[str, float] = {}
    peers: dict[str, dict[str, float]] = {rule: {} for rule in RULES[1:]}
    for size in sizes:
        shares = {rule: hits(load, rule, size)[0] / perfect for rule in RULES}
        say(f"{size} tokens: " + ", ".join(f"{rule} {share:.3f}" for rule, share in shares.items()))
        what = f"cache of {size:,} tokens: prompt tokens found, share of a perfect one"
        rows.append(Row(what, round(shares["turns"], 3), {rule: round(shares[rule], 3) for rule in RULES[1:]}))
        ours[str(size)] = shares["turns"]
        for rule in RULES[1:]:
            peers[rule][str(size)] = shares[rule]
    rows.append(Row("prompt tokens, share that a perfect one finds", round(perfect / total, 3)))
    ratios = {
        f"{size}, tokens found per {rule}": ours[str(size)] / peers[rule][str(size)] for size in sizes for rule in RULES[1:]
    }
    publish(Report(NAME, ours=ours, peers=peers, ratios=ratios, rows=rows), write_table=not small)


if __name__ == "__main__":
    main()
