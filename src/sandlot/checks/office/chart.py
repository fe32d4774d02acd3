"""Charts of sheets and slides, as their parts have them: kind, series, titles."""

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from sandlot.checks.office.archive import child, children, value_of

_KINDS = {
    "barChart": "bar", "bar3DChart": "bar", "lineChart": "line", "line3DChart": "line", "pieChart": "pie", "pie3DChart": "pie",
    "doughnutChart": "doughnut", "areaChart": "area", "area3DChart": "area", "scatterChart": "scatter", "bubbleChart": "bubble",
    "radarChart": "radar", "stockChart": "stock",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """One series of a chart: where its values, categories and name come from. Ranges as in `Sheet!$B$2:$B$9`."""

    values: str
    categories: str
    name: str
    name_range: str


@dataclass(frozen=True, slots=True)
class OfficeChart:
    """One chart. `kind` is `column`, `bar`, `line`, `pie`, ..., or several joined by `+` where kinds are mixed."""

    kind: str
    title: str
    axis_titles: tuple[str, ...]
    """Titles of the axes, the category axis first; empty strings where an axis has none."""
    series: tuple[ChartSeries, ...]
    stacked: bool
    legend: bool


def read_chart(tree: Element) -> OfficeChart:
    """The chart of a chart part."""
    chart = child(tree, "chart")
    plot = child(chart, "plotArea")
    groups = [each for each in plot if each.tag in _KINDS] if plot is not None else []
    axes = [each for each in plot if each.tag in {"catAx", "dateAx", "valAx", "serAx"}] if plot is not None else []
    axes.sort(key=lambda axis: axis.tag == "valAx")
    title = child(chart, "title")
    grouping = [value_of(group, "grouping") for group in groups]
    return OfficeChart(
        kind="+".join(dict.fromkeys(_kind(group) for group in groups)),
        title=_words(title),
        axis_titles=tuple(_words(child(axis, "title")) for axis in axes if value_of(axis, "delete", default="0") != "1"),
        series=tuple(_series(each) for group in groups for each in children(group, "ser")),
        stacked=any(word in {"stacked", "percentStacked"} for word in grouping),
        legend=child(chart, "legend") is not None,
    )


def _kind(group: Element) -> str:
    kind = _KINDS[group.tag]
    return "column" if kind == "bar" and value_of(group, "barDir", default="col") == "col" else kind


def _series(element: Element) -> ChartSeries:
    name = child(element, "tx")
    values = child(element, "val") if child(element, "val") is not None else child(element, "yVal")
    labels = child(element, "cat") if child(element, "cat") is not None else child(element, "xVal")
    return ChartSeries(_range(values), _range(labels), _words(name), _range(name))


def _range(element: Element | None) -> str:
    found = next((each.text or "" for each in element.iter("f")), "") if element is not None else ""
    return found.strip()


def _words(element: Element | None) -> str:
    """The text of a title: rich text, or the stored text of a reference."""
    if element is None:
        return ""
    rich = "".join(each.text or "" for each in element.iter("t"))
    return rich or " ".join(each.text or "" for each in element.iter("v"))
