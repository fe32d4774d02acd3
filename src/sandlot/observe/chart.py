"""Charts as inline SVG: lines with bands, and bars of shares. Colours are CSS variables of the page, for light and dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 240
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 44
_TICKS = 4


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    """A CSS variable of the page, such as `--blue`."""
    band: Sequence[tuple[float, float]] = ()
    """Low and high at each point."""
    dots: bool = False


def line_chart(lines: Sequence[Curve], *, x_name: str, y_range: tuple[float, float] | None = None, label: str) -> str:
    """Curves over a common x. `y_range` is chosen from the data if it is not given."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return '<p class="dim">nothing to draw yet</p>'
    xs = [x for line in drawn for x, _ in line.points]
    frame = _Frame(min(xs), max(xs), *(y_range or _room(drawn)))
    body = "".join((frame.grid(x_name), *(_curve(frame, line) for line in drawn)))
    legend = "".join(
        f'<span><i style="background:var({line.colour})"></i>{escape(line.name)}</span>' for line in drawn if len(drawn) > 1
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{body}</svg>'
        f'<div class="legend">{legend}</div>'
    )


def share_bar(parts: Sequence[tuple[str, float, str]], *, label: str) -> str:
    """One bar of shares with its legend; each part is (name, amount, colour)."""
    whole = sum(amount for _, amount, _ in parts) or 1.0
    at, pieces, legend = 0.0, "", ""
    for name, amount, colour in parts:
        wide = amount / whole * 100
        title = f"{name}: {amount:.1f} s, {wide:.0f} %"
        pieces += f'<rect x="{at:.2f}" y="0" width="{max(0.0, wide - 0.3):.2f}" height="12" rx="1" style="fill:var({colour})">'
        pieces += f"<title>{escape(title)}</title></rect>"
        legend += f'<span><i style="background:var({colour})"></i>{escape(name)} <b>{wide:.0f} %</b></span>'
        at += wide
    return (
        f'<svg class="bar" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">{pieces}</svg>'
        f'<div class="legend">{legend}</div>'
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """Maps data to places on the chart."""

    left: float
    right: float
    low: float
    high: float

    def x(self, value: float) -> float:
        """The horizontal place."""
        return LEFT + (value - self.left) / ((self.right - self.left) or 1.0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """The vertical place."""
        inside = min(max(value, self.low), self.high)
        return HEIGHT - BOTTOM - (inside - self.low) / ((self.high - self.low) or 1.0) * (HEIGHT - TOP - BOTTOM)

    def grid(self, x_name: str) -> str:
        """Grid lines with their labels."""
        parts: list[str] = []
        for value, label in y_ticks(self.low, self.high):
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">{label}</text>')
        parts += [
            f'<text class="tick" x="{self.x(value):.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{value}</text>'
            for value in _whole_ticks(self.left, self.right)
        ]
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text class="tick" x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{escape(x_name)}</text>')
        return "".join(parts)


def _curve(frame: _Frame, line: Curve) -> str:
    places = [(frame.x(x), frame.y(y)) for x, y in line.points]
    parts: list[str] = []
    if line.band:
        along = list(zip(line.points, line.band, strict=True))
        upper = [(frame.x(x), frame.y(high)) for (x, _), (_, high) in along]
        lower = [(frame.x(x), frame.y(low)) for (x, _), (low, _) in reversed(along)]
        parts.append(f'<polygon points="{_joined([*upper, *lower])}" style="fill:var({line.colour});opacity:.16"/>')
        # A band of one point has no area, so its ends are drawn too.
        for (x, top), (_, bottom) in zip(upper, reversed(lower), strict=True):
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" style="stroke:var({line.colour});opacity:.5"/>'
            )
    parts.append(
        f'<polyline points="{_joined(places)}" fill="none" style="stroke:var({line.colour})" stroke-width="2" '
        'stroke-linejoin="round" stroke-linecap="round"/>'
    )
    if line.dots or len(places) == 1:
        for (x, y), (at, value) in zip(places, line.points, strict=True):
            title = f"<title>{escape(f'{line.name}, {at:g}: {value:.4g}')}</title>"
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" style="fill:var({line.colour})">{title}</circle>')
    return "".join(parts)


def _joined(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _room(lines: Sequence[Curve]) -> tuple[float, float]:
    """A range that holds everything drawn, with a margin; from 0 if no value is negative."""
    values = [y for line in lines for _, y in line.points] + [y for line in lines for pair in line.band for y in pair]
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    low = 0.0 if 0 <= low < high else low
    return low, high + (0.08 * (high - low) or max(abs(high), 1e-12) * 0.5)


def _whole_ticks(left: float, right: float) -> list[int]:
    step = max(1, math.ceil((right - left) / 8))
    return list(range(math.ceil(left), math.floor(right) + 1, step))


def y_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Round values within a range, and a different label for each."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [(low, f"{low:.3g}")]
    rough = span / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9)), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    values = [number * step for number in range(first, last + 1)]
    return list(zip(values, _labels(values), strict=True))


def _labels(values: Sequence[float]) -> list[str]:
    """As few digits as keep all values exact and distinct."""
    largest = max((abs(value) for value in values), default=0.0)
    style = "e" if largest and not 1e-3 <= largest < 1e6 else "f"
    told: list[str] = []
    for digits in range(17):
        told = [f"{value:.{digits}{style}}" if value else "0" for value in values]
        exact = all(math.isclose(float(label), value, rel_tol=1e-6) for label, value in zip(told, values, strict=True))
        if exact and len(set(told)) == len(told):
            break
    return told
