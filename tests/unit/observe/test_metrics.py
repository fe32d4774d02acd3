"""The Prometheus text stays well-formed whatever names agents and tools invent, and its size is bounded."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.observe.metrics import OTHER, Metric, render_metrics

LINE = re.compile(r'(\w+)\{what="((?:[^"\\\n]|\\["\\n])*)"\} (\S+)')


def counter() -> Metric:
    return Metric("counter", "calls_total", "Calls.", ["what"])


@given(st.lists(st.text(st.characters(codec=None)), max_size=20))
def test_any_name_becomes_one_whole_line_and_no_series_appears_twice(names: list[str]) -> None:
    metric = counter()
    for name in names:
        metric.add(1, name)
    lines = render_metrics([metric]).encode().decode().split("\n")
    assert lines.pop() == ""
    found = [LINE.fullmatch(line) for line in lines[2:]]
    assert all(found)
    labels = [each[2] for each in found if each]
    assert len(set(labels)) == len(labels)
    assert sum(float(each[3]) for each in found if each) == len(names)


@pytest.mark.parametrize(
    ("name", "shown"),
    [('a"b', r"a\"b"), ("a\\b", r"a\\b"), ("a\nb 1\n# TYPE", "a b 1 # TYPE"), ("\x1b[31m", r"\\x1b[31m"), ("\ud800", r"\\xd800")],
)
def test_hostile_names_are_escaped(name: str, shown: str) -> None:
    metric = counter()
    metric.add(2, name)
    assert list(metric.lines())[2:] == [f'calls_total{{what="{shown}"}} 2']


def test_more_names_than_the_limit_are_counted_together() -> None:
    metric = counter()
    for number in range(5000):
        metric.add(1, f"tool-{number}")
    lines = list(metric.lines())
    assert len(lines) < 110
    assert lines[-1] == f'calls_total{{what="{OTHER}"}} 4900'


def test_a_histogram_counts_up_to_and_including_each_limit() -> None:
    metric = Metric("histogram", "wait_seconds", "Waits.", buckets=(0.5, 1, 2.5))
    for value in (0.5, 0.6, 1.0, 2.6, math.inf, math.nan):
        metric.observe(value)
    assert list(metric.lines()) == [
        "# HELP wait_seconds Waits.",
        "# TYPE wait_seconds histogram",
        'wait_seconds_bucket{le="0.5"} 1',
        'wait_seconds_bucket{le="1"} 3',
        'wait_seconds_bucket{le="2.5"} 3',
        'wait_seconds_bucket{le="+Inf"} 5',
        "wait_seconds_sum +Inf",
        "wait_seconds_count 5",
    ]


def test_a_counter_is_there_from_the_start_and_a_gauge_when_it_is_known() -> None:
    gauge = Metric("gauge", "kl", "KL.")
    assert render_metrics([Metric("counter", "steps_total", "Steps."), gauge]).endswith("\nsteps_total 0\n")
    gauge.set(math.nan)
    assert list(gauge.lines())[-1] == "kl NaN"
