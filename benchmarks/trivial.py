"""One-turn rollouts, graded and stored: ours and each peer's, from the command line as a user would start them.

Start-up and the price of one more rollout are different questions, so everything is run at two sizes: the slope between them is
the marginal cost, the larger run as a whole is the total. Each run is checked: every rollout there, every one right.
"""

import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import INSPECT, PEERS, VERIFIERS
from report import Measured, measure, say

ARITHMETIC = Path(__file__).parents[1] / "environments" / "arithmetic"
SANDLOT = Path(sys.executable).with_name("sandlot")


@dataclass(frozen=True, slots=True)
class Costs:
    """What a framework needed at two sizes."""

    sizes: tuple[int, int]
    cpu_s: tuple[float, float]
    peak_mb: float

    @property
    def total_rate(self) -> float:
        """Rollouts per CPU-second of the larger run, start-up included."""
        return self.sizes[1] / self.cpu_s[1]

    @property
    def marginal_rate(self) -> float | None:
        """Rollouts per CPU-second between the two sizes: start-up cancels out. None if the noise is larger than the slope."""
        more_s = self.cpu_s[1] - self.cpu_s[0]
        return (self.sizes[1] - self.sizes[0]) / more_s if more_s > 0 else None

    def figures(self) -> dict[str, Any]:
        return {
            "rollouts": list(self.sizes),
            "cpu_s": [round(seconds, 3) for seconds in self.cpu_s],
            "rollouts_per_cpu_s": round(self.total_rate, 3),
            "marginal_rollouts_per_cpu_s": self.marginal_rate and round(self.marginal_rate, 3),
            "peak_mb": round(self.peak_mb, 1),
        }


def at_two_sizes(name: str, sizes: tuple[int, int], once: Callable[[int, Path], Measured]) -> Costs:
    """Run it once to warm every cache, then small and large, each in an empty folder of its own."""
    runs: list[Measured] = []
    for num_rollouts in (1, *sizes):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(once(num_rollouts, Path(folder)))
        say(f"{name}: {num_rollouts} rollouts, {runs[-1].cpu_s:.2f} CPU-s, {runs[-1].wall_s:.1f} s")
    _, small, large = runs
    return Costs(sizes, (small.cpu_s, large.cpu_s), large.peak_bytes / 1e6)


def ours(model: str, num_rollouts: int, folder: Path) -> Measured:
    """`sandlot run` on the smallest environment there is."""
    argv = [SANDLOT, "run", ARITHMETIC, "--model", model, "--rollouts", str(num_rollouts), "--json"]
    done = measure(argv, cwd=folder, env={"OPENAI_API_KEY": "x"})
    summary = json.loads(done.stdout.splitlines()[-1])
    _agree("sandlot", (summary["scored"], summary["score"]["mean"]), (num_rollouts, 1.0))
    return done


def inspect_eval(flags: list[str], num_rollouts: int, folder: Path, *, url: str = "") -> Measured:
    """`inspect eval`; it exits 0 even if its samples fail, so its log and summary are looked at."""
    argv = [INSPECT.bin("inspect"), "eval", "add.py", "-T", f"n={num_rollouts}", *flags, "--display", "plain"]
    limits = ["--max-connections", "200", "--max-samples", "200", "--log-dir", folder / "logs"]
    done = measure([*argv, *limits], cwd=PEERS, env={"FAKE_BASE_URL": url, "FAKE_API_KEY": "x"})
    (log,) = (folder / "logs").glob("*.eval")
    kept = sum(name.startswith("samples/") for name in zipfile.ZipFile(log).namelist())
    accuracy = re.search(r"accuracy\s+([\d.]+)", done.stdout)
    _agree("inspect", (kept, accuracy and float(accuracy[1])), (num_rollouts, 1.0))
    return done


def verifiers_eval(num_rollouts: int, folder: Path, *, url: str) -> Measured:
    """`vf-eval` with the lightest harness and runtime it has."""
    argv = [VERIFIERS.bin("vf-eval"), "addition_v1", "-m", "fake", "--env.taskset.num-tasks", str(num_rollouts), "-c", "60"]
    client = ["--client.base-url", url, "--client.api-key-var", "OPENAI_API_KEY", "--no-push", "--no-rich"]
    harness = ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
    done = measure([*argv, *client, *harness], cwd=folder, env={"OPENAI_API_KEY": "x", "PYTHONPATH": str(PEERS)})
    (log,) = folder.glob("outputs/*/traces.jsonl")
    traces = [trace for line in log.read_text().splitlines() for trace in json.loads(line)["traces"]]
    right = sum(trace["ok"] and trace["rewards"]["exact"]["score"] == 1.0 for trace in traces)
    _agree("verifiers", (len(traces), right), (num_rollouts, num_rollouts))
    return done


def _agree(who: str, seen: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    if seen != wanted:
        raise RuntimeError(f"{who} kept and graded {seen}, expected {wanted}: its cost would mean nothing")
