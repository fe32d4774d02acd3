import re
import sys
from xml.etree import ElementTree as ET

import pytest

import sandlot
from builders import rows
from sandlot.core.errors import ConfigError
from sandlot.observe.live import ToolTimes
from sandlot.run.notebook import MAX_TASKS, html_of
from sandlot.run.notebook_page import MAX_ROLLOUTS, page_of
from sandlot.run.summary import summarise

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e&\"'"


def page(made, name="run"):
    return html_of(name, summarise(rows.tables(made), run=name, verdict="complete"), made)


def test_a_notebook_shows_what_came_out_and_every_task():
    made = [rows.scored("a", 0, 1.0), rows.scored("a", 1, 0.0), rows.failed("b", 0)]
    text = page(made)
    assert "complete; 3 rollouts of 2 tasks, 2 scored; score 0.500" in text
    assert "1 failed" in text
    assert "<tr><th>a</th><td>train</td><td>2</td><td>2</td><td>0.500</td><td>50%</td><td>0</td><td>4</td></tr>" in text
    assert "<tr><th>b</th><td>train</td><td>1</td><td>0</td><td>-</td><td>-</td><td>1</td><td>2</td></tr>" in text


def test_hostile_names_are_text():
    text = page([rows.scored(HOSTILE, 0, split=HOSTILE)], name=HOSTILE)
    assert set(re.findall(r"<(\w+)", text)) == {"p", "b", "table", "tr", "th", "td"}
    assert not {"\x1b", "\u202e"} & set(text)
    assert "&lt;script&gt;" in text


def test_very_many_and_very_long_names_are_cut():
    text = page([rows.scored(f"{n:04d}" + "x" * 10_000) for n in range(MAX_TASKS + 7)])
    assert text.count("<tr>") == MAX_TASKS + 1
    assert "and 7 more tasks" in text
    assert len(text) < 20_000


def test_an_empty_run_is_shown_too():
    assert "0 rollouts of 0 tasks" in page([])


@pytest.fixture
def run(tmp_path):
    env = sandlot.Environment("one")
    env.tasks(lambda rng: [sandlot.Task("a", prompt="go")])
    env.check(points=1, id="ok")(lambda evidence: True)
    return sandlot.run(env, "scripted:noop", runs=tmp_path)


def test_a_run_shows_itself(run):
    assert "<th>a</th>" in run._repr_html_()


def test_show_draws_scores_failures_tools_and_a_square_for_each_rollout():
    made = [
        rows.scored("a", 0, 1.0),
        rows.scored("a", 1, 0.25),
        rows.failed("b", 0, side="sandbox", kind="crash", message="gone"),
    ]
    slow = ToolTimes(name="look", calls=3, errors=1, seconds=2.0, longest=1.5)
    shown = page_of("run", summarise(rows.tables(made), run="run", verdict="complete"), made, [slow])
    text = shown._repr_html_()
    for part in ("Scores", "<td>sandbox/crash</td><td>1</td><td>b/0: gone</td>", "<td>look</td><td>3</td>", "rollout 1: 0.250"):
        assert part in text, part
    assert text.count("<title>rollout") == 3
    assert "<td>0.625</td>" in text
    assert repr(shown).startswith("<run: complete; 3 rollouts")
    ET.fromstring(f"<div>{text}</div>")


def test_show_escapes_what_others_wrote_and_cuts_what_is_long():
    made = [rows.failed(HOSTILE, n, side=HOSTILE, kind=HOSTILE, message=HOSTILE) for n in range(MAX_ROLLOUTS + 3)]
    made += [rows.scored(f"{n:04d}" + "x" * 10_000) for n in range(MAX_TASKS)]
    tool = ToolTimes(name=HOSTILE, calls=1, errors=0, seconds=1.0, longest=1.0)
    text = page_of(HOSTILE, summarise(rows.tables(made), run="run", verdict="complete"), made, [tool])._repr_html_()
    assert set(re.findall(r"<(\w+)", text)) == {"p", "b", "table", "tr", "th", "td", "svg", "rect", "title"}
    assert not {"\x1b", "\u202e"} & set(text)
    assert "and 1 more tasks" in text
    assert len(text) < 60_000


def test_a_run_shows_its_page(run):
    assert "<th>a</th>" in run.show()._repr_html_()


def test_a_data_frame_without_pandas_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    with pytest.raises(ConfigError, match="pip install pandas"):
        run.to_pandas()


def test_a_data_frame_has_a_line_for_each_rollout(run):
    pytest.importorskip("pandas")
    frame = run.to_pandas()
    assert list(frame["task"]) == ["a"]
    assert list(frame["score"]) == [1.0]
