"""What every `Evidence` promises. A third party adds its own to `EVIDENCES` and runs this file."""

import pytest

from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence
from sandlot.core.trace import EvidenceRecord, FileRecord, Trace
from sandlot.core.types import digest
from sandlot.grade.evidence import StoredEvidence

FILES = {"/out/a.txt": "größe".encode(), "/out/deep/b.bin": b"\xff\x00", "/c": b""}


def stored() -> Evidence:
    kept = {digest(data): data for data in FILES.values()}
    files = {path: FileRecord(size=len(data), blob=digest(data)) for path, data in FILES.items()}
    record = EvidenceRecord(
        answer="done",
        state={"n": [1]},
        files=files | {"/huge": FileRecord(size=10**9, blob=None)},
        kinds={"/out": "folder", "/link": "link", "/pipe": "other"},
        initial={"/c": files["/c"], "/gone": FileRecord(size=1, blob="x")},
    )
    return StoredEvidence(record, Trace(run="r", task="t", rollout=0, seed=0), kept)


EVIDENCES = [stored]
"""Each gives evidence of `FILES`, of `/huge` that was not kept, a link, a pipe, and a setup that left `/c` and `/gone`."""


@pytest.fixture(params=EVIDENCES)
def evidence(request):
    return request.param()


def test_files_are_read_as_bytes_and_text(evidence):
    assert {path: evidence.read(path) for path in FILES} == FILES
    assert evidence.read_text("/out/a.txt") == "größe"


def test_files_are_listed_by_folder_and_sorted(evidence):
    assert list(evidence.list()) == ["/c", "/huge", "/out/a.txt", "/out/deep/b.bin"]
    assert list(evidence.list("/out")) == ["/out/a.txt", "/out/deep/b.bin"]
    assert list(evidence.list("/none")) == []


@pytest.mark.parametrize("path", ["/none", "/out", "/huge", "", "/out/deep/b.bin"])
def test_asking_for_text_that_is_not_there_is_not_in_evidence(evidence, path):
    with pytest.raises(NotInEvidence):
        evidence.read_text(path)


def test_a_file_that_was_not_kept_still_exists(evidence):
    assert evidence.exists("/huge")
    assert not evidence.exists("/out")


def test_what_is_at_a_path_has_a_kind_and_only_files_exist(evidence):
    kinds = {path: evidence.kind(path) for path in ("/c", "/huge", "/out", "/out/deep", "/link", "/link/below", "/pipe", "/none")}
    assert list(kinds.values()) == ["file", "file", "folder", "folder", "link", "link", "other", None]
    assert [path for path in kinds if evidence.exists(path)] == ["/c", "/huge"]


def test_the_diff_names_what_changed_since_setup(evidence):
    assert set(evidence.diff()) == {"/gone", "/huge", "/out/a.txt", "/out/deep/b.bin"}


def test_answer_state_and_trace_are_those_of_the_rollout_and_cannot_be_replaced(evidence):
    assert (evidence.answer, evidence.state) == ("done", {"n": [1]})
    assert (evidence.trace.run, evidence.trace.task, evidence.trace.rollout, evidence.trace.seed) == ("r", "t", 0, 0)
    with pytest.raises(AttributeError):
        evidence.answer = "another"
    assert evidence.with_answer("another").state == evidence.state
    assert evidence.with_answer("another").read("/c") == evidence.read("/c")


def test_it_says_whether_its_answer_was_read(evidence):
    evidence.read("/c"), evidence.list(), evidence.diff(), evidence.state, evidence.apps, evidence.penalties
    assert not evidence.answer_was_read
    other = evidence.with_answer("other")
    assert not evidence.answer_was_read
    assert other.answer == "other"
    assert evidence.answer_was_read
    assert evidence.answer == "done"
