"""Rollouts on a real Ray: clusters of several nodes on this machine, nodes that die and join, a job, Ctrl-C.

Run by `make test-ray`, in a venv that has Ray. Every node is a raylet of its own with its own workers.
"""

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
import ray
import yaml
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.cluster_utils import Cluster

from drive.command_line import environ, refused, started
from drive.running import is_running
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Failed, Scored
from sandlot.observe.events import RolloutBegan, RolloutEnded
from sandlot.run.collector import LOST
from sandlot.run.config import Selection
from sandlot.run.executors.executor import WorkerLost
from sandlot.run.executors.ray import open_ray
from sandlot.run.results import Run
from sandlot.run.run import run_config
from sandlot.store.blobs import MemoryBlobs
from worlds.executors import CHORES, chores, config_of, plan_of

pytestmark = pytest.mark.timeout(600)
STORE = {"object_store_memory": 100_000_000, "include_dashboard": False}


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """A head without CPUs, as in production: rollouts are taken by the other nodes."""
    monkeypatch.setenv("MARKS", str(tmp_path))  # nodes inherit it
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **STORE})
    yield made
    made.shutdown()


def add_node(cluster, num_cpus: int = 1):
    """It blocks the loop: Ray sets a signal handler, which only the main thread may."""
    return cluster.add_node(num_cpus=num_cpus, object_store_memory=100_000_000)


def nothing(event) -> None: ...


async def until(true) -> None:
    with anyio.fail_after(300):
        while not true():  # noqa: ASYNC110 - other processes make it so
            await anyio.sleep(0.05)


async def test_a_node_that_dies_costs_no_rollout_and_one_that_joins_is_used(cluster, tmp_path):
    add_node(cluster)
    doomed = add_node(cluster)
    found = []

    async def one(task):
        found.append(await pool.run(task, 0, run="r", blobs=MemoryBlobs(), sink=nothing))

    async with open_ray(cluster.address, plan_of(tmp_path)) as pool:
        await until(lambda: len(pool.pids) == 2)
        first = set(pool.pids)
        async with anyio.create_task_group() as group:
            for task in chores("endless"):
                group.start_soon(one, task)
            await until(lambda: len(list(tmp_path.glob("began-*"))) == 4)
            cluster.remove_node(doomed, allow_graceful=False)
            await until(lambda: len(found) == 2)
            assert [type(each) for each in found] == [WorkerLost] * 2, "half of them were there"
            (left,) = pool.pids
            group.cancel_scope.cancel()
        add_node(cluster, 2)
        await until(lambda: len(pool.pids) == 3)
        joined = set(pool.pids) - first
        assert left in pool.pids
        assert len(joined) == 2, "two CPUs came, so two workers did: one for the lost one, one more"
        for path in tmp_path.glob("began-*"):
            path.unlink()
        async with anyio.create_task_group() as group:
            for task in chores("endless"):
                group.start_soon(one, task)
            await until(lambda: len(list(tmp_path.glob("began-*"))) == 4)
            group.cancel_scope.cancel()
        assert {int(path.name.split("-")[1]) for path in tmp_path.glob("began-*")} == set(pool.pids)


async def test_the_books_of_a_run_balance_while_nodes_die_and_join(cluster, tmp_path):
    add_node(cluster)
    nodes = [add_node(cluster)]
    tasks = tuple(task.id for task in (*chores("long"), *chores("short")))
    config = config_of("scripted:mixed:0.7", select=Selection(tasks=tasks, group=25), at_once=16, seed=5)
    ended, began = itertools.count(1), []
    changes = {20: "kill", 60: "join", 110: "kill"}
    waiting, todo = anyio.create_memory_object_stream[str](10)

    def note(event) -> None:
        if isinstance(event, RolloutBegan):
            began.append((event.task, event.rollout))
        if isinstance(event, RolloutEnded) and (change := changes.get(next(ended))):
            waiting.send_nowait(change)

    async def disturb() -> None:
        async for change in todo:
            if change == "kill":
                cluster.remove_node(nodes.pop(), allow_graceful=False)
            else:
                nodes.append(add_node(cluster))

    async with anyio.create_task_group() as group:
        group.start_soon(disturb)
        run = await run_config(config, place=tmp_path / "run", sink=note, on=f"ray:{cluster.address}")
        waiting.close()
    assert run.verdict == "complete"
    traces = list(run)
    assert len(traces) == len({trace.key for trace in traces}) == 200
    assert all(isinstance(trace.outcome, Scored) for trace in traces)
    lost = [attempt for trace in traces for attempt in trace.attempts]
    assert {(attempt.outcome.side, attempt.outcome.kind) for attempt in lost} <= {("harness", LOST)}
    assert len(began) == len(traces) + len(lost), "every attempt is either an end or a loss"
    quiet = await run_config(config, place=tmp_path / "quiet")
    assert {(row.task, row.rollout): row.score for row in run.rows} == {(row.task, row.rollout): row.score for row in quiet.rows}


async def test_a_cluster_without_room_is_waited_for(cluster, tmp_path):
    results = []

    async def take() -> None:
        async with open_ray(f"2@{cluster.address}", plan_of(tmp_path)) as pool:
            results.append(await pool.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing))

    async with anyio.create_task_group() as group:
        group.start_soon(take)
        await until(ray.is_initialized)
        await anyio.sleep(1)
        assert not results
        add_node(cluster)
    assert results[0].reward == 1.0


async def test_a_node_whose_files_differ_is_refused_and_says_which(cluster, tmp_path):
    add_node(cluster)
    file = tmp_path / "chores.py"
    file.write_text(CHORES.read_text())
    plan = plan_of(tmp_path, config_of().__class__(env=str(file), model=config_of().model))
    file.write_text(CHORES.read_text().replace("this chore", "that chore"))
    with pytest.raises(ConfigError, match=r"Ray node .* differs from the one that the run began with"):
        async with open_ray(cluster.address, plan):
            pass


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a-token-that-only-this-test-has-0123456789", "RAY_USAGE_STATS_ENABLED": "0"}
"""Ray's own authentication, as an operator sets it on both sides."""
STARTS = int(os.environ.get("SANDLOT_RAY_STARTS", "2"))
"""Runs in a row on one cluster."""


@contextmanager
def operators_ray(tmp_path):
    """A Ray as an operator starts it: its port, and that of its dashboard, which takes jobs."""
    port, dashboard, temporary = free_port(), free_port(), Path("/tmp") / f"ray-{os.getpid()}"
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"]
    more = [f"--dashboard-port={dashboard}", "--num-cpus=2", f"--temp-dir={temporary}"]
    with (tmp_path / "ray.log").open("w") as log:
        process = subprocess.Popen([*command, *more], env=environ(**TOKEN), stdout=log, stderr=log, start_new_session=True)
        try:
            for host, needed in ((ray.util.get_node_ip_address(), port), ("127.0.0.1", dashboard)):
                while process.poll() is None:
                    with socket.socket() as probe:
                        if probe.connect_ex((host, needed)) == 0:
                            break
                    time.sleep(0.1)
            yield port, dashboard
        finally:
            process.terminate()
            process.wait(60)


WORDS = ("--model", "scripted:golden", "--task", "short-0", "--task", "broken-0", "--group", "4", "--json")


def test_the_command_works_on_a_node_of_a_cluster_that_somebody_started(tmp_path):
    with operators_ray(tmp_path) as (port, _):
        for number in range(STARTS):
            on = f"ray:{ray.util.get_node_ip_address()}:{port}"
            done = started("run", CHORES, *WORDS, "--runs", f"runs-{number}", "--on", on, cwd=tmp_path, **TOKEN)
            assert done.code == 1, done.err
            assert (done.json["scored"], done.json["rollouts"]) == (4, 8)


def test_the_command_works_as_a_job_that_is_submitted_from_elsewhere(tmp_path):
    with operators_ray(tmp_path) as (_, dashboard):
        job = ["-m", "ray.scripts.scripts", "job", "submit", "--address", f"http://127.0.0.1:{dashboard}", "--"]
        command = [sys.executable, *job, sys.executable, "-m", "sandlot", "run", str(CHORES), *WORDS]
        command += ["--runs", str(tmp_path / "runs"), "--on", "ray:auto"]
        done = subprocess.run(command, cwd=tmp_path, env=environ(**TOKEN), capture_output=True, text=True, check=False)
    run = Run(next((tmp_path / "runs").iterdir()))
    assert (len(run), sum(isinstance(trace.outcome, Scored) for trace in run)) == (8, 4), done.stdout + done.stderr


def test_an_address_where_nothing_listens_is_refused(tmp_path):
    on = f"ray:127.0.0.1:{free_port()}"
    said = refused(started("run", CHORES, "--model", "scripted:golden", "--on", on, cwd=tmp_path))
    assert f"no Ray cluster answers at `{on.removeprefix('ray:')}`" in said
    assert not list(tmp_path.glob("runs/*/manifest.json"))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_a_run_that_is_interrupted(how, tmp_path):
    command = [sys.executable, "-m", "sandlot", "run", CHORES, "--model", "scripted:golden", "--on", "ray:2@local", "--json"]
    tasks = ["--task", "endless-0", "--task", "endless-1"]
    variables = environ(MARKS=str(tmp_path), RAY_USAGE_STATS_ENABLED="0")
    process = subprocess.Popen([*map(str, command), *tasks], cwd=tmp_path, env=variables, start_new_session=True)
    while len(list(tmp_path.glob("began-*"))) < 2 and process.poll() is None:
        time.sleep(0.05)
    workers = {int(path.name.split("-")[1]) for path in tmp_path.glob("began-*")}
    assert workers
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does: to everything that is in the foreground
    else:
        process.send_signal(how)
    code = process.wait(120)
    while any(is_running(pid) for pid in workers):
        time.sleep(0.05)
    run = Run(next((tmp_path / "runs").iterdir()))
    assert run.verdict == "incomplete"
    if how != signal.SIGKILL:
        assert code == 3
        assert f"interrupted by {how.name}" in run.sittings[-1].stopped
        assert len(list(tmp_path.glob("closed-*"))) == 2, "their worlds were closed"


async def test_a_program_that_uses_ray_already_keeps_it(cluster, tmp_path):
    add_node(cluster)
    ray.init(cluster.address, log_to_driver=False)
    try:
        config = config_of(select=Selection(tasks=("short-0", "broken-0"), group=2))
        run = await run_config(config, runs=tmp_path, on="ray")
        assert sorted(isinstance(trace.outcome, Failed) for trace in run) == [False, False, True, True]
        assert ray.is_initialized()
        assert ray.cluster_resources()["CPU"] == 1
    finally:
        ray.shutdown()


def test_the_autoscaler_of_ray_reads_our_kuberay_manifest():
    """Ray's own reader of a `RayCluster`, as its autoscaler runs it beside the head on Kubernetes."""
    manifest = yaml.safe_load((Path(__file__).parents[2] / "docs" / "cluster" / "kuberay.yaml").read_text())
    manifest["metadata"]["namespace"] = "default"
    found = _derive_autoscaling_config_from_ray_cr(manifest)
    head, rollouts = found["available_node_types"]["headgroup"], found["available_node_types"]["rollouts"]
    assert head["resources"]["CPU"] == 0, "the head takes no rollouts"
    assert (rollouts["resources"]["CPU"], rollouts["min_workers"], rollouts["max_workers"]) == (4, 1, 16)
    assert found["idle_timeout_minutes"] == 5
    assert manifest["spec"]["rayVersion"] == ray.__version__
