"""Charts as plain data, which `static/chart.js` draws. No series has more points than a screen can show."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

_MOST_POINTS = 600
"""Points of one series; of longer ones, neighbours are averaged."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One line, or one kind of bar."""

    name: str
    points: Sequence[tuple[float, float | None]]
    """Places and values. A value that is not known, or not a number, is None."""
    band: Sequence[tuple[float | None, float | None]] = ()
    """An interval at each point; empty without any."""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart with its title."""

    title: str
    series: Sequence[Series]
    note: str = ""
    """What is shown, in a sentence."""
    kind: Literal["lines", "bars"] = "lines"
    x: str = ""
    """Name of the axis."""
    labels: Sequence[str] = ()
    """Names of the bars, in order: those at x 0, 1, 2 and so on."""
    range: tuple[float, float] | None = None
    """Lowest and highest value shown; None to choose them by the values."""
    percent: bool = False


def line_of(name: str, points: Sequence[tuple[float, float | None]], band: Sequence[tuple[float, float]] = ()) -> Series:
    """A line that can be drawn and sent as JSON: not too long, and without values that are no numbers."""
    each = max(1, math.ceil(len(points) / _MOST_POINTS))
    parts = range(0, len(points), each)
    return Series(
        name=name,
        points=[(points[min(at + each, len(points)) - 1][0], _mean([y for _, y in points[at : at + each]])) for at in parts],
        band=[
            (_mean([low for low, _ in band[at : at + each]]), _mean([high for _, high in band[at : at + each]])) for at in parts
        ]
        if band
        else (),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None
