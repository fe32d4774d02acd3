"""Rollouts with turns, in groups, on several servers of one model: what the prefix caches find, by the way of routing.

Three `sandlot serve --model rookie` processes take the same load in three ways, each time with the same prompts on fresh servers:
as the router sends it by what it predicts (the default), by what the servers report, and round robin. Tokens are counted by the
engines. `perfect` is one cache that holds everything and is shared by all servers. The small cache evicts all the time. With two
routers, each takes every other member of a group and does not know of the other, as in a run `--on processes:2`. A later router
takes rollouts that an earlier one has taken before, as when an interrupted run goes on, or the next process begins.
"""

import subprocess
import sys
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
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
SMALL = 1024
"""Tokens of a small cache: the rollouts under way and their prompts do not all fit."""
KV_BYTES = 6144
"""Bytes of a token in the rookie's cache: 4 layers, keys and values, 192 float32 each."""


@dataclass(frozen=True, slots=True)
class Load:
    """Groups of rollouts that share a system prompt; each turn adds what the tool said and what was sampled."""

    groups: int = 6
    members: int = 4
    turns: int = 4
    system: int = 192
    task: int = 128
    observation: int = 32
    sampled: int = 16
    at_once: int = 12
    cache_tokens: int = 32_768
    """Of each server."""
    routers: int = 1
    later: bool = False
    """Whether other routers have taken the same rollouts before, which is not measured."""

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
    evictions: float
    wrong: float
    """By how many tokens the router's expectation differs from what the cache had, as the mean over requests."""

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
    command = [
        Path(sys.executable).with_name("sandlot"),
        "serve",
        "--model",
        "rookie",
        "--port",
        "0",
        "--until-eof",
        "--kv-events",
    ]
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


async def play(models: Sequence[ReplicatedTokens], load: Load, name: str) -> float:
    """All turns of all rollouts, `at_once` of them at a time; by how many tokens the expectation was wrong, per request."""
    random = Random(name)
    system = some(random, load.system)
    tasks = [some(random, load.task) for _ in range(load.groups)]
    room = anyio.CapacityLimiter(load.at_once)
    wrong = 0

    async def rollout(group: int, member: int) -> None:
        nonlocal wrong
        async with room:
            model = models[member % len(models)]
            session = f"{name}/{group}/{member}"
            told, ids = Random(session), system + tasks[group]
            for turn in range(load.turns):
                sampling = Sampling(max_tokens=load.sampled, seed=turn)
                sampled = await model.sample(ids, sampling, session=session)
                wrong += abs(min(len(ids), sampled.replica.expected_tokens) - sampled.cached)
                ids = ids + unpacked_ids(sampled.ids) + some(told, load.observation)
            await model.release(session)

    async with anyio.create_task_group() as tasks_of_run:
        for group in range(load.groups):
            for member in range(load.members):
                tasks_of_run.start_soon(rollout, group, member)
    return wrong / (load.rollouts * load.turns)


def some(random: Random, count: int) -> list[int]:
    return [random.randrange(*VOCABULARY) for _ in range(count)]


def counts(urls: Sequence[str]) -> list[dict[str, float]]:
    return [{name: gauge(url, name) for name in ("prompt_tokens", "cached_tokens", "finished", "evictions")} for url in urls]


def measure(load: Load, routing: Routing) -> Found:
    """The load on fresh servers."""
    with servers(SERVERS, load.cache_tokens) as urls:
        configs = [RemoteConfig(model="rookie", url=url) for url in urls]

        async def run() -> float:
            settings = RouterConfig(routing=routing)
            async with AsyncExitStack() as stack:
                opening = [open_replicated_tokens(configs, routing=settings, environ={}) for _ in range(load.routers)]
                models = [await stack.enter_async_context(each) for each in opening]
                return await play(models, load, "load")

        if load.later:
            anyio.run(run)
        before = counts(urls)
        wrong = anyio.run(run)
        after = counts(urls)
    found = [{name: value - earlier[name] for name, value in now.items()} for now, earlier in zip(after, before, strict=True)]
    total = {name: sum(each[name] for each in found) for name in found[0]}
    if total["finished"] != load.rollouts * load.turns:
        raise RuntimeError(f"{total['finished']} requests finished of {load}; its figures would mean nothing")
    requests = [each["finished"] for each in found]
    return Found(total["prompt_tokens"], total["cached_tokens"], requests, total["evictions"], wrong)


WAYS: dict[str, Routing] = {"by reports": "reported", "round robin": "round-robin"}
"""The ways that the default, `prefix`, is compared with."""


def measure_all(loads: dict[str, Load]) -> dict[str, tuple[Found, dict[str, Found]]]:
    """Each load by the router and by the other ways."""
    results: dict[str, tuple[Found, dict[str, Found]]] = {}
    for name, load in loads.items():
        results[name] = measure(load, "prefix"), {way: measure(load, routing) for way, routing in WAYS.items()}
        say(f"{name}: {results[name]}")
    return results


def main() -> None:
    """Every load, by each way of routing."""
    small = "--small" in sys.argv
    size = {"groups": 4, "turns": 3} if small else {}
    loads = {
        "ample cache": Load(**size),
        "small cache": Load(**size, cache_tokens=SMALL),
        "small cache, two routers": Load(**size, cache_tokens=SMALL, routers=2),
        "ample cache, a later router": Load(**size | {"turns": 2}, later=True),
    }
    results = measure_all(loads)
    rows: list[Row] = []
    ours: dict[str, float] = {}
    peers: dict[str, dict[str, float]] = {way: {} for way in WAYS}
    ratios: dict[str, float] = {}
    for name, load in loads.items():
        found, others = results[name]
        perfect = load.perfect() / found.prompt_tokens

        def row(what: str, of: Callable[[Found], float], target: str = "", *, name=name, found=found, others=others) -> Row:
            return Row(f"{name}: {what}", of(found), {way: of(each) for way, each in others.items()}, target)

        rows.append(row("prompt tokens found in caches, share of all", lambda each: each.share))
        if not load.later:
            target = ">= 0.9" if load.routers == 1 else ""
            rows.append(row("the same, relative to a perfect cache", lambda each, perfect=perfect: each.share / perfect, target))
        rows += [
            row("prompt tokens computed, less is better", lambda each: each.computed),
            row("blocks evicted", lambda each: each.evictions),
            row("requests of the busiest server / mean", lambda each: each.busiest),
            row("expected by the router, mean error per request, in tokens", lambda each: each.wrong),
        ]
        ours[name] = found.computed
        for way, each in others.items():
            peers[way][name] = each.computed
            ratios[f"{name}, prompt tokens computed, {way}"] = each.computed / found.computed
    publish(Report(NAME, ours=ours, peers=peers, ratios=ratios, rows=rows), write_table=not small)


if __name__ == "__main__":
    main()
