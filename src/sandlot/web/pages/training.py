"""A training: curves, alarms and what was done about them, the rollouts of any step, held-out tasks before and after."""

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sandlot.analysis.training_state import StoredTraining, open_training
from sandlot.core.errors import SandlotError
from sandlot.core.trace import Scored, Trace
from sandlot.env.transcript import message_lines
from sandlot.observe.training_records import Learned, Measured
from sandlot.run.compare import RunComparison
from sandlot.run.learners import learning_seats
from sandlot.run.results import Run
from sandlot.store.lock import is_live
from sandlot.store.reader import RunReader
from sandlot.web.charts import Chart, Series, line_of
from sandlot.web.grid import Cells, find_groups
from sandlot.web.site import Asked

_STEPS = 12
"""Steps in the table; any other can be asked for."""
_TASKS = 12
"""Held-out tasks shown that changed most, in each direction."""
_LONGEST = 600
"""Characters per message of an example."""
_NORMAL = 1.96


class TrainingNow(msgspec.Struct, frozen=True):
    """What changes while a training goes on."""

    live: bool
    lines: int
    doing: str

    def encoded(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self)


def training_now(asked: Asked) -> TrainingNow:
    """How far a training is."""
    path = asked.run
    live, training = is_live(path), open_training(path)
    return TrainingNow(live, len(training.lines), training.doing(asked.site.followers.state_of(path)) if live else "")


def training_charts(asked: Asked) -> dict[str, Any]:
    """The curves so far, for `chart.js`."""
    return {"charts": list(_charts(open_training(asked.run)))}


def training_page(asked: Asked) -> dict[str, Any]:
    """A training; `step` asks for the rollouts of one step, `task` for one held-out task before and after."""
    path = asked.run
    live, training = is_live(path), open_training(path)
    steps, evaluations = training.steps, training.evaluations
    chosen = asked.number("step") or training.version
    last = steps[-1] if steps else None
    return {
        "title": path.name,
        "name": path.name,
        "live": live,
        "doing": training.doing(asked.site.followers.state_of(path)) if live else "",
        "state": training.run.verdict,
        "environment": ", ".join(training.run.environments),
        "recipe": training.recipe,
        "models": training.recipe.names(training.run),
        "algorithm": str(training.recipe.algorithm.get("is", "")),
        "version": training.version,
        "last": last,
        "teaching": last.informative / max(1, last.groups) if last else None,
        "first_score": evaluations[0] if evaluations else None,
        "last_score": evaluations[-1] if evaluations else None,
        "best": _best(evaluations, ""),
        "seats": _seats(evaluations),
        "rollouts": sum(step.rollouts for step in steps),
        "failed": sum(step.failed for step in steps),
        "seconds": sum(step.seconds for step in steps),
        "happened": list(training.incidents(live=live)),
        "steps": list(reversed(steps[-_STEPS:])),
        "evaluations": [(line, Path(line.run).name) for line in evaluations],
        "chosen": chosen,
        "groups": _rollouts_of(training, chosen),
        **_before_and_after(training, asked.query.get("task", "")),
    }


def _best(evaluations: Sequence[Measured], policy: str) -> Measured | None:
    """The evaluation with the best score of a policy; the earliest of equals."""
    known = [line for line in evaluations if line.has_score_of(policy)]
    return max(known, key=lambda line: (line.score_of(policy), -line.version), default=None)


def _seats(evaluations: Sequence[Measured]) -> list[dict[str, Any]]:
    """Where several agents of one environment learn: each one's own scores, and its best version if it has weights of its own."""
    known = [next(iter(line.environments.values())).seats if len(line.environments) == 1 else {} for line in evaluations]
    return [
        {
            "name": seat,
            "scores": [each[seat].mean if seat in each else None for each in known],
            "first": known[0][seat].mean if seat in known[0] else None,
            "last": last.mean,
            "low": last.low,
            "high": last.high,
            "best": best.version if last.policy and (best := _best(evaluations, last.policy)) else None,
        }
        for seat, last in (known[-1].items() if known else ())
    ]


def _rollouts_of(training: StoredTraining, version: int) -> Cells:
    """The groups that one step learned from; with several environments, those of the first, which has this directory."""
    name = training.run.manifest.environment

    def count(step: Learned) -> int:
        own = step.environments.get(name)
        if own is None:
            return step.groups
        return own.groups // max(1, len(learning_seats(training.run)))  # every seat that learns has a group of its own

    before = sum(count(step) for step in training.steps if step.version < version)
    step = next((step for step in training.steps if step.version == version), None)
    return find_groups(training.run.reader, training.recipe.group, before, count(step)) if step else []


# -- before and after --------------------------------------------------------------------------------------------------


def _before_and_after(training: StoredTraining, task: str) -> dict[str, Any]:
    """The first and the last evaluation compared, and one task of both side by side."""
    shown: dict[str, Any] = {"compared": None, "changes": [], "pair": [], "task": "", "places": []}
    if len(training.evaluations) < 2:
        return shown
    lines = training.evaluations[0], training.evaluations[-1]
    before, after = (training.measured(line) for line in lines)
    if before is None or after is None:
        return shown
    try:
        compared = before.compare(after, despite_setting=True)
    except SandlotError:
        return shown
    changes = [*compared.improved[:_TASKS], *compared.regressed[:_TASKS]]
    known = {each.task for each in (*compared.improved, *compared.regressed)}
    task = task or (changes[0].task if changes else _any_task(before))
    return {
        "compared": compared,
        "clear": _is_clear(compared),
        "changes": changes,
        "task": task,
        "changed": task in known,
        "places": [Path(line.run).name for line in lines],
        "pair": [_side(run, line, task) for run, line in ((before, lines[0]), (after, lines[1]))],
    }


def _is_clear(compared: RunComparison) -> bool:
    return not compared.score.low <= 0 <= compared.score.high


def _any_task(run: Run) -> str:
    names = run.reader.table(["task"]).column("task").to_pylist()
    return names[0] if names else ""


def _side(run: Run, line: Measured, task: str) -> dict[str, Any]:
    """One evaluation of a task: its scores, and the first rollout as text."""
    reader: RunReader = run.reader
    rows = reader.task_rows(task)
    trace = reader.trace(task, rows[0].rollout)
    scores = [(row.rollout, row.score) for row in rows]
    place = f"{run.path.parent.parent.name}/evaluations/{run.path.name}/{task}/{rows[0].rollout}"
    return {
        "version": line.version,
        "place": run.path.name,
        "scores": scores,
        "rollout": trace.rollout,
        "good": isinstance(trace.outcome, Scored) and trace.outcome.score.passed,
        "text": "\n".join(_text(trace)),
        "command": shlex.join(("sandlot", "show", place)),
    }


def _text(trace: Trace) -> Iterator[str]:
    for node in trace.path():
        for line in message_lines(node.message):
            yield line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


# -- curves ------------------------------------------------------------------------------------------------------------


def _charts(training: StoredTraining) -> Iterator[Chart]:
    """The curves, each with an explanation."""
    steps, measured = training.steps, training.evaluations
    yield Chart(
        title="Held-out score",
        note="On tasks that are never trained on, with the 95 % interval over tasks.",
        x="version",
        range=_unit([line.mean for line in measured]),
        series=[
            line_of("score", [(line.version, line.mean) for line in measured], [(line.low, line.high) for line in measured]),
            line_of(
                "full marks",
                [(line.version, line.passed) for line in measured],
                [(line.passed_low, line.passed_high) for line in measured],
            ),
        ],
    )
    yield _reward(steps)
    if len(training.run.environments) > 1:
        yield from _by_environment(training)
    for name in training.run.environments:
        yield from _by_seat(name, training)
    yield Chart(
        title="Groups that teach",
        note="Share of the groups of a step whose rewards differ, and of rollouts that failed.",
        x="step",
        range=(0, 1),
        percent=True,
        series=[
            _over(steps, "groups that teach", lambda step: step.informative / max(1, step.groups)),
            _over(steps, "failed rollouts", lambda step: step.failed / max(1, step.rollouts)),
        ],
    )
    yield from _policy(steps)
    yield from _behaviour(steps)
    yield Chart(
        title="Time by phase",
        note="Share of each step's time. Evaluations are not included.",
        x="step",
        range=(0, 1),
        percent=True,
        series=[
            _over(steps, name, lambda step, name=name: step.shares[name])
            for name in ("sampling", "environment", "grading", "update")
        ],
    )
    yield Chart(
        title="Speed",
        note="Sampled tokens per second of the whole step.",
        x="step",
        series=[_over(steps, "tokens per second", lambda step: step.tokens_per_s)],
    )


def _by_environment(training: StoredTraining) -> Iterator[Chart]:
    """The curves of each environment, of a training that has several."""
    names = list(training.run.environments)
    measured = [line for line in training.evaluations if line.environments]
    steps = [step for step in training.steps if step.environments]
    yield Chart(
        title="Held-out score by environment",
        note="On tasks that are never trained on.",
        x="version",
        range=_unit([part.mean for line in measured for part in line.environments.values()]),
        series=[line_of(name, [(line.version, line.environments[name].mean) for line in measured]) for name in names],
    )
    yield Chart(
        title="Full marks in training by environment",
        note="Share of the scored rollouts of a step.",
        x="step",
        range=(0, 1),
        percent=True,
        series=[
            _over(steps, name, lambda step, name=name: step.environments[name].passed if step.environments[name].groups else None)
            for name in names
        ],
    )
    yield Chart(
        title="Groups by environment",
        note="Share of the groups of a step.",
        x="step",
        range=(0, 1),
        percent=True,
        series=[
            _over(steps, name, lambda step, name=name: step.environments[name].groups / max(1, step.groups)) for name in names
        ],
    )


def _by_seat(name: str, training: StoredTraining) -> Iterator[Chart]:
    """The curves of each seat that learns, in an environment where several agents act."""
    measured = [(line.version, line.environments[name].seats) for line in training.evaluations if name in line.environments]
    seats = list(dict.fromkeys(seat for _, each in measured for seat in each))
    if not seats:
        return
    where = f": {name}" if len(training.run.environments) > 1 else ""
    yield Chart(
        title=f"Held-out score by seat{where}",
        note="Each seat's own score, on tasks that are never trained on, with the 95 % interval over tasks.",
        x="version",
        range=_unit([score.mean for _, each in measured for score in each.values()]),
        series=[
            line_of(
                seat,
                [(version, each[seat].mean) for version, each in measured if seat in each],
                [(each[seat].low, each[seat].high) for _, each in measured if seat in each],
            )
            for seat in seats
        ],
    )
    steps = [step for step in training.steps if name in step.environments]
    yield Chart(
        title=f"Training reward by seat{where}",
        note="Means over the rollouts of a step.",
        x="step",
        series=[_over(steps, seat, lambda step, seat=seat: step.environments[name].seats.get(seat)) for seat in seats],
    )
    own = [policy for policy in (steps[-1].policies if steps else ()) if policy]
    if own:
        yield Chart(
            title="Entropy by seat",
            note="Of each policy with weights of its own, in nats per token.",
            x="step",
            series=[
                _over(steps, seat, lambda step, seat=seat: step.policies[seat].entropy if seat in step.policies else None)
                for seat in own
            ],
        )


def _reward(steps: Sequence[Learned]) -> Chart:
    error = [(step.reward - _NORMAL * step.reward_error, step.reward + _NORMAL * step.reward_error) for step in steps]
    series = [
        line_of("reward", [(step.version, step.reward) for step in steps], error),
        _over(steps, "full marks", lambda step: step.passed),
    ]
    if any(step.outcome != step.passed for step in steps):
        series.append(_over(steps, "outcome", lambda step: step.outcome))
    return Chart(
        title="Training reward",
        note="Means over the rollouts of a step, with the 95 % interval. Each step has other tasks, so the curve jumps.",
        x="step",
        range=_unit([step.reward for step in steps]),
        series=series,
    )


def _policy(steps: Sequence[Learned]) -> Iterator[Chart]:
    """What the update shows: entropy and KL of a policy that learns from its own samples; loss of one that imitates."""
    yield Chart(
        title="Entropy",
        note="In nats per token. At 0 the policy has stopped exploring.",
        x="step",
        series=[_over(steps, "entropy", lambda step: step.entropy if step.tokens else None)],
    )
    if steps and all(step.kl is None for step in steps):
        yield Chart(
            title="Loss of imitation",
            note="Mean of -log p of the imitated tokens, in nats per token.",
            x="step",
            series=[_over(steps, "loss", lambda step: step.loss)],
        )
    else:
        yield Chart(
            title="KL from the sampling policy",
            note="To the policy that is updated. Without staleness only rounding is left.",
            x="step",
            series=[_over(steps, "KL", lambda step: step.kl if step.tokens else None)],
        )
    yield Chart(
        title="Gradient norm",
        note="Before clipping.",
        x="step",
        series=[_over(steps, "norm", lambda step: step.norm if step.tokens else None)],
    )
    yield Chart(
        title="Staleness",
        note="Versions between the oldest trained token and the weights.",
        x="step",
        series=[_over(steps, "versions", lambda step: step.staleness)],
    )


def _behaviour(steps: Sequence[Learned]) -> Iterator[Chart]:
    yield Chart(
        title="Length",
        note="Sampled tokens per rollout.",
        x="step",
        series=[_over(steps, "tokens", lambda step: step.sampled / max(1, step.rollouts))],
    )
    yield Chart(
        title="Diversity within groups",
        note="Different rollouts as a share of a group, and the distance between two of them.",
        x="step",
        range=(0, 1),
        series=[
            _over(steps, "different rollouts", lambda step: step.diversity.distinct if step.diversity else None),
            _over(steps, "distance", lambda step: step.diversity.distance if step.diversity else None),
        ],
    )
    if any(step.clipped for step in steps):
        yield Chart(
            title="Clipped tokens",
            note="Share of trained tokens whose ratio was clipped.",
            x="step",
            percent=True,
            series=[_over(steps, "clipped", lambda step: step.clipped)],
        )


def _over(steps: Sequence[Learned], name: str, value: Callable[[Learned], float | None]) -> Series:
    return line_of(name, [(step.version, value(step)) for step in steps])


def _unit(values: Sequence[float]) -> tuple[float, float] | None:
    """From 0 to 1, where all values are there."""
    return (0, 1) if all(math.isnan(value) or 0 <= value <= 1 for value in values) else None
