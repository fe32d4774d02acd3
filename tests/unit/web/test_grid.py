"""Tasks found by columns: filters and pages agree with looking at every row, and groups of a training come in order."""

from random import Random

import pytest

import sandlot
from builders import rows
from builders.stored_runs import store_rows
from sandlot.store.reader import RunReader
from sandlot.web.grid import TaskFilter, TaskIndex, find_groups, find_tasks


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return sandlot.run("arithmetic", "scripted:golden", rollouts=1, runs=tmp_path_factory.mktemp("one")).path / "manifest.json"


def mixed(rng: Random) -> list:
    made = []
    for task in range(40):
        for rollout in range(4):
            kind = rng.random()
            name = f"{'Odd' if task % 2 else 'even'}-{task}"
            if kind < 0.1:
                made.append(rows.failed(name, rollout, side="sandbox"))
            elif kind < 0.15:
                made.append(rows.cancelled(name, rollout))
            else:
                made.append(rows.scored(name, rollout, rng.choice([0.0, 0.5, 1.0])))
    rng.shuffle(made)
    return made


FILTERS = [
    TaskFilter(),
    TaskFilter(text="ODD-1"),
    TaskFilter(low=0.5),
    TaskFilter(low=0.2, high=0.6, text="even"),
    *(TaskFilter(outcome=outcome) for outcome in ("passed", "lost points", "scored", "failed", "cancelled")),
    TaskFilter(text="nothing is called this"),
]


def is_wanted(task: str, made: list, wanted: TaskFilter) -> bool:
    """The slow way."""
    scores = [row.score for row in made if row.score is not None]
    mean = sum(scores) / len(scores) if scores else None
    has = {
        "passed": any(row.passed for row in made),
        "lost points": any(row.score is not None and not row.passed for row in made),
        "scored": bool(scores),
        "failed": any(row.outcome == "failed" for row in made),
        "cancelled": any(row.outcome == "cancelled" for row in made),
        "": True,
    }
    inside = (wanted.low is None or (mean is not None and mean >= wanted.low)) and (
        wanted.high is None or (mean is not None and mean <= wanted.high)
    )
    return wanted.text.lower() in task.lower() and inside and has[wanted.outcome]


@pytest.mark.parametrize("wanted", FILTERS)
def test_a_filter_finds_what_looking_at_every_row_finds(wanted, manifest, tmp_path):
    made = mixed(Random(3))
    reader = RunReader(store_rows(tmp_path / "run", manifest, made, size=50))
    by_task: dict = {}
    for row in made:
        by_task.setdefault(row.task, []).append(row)
    expected = [task for task, its in by_task.items() if is_wanted(task, its, wanted)]
    page = find_tasks(reader, TaskIndex.read(reader), wanted, 0, 1000)
    assert [task for task, _ in page.cells] == expected, "in the order of the store"
    assert (page.num_matching, page.num_tasks) == (len(expected), 40)
    for task, cells in page.cells:
        assert [cell["rollout"] for cell in cells] == sorted(row.rollout for row in by_task[task])


def test_pages_divide_the_tasks_and_a_page_beyond_the_end_is_the_last(manifest, tmp_path):
    reader = RunReader(store_rows(tmp_path / "run", manifest, [rows.scored(f"t{n}") for n in range(25)], size=10))
    index = TaskIndex.read(reader)
    pages = [find_tasks(reader, index, TaskFilter(), start, 10) for start in (0, 10, 20, 10**9)]
    assert [[task for task, _ in page.cells] for page in pages[:3]] == [
        [f"t{n}" for n in range(first, min(25, first + 10))] for first in (0, 10, 20)
    ]
    assert pages[3] == pages[2]
    empty = RunReader(store_rows(tmp_path / "empty", manifest, []))
    assert find_tasks(empty, TaskIndex.read(empty), TaskFilter(), 0, 10).cells == []


def test_groups_of_a_training_come_in_the_order_they_were_begun(manifest, tmp_path):
    order = [("a", 0), ("c", 0), ("b", 0), ("b", 1), ("a", 1), ("c", 1)]  # task, epoch
    made = [
        rows.scored(task, epoch * 3 + member, started=100.0 + number + member / 10)
        for number, (task, epoch) in enumerate(order)
        for member in range(3)
    ]
    Random(1).shuffle(made)  # they end in another order
    reader = RunReader(store_rows(tmp_path / "run", manifest, made, size=5))
    groups = find_groups(reader, 3, 0, 100)
    assert [(task, [cell["rollout"] for cell in cells]) for task, cells in groups] == [
        (task, [epoch * 3, epoch * 3 + 1, epoch * 3 + 2]) for task, epoch in order
    ]
    assert [task for task, _ in find_groups(reader, 3, 2, 2)] == ["b", "b"]


def test_rows_are_taken_from_the_parts_that_have_them(manifest, tmp_path):
    reader = RunReader(store_rows(tmp_path / "run", manifest, [rows.scored(f"t{n}") for n in range(30)], size=10))
    assert reader.take([0, 9, 10, 25, 29], ["task"]).column("task").to_pylist() == ["t0", "t9", "t10", "t25", "t29"]
    assert reader.take([], ["task"]).num_rows == 0
