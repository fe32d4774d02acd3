"""Calibration of simulated tasks whose pass rates are known: does it err as often as it says, and what does it save?

    make bench NAME=calibrate

Each taskset is drawn from a family of pass rates and calibrated as the command does it: waves by `CalibrationState`, priors from
other tasks of the family, no budget. What came of it stands next to the error rates the command prints, and next to the fixed
number of rollouts of every task that errs as little. With a budget: how many tasks it places rightly against sharing it out
evenly.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from report import Report, Row, publish, say

from sandlot.calibrate.tasks.calibration import Errors, errors_of, families_of
from sandlot.calibrate.tasks.placement import Placement, TaskLabel, placements
from sandlot.calibrate.tasks.rule import Belief, Region, Rule
from sandlot.calibrate.tasks.state import CalibrationState
from sandlot.core.task import Task
from sandlot.core.trace_row import TraceRow

NAME = "calibrate"
FAMILIES = {
    "spread evenly": Belief(1, 1),
    "around the band (mean .35, sd .12)": Belief(0.35 * 14.8, 0.65 * 14.8),
    "mostly hard (mean .15, sd .12)": Belief(0.15 * 7.85, 0.85 * 7.85),
    "easy or hard (U-shaped)": Belief(0.4, 0.4),
}


@dataclass
class Simulated:
    """Tasks of known pass rates, and rollouts of them."""

    rates: dict[str, float]
    seed: int
    taken: dict[tuple[str, int], bool] = field(default_factory=dict)

    @classmethod
    def drawn(cls, family: Belief, count: int, seed: int) -> "Simulated":
        rng = Random(seed)
        return cls({f"t-{number}": rng.betavariate(family.a, family.b) for number in range(count)}, seed)

    def rollout(self, task: str, number: int) -> TraceRow:
        passed = Random(f"{self.seed}/{task}/{number}").random() < self.rates[task]
        plain = dict.fromkeys(("side", "kind", "message"), None)
        counts = dict.fromkeys(("turns", "calls", "tool_errors", "prompt_tokens", "completion_tokens"), 0)
        return TraceRow(
            task=task, rollout=number, split="train", tags=(), end="done", outcome="scored", score=float(passed),
            points=float(passed), possible=1.0, passed=passed, usd=0.0, seconds=0.0, phases={}, attempts=1, started=0.0,
            **plain, **counts,
        )  # fmt: skip


def calibrated(simulated: Simulated, rule: Rule, budget: int | None) -> CalibrationState:
    """The command's own loop, with draws for rollouts."""
    standing = CalibrationState(rule, [Task(name) for name in simulated.rates], lambda _task: "all", budget=budget, at_once=64)
    while more := standing.next_rollouts():
        plan = standing.plan(more)
        for task, count in zip(plan.tasks, plan.counts, strict=True):
            for number in range(count):
                if number not in standing.taken[task.id].rollouts:
                    standing.note(simulated.rollout(task.id, number))
    return standing


@dataclass(frozen=True)
class Came:
    """What came of it, as shares of tasks."""

    wrong: float
    borderline: float
    error: float
    rollouts: float


def came(rule: Rule, simulated: Simulated, found: list[Placement], rollouts: int) -> Came:
    places = {TaskLabel.TOO_HARD: Region.BELOW, TaskLabel.IN_BAND: Region.INSIDE, TaskLabel.TOO_EASY: Region.ABOVE}
    wrong = borderline = error = 0
    for each in found:
        true = rule.region(simulated.rates[each.task])
        borderline += each.label is TaskLabel.BORDERLINE
        wrong += each.label in places and places[each.label] is not true
        error += each.likeliest is not true
    return Came(wrong / len(found), borderline / len(found), error / len(found), rollouts / len(found))


def mean(values: list[Came]) -> Came:
    return Came(
        *(sum(getattr(value, name) for value in values) / len(values) for name in ("wrong", "borderline", "error", "rollouts"))
    )


def one_family(rule: Rule, family: Belief, *, sets: int, tasks: int) -> Iterator[tuple[Came, Errors]]:
    for seed in range(sets):
        simulated = Simulated.drawn(family, tasks, seed)
        standing = calibrated(simulated, rule, None)
        found = [each for each in placements(standing, group=8) if each.label is not TaskLabel.FLAT]
        yield came(rule, simulated, found, standing.num_taken), errors_of(rule, families_of(standing).values())


def with_budget(rule: Rule, family: Belief, *, sets: int, tasks: int, each: int) -> tuple[float, float]:
    """The share called rightly by likeliest place: with the budget where it tells most, and shared out evenly."""
    right = even = 0.0
    for seed in range(sets):
        simulated = Simulated.drawn(family, tasks, seed)
        standing = calibrated(simulated, rule, each * tasks)
        right += 1 - came(rule, simulated, list(placements(standing, group=8)), standing.num_taken).error
        alike = CalibrationState(rule, standing.tasks, lambda _task: "all", budget=0, at_once=64)
        for task in simulated.rates:
            for number in range(each):
                alike.note(simulated.rollout(task, number))
        even += 1 - came(rule, simulated, list(placements(alike, group=8)), alike.num_taken).error
    return right / sets, even / sets


def shown(share: float) -> str:
    return f"{share:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=12, help="tasksets of each family")
    parser.add_argument("--tasks", type=int, default=60, help="tasks of each")
    parser.add_argument("--no-table", action="store_true")
    options = parser.parse_args()
    rule, rows, ours, ratios = Rule(), [], {}, {}
    for name, family in FAMILIES.items():
        started = time.process_time()
        pairs = list(one_family(rule, family, sets=options.sets, tasks=options.tasks))
        seen = mean([pair[0] for pair in pairs])
        printed = [pair[1] for pair in pairs]
        said = mean([Came(e.expected.wrong, e.expected.borderline, e.expected.error, e.expected.rollouts) for e in printed])
        fixed = [e.fixed.rollouts for e in printed if e.fixed is not None]
        baseline = sum(fixed) / len(fixed)
        right, even = with_budget(rule, family, sets=max(1, options.sets // 4), tasks=options.tasks, each=10)
        rows += [
            Row(f"{name}: placed wrongly, seen (as printed)", f"{shown(seen.wrong)} ({shown(said.wrong)})", target="alike"),
            Row(f"{name}: borderline, seen (as printed)", f"{shown(seen.borderline)} ({shown(said.borderline)})", target="alike"),
            Row(f"{name}: rollouts a task, less is better", f"{seen.rollouts:.1f} ({said.rollouts:.1f})",
                {"fixed number, same error": f"{baseline:.1f}"}),
            Row(f"{name}: called rightly with 10 rollouts a task, more is better", shown(right),
                {"shared out evenly": shown(even)}),
        ]  # fmt: skip
        ours[name] = {"seen": vars(seen), "printed": vars(said), "right_with_budget": right, "right_shared_evenly": even}
        ratios[f"rollouts of a fixed number per ours, {name}"] = round(baseline / seen.rollouts, 2)
        say(f"{name}: {time.process_time() - started:.1f} CPU-seconds")
    publish(Report(NAME, ours=ours, peers={}, ratios=ratios, rows=rows), write_table=not options.no_table)


if __name__ == "__main__":
    main()
