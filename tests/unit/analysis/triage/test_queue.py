"""Queues of rollouts to read: drawn by triage, whether labelled or not, or by a person's own filter."""

from types import SimpleNamespace

import pytest

import sandlot
from sandlot.analysis.triage.labels import add_label
from sandlot.analysis.triage.queue import QueueFilter, filter_queue
from sandlot.analysis.triage.triage import _chosen, draw_queue, triage
from sandlot.core.errors import ConfigError

SOMETIMES = """
from sandlot import Environment, Task

env = Environment("sometimes")

@env.tasks
def tasks(rng):
    for number in range(20):
        yield Task(id=f"t-{number}", prompt="?", tags=("even",) if number % 2 == 0 else ())

@env.setup
def prepare(world, task):
    if task.id == "t-7":
        raise RuntimeError("no world")

@env.check(points=1)
def right(evidence, task):
    return task.id > "t-2"

@env.solution
async def solve(agent, task):
    await agent.say("done")
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("queue")
    (place / "sometimes.py").write_text(SOMETIMES)
    return sandlot.run(place / "sometimes.py", "scripted:golden", group=5, runs=place / "runs")


def keys(queue):
    return [(each.task, each.rollout) for each in queue]


def test_the_queue_is_what_triage_proposes_and_keeps_what_has_a_label(run):
    before = draw_queue(run)
    assert before == triage(run).proposed
    add_label(run.path, task=before[0].task, rollout=before[0].rollout, label="ok", by="ann", at=1.0)
    assert draw_queue(run) == before
    assert keys(before)[0] not in keys(triage(run).proposed)


def test_of_a_large_run_a_sample_is_considered_with_its_failures(run):
    few = draw_queue(run, most=24)
    assert few == draw_queue(run, most=24)
    assert 0 < len(few) <= 24 // 2 + 24 // 4
    assert [each.task for each in few if each.why == "the environment failed"][:4] == ["t-7"] * 4
    assert set(keys(draw_queue(run, most=24, seed=1))) != set(keys(few))


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ({}, 100),
        ({"task": "t-1"}, 55),
        ({"tag": "even"}, 50),
        ({"outcome": "failed"}, 5),
        ({"label": "env_crash"}, 5),
        ({"label": "ok", "task": "t-3"}, 5),
        ({"low": "0.5"}, 30),
        ({"high": "0.5"}, 65),
        ({"end": "done", "high": "0"}, 65),
        ({"outcome": "cancelled"}, 0),
        ({"split": "nowhere"}, 0),
        ({"tag": "<b>"}, 0),
    ],
)
def test_a_filter_finds_the_rollouts_that_are_as_asked(run, words, count):
    asked = QueueFilter.parse(words)
    assert len(filter_queue(run, asked)) == count
    assert QueueFilter.parse(asked.words) == asked, "the words of an address give the same filter again"


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(ConfigError, match="`low` is `much`; give a number"):
        QueueFilter.parse({"low": "much"})


@pytest.mark.parametrize(
    ("failed", "missed", "passed", "of_each"),
    [(20, 20, 20, (4, 4, 4)), (1, 20, 20, (1, 5, 6)), (0, 2, 20, (0, 2, 10)), (1, 2, 3, (1, 2, 3))],
)
def test_each_kind_of_outcome_gets_a_third_and_leaves_what_it_does_not_need(failed, missed, passed, of_each):
    kinds = {("failed", None): failed, ("scored", False): missed, ("scored", True): passed}
    rows = [SimpleNamespace(outcome=kind, passed=full) for (kind, full), number in kinds.items() for _ in range(number)]
    chosen = _chosen(rows, 12, seed=1)
    assert tuple(sum((row.outcome, row.passed) == kind for row in chosen) for kind in kinds) == of_each
