"""Subordinate ids of an ordinary user."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sandlot.sandbox.native.subids import MOST, IdLoan, find_loan, largest_range


def test_the_largest_range_of_the_user_is_taken():
    lines = ["ann:100000:65536", "bob:200000:10", "1001:300000:70000", "bob:400000:20"]
    assert largest_range(lines, {"bob"}) == (400000, 20)
    assert largest_range(lines, {"cleo", "1001"}) == (300000, 70000)
    assert largest_range(lines, {"dora"}) == (0, 0)


def test_malformed_lines_are_skipped():
    lines = ["bob", "bob:1", "bob:x:2", "bob:1:2:3", "bob:-5:10", "bob:0:10", "bob:4294967295:10", "bob:1:" + "9" * 5000, ""]
    assert largest_range(lines, {"bob"}) == (0, 0)


@given(st.lists(st.text(max_size=30)))
def test_any_text_at_all_is_read(lines):
    first, count = largest_range(lines, {"bob"})
    assert first + count < 1 << 32


def test_what_is_missing_is_reported_with_the_fix(tmp_path: Path):
    file = tmp_path / "subuid"
    assert "apt-get install" in find_loan(os.getuid(), file, "no-such-program").missing
    assert "cannot be read" in find_loan(os.getuid(), file, "sh").missing
    file.write_text("somebody-else:100000:65536\n")
    assert "--add-subuids" in find_loan(os.getuid(), file, "sh").missing
    file.write_text(f"{os.getuid()}:100000:165536\n")
    loan = find_loan(os.getuid(), file, "sh")
    assert loan == IdLoan(program=loan.program, first=100000, count=MOST)
