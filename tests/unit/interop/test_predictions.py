"""The patch of an agent in a repository, as SWE-bench reads it, from stored evidence."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from builders.traces import make_trace
from sandlot.core.errors import ConfigError
from sandlot.core.trace import EvidenceRecord, FileRecord
from sandlot.core.types import digest
from sandlot.interop.export import _prediction_of


@dataclass
class Stored:
    """A run that keeps these bytes."""

    kept: dict[str, bytes] = field(default_factory=dict)

    @property
    def reader(self):
        return SimpleNamespace(blobs=SimpleNamespace(read=self.kept.__getitem__))

    @property
    def manifest(self):
        return SimpleNamespace(config=SimpleNamespace(model=SimpleNamespace(shown="made:model")))

    def file(self, data: bytes) -> FileRecord:
        self.kept[digest(data)] = data
        return FileRecord(size=len(data), blob=digest(data))


def trace_of(**evidence):
    trace = make_trace()
    trace.evidence = EvidenceRecord(answer="", state=None, **evidence)
    return trace


def test_a_patch_has_what_changed_in_the_repository_and_nothing_else():
    run = Stored()
    same, old, new, beside = map(run.file, (b"same\n", b"old\n", b"new\n", b"beside\n"))
    trace = trace_of(
        initial={"/work/repo/a.txt": old, "/work/repo/same.txt": same},
        files={"/work/repo/a.txt": new, "/work/repo/same.txt": same, "/tmp/x": beside},
    )
    said = _prediction_of(run, trace)
    assert (said["instance_id"], said["model_name_or_path"]) == (trace.task, "made:model")
    lines = said["model_patch"].splitlines()
    assert [line for line in lines if line[:1] in "+-" and line[:3] not in {"+++", "---"}] == ["-old", "+new"]


def test_without_what_a_file_was_before_there_is_no_patch():
    run = Stored()
    old = FileRecord(size=4, blob=digest(b"old\n"))
    with pytest.raises(ConfigError, match=r"did not store what `/work/repo/a\.txt` was"):
        _prediction_of(run, trace_of(initial={"/work/repo/a.txt": old}, files={"/work/repo/a.txt": run.file(b"new\n")}))


def test_a_rollout_without_evidence_has_no_prediction():
    trace = make_trace()
    trace.evidence = None
    assert _prediction_of(Stored(), trace) is None
