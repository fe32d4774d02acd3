from hypothesis import given
from hypothesis import strategies as st

from sandlot.audit.probes.likeness import MISSING, changes_between, leaves, left_behind
from sandlot.audit.subject import Trial
from sandlot.core.trace import EvidenceRecord, FileRecord, Trace
from sandlot.core.types import digest

VALUES = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a"])
STATES = st.recursive(
    VALUES, lambda in_it: st.lists(in_it, max_size=3) | st.dictionaries(st.sampled_from("abc"), in_it, max_size=3)
)
FILES = st.dictionaries(st.sampled_from(["/a", "/b", "/c/d", "/.git/index"]), st.sampled_from([b"", b"one", b"two", b"\xff"]))


def trial_of(files, state=None):
    records = {path: FileRecord(size=len(data), blob=digest(data)) for path, data in files.items()}
    trace = Trace(run="r", task="t", rollout=0, seed=0, evidence=EvidenceRecord(files=records, state=state))
    return Trial(trace=trace, files={digest(data): data for data in files.values()})


@given(FILES, FILES, st.booleans())
def test_files_that_are_the_same_need_not_be_read_to_see_what_changed(before, after, timeless):
    one, other = trial_of(before, {"n": 1}), trial_of(after, {"n": 2})
    old, new = leaves(left_behind(one)), leaves(left_behind(other))
    slowly = {where: new.get(where, MISSING) for where in {**old, **new} if old.get(where, MISSING) != new.get(where, MISSING)}
    slowly.pop("files", None)  # that there are none at all
    assert changes_between(one, other, timeless=timeless) == slowly


@given(STATES, STATES)
def test_what_is_equal_in_two_states_need_not_be_looked_at_to_see_what_changed(before, after):
    one, other = trial_of({}, before), trial_of({}, after)
    old, new = leaves({"state": before}), leaves({"state": after})
    slowly = {where: new.get(where, MISSING) for where in {**old, **new} if old.get(where, MISSING) != new.get(where, MISSING)}
    assert changes_between(one, other) == slowly


def test_a_file_that_only_one_trial_carries_did_not_change():
    carried = trial_of({"/a": b"one"})
    assert changes_between(carried, Trial(trace=carried.trace)) == {}
