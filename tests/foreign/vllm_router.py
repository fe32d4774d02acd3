"""The router over two real vLLM servers on this machine's CPU: `make test-vllm`, which starts them and names them here.

What their prefix caches find is counted by vLLM itself. Where it sends events of its cache (ZeroMQ) they are not read: the router
predicts what is there from what it has sent.
"""

import os
import sys
import urllib.request
from random import Random

import anyio
import pytest

from sandlot.core.ports.model import Sampling
from sandlot.core.tokens import unpacked_ids
from sandlot.model.endpoint.replicated import open_replicated_tokens
from sandlot.model.endpoint.tokens import RemoteConfig
from sandlot.model.routing.router import RouterConfig, Routing

pytestmark = pytest.mark.timeout(600)
ADDRESSES = os.environ["SANDLOT_VLLM_TWO"].split(",")
GROUPS, MEMBERS, TURNS, AT_ONCE = 6, 4, 3, 8


def count(name: str) -> list[float]:
    """A counter of every server."""
    found = []
    for address in ADDRESSES:
        with urllib.request.urlopen(f"{address.removesuffix('/v1')}/metrics", timeout=60) as reply:
            lines = reply.read().decode().splitlines()
        told = (f"vllm:{name}_total{{", f"vllm:{name}{{")
        found.append(sum(float(line.split()[-1]) for line in lines if line.startswith(told)))
    return found


async def play(routing: Routing) -> tuple[float, list[float]]:
    """Agents in groups: the share of prompt tokens that the caches found, and how many requests each server took."""
    random = Random(routing)
    system = [random.randrange(64, 1200) for _ in range(192)]
    tasks = [[random.randrange(64, 1200) for _ in range(128)] for _ in range(GROUPS)]
    room, taken = anyio.CapacityLimiter(AT_ONCE), []
    names = ("prefix_cache_hits", "prefix_cache_queries", "request_success")
    before = {name: count(name) for name in names}
    configs = [RemoteConfig(model="rookie", url=address) for address in ADDRESSES]
    async with open_replicated_tokens(configs, routing=RouterConfig(routing=routing), environ={}) as model:

        async def rollout(group: int, member: int) -> None:
            async with room:
                session = f"{routing}/{group}/{member}"
                told, ids = Random(session), system + tasks[group]
                for turn in range(TURNS):
                    sampled = await model.sample(ids, Sampling(max_tokens=16, seed=turn), session=session)
                    taken.append(session)
                    ids = ids + unpacked_ids(sampled.ids) + [told.randrange(64, 1200) for _ in range(32)]
                await model.release(session)

        async with anyio.create_task_group() as rollouts:
            for group in range(GROUPS):
                for member in range(MEMBERS):
                    rollouts.start_soon(rollout, group, member)
    assert len(taken) == GROUPS * MEMBERS * TURNS
    more = {name: [now - then for now, then in zip(count(name), before[name], strict=True)] for name in names}
    return sum(more["prefix_cache_hits"]) / sum(more["prefix_cache_queries"]), more["request_success"]


async def test_caches_find_more_than_in_turn_and_both_servers_work():
    found, requests = await play("prefix")
    in_turn, _ = await play("round-robin")
    sys.stdout.write(f"found by the router {found:.3f} of all prompt tokens, in turn {in_turn:.3f}; requests {requests}\n")
    assert sum(requests) == GROUPS * MEMBERS * TURNS
    assert found > in_turn
    assert min(requests) > 0.25 * sum(requests)
