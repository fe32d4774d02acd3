"""Rows of foreign data: one that breaks the import of itself is left out with its reason."""

import json
import subprocess

from repair_worlds import copy_pytest, write_tree
from sandlot import Scored, load, run
from sandlot.interop.repositories.swebench import SweBenchImporter


def committed(work):
    """The commit of all files of a folder."""
    options = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run(["git", *options, *arguments], cwd=work, check=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=work, check=True, capture_output=True, text=True).stdout.strip()


PATCH = """\
--- a/src/ledger/more.py
+++ b/src/ledger/more.py
@@ -1,1 +1,4 @@
 ONE = 1
+
+def twice(x):
+    return 2 * x
"""
TEST_PATCH = """\
--- /dev/null
+++ b/tests/test_more.py
@@ -0,0 +1,4 @@
+from ledger.more import twice
+
+def test_twice():
+    assert twice(2) == 4
"""
WORDS = "tests/test_sums.py::test_words"


def imported(tmp_path, passing, conftest="", more=()):
    """What becomes of a row whose new test file cannot be imported before the change."""
    work = write_tree(tmp_path / "repos" / "o__ledger")
    (work / "src" / "ledger" / "more.py").write_text("ONE = 1\n")
    for place, text in (("tests/conftest.py", conftest), *more):
        (work / place).parent.mkdir(exist_ok=True)
        (work / place).write_text(text)
    row = {
        "instance_id": "row",
        "repo": "o/ledger",
        "base_commit": committed(work),
        "patch": PATCH,
        "test_patch": TEST_PATCH,
        "problem_statement": "There is no `twice`.",
        "FAIL_TO_PASS": ["tests/test_more.py::test_twice"],
        "PASS_TO_PASS": passing,
    }
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(row) + "\n")
    copy_pytest(tmp_path / "out" / "site" / "row")  # where there is no package index
    return SweBenchImporter().write(str(rows), tmp_path / "out", limit=None)


def test_a_test_file_that_imports_what_is_new_and_a_name_that_is_not_there_do_not_stop_the_others(tmp_path):
    report = imported(tmp_path, [WORDS, "tests/test_sums.py::test_cut[one"])
    assert [task.id for task in report.tasks] == ["row"]
    assert ["test_cut" in each.why for each in report.left_out] == [True]


def test_tests_that_cannot_be_collected_yet_do_not_hide_those_that_pass(tmp_path):
    imported(tmp_path, [WORDS])
    env = load(tmp_path / "out")
    found = {}
    for agent in ("scripted:noop", "scripted:golden"):
        [trace] = run(env, agent, runs=tmp_path / "runs")
        assert isinstance(trace.outcome, Scored), trace.outcome
        checks = {check.id: check.evidence for check in trace.outcome.score.checks}
        found[agent] = (trace.outcome.score.value, checks["fail_to_pass"], checks["pass_to_pass"])
    assert found == {
        "scripted:noop": (0.0, "0 of 1 tests that the bug breaks pass", "1 other tests pass"),
        "scripted:golden": (1.0, "1 of 1 tests that the bug breaks pass", "1 other tests pass"),
    }


def test_a_conftest_that_cannot_be_imported_is_named(tmp_path):
    report = imported(tmp_path, [WORDS], "import collections\ncollections.Mapping\n")
    assert report.tasks == ()
    assert "has no attribute 'Mapping'" in report.left_out[0].why


def test_a_helper_that_is_off_the_path_is_not_taken_for_a_package_of_its_name(tmp_path):
    report = imported(tmp_path, [WORDS], "import six\n", [("tools/six.py", "SIX = 6\n")])
    assert "No module named 'six'" in report.left_out[0].why
    assert not (tmp_path / "out" / "site" / "row" / "six.py").exists()


def test_a_row_that_crashes_is_left_out_and_the_next_is_read(tmp_path):
    work = write_tree(tmp_path / "repos" / "o__ledger")
    head = committed(work)
    long = "src/ledger/" + "x" * 300 + ".py"  # no file system takes this name
    row = {"instance_id": "first", "repo": "o/ledger", "base_commit": head, "FAIL_TO_PASS": ["t.py::test_a"]}
    row["test_patch"] = f"--- /dev/null\n+++ b/{long}\n@@ -0,0 +1 @@\n+x = 1\n"
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(each) + "\n" for each in (row, {**row, "instance_id": "second", "repo": "../o"})))
    report = SweBenchImporter().write(str(rows), tmp_path / "out", limit=None)
    assert report.tasks == ()
    assert [each.what for each in report.left_out] == ["first", "second"]
    assert "File name too long" in report.left_out[0].why
