"""Figures are of the whole process tree, failures are not figures, and a table is replaced only between its own markers."""

import json
import sys

import pytest
import report
from kept import with_standing
from report import ChildFailedError, Report, Row, best_of, machine, measure, publish, standing_rows, table_of, with_section

BURN = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def test_cpu_of_a_grandchild_is_counted():
    middle = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}], check=True)"
    assert measure([sys.executable, "-c", middle]).cpu_s >= 0.3


def test_output_and_memory_come_with_the_cost():
    done = measure([sys.executable, "-c", "print('out')"])
    assert done.stdout == "out\n"
    assert done.peak_bytes > 1e6


def test_a_failed_command_has_no_cost():
    with pytest.raises(ChildFailedError, match="exited with 3"):
        measure([sys.executable, "-c", "raise SystemExit(3)"])


def test_a_command_that_does_not_end_is_killed():
    with pytest.raises(ChildFailedError, match="exited with -9"):
        measure([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.1)


def test_the_best_of_several_runs_counts():
    assert best_of(2, [sys.executable, "-c", "pass"]) > 0


def test_a_section_is_replaced_and_the_rest_kept():
    text = "a\n<!-- x -->\nold\n<!-- /x -->\n<!-- y -->\nkept\n<!-- /y -->\nb\n"
    assert with_section(text, "x", r"new \1") == "a\n<!-- x -->\nnew \\1\n<!-- /x -->\n<!-- y -->\nkept\n<!-- /y -->\nb\n"


def test_a_missing_section_is_named():
    with pytest.raises(ValueError, match="no section `z`"):
        with_section("nothing here", "z", "new")


def test_the_table_has_a_column_for_every_peer():
    table = table_of([Row("speed", 1234.5, {"inspect": 0.5678}, ">= 500"), Row("memory", 2.0, {"verifiers": "-"})])
    assert table.splitlines() == [
        "| what | target | Sandlot | inspect | verifiers |",
        "| --- | --- | --- | --- | --- |",
        "| speed | >= 500 | 1,234 | 0.568 |  |",
        "| memory |  | 2 |  | - |",
    ]


def test_the_rows_of_a_table_are_read_as_they_were_written():
    rows = [Row("speed", 1234.5, {"inspect": 0.5678}, ">= 500"), Row("memory a|b", 2.0, {"verifiers": "- | x"})]
    once = table_of(rows)
    read = standing_rows("x", f"<!-- x -->\nwhen\n\n{once}\n<!-- /x -->\n")
    assert table_of(read) == once
    assert (read[0].what, read[0].ours, read[0].target, read[0].peers) == ("speed", "1,234", ">= 500", {"inspect": "0.568"})
    assert standing_rows("y", once) == []


def test_rows_measured_elsewhere_stay_in_the_table(tmp_path, monkeypatch):
    table = table_of([Row("a: tasks", 1200), Row("old: tasks", 5), Row("b: tasks", 7), Row("all: tasks", 1212)])
    (tmp_path / "README.md").write_text(f"<!-- x -->\n{table}\n<!-- /x -->\n")
    monkeypatch.setattr(report, "TABLE", tmp_path / "README.md")
    rows = with_standing("x", [Row("b: tasks", 8), Row("c: tasks", 1)], lambda what: what != "old: tasks")
    assert [(row.what, row.ours) for row in rows] == [
        ("a: tasks", "1,200"),
        ("b: tasks", 8),
        ("c: tasks", 1),
        ("all: tasks", 1209),
    ]


def test_the_last_line_of_stdout_is_the_result(capsys):
    publish(Report("x", {"a": 1}, {"p": {"a": 2}}, {"p_a": 0.5}, [Row("a", 1, {"p": 2})]), write_table=False)
    whole = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(whole) == ["name", "machine", "ours", "peers", "ratios"]
    assert whole["ratios"] == {"p_a": 0.5}


def test_a_table_says_what_was_run_whatever_its_own_name_is(monkeypatch, tmp_path, capsys):
    table = tmp_path / "README.md"
    table.write_text("<!-- forest-cuda -->\n<!-- /forest-cuda -->\n")
    monkeypatch.setattr(report, "TABLE", table)
    monkeypatch.setattr(sys, "argv", ["/x/benchmarks/forest.py", "--device", "cuda", "--table", "forest-cuda"])
    publish(Report("forest-cuda", {}, {}, {}, [Row("a", 1)]), write_table=True)
    assert "`python benchmarks/forest.py --device cuda --table forest-cuda`" in table.read_text()


def test_the_machine_is_described():
    assert {"cores", "ram_gb", "kernel", "python", "load"} <= set(machine())


def test_byte_code_is_kept_for_everybody(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert measure([sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"]).stdout == "False\n"
