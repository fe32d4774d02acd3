"""Ray nodes that die and join at random while a run goes on, and at times the run itself dies: its books must balance.

Run by `make test-ray` and `make test-chaos-ray`, in a venv that has Ray. Every node is a raylet of its own with its own workers.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from ray.cluster_utils import Cluster

from drive.chaos import CHAOS_S, Command, books_balance, children, commanded, harass, kill, nothing_is_left
from sandlot import Run
from worlds.executors import CHORES

pytestmark = pytest.mark.timeout(3 * CHAOS_S + 900)
STORE = {"object_store_memory": 100_000_000}
NODES = 2
PACE = (2.0, 8.0)
"""Seconds between two harms: a node and its worker need some to start."""
START_S = 30
"""A further run is worth its start only if more time is left."""


class RayNodes:
    """Nodes of one processor each; another joins for one that died."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes = [self._join() for _ in range(NODES)]

    def _join(self):
        return self._cluster.add_node(num_cpus=1, **STORE)

    def harm(self, random: Random) -> str | None:
        if not self._nodes:
            return None
        self._cluster.remove_node(self._nodes.pop(random.randrange(len(self._nodes))), allow_graceful=False)
        return "a Ray node killed"

    def tend(self) -> None:
        while len(self._nodes) < NODES:
            self._nodes.append(self._join())

    def close(self) -> None:
        while self._nodes:
            self._cluster.remove_node(self._nodes.pop(), allow_graceful=True)


class RayWorkers:
    """The processes of our own nodes in which rollouts are taken.

    A node dies with its agents, and a run with the head: those are left alone.
    """

    def harm(self, random: Random) -> str | None:
        names = {pid: commanded(pid) for pid in descendants(os.getpid())}
        pids = [pid for pid, name in names.items() if name.startswith("ray::") and "Agent" not in name]
        return "a Ray worker killed" if pids and kill(random.choice(pids)) else None

    def tend(self) -> None: ...
    def close(self) -> None: ...


def descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from descendants(child)


def test_the_books_balance_while_nodes_die_and_join(tmp_path):
    random, left, number, done = Random(4), CHAOS_S, 0, Counter[str]()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **STORE})
    try:
        while number == 0 or left > START_S:
            number += 1
            place = tmp_path / f"round-{number}" / "run"
            place.parent.mkdir()
            tasks = [word for each in range(4) for word in ("--task", f"long-{each}")]
            words = [
                "run",
                CHORES,
                *tasks,
                "--model",
                "scripted:mixed:0.7",
                "--group",
                60,
                "--seed",
                1,
                "--at-once",
                16,
                "--json",
            ]
            nodes = RayNodes(cluster)
            on = ("--on", f"ray:{cluster.address}")
            # What it says if all its workers are killed before it has begun; who started it tries again.
            command = Command([*words, *on], place, refused="workers ended one after the other", RAY_USAGE_STATS_ENABLED="0")
            harm = harass(command, [nodes, RayWorkers()], random, left, PACE)
            assert command.process.returncode in {0, 1}, "1 if a rollout failed"
            line = books_balance(Run(place), num_restarts=command.num_killed + command.num_repeated)
            sys.stdout.write(f"ray {number}: {line}; {dict(harm.done)}\n")
            done += harm.done
            left -= max(1.0, harm.seconds)
    finally:
        cluster.shutdown()
    nothing_is_left(command)
    assert done, "it was over before anything was done"
