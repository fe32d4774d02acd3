"""Rows of foreign data: one that breaks the import of itself is left out with its reason."""

import json
import subprocess
import zipfile

import pytest

from sandlot import Scored, load, run
from sandlot.core.errors import ConfigError
from sandlot.env.taskset import tasks_of
from sandlot.interop.repositories.swebench import SweBenchImporter
from worlds.repair import copy_pytest, write_tree


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


TWICE = "tests/test_more.py::test_twice"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    site = tmp_path_factory.mktemp("libraries")
    copy_pytest(site)
    subprocess.run(["/usr/bin/python3", "-I", "-m", "compileall", "-q", site], check=True)
    return site


@pytest.fixture
def imported(libraries, tmp_path):
    """What becomes of a row whose new test file cannot be imported before the change."""
    return lambda *given, **named: import_row(libraries, tmp_path, *given, **named)


def import_row(libraries, tmp_path, passing, conftest="", more=(), failing=(TWICE,), times=1, **row):
    work = write_tree(tmp_path / "repos" / "o__ledger")
    (work / "src" / "ledger" / "more.py").write_text("ONE = 1\n")
    for place, text in (("tests/conftest.py", conftest), *more):
        (work / place).parent.mkdir(exist_ok=True)
        (work / place).write_text(text)
    row |= {
        "instance_id": "row",
        "repo": "o/ledger",
        "base_commit": committed(work),
        "patch": PATCH,
        "test_patch": TEST_PATCH,
        "problem_statement": "There is no `twice`.",
        "FAIL_TO_PASS": list(failing),
        "PASS_TO_PASS": passing,
    }
    rows = tmp_path / "rows.jsonl"
    rows.write_text(times * (json.dumps(row) + "\n"))
    return SweBenchImporter(libraries).write(str(rows), tmp_path / "out", limit=None)


# -- a row whose tests are odd in many ways ---------------------------------------------------------------------------

GONE = "tests/test_sums.py::test_cut[one"
CUT = "tests/test_cut.py::test_names[a"
CUT_TESTS = """\
import pytest
import ledger.more

@pytest.mark.parametrize('name', ['a ONE', 'a twice', 'ab'])
def test_names(name):
    assert name == 'ab' or hasattr(ledger.more, name.split()[1])
"""
OLD, OLDER = (f"tests/test_old.py::{name}::test_name" for name in ("TestOld", "TestOlder"))
OLD_TESTS = """\
import ledger.more

class TestOld:
    def setup(self):
        self.name = 'ONE'

    def test_name(self):
        assert hasattr(ledger.more, self.name)

class TestOlder(TestOld):
    def setup(self):
        self.name = 'twice'
"""
MAIN = "tests/test_main.py::test_main"
MAIN_TESTS = """\
import os, subprocess, sys

def test_main():
    subprocess.run([sys.executable, '-c', 'import ledger, pytest'], env=os.environ, check=True)
"""
METADATA = "tests/test_metadata.py::test_metadata"
METADATA_TESTS = """\
from importlib.metadata import entry_points, version

def test_metadata():
    assert version('ledger') == '1.5'
    assert [each.name for each in entry_points(group='o')] == ['sums']
"""
SETUP = "from setuptools import setup\nsetup(name='Ledger', entry_points={'o': ['sums = ledger.sums:add']})\n"


@pytest.fixture(scope="module")
def odd(libraries, tmp_path_factory):
    """The report on such a row, which is there twice, and the environment."""
    texts = {"cut": CUT_TESTS, "old": OLD_TESTS, "main": MAIN_TESTS, "metadata": METADATA_TESTS}
    more = [(f"tests/test_{name}.py", text) for name, text in texts.items()] + [("setup.py", SETUP), ("PKG-INFO", "")]
    place = tmp_path_factory.mktemp("odd")
    passing, failing = [WORDS, GONE, OLD, MAIN, METADATA], [TWICE, CUT, OLDER]
    report = import_row(libraries, place, passing, "", more, failing, times=2, version="1.5")
    return report, load(place / "out")


@pytest.fixture(scope="module")
def key(odd):
    [task] = tasks_of(odd[1])
    return task.key


def test_a_test_file_that_imports_what_is_new_and_a_name_that_is_not_there_do_not_stop_the_others(odd, key):
    report, _ = odd
    assert [task.id for task in report.tasks] == ["row"]
    assert [GONE in each.why for each in report.left_out] == [True, False]
    assert TWICE in key["fail_to_pass"]
    assert WORDS in key["pass_to_pass"]
    assert GONE not in key["pass_to_pass"]


def test_a_name_that_is_cut_at_a_space_stands_for_all_tests_that_begin_with_it(key):
    assert [test for test in key["fail_to_pass"] if "test_cut" in test] == [f"{CUT} twice]"]
    assert [test for test in key["pass_to_pass"] if "test_cut" in test] == [f"{CUT} ONE]"]


def test_classes_are_set_up_as_older_versions_of_pytest_did(key):
    assert OLD in key["pass_to_pass"]
    assert OLDER in key["fail_to_pass"]


def test_a_repository_has_metadata_though_it_is_not_installed(key):
    assert METADATA in key["pass_to_pass"]


def test_a_test_may_start_the_package_as_a_program(key):
    assert MAIN in key["pass_to_pass"]


def test_a_second_row_of_the_same_name_does_not_stop_the_import(odd):
    report, _ = odd
    assert ["an earlier row has this name" in each.why for each in report.left_out] == [False, True]


def test_tests_that_cannot_be_collected_yet_do_not_hide_those_that_pass(odd, tmp_path):
    """Before the change `test_more.py` cannot be collected."""
    found = {}
    for agent in ("scripted:noop", "scripted:golden"):
        [trace] = run(odd[1], agent, runs=tmp_path / "runs")
        assert isinstance(trace.outcome, Scored), trace.outcome
        checks = {check.id: check.evidence for check in trace.outcome.score.checks}
        found[agent] = (trace.outcome.score.value, checks["fail_to_pass"], checks["pass_to_pass"])
    assert found == {
        "scripted:noop": (0.0, "0 of 3 tests that the bug breaks pass", "5 other tests pass"),
        "scripted:golden": (1.0, "3 of 3 tests that the bug breaks pass", "5 other tests pass"),
    }


# -- rows that are left out, and one that is not ----------------------------------------------------------------------


def test_a_conftest_that_cannot_be_imported_is_named_and_nothing_of_its_row_stays(imported, tmp_path):
    report = imported([WORDS], "import collections\ncollections.Mapping\n")
    assert (report.tasks, len(report.left_out)) == ((), 1)
    assert "has no attribute 'Mapping'" in report.left_out[0].why
    assert not (tmp_path / "out" / "site" / "row").exists()


def test_a_row_that_names_no_test_that_passes_before_the_change_is_a_task(imported):
    report = imported([])
    assert [task.id for task in report.tasks] == ["row"]


def test_why_no_test_is_repaired_is_said(imported):
    broken = "import pytest\n\n@pytest.fixture(autouse=True)\ndef old():\n    raise ValueError('wants an older Python')\n"
    report = imported([], broken)
    assert report.tasks == ()
    assert "test_twice`: ValueError: wants an older Python" in report.left_out[0].why


def test_a_helper_that_is_off_the_path_is_not_taken_for_a_package_of_its_name(imported, tmp_path):
    report = imported([WORDS], "import six\n", [("tools/six.py", "SIX = 6\n")])
    assert "No module named 'six'" in report.left_out[0].why
    assert not (tmp_path / "out" / "site" / "row" / "six.py").exists()


def test_a_row_that_crashes_is_left_out_and_the_next_is_read(tmp_path):
    work = write_tree(tmp_path / "repos" / "o__ledger")
    head = committed(work)
    long = "src/ledger/" + "x" * 300 + ".py"  # no file system takes this name
    row = {"instance_id": "first", "repo": "o/ledger", "base_commit": head, "FAIL_TO_PASS": ["t.py::test_a"]}
    row["problem_statement"] = "It fails."
    row["test_patch"] = f"--- /dev/null\n+++ b/{long}\n@@ -0,0 +1 @@\n+x = 1\n"
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(each) + "\n" for each in (row, {**row, "instance_id": "second", "repo": "../o"})))
    report = SweBenchImporter().write(str(rows), tmp_path / "out", limit=None)
    assert report.tasks == ()
    assert [each.what for each in report.left_out] == ["first", "second"]
    assert "File name too long" in report.left_out[0].why


def test_a_missing_file_of_rows_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"no file `.*rows\.jsonl`; name a file of rows"):
        SweBenchImporter().write(str(tmp_path / "rows.jsonl"), tmp_path / "out", limit=None)


@pytest.mark.parametrize("missing", ["", pytest.param(" and nowhere", marks=pytest.mark.system)])
def test_what_is_optional_and_named_tests_miss_is_installed(imported, tmp_path, monkeypatch, missing):
    """Also where something else that they miss cannot be had, which takes three starts of pip."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name, version, modules in (("pytest", "8.4.2", ()), ("far-stars", "1.0", ("far_stars",)), ("unused", "1.0", ("unused",))):
        about = f"{name.replace('-', '_')}-{version}"
        with zipfile.ZipFile(wheels / f"{about}-py3-none-any.whl", "w") as wheel:
            for module in modules:
                wheel.writestr(f"{module}.py", "")
            wheel.writestr(f"{about}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{about}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    script = "from setuptools import setup\nsetup(extras_require={'stars': ['far_stars>=1', 'unused'], 'doc': ['nowhere']})\n"
    text = "import pytest\n\ntry:\n    import far_stars\nexcept ImportError:\n    far_stars = None\n\n"
    text += f"@pytest.mark.skipif(far_stars is None, reason='requires far-stars{missing}')\ndef test_far():\n    pass\n\n"
    text += "@pytest.mark.skip(reason='too slow')\ndef test_slow():\n    pass\n"
    far, slow = "tests/test_far.py::test_far", "tests/test_far.py::test_slow"
    more = [("tests/test_far.py", text), ("setup.py", script), ("PKG-INFO", "")]
    report = imported([WORDS, far, slow], more=more)
    assert [(each.what, "test_slow (skipped after the change:" in each.why) for each in report.left_out] == [
        ("1 tests of row", True)
    ]
    [task] = tasks_of(load(tmp_path / "out"))
    assert task.key["pass_to_pass"] == [WORDS, far]
    assert not (tmp_path / "out" / "site" / "row" / "unused.py").exists()
