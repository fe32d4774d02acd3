"""Rows of foreign data: one that breaks the import of itself is left out with its reason."""

import json
import subprocess

from repair_worlds import write_tree
from sandlot.interop.repositories.swebench import SweBenchImporter


def test_a_row_that_crashes_is_left_out_and_the_next_is_read(tmp_path):
    work = write_tree(tmp_path / "repos" / "o__ledger")
    options = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run(["git", *options, *arguments], cwd=work, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=work, check=True, capture_output=True, text=True).stdout.strip()
    long = "src/ledger/" + "x" * 300 + ".py"  # no file system takes this name
    row = {"instance_id": "first", "repo": "o/ledger", "base_commit": head, "FAIL_TO_PASS": ["t.py::test_a"]}
    row["test_patch"] = f"--- /dev/null\n+++ b/{long}\n@@ -0,0 +1 @@\n+x = 1\n"
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(each) + "\n" for each in (row, {**row, "instance_id": "second", "repo": "../o"})))
    report = SweBenchImporter().write(str(rows), tmp_path / "out", limit=None)
    assert report.tasks == ()
    assert [each.what for each in report.left_out] == ["first", "second"]
    assert "File name too long" in report.left_out[0].why
