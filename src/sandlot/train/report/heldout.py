"""The figures of held-out evaluations: where several agents act, of the seats that learn.

The score of such a rollout is that of all checks together, also of seats that are frozen. Where seats are opposed it hardly
moves, however much one of them learns. So a rollout counts here with the mean of the learning seats' own scores, and as passed if
all of them have full marks.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from sandlot.core.trace import Trace
from sandlot.run.compare import ComparedRow, RunComparison, compare
from sandlot.run.learners import learning_seats
from sandlot.run.pooled import pooled_comparison, pooled_summary
from sandlot.run.results import Run
from sandlot.run.summary import Summary, summarise
from sandlot.store.columns import Table, arrow
from sandlot.train.rows import learner_scores


def heldout_summary(runs: Mapping[str, Run], seat: str | None = None) -> Summary:
    """The summary over all tasks of an evaluation's runs, given by the names of their environments; or only of one seat."""
    if not _have_seats(runs):
        return pooled_summary(runs)
    return summarise(chain.from_iterable(_tables(name, run, seat) for name, run in runs.items()))


def heldout_comparison(
    before: Mapping[str, Run], after: Mapping[str, Run], seat: str | None = None, *, despite_setting: bool = False
) -> RunComparison:
    """Compare two evaluations task by task over all environments, or one seat; `ConfigError` if the setting of one differs."""
    whole = pooled_comparison(before, after, despite_setting=despite_setting)
    if not _have_seats(before):
        return whole
    return compare(*(chain.from_iterable(_rows(name, run, seat) for name, run in each.items()) for each in (before, after)))


def _have_seats(runs: Mapping[str, Run]) -> bool:
    return any(run.manifest.seats for run in runs.values())


def _tables(name: str, run: Run, seat: str | None) -> Iterator[Table]:
    """The run's tables with the learners' scores, and the environment's name in front of every task id, which may be in two."""
    learners = learning_seats(run) if seat is None else [seat]
    found = {trace.key: _result(trace, learners) for trace in run} if learners else {}
    for table in run.reader.tables():
        tasks, rollouts = (table.column(column).to_pylist() for column in ("task", "rollout"))
        columns = {"task": [f"{name}/{task}" for task in tasks]}
        if learners:
            results = [found[key] for key in zip(tasks, rollouts, strict=True)]
            columns |= {"score": [score for score, _ in results], "passed": [passed for _, passed in results]}
        for column, values in columns.items():
            place = table.schema.get_field_index(column)
            table = table.set_column(place, column, arrow().array(values, table.schema.field(place).type))  # noqa: PLW2901 - built up column by column
        yield table


def _result(trace: Trace, learners: list[str]) -> tuple[float | None, bool | None]:
    """The learners' mean score, and whether all have full marks; None for a rollout without a score."""
    scores = learner_scores(trace, learners)
    if not scores:
        return None, None
    return sum(score.value for score in scores) / len(scores), all(score.passed for score in scores)


def _rows(name: str, run: Run, seat: str | None) -> Iterator[ComparedRow]:
    for table in _tables(name, run, seat):
        yield from map(ComparedRow, *(table.column(each).to_pylist() for each in ComparedRow.__struct_fields__))
