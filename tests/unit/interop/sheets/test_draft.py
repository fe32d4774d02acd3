"""A draft from a folder before and after: its golden solution passes, and the auditor's mutants are noticed."""

import pytest

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.interop.sheets.draft import draft_task


def folders(tmp_path, before, after):
    for place, files in (("before", before), ("after", after)):
        for name, content in files.items():
            path = tmp_path / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        (tmp_path / place).mkdir(exist_ok=True)
    return tmp_path / "before", tmp_path / "after", tmp_path / "draft.xlsx"


BEFORE = {
    "in.csv": "item,n\na,12\nb,30\n",
    "note.txt": "keep  \n\n",
    "logo.png": b"\x89PNG\xff",
    "conf.json": '{"total": 0, "by": {"x": 1}}\n',
}
AFTER = BEFORE | {
    "conf.json": '{"total": 42, "by": {"x": 1}}\n',
    "out/sum.csv": "item,n\nall,42\n",
    "report.md": "The total is 42 items.\n",
}


def test_a_draft_runs_and_notices_the_mutants(tmp_path):
    report = draft_task(*folders(tmp_path, BEFORE, AFTER), task="sum up", prompt="Sum it up.")
    assert (report.task, report.checks, report.left_out) == ("sum-up", 6, ())
    assert report.mutants >= 6
    sandlot.import_environment("sheet", report.file, tmp_path / "env")
    assert sandlot.run(tmp_path / "env", "scripted:golden", runs=tmp_path / "runs").summary().score.value == 1.0
    assert sandlot.run(tmp_path / "env", "scripted:noop", runs=tmp_path / "runs").summary().score.value == 0.0


def test_what_the_checks_do_not_notice_is_named(tmp_path):
    before = {"a.json": '{"kept": 7, "total": 1}\n'}
    report = draft_task(*folders(tmp_path, before, {"a.json": '{"total": 2, "kept": 7}\n'}))
    assert report.survivors == ("step 1: `text` with a number in it plus one",)
    assert report.noticed == report.mutants - 1


def test_every_wrong_text_is_noticed_where_the_whole_file_counts(tmp_path):
    report = draft_task(*folders(tmp_path, {}, {"a.md": "We sold 12 boxes and 30 bags.\n"}))
    assert report.mutants == report.noticed > 0


def test_deleted_and_binary_files_are_left_out_with_the_reason(tmp_path):
    report = draft_task(*folders(tmp_path, {"old.txt": "x\n"}, {"new.txt": "y\n", "pic.png": b"\xff\x00"}))
    assert [each.what for each in report.left_out] == ["old.txt", "pic.png"]


def test_hostile_folders_and_drafts_without_a_difference_are_refused(tmp_path):
    before, after, out = folders(tmp_path, {"a": "1\n"}, {"a": "1\n"})
    with pytest.raises(ConfigError, match="nothing in"):
        draft_task(before, after, out)
    (after / "link").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="a link"):
        draft_task(before, after, out)
    (after / "link").unlink()
    (after / "b").write_text("2\n")
    with pytest.raises(ConfigError, match=r"as \.xlsx"):
        draft_task(before, after, tmp_path / "draft.csv")
    draft_task(before, after, out)
    with pytest.raises(ConfigError, match="already exists"):
        draft_task(before, after, out)
