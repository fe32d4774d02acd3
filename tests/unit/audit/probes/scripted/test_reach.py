from hypothesis import given
from hypothesis import strategies as st

from sandlot import Task
from sandlot.audit.probes.likeness import MISSING, leaves, left_behind
from sandlot.audit.probes.scripted.attacks import file_attacks
from sandlot.audit.probes.scripted.reach import GoldenWork, Shell
from sandlot.audit.subject import Call, Trial
from sandlot.core.trace import EvidenceRecord, FileRecord, Trace
from sandlot.core.types import digest

FILES = st.dictionaries(st.sampled_from(["/a", "/b", "/c/d"]), st.sampled_from([b"", b"one", b"two", b"\xff"]))
TASK = Task("t", prompt="Do it.")


class CountedBytes(bytes):
    """A file that counts how often it is read as text."""

    reads = 0

    def decode(self, *arguments, **named):
        CountedBytes.reads += 1
        return super().decode(*arguments, **named)


def trial_of(files, state=None):
    records = {path: FileRecord(size=len(data), blob=digest(data)) for path, data in files.items()}
    trace = Trace(run="r", task="t", rollout=0, seed=0, evidence=EvidenceRecord(files=records, state=state))
    return Trial(trace=trace, files={digest(data): data for data in files.values()})


@given(FILES, FILES, FILES)
def test_what_golden_wrote_and_what_is_undone_are_those_of_whole_comparisons(idle, golden, other):
    work = GoldenWork(TASK, trial_of(golden, {"n": 2}), trial_of(idle, {"n": 1}))
    before, after = (left_behind(each)["files"] for each in (work.idle, work.golden))
    assert work.written == {path: text for path, text in after.items() if before.get(path) != text}
    alone, now = leaves(left_behind(work.idle)), leaves(left_behind(trial_of(other, {"n": 1})))
    undone = {where: value for where, value in work.changes.items() if alone.get(where, MISSING) == now.get(where, MISSING)}
    assert work.undone(trial_of(other, {"n": 1})) == undone


def test_attacks_on_a_repository_of_many_files_read_each_file_a_few_times_only():
    files = {f"/repo/{number}.py": CountedBytes(b"x = %d" % number) for number in range(200)}
    golden = {**files, "/repo/0.py": CountedBytes(b"x = 7000")}
    CountedBytes.reads = 0
    shell = Shell("bash", "command")
    work = GoldenWork(TASK, trial_of(golden), trial_of(files), writer=shell, shell=shell)
    assert [act for attack in file_attacks(work) for turn in attack.script.turns for act in turn if isinstance(act, Call)]
    assert CountedBytes.reads < 3 * len(files)
