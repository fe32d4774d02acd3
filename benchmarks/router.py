"""Rollouts with turns, in groups, on several servers of one model: what the prefix caches find by the router and in turn.

Three `sandlot serve --model rookie` processes take the same rollouts twice, started anew each time: once as the router sends
them, once round robin. Tokens are counted by the servers' own engines, so this machine's load does not matter. `perfect` is one
cache that holds everything and is shared by all servers. The cache of the second load is too small for every server to hold every
rollout.
"""

import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import anyio
from report import Report, Row, publish, say

from sandlot.core.ports.model import Sampling
from sandlot.core.tokens import unpacked_ids
from sandlot.model.endpoint.replicated import ReplicatedTokens, open_replicated_tokens
from sandlot.model.endpoint.tokens import RemoteConfig
from sandlot.model.routing.router import RouterConfig, Routing

NAME = "router"
SERVERS = 3
VOCABULARY = (64, 1200)
"""Ids of the rookie that are ordinary text."""
KV_BYTES = 6144
"""Bytes of a token in the rookie's cache: 4 layers, keys and values, 192 float32 each."""


@dataclass(frozen=True, slots=True)
class Load:
    """Groups of rollouts that share a system prompt; each turn adds what the tool said and what was sampled."""

    groups: int = 12
    members: int = 4
    turns: int = 5
    system: int = 192
    task: int = 128
    observation: int = 32
    sampled: int = 16
    at_once: int = 12
    cache_tokens: int = 32_768
    """Of each server."""

    @property
    def rollouts(self) -> int:
        return self.groups * self.members

    def perfect(self) -> int:
        """Prompt tokens that a cache finds if it holds everything that was ever computed, once the system prompt is there."""
        first = self.groups * (self.system + (self.members - 1) * (self.system + self.task))
        step = self.observation + self.sampled
        later = sum(self.system + self.task + turn * step - self.observation for turn in range(1, self.turns))
        return first + self.rollouts * later


@dataclass(frozen=True, slots=True)
class Found:
    """What one way of routing cost, summed over the servers."""

    prompt_tokens: float
    cached_tokens: float
    requests: list[float]
    expected_tokens: int
    """Prompt tokens that the router expected in the caches."""

    @property
    def computed(self) -> float:
        return self.prompt_tokens - self.cached_tokens

    @property
    def share(self) -> float:
        """Of the prompts, the tokens that were found."""
        return self.cached_tokens / self.prompt_tokens

    @property
    def busiest(self) -> float:
        """Requests of the busiest server, relative to the mean."""
        return max(self.requests) * len(self.requests) / sum(self.requests)


@contextmanager
def servers(count: int, cache_tokens: int) -> Generator[list[str]]:
    """The addresses of so many model servers, alive until the block ends."""
    command = [Path(sys.executable).with_name("sandlot"), "serve", "--model", "rookie", "--port", "0", "--until-eof"]
    command += ["--kv-gib", f"{cache_tokens * KV_BYTES / 2**30:.6f}"]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        yield [process.stdout.readline().split()[-1] for process in started]
    finally:
        for process in started:
            with process:
                process.stdin.close()


def gauge(url: str, name: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as reply:
        lines = reply.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"sandlot_engine_{name} "))


async def play(model: ReplicatedTokens, load: Load) -> int:
    """All turns of all rollouts, `at_once` of them at a time; the tokens that were expected in caches."""
    random = Random(1)
    system = some(random, load.system)
    tasks = [some(random, load.task) for _ in range(load.groups)]
    room = anyio.CapacityLimiter(load.at_once)
    expected = 0

    async def rollout(group: int, member: int) -> None:
        nonlocal expected
        async with room:
            told = Random(f"{group}/{member}")
            ids, session = system + tasks[group], f"{group}/{member}"
            for turn in range(load.turns):
                sampling = Sampling(max_tokens=load.sampled, seed=turn)
                sampled = await model.sample(ids, sampling, session=session)
                expected += min(len(ids), sampled.replica.expected_tokens)
                ids = ids + unpacked_ids(sampled.ids) + some(told, load.observation)
            await model.release(session)

    async with anyio.create_task_group() as tasks_of_run:
        for group in range(load.groups):
            for member in range(load.members):
                tasks_of_run.start_soon(rollout, group, member)
    return expected


def some(random: Random, count: int) -> list[int]:
    return [random.randrange(*VOCABULARY) for _ in range(count)]


def measure(load: Load, routing: Routing) -> Found:
    """The load on servers that were just started."""
    with servers(SERVERS, load.cache_tokens) as urls:
        configs = [RemoteConfig(model="rookie", url=url) for url in urls]

        async def run() -> int:
            settings = RouterConfig(routing=routing)
            async with open_replicated_tokens(configs, routing=settings, environ={}) as model:
                return await play(model, load)

        expected = anyio.run(run)
        counts = [[gauge(url, name) for name in ("prompt_tokens", "cached_tokens", "finished")] for url in urls]
    prompts, cached, requests = map(list, zip(*counts, strict=True))
    if sum(requests) != load.rollouts * load.turns:
        raise RuntimeError(f"{sum(requests)} requests finished of {load}; its figures would mean nothing")
    return Found(sum(prompts), sum(cached), requests, expected)


def main() -> None:
    """Both loads, each by the router and round robin."""
    small = "--small" in sys.argv
    size = {"groups": 4, "turns": 3} if small else {}
    loads = {"ample cache": Load(**size), "small cache": Load(**size, cache_tokens=4096)}
    rows: list[Row] = []
    ours: dict[str, float] = {}
    peers: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for name, load in loads.items():
        routed, turns = measure(load, "prefix"), measure(load, "round-robin")
        perfect = load.perfect() / routed.prompt_tokens
        say(f"{name}: router {routed}, round robin {turns}")
        rows += [
            Row(
                f"{name}: prompt tokens found in caches, share of a perfect one",
                routed.share / perfect,
                {"round robin": turns.share / perfect},
                ">= 0.9",
            ),
            Row(f"{name}: prompt tokens computed, less is better", routed.computed, {"round robin": turns.computed}),
            Row(f"{name}: requests of the busiest server / mean", routed.busiest, {"round robin": turns.busiest}),
            Row(f"{name}: expected by the router / found", routed.expected_tokens / routed.cached_tokens),
        ]
        ours[name], peers[name] = routed.computed, turns.computed
        ratios[f"{name}, prompt tokens computed"] = turns.computed / routed.computed
    publish(Report(NAME, ours=ours, peers={"round robin": peers}, ratios=ratios, rows=rows), write_table=not small)


if __name__ == "__main__":
    main()
