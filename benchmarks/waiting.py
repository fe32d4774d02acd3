"""Thousands of multi-turn rollouts that mostly wait: what holding them costs the loop, the CPU and the memory.

Each rollout takes five turns with a tool call and then answers, against an endpoint that lets it wait. The same run with few
rollouts gives the base line, so that start-up is charged to nobody: CPU per turn and memory per waiting rollout are slopes.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import endpoint
from lag import percentile, summary
from report import measure, say

HERE = Path(__file__).parent
DIAL = HERE / "environments" / "dial.py"
TOOL_TURNS = 5


@dataclass(frozen=True, slots=True)
class Held:
    """What one run with this many rollouts at once needed."""

    rollouts: int
    turns: int
    most_waiting: int
    """Requests the endpoint held open at one moment."""
    cpu_s: float
    wall_s: float
    peak_bytes: int
    resident_bytes: int
    """While most of them waited: the median over the run."""
    lag: dict[str, float]
    """Between the first request and the last reply: while rollouts were in flight."""
    endpoint_cpu_s: float
    collections_ms: dict[str, float]
    """Garbage collections in this process: the longest of each generation."""


def hold(num_rollouts: int, latency_s: float, env: Path = DIAL) -> Held:
    """All rollouts at once against a slow endpoint, with a probe on the loop."""
    slow = endpoint.running(latency_s=latency_s, tool_turns=TOOL_TURNS, arguments='{"by": 1}')
    with tempfile.TemporaryDirectory() as folder, slow as there:
        figures = Path(folder) / "lag.json"
        flags = ["--rollouts", str(num_rollouts), "--at-once", str(num_rollouts), "--json"]
        argv = [sys.executable, HERE / "lag.py", figures, "run", env, "--model", f"openai:fake@{there.url}", *flags]
        done = measure(argv, cwd=Path(folder), env={"OPENAI_API_KEY": "x"})
        said = json.loads(done.stdout.splitlines()[-1])
        if (said["scored"], said["score"]["mean"]) != (num_rollouts, 1.0):
            raise RuntimeError(f"{num_rollouts} rollouts should all be scored 1: {said}")
        seen, probed = there.stats(), json.loads(figures.read_text())
    in_flight = [tick for tick in probed["ticks"] if seen["from_s"] <= tick[0] <= seen["until_s"]]
    lag = summary(in_flight)
    costs = f"{seen['requests']} turns, {done.cpu_s:.1f} CPU-s"
    say(f"waiting: {num_rollouts} at once, {costs}, lag p99 {lag['p99_ms']} ms, own {lag['own_p99_ms']} ms")
    resident = sorted(probed["resident_bytes"])
    return Held(
        rollouts=num_rollouts,
        turns=seen["requests"],
        most_waiting=seen["most_waiting"],
        cpu_s=done.cpu_s,
        wall_s=done.wall_s,
        peak_bytes=done.peak_bytes,
        resident_bytes=int(percentile(resident, 0.5)),
        lag=lag,
        endpoint_cpu_s=seen["cpu_s"],
        collections_ms=longest_collections(probed["collections"]),
    )


def longest_collections(collections: Sequence[tuple[float, float, int]]) -> dict[str, float]:
    """The longest garbage collection of each generation, in milliseconds."""
    longest: dict[str, float] = {}
    for _, seconds, generation in collections:
        longest[str(generation)] = max(longest.get(str(generation), 0.0), round(1000 * seconds, 1))
    return longest


def figures_of(few: Held, many: Held) -> dict[str, Any]:
    """The run with many, less what the run with few says about start-up."""
    more = many.rollouts - few.rollouts
    return {
        "rollouts_at_once": many.rollouts,
        "turns": many.turns,
        "most_waiting": many.most_waiting,
        "lag_p50_ms": many.lag["p50_ms"],
        "lag_p99_ms": many.lag["p99_ms"],
        "lag_max_ms": many.lag["max_ms"],
        "own_lag_p99_ms": many.lag["own_p99_ms"],
        "cpu_ms_per_turn": round(1000 * many.cpu_s / many.turns, 3),
        "marginal_cpu_ms_per_turn": round(1000 * (many.cpu_s - few.cpu_s) / (many.turns - few.turns), 3),
        "peak_mb": round(many.peak_bytes / 1e6, 1),
        "kb_per_waiting_rollout": round((many.resident_bytes - few.resident_bytes) / more / 1e3, 1),
        "kb_per_rollout_at_peak": round((many.peak_bytes - few.peak_bytes) / more / 1e3, 1),
        "cpu_s": round(many.cpu_s, 2),
        "wall_s": round(many.wall_s, 2),
        "endpoint_cpu_s": many.endpoint_cpu_s,
        "longest_collections_ms": many.collections_ms,
    }
