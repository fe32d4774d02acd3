"""`make bench NAME=rollouts`: what a rollout costs, what many waiting rollouts cost, what starting costs.

Three questions, each next to the peers where they have an answer: trivial one-turn rollouts, graded and stored, per CPU-second
(`trivial.py`); thousands of concurrent multi-turn rollouts against a slow endpoint (`waiting.py`); import and `--help` time.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import endpoint
from peers import INSPECT, VERIFIERS, ready
from report import Report, Row, best_of, machine, publish, say
from trivial import SANDLOT, Costs, at_two_sizes, inspect_eval, ours, verifiers_eval
from waiting import figures_of, hold

NAME = "rollouts"
OUR_SIZES = (2000, 6000)
INSPECT_SIZES = (500, 1500)
VERIFIERS_SIZES = (20, 60)
AT_ONCE = (256, 4096)
SMALLER = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help=f"sizes / {SMALLER}, and the table is left alone: does it work?")
    parser.add_argument("--skip-peers", action="store_true", help="ours only; the table is left alone")
    parser.add_argument("--latency", type=float, default=6.0, help="mean seconds the slow endpoint takes for a turn")
    flags = parser.parse_args()
    endpoint.raise_open_files()
    where = machine()
    shrink = SMALLER if flags.small else 1
    costs = trivial_costs(shrink, skip_peers=flags.skip_peers)
    few, many = (hold(max(count // shrink, 8), flags.latency / shrink) for count in AT_ONCE)
    starts = start_times(repeats=2 if flags.small else 10, skip_peers=flags.skip_peers)
    report = report_of(costs, figures_of(few, many), starts, where)
    publish(report, write_table=not (flags.small or flags.skip_peers))


def trivial_costs(shrink: int, *, skip_peers: bool) -> dict[str, Costs]:
    """Every framework by name, ours first."""

    def sizes(pair: tuple[int, int]) -> tuple[int, int]:
        return max(pair[0] // shrink, 1), max(pair[1] // shrink, 2)

    with endpoint.running() as fast:
        costs = {
            "ours": at_two_sizes("sandlot, scripted", sizes(OUR_SIZES), partial(ours, "scripted:golden")),
            "ours_endpoint": at_two_sizes("sandlot, endpoint", sizes(OUR_SIZES), partial(ours, f"openai:fake@{fast.url}")),
        }
        if not skip_peers:
            ready(INSPECT)
            ready(VERIFIERS)
            over_endpoint = partial(inspect_eval, ["--model", "openai-api/fake/fake"], url=fast.url)
            in_process = partial(inspect_eval, ["-T", "mock=true"])
            costs["inspect"] = at_two_sizes("inspect, endpoint", sizes(INSPECT_SIZES), over_endpoint)
            costs["inspect_mock"] = at_two_sizes("inspect, its mock model", sizes(INSPECT_SIZES), in_process)
            costs["verifiers"] = at_two_sizes(
                "verifiers, endpoint", sizes(VERIFIERS_SIZES), partial(verifiers_eval, url=fast.url)
            )
        say(f"endpoint, charged to nobody: {fast.stats()}")
    return costs


def start_times(*, repeats: int, skip_peers: bool) -> dict[str, dict[str, float]]:
    """CPU-seconds to import and to print help, by framework; an empty Python is in all of them and shown beside them."""

    def both(python: Path, statement: str, command: Path) -> dict[str, float]:
        imported = best_of(repeats, [python, "-c", statement])
        helped = best_of(repeats, [command, "--help"])
        say(f"start: {statement} {imported:.3f} CPU-s, {command.name} --help {helped:.3f} CPU-s")
        return {"import_cpu_s": round(imported, 4), "help_cpu_s": round(helped, 4)}

    python = Path(sys.executable)
    starts = {
        "python": {"import_cpu_s": round(best_of(repeats, [python, "-c", "pass"]), 4)},
        "bare": {"import_cpu_s": round(best_of(repeats, [python, "-c", "import sandlot"]), 4)},
        "ours": both(python, "from sandlot import Environment, run", SANDLOT),
    }
    if not skip_peers:
        starts["inspect"] = both(INSPECT.bin("python"), "from inspect_ai import Task, eval", INSPECT.bin("inspect"))
        starts["verifiers"] = both(VERIFIERS.bin("python"), "from verifiers.v1 import Task, Taskset", VERIFIERS.bin("vf-eval"))
    return starts


def report_of(
    costs: dict[str, Costs], waiting: dict[str, Any], starts: dict[str, dict[str, float]], where: dict[str, Any]
) -> Report:
    """All figures in the shape every benchmark prints."""
    ours_all = {
        "scripted": costs["ours"].figures(),
        "endpoint": costs["ours_endpoint"].figures(),
        "waiting": waiting,
        "start": starts["ours"],
        "bare_import": starts["bare"],
        "empty_python": starts["python"],
    }
    peers: dict[str, Any] = {}
    if "inspect" in costs:
        peers["inspect"] = {
            "version": INSPECT.requirements[0],
            "endpoint": costs["inspect"].figures(),
            "mock": costs["inspect_mock"].figures(),
            "start": starts["inspect"],
        }
        peers["verifiers"] = {
            "version": VERIFIERS.requirements[0],
            "endpoint": costs["verifiers"].figures(),
            "start": starts["verifiers"],
        }
    return Report(NAME, ours_all, peers, ratios_of(ours_all, peers), rows_of(ours_all, peers), where)


def ratios_of(ours_all: dict[str, Any], peers: dict[str, Any]) -> dict[str, float]:
    """How many times more rollouts per CPU-second, and how many times less CPU to start: over 1 is better for us.

    Of rollouts only marginal rates are compared: whole commands ran at different sizes, and start-up weighs more in small ones.
    """
    figure = "marginal_rollouts_per_cpu_s"
    ratios: dict[str, float] = {}
    for name, peer in peers.items():
        for kind, mine in (("endpoint", "endpoint"), ("mock", "scripted")):
            if kind in peer and peer[kind][figure] and ours_all[mine][figure]:
                ratios[f"{name}_{kind}_{figure}"] = round(ours_all[mine][figure] / peer[kind][figure], 2)
        for start in ("import_cpu_s", "help_cpu_s"):
            ratios[f"{name}_{start}"] = round(peer["start"][start] / ours_all["start"][start], 2)
    return ratios


def rows_of(ours_all: dict[str, Any], peers: dict[str, Any]) -> list[Row]:
    """The table's lines, from the same figures."""

    def line(what: str, target: str, mine: tuple[str, str], theirs: tuple[str, str] | None = None) -> Row:
        found = {name: peer[theirs[0]][theirs[1]] for name, peer in peers.items() if theirs and theirs[0] in peer}
        return Row(
            what, ours_all[mine[0]][mine[1]], {name: "" if value is None else value for name, value in found.items()}, target
        )

    total, marginal = "rollouts_per_cpu_s", "marginal_rollouts_per_cpu_s"
    return [
        line("one-turn rollouts per CPU-second, in process, whole command", ">= 500", ("scripted", total), ("mock", total)),
        line("the same, each further one", ">= 500", ("scripted", marginal), ("mock", marginal)),
        line("one-turn rollouts per CPU-second, over an endpoint, whole command", "", ("endpoint", total), ("endpoint", total)),
        line("the same, each further one", "", ("endpoint", marginal), ("endpoint", marginal)),
        line("multi-turn rollouts at once", ">= 4096", ("waiting", "rollouts_at_once")),
        line("requests open at one moment, seen by the endpoint", "", ("waiting", "most_waiting")),
        line("loop lag p99, ms", "< 50", ("waiting", "lag_p99_ms")),
        line("of it while this process was computing, ms", "< 50", ("waiting", "own_lag_p99_ms")),
        line("CPU per turn, ms, whole command", "< 1", ("waiting", "cpu_ms_per_turn")),
        line("CPU per turn, ms, each further one", "< 1", ("waiting", "marginal_cpu_ms_per_turn")),
        line("memory per waiting rollout, kB", "", ("waiting", "kb_per_waiting_rollout")),
        line("peak memory of the process, MB", "", ("waiting", "peak_mb")),
        line("import of what an author needs, CPU-seconds", "< 0.3", ("start", "import_cpu_s"), ("start", "import_cpu_s")),
        line("`import sandlot` alone, CPU-seconds", "< 0.3", ("bare_import", "import_cpu_s")),
        line("`--help`, CPU-seconds", "< 0.3", ("start", "help_cpu_s"), ("start", "help_cpu_s")),
    ]


if __name__ == "__main__":
    main()
