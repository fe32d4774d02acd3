"""Scheduling rules on three Seer-like workloads at two mixes of variance, by simulation, with the ratio to a lower bound.

The figures are simulated seconds, so this machine's load does not matter. Constants are those of
`sandlot.run.simulate.fleet`, not calibrated on a GPU. Each cell is the mean over `--seeds N` workloads (1). `--large` adds a
million rollouts on two thousand instances.
"""

import sys
import time
from dataclasses import replace
from statistics import fmean

from report import Report, Row, publish, say

from sandlot.run.simulate import SEER, Fleet, LengthModel, SimulatedRun, make_workload, named_rules, simulate

NAME = "schedule"
FLEETS = {
    "moonlight": Fleet(instances=32, cache_tokens=700_000),
    "qwen2-vl": Fleet(instances=16, cache_tokens=900_000),
    "kimi-k2": Fleet(instances=8, cache_tokens=5_000_000, token_s=3e-9),
}
MIXES = {"siblings alike": (0.8, 0.25), "siblings differ": (0.5, 0.6)}
PEERS = ("least-attained", "chunked-fifo", "seer-2048", "seer", "least-loaded", "verl", "foresight")
LARGE = LengthModel(groups=125_000, group_size=8, mean=4_000, longest=32_768, prompt=512, between=0.8, within=0.25)
LARGE_FLEET = Fleet(instances=2_000, cache_tokens=700_000)


def run_all(model: LengthModel, fleet: Fleet, name: str, seeds: tuple[int, ...]) -> list[SimulatedRun]:
    """One set of rules on the workload of each seed."""
    made = [make_workload(name, model, seed) for seed in seeds]
    return [simulate(workload, fleet, named_rules(workload)[name]) for workload in made]


def main() -> None:
    """Every workload, mix and set of rules; then one large fleet."""
    small = "--small" in sys.argv
    seeds = tuple(range(int(sys.argv[sys.argv.index("--seeds") + 1]) if "--seeds" in sys.argv else 1))
    rows: list[Row] = []
    ours: dict[str, float] = {}
    for workload, fleet in FLEETS.items():
        for mix, (between, within) in MIXES.items():
            model = replace(SEER[workload], between=between, within=within)
            model = replace(model, groups=model.groups // 20) if small else model
            found = {name: run_all(model, fleet, name, seeds) for name in ("adaptive", *PEERS)}
            ratios = {name: fmean(run.ratio for run in runs) for name, runs in found.items()}
            case = f"{workload}, {mix}"
            ours[case] = ratios["adaptive"]
            peers = {name: round(ratios[name], 3) for name in PEERS}
            rows.append(Row(f"{case}: time / bound, less is better", round(ratios["adaptive"], 3), peers, "<= 1.2"))
            moved = {name: fmean(run.moved_tokens for run in runs) / 1e6 for name, runs in found.items()}
            rows.append(Row(f"{case}: million cache tokens moved", moved["adaptive"], {name: moved[name] for name in PEERS}))
            say(f"{case}: adaptive {ratios['adaptive']:.3f}, " + ", ".join(f"{name} {ratios[name]:.3f}" for name in PEERS))
    if "--large" in sys.argv:
        started = time.process_time()
        large = run_all(LARGE, LARGE_FLEET, "adaptive", (0,))[0]
        ours["cpu_s of a million rollouts"] = time.process_time() - started
        what = f"CPU-seconds to simulate {large.rollouts:,} rollouts on {LARGE_FLEET.instances:,} instances"
        rows.append(Row(what, ours["cpu_s of a million rollouts"]))
    publish(Report(NAME, ours=ours, peers={}, ratios={}, rows=rows), write_table=not small)


if __name__ == "__main__":
    main()
