"""Judgements of people: kept, counted, versioned, and readable whatever became of the file."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.analysis.taxonomy import LABELS, VERSION
from sandlot.analysis.triage.labels import (
    ENOUGH,
    FILE,
    LabelledTrace,
    add_label,
    read_labels,
    review_of,
    rollouts_since_new_class,
)
from sandlot.core.errors import ConfigError


def say(path, rollout=0, label="model_wrong", by="ann", **fields):
    return add_label(path, **{"task": "t", "rollout": rollout, "label": label, "by": by, "at": 1.0, **fields})


def judged(label, rollout, by="ann", task="t"):
    return LabelledTrace(taxonomy=VERSION, task=task, rollout=rollout, label=label, by=by, at=0.0)


def test_a_judgement_is_read_back_with_the_version_of_the_list(tmp_path):
    said = say(tmp_path, note="it never looked")
    labels = read_labels(tmp_path)
    assert labels.given == (said,)
    assert said.taxonomy == VERSION
    assert labels.damaged == ()


def test_the_version_is_raised_whenever_the_list_changes():
    """If this fails: raise `VERSION` in taxonomy.py and put the new digest here. Old labels keep the version they were given."""
    listed = "\n".join(f"{label.name}: {label.what}" for label in LABELS)
    assert (VERSION, hashlib.sha256(listed.encode()).hexdigest()[:16]) == (2, "df603825ce63c6f6")


def test_an_unknown_label_is_refused_with_the_list_and_nobody_is_nobody(tmp_path):
    with pytest.raises(ConfigError, match=r"no label `modelwrong`; there are: ok, model_wrong, .*contaminated"):
        say(tmp_path, label="modelwrong")
    with pytest.raises(ConfigError, match="--by NAME"):
        say(tmp_path, by="  ")
    assert not (tmp_path / FILE).exists()


def test_a_second_judgement_of_the_same_person_counts_instead_of_the_first(tmp_path):
    say(tmp_path, label="ok")
    say(tmp_path, label="model_wrong")
    say(tmp_path, label="model_wrong", by="bob")
    labels = read_labels(tmp_path)
    assert len(labels.given) == 3
    assert [(each.by, each.label) for each in labels.counting] == [("ann", "model_wrong"), ("bob", "model_wrong")]
    found = review_of(labels)
    assert (found.rollouts, found.people, found.twice, found.agreed) == (1, 2, 1, 1)
    assert found.labels == {"model_wrong": 2}


def test_lines_that_cannot_be_read_are_named_and_the_rest_is_kept(tmp_path):
    say(tmp_path)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"task": 5}\n\xff\xfe\x00garbage\n[]\n\n{"format": 1, "task": "t", "rol')
    say(tmp_path, rollout=7)
    labels = read_labels(tmp_path)
    assert [each.rollout for each in labels.given] == [0, 7]
    assert labels.damaged == (2, 3, 4, 6)
    assert review_of(labels).damaged == (2, 3, 4, 6)


def test_a_last_line_that_a_crash_cut_off_never_was(tmp_path):
    say(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    for cut in range(len(whole)):
        (tmp_path / FILE).write_bytes(whole + whole[:cut])
        labels = read_labels(tmp_path)
        assert labels.damaged == ()
        assert len(labels.given) == (2 if cut == len(whole) - 1 else 1)


def test_hostile_words_are_kept_as_plain_ones(tmp_path):
    said = say(tmp_path, by="ann\x1b[31m\udcff", note="\x1b]0;title\x07 " + "x" * 100_000 + "\ud800")
    assert read_labels(tmp_path).given == (said,)
    assert "\x1b" not in said.by + said.note
    assert len(said.note) <= 4000


def slow_twin(given) -> int:
    """Go back from the end until a judgement that named a class first; count the different rollouts after it."""
    for start in range(len(given) - 1, -1, -1):
        if given[start].label not in {each.label for each in given[:start]}:
            return len({each.key for each in given[start + 1 :]})
    return 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ok", "infra", "model_wrong"]), st.integers(0, 9)), max_size=40))
def test_rollouts_without_a_new_class_are_counted_once_each(said):
    given_labels = [judged(label, rollout) for label, rollout in said]
    assert rollouts_since_new_class(given_labels) == slow_twin(given_labels)


def test_reading_may_stop_after_thirty_without_a_new_class(tmp_path):
    for rollout in range(ENOUGH + 1):
        assert not review_of(read_labels(tmp_path)).enough
        say(tmp_path, rollout=rollout)
    assert review_of(read_labels(tmp_path)).enough
    say(tmp_path, rollout=99, label="hack_suspected")
    assert not review_of(read_labels(tmp_path)).enough
