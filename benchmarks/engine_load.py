"""Loads for an engine: many prompts at once, agents with turns, weights that change. Needs torch, numpy and the engine's core."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np

from sandlot.model.engine.engine import Engine
from sandlot.model.engine.request import Request

SPECIAL = 300
"""Tokens at either end of a vocabulary that may mean something special."""


@dataclass(frozen=True, slots=True)
class Flat:
    """So many requests of so many tokens in and out, all there at once."""

    requests: int
    tokens_in: int
    tokens_out: int
    vocabulary: int = 40_000

    def prompts(self) -> list[list[int]]:
        chance = np.random.default_rng(0)
        return chance.integers(SPECIAL, self.vocabulary - SPECIAL, (self.requests, self.tokens_in)).tolist()


@dataclass(slots=True)
class Cost:
    """What a load took."""

    tokens: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    decoding: list[tuple[float, int]] = field(default_factory=list)
    """Steps in which every request decoded: seconds, and tokens in KV."""

    def figures(self) -> dict[str, float]:
        return {
            "tokens": self.tokens,
            "tokens_per_s": round(self.tokens / self.wall_s, 1),
            "tokens_per_cpu_s": round(self.tokens / max(self.cpu_s, 1e-9), 1),
        }


def play_flat(engine: Engine, load: Flat) -> Cost:
    """All of it, every token sampled at temperature 1."""
    for seed, ids in enumerate(load.prompts()):
        engine.submit(Request(ids=ids, max_tokens=load.tokens_out, seed=seed))
    cost, begun, cpu = Cost(), time.perf_counter(), time.process_time()
    while not engine.is_idle:
        sampled, computed, started = engine.gauges.num_sampled, engine.gauges.num_computed, time.perf_counter()
        done = engine.step()
        sampled, computed = engine.gauges.num_sampled - sampled, engine.gauges.num_computed - computed
        if sampled == computed == load.requests:
            seen = load.requests * (load.tokens_in + len(cost.decoding))
            cost.decoding.append((time.perf_counter() - started, seen))
        cost.tokens += sum(len(each.ids) for each in done)
    cost.wall_s, cost.cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    if cost.tokens != load.requests * load.tokens_out:
        raise RuntimeError(f"{cost.tokens} tokens came of {load}; its figures would mean nothing")
    return cost


@dataclass(frozen=True, slots=True)
class Agents:
    """Groups of rollouts that share a system prompt; each turn adds what the tool said and what was sampled."""

    groups: int = 16
    members: int = 8
    turns: int = 10
    system: int = 2048
    task: int = 256
    observation: int = 64
    tokens_out: int = 64
    vocabulary: int = 40_000

    def some(self, chance: np.random.Generator, count: int) -> list[int]:
        return chance.integers(SPECIAL, self.vocabulary - SPECIAL, count).tolist()

    @property
    def context(self) -> int:
        return self.system + self.task + self.turns * (self.observation + self.tokens_out) + 1


@dataclass(slots=True)
class Rollout:
    group: int
    member: int
    ids: list[int]
    turn: int = 0


def play_agents(engine: Engine, load: Agents) -> dict[str, float]:
    """All turns of all rollouts, each asked as soon as the one before is answered; what the tree found, of what it could have."""
    chance = np.random.default_rng(1)
    system = load.some(chance, load.system)
    tasks = [load.some(chance, load.task) for _ in range(load.groups)]
    running: dict[int, Rollout] = {}
    ideal = cached = tokens = 0

    def ask(rollout: Rollout) -> None:
        seed = (rollout.group * load.members + rollout.member) * load.turns + rollout.turn
        session = f"{rollout.group}.{rollout.member}"
        running[engine.submit(Request(ids=rollout.ids, max_tokens=load.tokens_out, seed=seed, session=session))] = rollout

    begun = time.perf_counter()
    for group, task in enumerate(tasks):
        for member in range(load.members):
            ask(Rollout(group, member, system + task))
            ideal += load.system + load.task - 1 if member else (load.system if group else 0)
    while running:
        for answer in engine.step():
            rollout = running.pop(answer.id)
            tokens += len(answer.ids)
            cached += answer.cached
            rollout.turn += 1
            if rollout.turn == load.turns:
                engine.release(f"{rollout.group}.{rollout.member}")
                continue
            rollout.ids += answer.ids.tolist()
            ideal += len(rollout.ids) - 1  # the last token sampled is in nobody's KV
            rollout.ids += load.some(chance, load.observation)
            ask(rollout)
    seconds = time.perf_counter() - begun
    metrics = engine.metrics()
    return {
        "tokens_per_s": round(tokens / seconds, 1),
        "seconds": round(seconds, 2),
        "computed_tokens": metrics["computed_tokens"],
        "hits_of_ideal": round(cached / ideal, 4),
        "evictions": metrics["evictions"],
        "preemptions": metrics["preemptions"],
        **{f"load_{name}": value for name, value in asdict(load).items()},
    }


def play_update(engine: Engine, load: Flat, put: Callable[[], None]) -> dict[str, float]:
    """New weights when half of the tokens are there: how long nobody gets a token, and how long until everybody has one."""
    asked = {engine.submit(Request(ids=ids, max_tokens=load.tokens_out, seed=seed)) for seed, ids in enumerate(load.prompts())}
    answers = []
    while engine.gauges.num_sampled < load.requests * load.tokens_out // 2:
        answers += engine.step()
    version, begun = engine.version + 1, time.perf_counter()
    engine.update(version, put)
    updated = time.perf_counter() - begun
    first = everyone = 0.0
    sampled = engine.gauges.num_sampled
    while not engine.is_idle:
        before, pending = engine.gauges.num_sampled, len(asked) - len(answers)
        answers += engine.step()
        now = time.perf_counter() - begun
        first = first or (now if engine.gauges.num_sampled > sampled else 0.0)
        if not everyone and engine.gauges.num_sampled - before == pending:
            everyone = now
    lost = len(asked) - len({answer.id for answer in answers})
    mixed = sum(len(set(answer.versions.tolist())) > 1 for answer in answers)
    if any(answer.versions.tolist() != sorted(answer.versions.tolist()) for answer in answers):
        raise RuntimeError("a token of older weights came after one of newer weights")
    return {
        "requests": len(asked),
        "lost": lost,
        "with_tokens_of_both_versions": mixed,
        "update_ms": round(updated * 1e3, 2),
        "first_token_after_ms": round(first * 1e3, 2),
        "all_running_again_after_ms": round(everyone * 1e3, 2),
    }
