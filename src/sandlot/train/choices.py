"""Which task each group of a training is of.

Tasks come in proportion to their weights, spread evenly (stride scheduling): an environment, and in it a task, has a mark that
moves on by 1 / weight when it is chosen, and the one that is furthest behind is next. With equal weights every task of an
environment comes once, shuffled, before any comes again. Every choice is written down before its group starts. A training that
is continued reads them: it must not choose another task for a group whose rollouts are stored.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

import msgspec

from sandlot.core.errors import ConfigError, boundary
from sandlot.core.rubric import RubricScore
from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.store.lines import append_line, read_lines
from sandlot.train.rows import learner_scores
from sandlot.train.weights import GroupResult, TaskRecord, Weigh, weigh_equally

FILE = "choices.jsonl"


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """The task of one group."""

    environment: str
    task: Task
    before: int
    """Groups of the same task that were chosen before."""


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """A choice as it is written down."""

    group: int
    environment: str
    task: str
    strides: tuple[float, float]
    """How far the marks of the environment and of the task moved on."""


class TaskChoices:
    """The choices of a training, made one after the other."""

    def __init__(
        self,
        tasks: Mapping[str, Sequence[Task]],
        *,
        seed: int,
        shares: Mapping[str, float] | None = None,
        seats: Mapping[str, Sequence[str]] | None = None,
        weigh: Weigh = weigh_equally,
        file: Path | None = None,
    ) -> None:
        """All by environment: its `tasks`, its own weight (`shares`), its `seats` that learn. Without `file` nothing is kept."""
        self._seed, self._weigh, self._file = seed, weigh, file
        self._seats = seats or {}
        self._tasks = [(name, task) for name, each in tasks.items() for task in each]
        self.records = [TaskRecord(name, task.public()) for name, task in self._tasks]
        self._number = {(name, task.id): number for number, (name, task) in enumerate(self._tasks)}
        self._shares = {name: (shares or {}).get(name, 1.0) for name in tasks}
        self._first = {name: self._number[name, each[0].id] for name, each in tasks.items()}
        self._sizes = {name: len(each) for name, each in tasks.items()}
        self._weights: Sequence[float] = []
        self.means: dict[str, float] = {}
        """The mean weight of each environment's tasks."""
        self._marks = dict.fromkeys(tasks, 0.0)
        self._task_marks = [0.0] * len(self._tasks)
        self._heaps: dict[str, list[tuple[float, int, int]]] | None = None
        """Of each environment a heap of its tasks: mark, place in the shuffled order, number. None before the first choice."""
        self._made: list[TaskChoice] = []
        self._results: list[tuple[int, GroupResult]] = []
        self._stored = list(_read(file)) if file is not None else []
        self._update_weights()

    def at(self, group: int) -> TaskChoice:
        """The choice for a group; groups are asked for in order, each as often as needed."""
        while len(self._made) <= group:
            self._made.append(self._next(len(self._made)))
        return self._made[group]

    def note(self, group: int, traces: Sequence[Trace]) -> None:
        """A group is learned from; its result counts from the next `settle` on."""
        seats = self._seats.get(self.at(group).environment, ())
        self.note_result(group, result_of([score for trace in traces for score in learner_scores(trace, seats)]))

    def note_result(self, group: int, result: GroupResult) -> None:
        """As `note`, for a group of an earlier sitting."""
        choice = self.at(group)
        self._results.append((self._number[choice.environment, choice.task.id], result))

    def settle(self) -> None:
        """The weights that were trained on all noted groups are published: weigh the tasks anew."""
        for number, result in self._results:
            self.records[number].results.append(result)
        self._results.clear()
        self._update_weights()

    def _update_weights(self) -> None:
        with boundary(ConfigError, "`weigh` of the recipe"):
            self._weights = [float(weight) for weight in self._weigh(self.records)]
        if len(self._weights) != len(self.records):
            raise ConfigError(f"`weigh` returned {len(self._weights)} weights for {len(self.records)} tasks; return one for each")
        wrong = [number for number, weight in enumerate(self._weights) if not 0 < weight < math.inf]
        if wrong:
            task = self.records[wrong[0]].task.id
            raise ConfigError(f"`weigh` gave task `{task}` the weight {self._weights[wrong[0]]}; give a finite one above 0")
        self.means = {
            name: math.fsum(self._weights[first : first + self._sizes[name]]) / self._sizes[name]
            for name, first in self._first.items()
        }

    def _next(self, group: int) -> TaskChoice:
        if group < len(self._stored):
            return self._repeat(self._stored[group])
        if self._heaps is None:
            self._heaps = {name: self._heap(name) for name in self._first}
        name = min(self._marks, key=lambda each: self._marks[each])  # the first of equals
        _, _, number = heapq.heappop(self._heaps[name])
        strides = (1 / (self._shares[name] * self.means[name]), 1 / self._weights[number])
        choice = self._count(number, strides)
        heapq.heappush(self._heaps[name], self._entry(number))
        if self._file is not None:
            line = _Line(group=group, environment=name, task=choice.task.id, strides=strides)
            append_line(self._file, msgspec.json.encode(line))
        return choice

    def _repeat(self, line: _Line) -> TaskChoice:
        number = self._number.get((line.environment, line.task))
        if number is None:
            raise ConfigError(
                f"`{self._file}`: group {line.group} was of task `{line.task}` of `{line.environment}`, which this training does "
                "not have; restore the environment as it was, or name a new folder with `--run`"
            )
        return self._count(number, line.strides)

    def _count(self, number: int, strides: tuple[float, float]) -> TaskChoice:
        (name, task), record = self._tasks[number], self.records[number]
        choice = TaskChoice(name, task, record.started)
        record.started += 1
        self._marks[name] += strides[0]
        self._task_marks[number] += strides[1]
        return choice

    def _heap(self, name: str) -> list[tuple[float, int, int]]:
        heap = [self._entry(number) for number in range(self._first[name], self._first[name] + self._sizes[name])]
        heapq.heapify(heap)
        return heap

    def _entry(self, number: int) -> tuple[float, int, int]:
        return self._task_marks[number], self._place(number), number

    def _place(self, number: int) -> int:
        """The place of a task in the shuffled order of its environment, the next time it comes."""
        name = self._tasks[number][0]
        return _shuffled(self._seed, self.records[number].started, self._sizes[name])[number - self._first[name]]


@lru_cache(maxsize=64)
def _shuffled(seed: int, epoch: int, count: int) -> tuple[int, ...]:
    """The place of each of `count` tasks."""
    order = list(range(count))
    Random(f"{seed}/{epoch}").shuffle(order)  # noqa: S311 - seeded on purpose
    places = [0] * count
    for place, number in enumerate(order):
        places[number] = place
    return tuple(places)


def result_of(scores: Sequence[RubricScore]) -> GroupResult:
    """What a group came to, by the scores of its rollouts; where seats learn, by each one's own: then `scored` counts seats."""
    return GroupResult(len(scores), sum(score.passed for score in scores), math.fsum(score.value for score in scores))


def _read(file: Path) -> list[_Line]:
    """The choices that were written down; a line that a crash cut off was not yet acted on."""
    lines: list[_Line] = []
    for text in read_lines(file):
        try:
            line = msgspec.json.decode(text, type=_Line)
        except msgspec.DecodeError:
            continue
        if line.group == len(lines):
            lines.append(line)
    return lines
