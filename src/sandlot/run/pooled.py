"""Runs of several environments taken as one: the held-out figures of a training that has more than one."""

from collections.abc import Iterator, Mapping
from itertools import chain

import msgspec

from sandlot.run.compare import ComparedRow, RunComparison, compare
from sandlot.run.results import Run, compared_rows
from sandlot.run.summary import Summary, summarise
from sandlot.store.columns import Table, arrow


def pooled_summary(runs: Mapping[str, Run]) -> Summary:
    """The summary over all tasks of runs, given by the names of their environments."""
    if len(runs) == 1:
        return next(iter(runs.values())).summary()
    return summarise(chain.from_iterable(_renamed(name, run) for name, run in runs.items()))


def pooled_comparison(before: Mapping[str, Run], after: Mapping[str, Run], *, despite_setting: bool = False) -> RunComparison:
    """Compare runs task by task over all environments; `ConfigError` if the setting of one differs."""
    alone = [before[name].compare(after[name], despite_setting=despite_setting) for name in before]
    if len(alone) == 1:
        return alone[0]
    return compare(*(chain.from_iterable(_rows(name, run) for name, run in each.items()) for each in (before, after)))


def _renamed(name: str, run: Run) -> Iterator[Table]:
    """The run's tables, with the environment's name in front of every task id: two environments may have the same ids."""
    for table in run.reader.tables():
        place = table.schema.get_field_index("task")
        ids = [f"{name}/{task}" for task in table.column("task").to_pylist()]
        yield table.set_column(place, "task", arrow().array(ids, arrow().string()))


def _rows(name: str, run: Run) -> Iterator[ComparedRow]:
    return (msgspec.structs.replace(row, task=f"{name}/{row.task}") for row in compared_rows(run))
