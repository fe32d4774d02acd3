"""Whether what agents see and do has changed: the first half of a run against the second, or one run against another.

Differences between tasks are larger than drift, so the same tasks are compared: within a run, the earlier rollouts of each task
with its later ones; between runs, the tasks of both. A drift is reported if it is large (Cramer's V or the gap of two
distributions above 0.2) and significant (with Holm's correction).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sandlot.analysis.health.features import Features
from sandlot.analysis.health.item import HealthItem, HealthMark, too_little
from sandlot.core.stats.tests import Difference, distribution_gap, holm, mix_difference
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import Json

_LARGE = 0.2
_ALPHA = 0.01
FEWEST = 20
"""Minimum rollouts on each side."""
_MOST_TOOLS = 3

_RowFigure = Callable[[TraceRow], float]
_ROW_FIGURES: dict[str, _RowFigure] = {
    "turns": lambda row: row.turns,
    "tool calls": lambda row: row.calls,
    "completion tokens": lambda row: row.completion_tokens,
    "prompt tokens": lambda row: row.prompt_tokens,
}


@dataclass(frozen=True, slots=True)
class Sides:
    """Two sets of rollouts to compare."""

    first: list[TraceRow]
    second: list[TraceRow]
    alike: bool
    """True if both sides have the same tasks. If not, a difference may come from the tasks."""
    names: tuple[str, str]


def halves(rows: Sequence[TraceRow]) -> Sides:
    """The earlier and later rollouts of each task; if tasks do not repeat, the halves of the run."""
    names = ("the first half", "the second")
    tasks: defaultdict[str, list[TraceRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.started, row.task, row.rollout)):
        tasks[row.task].append(row)
    pairs = [(each[: len(each) // 2], each[-(len(each) // 2) :]) for each in tasks.values() if len(each) > 1]
    if sum(len(early) for early, _ in pairs) >= FEWEST:
        return Sides(
            [row for early, _ in pairs for row in early], [row for _, late in pairs for row in late], alike=True, names=names
        )
    ordered = [row for each in tasks.values() for row in each]
    middle = len(ordered) // 2
    return Sides(ordered[:middle], ordered[middle:], alike=False, names=names)


def sides_between(first: Sequence[TraceRow], second: Sequence[TraceRow]) -> Sides:
    """The rollouts of tasks that both runs have; all rollouts if they share no task."""
    shared = {row.task for row in first} & {row.task for row in second}
    names = ("that run", "this one")
    if shared:
        return Sides(
            [row for row in first if row.task in shared], [row for row in second if row.task in shared], alike=True, names=names
        )
    return Sides(list(first), list(second), alike=False, names=names)


def drift(sides: Sides, first: Sequence[Features], second: Sequence[Features]) -> HealthItem:
    """Compare two sides by their rows and by a sample of their traces."""
    if min(len(sides.first), len(sides.second)) < FEWEST:
        said = f"{len(sides.first)} rollouts against {len(sides.second)}"
        return too_little("drift", said, f"{FEWEST} rollouts on each side")
    found = {name: distribution_gap(map(figure, sides.first), map(figure, sides.second)) for name, figure in _ROW_FIGURES.items()}
    found |= _in_traces(first, second)
    adjusted = dict(zip(found, holm([each.p_value for each in found.values()]), strict=True))
    moved = [name for name, each in found.items() if each.size > _LARGE and adjusted[name] < _ALPHA]
    moved.sort(key=lambda name: -found[name].size)
    figures: Json = {
        "same_tasks": sides.alike,
        "first": len(sides.first),
        "second": len(sides.second),
        "traces": [len(first), len(second)],
        "compared": {name: {"size": each.size, "p_value": adjusted[name]} for name, each in found.items()},
    }
    if not moved:
        return HealthItem(name="drift", mark=HealthMark.OK, said=f"{_joined(sides.names)} do not differ", figures=figures)
    said = f"{_joined(sides.names)} differ in " + ", ".join(f"{name} ({_size(name, found[name])})" for name in moved)
    said += _mix(first, second) if "tools" in moved else ""
    if not sides.alike:
        needed = "rollouts of the same tasks on both sides: `--group 2` or more, or `--against RUN`"
        return HealthItem(
            name="drift", mark=HealthMark.UNKNOWN, said=f"{said}; but they have different tasks", needed=needed, figures=figures
        )
    return HealthItem(name="drift", mark=HealthMark.WARN, said=said, figures=figures)


def _in_traces(first: Sequence[Features], second: Sequence[Features]) -> dict[str, Difference]:
    if not first or not second:
        return {}
    return {
        "tools": mix_difference(_tools(first), _tools(second)),
        "tool errors": mix_difference(_errors(first), _errors(second)),
        "lengths observed": distribution_gap(_each(first, "observed"), _each(second, "observed")),
        "lengths said": distribution_gap(_each(first, "said"), _each(second, "said")),
    }


def _tools(features: Iterable[Features]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in features:
        total.update(each.tools)
    return total


def _errors(features: Sequence[Features]) -> dict[str, int]:
    errors = sum(each.errors for each in features)
    return {"error": errors, "result": sum(each.results for each in features) - errors}


def _each(features: Iterable[Features], name: str) -> list[int]:
    return [value for each in features for value in getattr(each, name)]


def _mix(first: Sequence[Features], second: Sequence[Features]) -> str:
    """The tools whose share changed most."""
    before, after = _tools(first), _tools(second)
    shares = {name: (before[name] / before.total(), after[name] / after.total()) for name in {*before, *after}}
    most = sorted(shares, key=lambda name: (-abs(shares[name][1] - shares[name][0]), name))[:_MOST_TOOLS]
    return ": " + ", ".join(f"`{name}` {shares[name][0]:.0%} then {shares[name][1]:.0%}" for name in most)


def _size(name: str, difference: Difference) -> str:
    return f"{'V' if name in {'tools', 'tool errors'} else 'D'} {difference.size:.2f}"


def _joined(names: tuple[str, str]) -> str:
    return f"{names[0]} and {names[1]}"
