"""Benchmarks run whole at a small size; their figures are not looked at, their shape and honesty are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.system
def test_the_rollouts_benchmark_runs_and_leaves_the_table_alone():
    table = (BENCHMARKS / "README.md").read_bytes()
    argv = [sys.executable, BENCHMARKS / "rollouts.py", "--small", "--skip-peers"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=240)
    whole = json.loads(done.stdout.splitlines()[-1])
    assert list(whole) == ["name", "machine", "ours", "peers", "ratios"]
    assert whole["ours"]["waiting"]["most_waiting"] > 1
    assert (BENCHMARKS / "README.md").read_bytes() == table


@pytest.mark.system
def test_the_sandbox_benchmark_measures_docker_in_the_same_run():
    argv = [sys.executable, BENCHMARKS / "sandbox.py", "--small"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=240)
    whole = json.loads(done.stdout.splitlines()[-1])
    assert set(whole["ratios"]) == {"start", "pooled", "exec", "reset"}
    assert {"start_ms", "exec_ms", "reset_ms"} <= set(whole["peers"]["docker"])


@pytest.mark.system
@pytest.mark.timeout(300)
def test_the_worlds_benchmark_measures_docker_in_the_same_run_and_leaves_the_table_alone():
    table = (BENCHMARKS / "README.md").read_bytes()
    argv = [sys.executable, BENCHMARKS / "worlds.py", "terminal"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=280)
    whole = json.loads(done.stdout.splitlines()[-1])
    assert whole["ours"]["terminal"]["golden_mean"] == 1.0
    assert set(whole["ratios"]) == {"terminal, first command"}
    assert (BENCHMARKS / "README.md").read_bytes() == table


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("telemetry", {"off", "metrics", "spans", "watch", "all"}),
        ("view", {"pages", "live"}),
        ("audit", {"arithmetic", "helpdesk", "wholesaler", "budget"}),
    ],
)
def test_a_benchmark_runs_whole_at_a_small_size_and_leaves_the_table_alone(name, figures):
    table = (BENCHMARKS / "README.md").read_bytes()
    argv = [sys.executable, BENCHMARKS / f"{name}.py", "--small"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=240)
    assert set(json.loads(done.stdout.splitlines()[-1])["ours"]) == figures
    assert (BENCHMARKS / "README.md").read_bytes() == table
