"""Metrics in memory and their Prometheus text format, version 0.0.4.

Label values may come from agents, tools and environments: they are made printable, cut and escaped, so none of them can break a
line. A metric keeps a bounded number of series; further ones are counted together under `(other)`.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from sandlot.core.text import one_line

CONTENT_TYPE = "text/plain; version=0.0.4"
OTHER = "(other)"
"""The label of everything beyond the limit."""
_MOST_SERIES = 100
_LONGEST_LABEL = 100


class Metric:
    """A counter, a gauge or a histogram with all its series. Values of labels are given in the order of their names.

    Without labels, a counter or a histogram is shown as 0 from the start, so that its first change is seen as a change.
    """

    def __init__(
        self,
        kind: Literal["counter", "gauge", "histogram"],
        name: str,
        meaning: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = (),
    ) -> None:
        self._kind, self._name, self._meaning = kind, name, meaning
        self._labels, self._buckets = tuple(labels), tuple(buckets)
        self._series: dict[tuple[str, ...], list[float]] = {}
        """A counter or gauge holds its value; a histogram the count of each bucket, of those above, and the sum."""
        if not labels and kind != "gauge":
            self._find(())

    def add(self, amount: float, *labels: str) -> None:
        """Add to a counter."""
        self._find(labels)[0] += amount

    def set(self, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._find(labels)[0] = value

    def observe(self, value: float, *labels: str) -> None:
        """Count a value in a histogram; one that is not a number is left out."""
        if math.isnan(value):
            return
        counts = self._find(labels)
        counts[bisect_left(self._buckets, value)] += 1
        counts[-1] += value

    def _find(self, labels: tuple[str, ...]) -> list[float]:
        series = self._series.get(labels)
        if series is None:  # made printable first: two names that look alike in the text are one series
            labels = tuple(one_line(label, _LONGEST_LABEL) for label in labels)
            if labels not in self._series and len(self._series) >= _MOST_SERIES:
                labels = (OTHER,) * len(labels)
            series = self._series.setdefault(labels, [0.0] * (len(self._buckets) + 2 if self._kind == "histogram" else 1))
        return series

    def lines(self) -> Iterator[str]:
        """The metric as text; nothing if it has no series yet."""
        if not self._series:
            return
        yield f"# HELP {self._name} {self._meaning}"
        yield f"# TYPE {self._name} {self._kind}"
        for labels, values in self._series.items():
            pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(self._labels, labels, strict=True)]
            if self._kind != "histogram":
                yield f"{self._name}{_braced(pairs)} {_number(values[0])}"
                continue
            total = 0.0
            for limit, count in zip((*self._buckets, math.inf), values[:-1], strict=True):
                total += count
                limited = _braced([*pairs, f'le="{_number(limit)}"'])
                yield f"{self._name}_bucket{limited} {_number(total)}"
            yield f"{self._name}_sum{_braced(pairs)} {_number(values[-1])}"
            yield f"{self._name}_count{_braced(pairs)} {_number(total)}"


def render_metrics(metrics: Iterable[Metric]) -> str:
    """The metrics as text for Prometheus."""
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _braced(pairs: Sequence[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
