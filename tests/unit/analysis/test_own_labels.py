"""Labels of a team's own: read from the folder of runs, kept with their meaning, refused if the file is wrong."""

import msgspec
import pytest

from sandlot.analysis.own_labels import FILE, choose_label, label_choices, own_labels_of
from sandlot.analysis.taxonomy import LABELS
from sandlot.analysis.triage.labels import LabelledTrace, add_label, add_note, read_labels, review_of
from sandlot.core.errors import ConfigError

OWN = """
name = "desk"
version = 3
[[labels]]
name = "rude"
what = "the tone would lose a customer"
[[labels]]
name = "two_readings"
what = "the ticket can be read in two ways"
counts_as = "spec_ambiguous"
[[labels]]
name = "old"
what = "no longer used"
retired = true
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / FILE).write_text(OWN)
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def give(run, label, rollout=0):
    return add_label(run, task="t", rollout=rollout, label=label, by="ann", at=1.0)


def test_own_labels_follow_the_built_in_ones_and_retired_ones_cannot_be_given(run):
    assert [each.name for each in label_choices(run)] == [*(label.name for label in LABELS), "rude", "two_readings"]
    with pytest.raises(ConfigError, match=r"no label `old`; there are: ok, .*, rude, two_readings"):
        give(run, "old")


def test_a_stored_label_keeps_its_meaning_when_the_file_is_gone(run):
    give(run, "two_readings")
    (run.parent / FILE).unlink()
    (kept,) = read_labels(run).given
    assert (kept.own.team, kept.own.version, kept.own.what) == ("desk", 3, "the ticket can be read in two ways")
    assert kept.counts_as == "spec_ambiguous"
    assert review_of(read_labels(run)).labels == {"two_readings": 1}
    with pytest.raises(ConfigError, match="no label `rude`"):
        choose_label(run, "rude")


def test_lines_from_before_own_labels_and_notes_are_read(run):
    old = {"format": 1, "taxonomy": 2, "task": "t", "rollout": 0, "label": "ok", "by": "bob", "note": "", "at": 2.0}
    (run / "labels.jsonl").write_bytes(msgspec.json.encode(old) + b"\n")
    assert read_labels(run).given == (LabelledTrace(taxonomy=2, task="t", rollout=0, label="ok", by="bob", at=2.0),)
    assert own_labels_of(run).version == 3


def test_notes_on_messages_stand_beside_labels_and_the_last_one_counts(run):
    give(run, "ok")
    for text, message, by in (("first", 2, "ann"), ("better", 2, "ann"), ("mine", 2, "bob"), ("gone", 3, "ann"), ("", 3, "ann")):
        add_note(run, task="t", rollout=0, message=message, note=text, by=by, at=1.0)
    labels = read_labels(run)
    assert labels.damaged == ()
    assert len(labels.given) == 1
    assert [(each.message, each.by, each.note) for each in labels.notes_of("t", 0)] == [(2, "ann", "better"), (2, "bob", "mine")]
    assert labels.notes_of("t", 1) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('name = "desk"\nversion = 0', "version from 1"),
        ('name = "desk"\nversion = 1\n[[labels]]\nname = "ok"\nwhat = "x"', "built-in label"),
        ('name = "desk"\nversion = 1\n[[labels]]\nname = "../up"\nwhat = "x"', "no name for a label"),
        ('name = "desk"\nversion = 1\n[[labels]]\nname = "a"\nwhat = "x"\n[[labels]]\nname = "a"\nwhat = "y"', "twice"),
        ('name = "desk"\nversion = 1\n[[labels]]\nname = "a"\nwhat = " "', "write its rule"),
        ('name = "desk"\nversion = 1\n[[labels]]\nname = "a"\nwhat = "x"\ncounts_as = "b"', "name a built-in one"),
        ('name = "desk"\nversion = 1\ncolour = "red"', "unknown field"),
        ("name = ", "labels.toml"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(run, wrong, message):
    (run.parent / FILE).write_text(wrong)
    with pytest.raises(ConfigError, match=message):
        give(run, "ok")
    assert not (run / "labels.jsonl").exists()
