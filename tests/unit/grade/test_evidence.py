import copy
import errno
import os
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import msgspec
import pytest

from sandlot.core.concurrency.clock import deadline
from sandlot.core.errors import AuthorError, GradeError, NotInEvidence, SandboxError
from sandlot.core.limits import Limits
from sandlot.core.ports.sandbox import Survey
from sandlot.core.trace import Event, EvidenceRecord, FileRecord, Trace
from sandlot.core.types import digest
from sandlot.grade.evidence import StoredEvidence
from sandlot.grade.gather import cut_events, gather

TRACE = Trace(run="r", task="t", rollout=0, seed=0)


class Frozen:
    """A snapshot of literal files; sizes may lie."""

    def __init__(self, files, sizes=None, kinds=None, left_out=0):
        self.files = files
        self.kinds = kinds or {}
        self.left_out = left_out
        self.sizes = {path: len(data) for path, data in files.items()} | (sizes or {})
        self.reads = []

    async def survey(self):
        return Survey(sizes=self.sizes, kinds=self.kinds, left_out=self.left_out)

    async def list(self):
        return self.sizes

    async def read(self, path):
        self.reads.append(path)
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None


class MemoryBlobs(dict):
    async def put(self, data):
        self[digest(data)] = data
        return digest(data)

    async def get(self, key):
        return self[key]


@dataclass
class Ticket:
    status: str = "open"


@dataclass
class Desk:
    tickets: dict[str, Ticket] = field(default_factory=dict)
    refunds: tuple[int, ...] = ()


async def test_what_was_gathered_is_what_checks_read():
    blobs = MemoryBlobs()
    record = await gather(
        Frozen({"/out/a.txt": "zwölf".encode()}),
        blobs,
        Limits(),
        state=Desk(tickets={"7": Ticket("done")}, refunds=(3,)),
        answer="hi",
    )
    record = msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=EvidenceRecord)
    evidence = StoredEvidence(record, TRACE, blobs, Desk)
    assert evidence.read_text("/out/a.txt") == evidence.read_text("out//./a.txt") == "zwölf"
    assert evidence.state == Desk(tickets={"7": Ticket("done")}, refunds=(3,))
    assert evidence.answer == "hi"
    assert evidence.list("/out") == ["/out/a.txt"]
    assert evidence.list("/o") == []
    assert evidence.exists("/out/a.txt")
    assert not evidence.exists("/out")


def test_a_missing_file_is_not_in_evidence_and_names_its_neighbours(evidence_of):
    with pytest.raises(NotInEvidence, match=r"no file `/out/total.txt`; files in `/out/`: /out/sum.txt"):
        evidence_of({"/out/sum.txt": b"1"}).read("/out/total.txt")


def test_text_that_is_not_utf8_is_not_in_evidence(evidence_of):
    with pytest.raises(NotInEvidence, match="byte 1 is 0xff"):
        evidence_of({"/a": b"a\xff"}).read_text("/a")


def test_bytes_that_were_kept_and_are_gone_break_the_grading():
    record = EvidenceRecord(files={"/a": FileRecord(size=1, blob="0" * 64)})
    with pytest.raises(GradeError, match="missing from the run directory"):
        StoredEvidence(record, TRACE, {}).read("/a")


def test_a_blob_is_loaded_once():
    loads = []
    record = EvidenceRecord(files={"/a": FileRecord(size=1, blob="x"), "/b": FileRecord(size=1, blob="x")})
    evidence = StoredEvidence(record, TRACE, lambda key: loads.append(key) or b"1")
    assert (evidence.read("/a"), evidence.read("/b"), loads) == (b"1", b"1", ["x"])


def test_reading_files_and_state_does_not_read_the_answer(evidence_of):
    evidence = evidence_of({"/a": b"1"}, state={"n": 1}, answer="one", penalties={"p": 1.0})
    evidence.read_text("/a"), evidence.list(), evidence.kind("/b"), evidence.diff(), evidence.state, evidence.penalties
    assert not evidence.answer_was_read


def in_a_fork(evidence):
    child = os.fork()
    if child == 0:
        os._exit(evidence.answer != "one")
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda evidence: evidence.answer,
        lambda evidence: evidence.trace.answer,
        lambda evidence: evidence.record.answer,
        lambda evidence: copy.copy(evidence).answer,
        lambda evidence: copy.deepcopy(evidence).answer,
        lambda evidence: evidence.with_answer("two").answer,
        in_a_fork,
    ],
)
def test_every_way_to_the_answer_is_noted(evidence_of, read):
    evidence = evidence_of({"/a": b"1"}, answer="one")
    assert not evidence.answer_was_read
    read(evidence)
    assert evidence.answer_was_read


def test_a_check_that_changes_the_state_changes_a_copy(evidence_of):
    evidence = evidence_of(state={"tickets": []})
    evidence.state["tickets"].append(1)
    assert evidence.record.state == {"tickets": []}


def test_state_that_no_longer_fits_its_type_is_the_graders_failure(evidence_of):
    with pytest.raises(GradeError, match="the stored state is not a `Desk`"):
        evidence_of(state={"tickets": 3}, state_type=Desk)


async def test_the_cap_keeps_small_files_and_records_the_rest():
    files = {"/a-huge": b"x" * 300, "/b": b"y" * 100, "/c": b"z" * 101, "/d": b"w" * 250, "/e": b"v" * 250, "/f": b"u" * 250}
    snapshot, blobs = Frozen(files), MemoryBlobs()
    record = await gather(snapshot, blobs, Limits(evidence_bytes=1000))
    assert {path for path, file in record.files.items() if file.blob} == {"/b", "/c", "/d", "/e", "/f"}
    assert record.files["/a-huge"] == FileRecord(size=300, blob=None)
    assert list(record.files) == sorted(files)
    assert "/a-huge" not in snapshot.reads
    with pytest.raises(NotInEvidence, match="300 bytes and was not stored"):
        StoredEvidence(record, TRACE, blobs).read("/a-huge")


async def test_the_cap_counts_all_files_together():
    record = await gather(Frozen({f"/{n}": bytes([n]) * 20 for n in range(20)}), MemoryBlobs(), Limits(evidence_bytes=100))
    assert sum(file.size for file in record.files.values() if file.blob) == 100
    assert len(record.files) == 20


async def test_a_listing_that_lies_about_sizes_does_not_break_the_cap():
    blobs = MemoryBlobs()
    record = await gather(Frozen({"/a": b"x" * 500}, sizes={"/a": 1}), blobs, Limits(evidence_bytes=1000))
    assert record.files == {"/a": FileRecord(size=500, blob=None)}
    assert not blobs


async def test_a_listed_file_that_cannot_be_read_is_the_sandboxs_failure():
    with pytest.raises(SandboxError, match="/ghost"):
        await gather(Frozen({}, sizes={"/ghost": 3}), MemoryBlobs(), Limits())


async def test_a_file_name_that_is_not_text_is_spelled_out():
    record = await gather(Frozen({"/a\udcff": b"1"}), MemoryBlobs(), Limits(), answer="\ud800!")
    assert list(record.files) == ["/a\\udcff"]
    assert record.answer == "\\ud800!"
    msgspec.msgpack.encode(record)


async def test_the_diff_shows_what_was_added_removed_and_changed():
    before = Frozen({"/same": b"1", "/edited": b"abc", "/grown": b"1", "/gone": b"x"})
    after = Frozen({"/same": b"1", "/edited": b"abd", "/grown": b"12", "/new": b"n"})
    blobs = MemoryBlobs()
    evidence = StoredEvidence(await gather(after, blobs, Limits(), initial=before), TRACE, {})
    diff = evidence.diff()
    assert list(diff) == ["/edited", "/gone", "/grown", "/new"]
    assert diff["/new"][0] is None
    assert diff["/gone"][1] is None
    assert [await blobs.get(diff[path][0].blob) for path in ("/edited", "/gone", "/grown")] == [b"abc", b"x", b"1"]


async def test_a_large_file_from_setup_is_read_only_if_it_may_be_unchanged():
    before = Frozen({"/same": b"1" * 70_000, "/grown": b"1" * 70_000, "/gone": b"x" * 70_000})
    after = Frozen({"/same": b"1" * 70_000, "/grown": b"1" * 70_001})
    record = await gather(after, MemoryBlobs(), Limits(), initial=before)
    assert before.reads == ["/same"]
    assert record.initial["/grown"].blob is None


async def test_a_file_too_large_to_keep_counts_as_changed():
    files = {"/big": b"x" * 300}
    record = await gather(Frozen(files), MemoryBlobs(), Limits(evidence_bytes=1000), initial=Frozen(files))
    assert list(StoredEvidence(record, TRACE, {}).diff()) == ["/big"]


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ({"a": [1, {"b": object()}]}, r"`state\.a\[1\]\.b` is a `object`"),
        (Desk(tickets={"1": Ticket(status=open)}), r"`state\.tickets\.1\.status` is a `builtin_function_or_method`"),
        (object(), "`state` is a `object`"),
        ({"x": float("nan")}, r"`state\.x` is nan"),
        ({"x": [0.0, float("-inf")]}, r"`state\.x\[1\]` is -inf"),
        ({"x": {7: "a"}}, r"`state\.x` has the key 7, a `int`; use text as keys, such as '7'"),
        ({"x": 2**80}, r"`state\.x` is a number of 81 bits"),
    ],
)
async def test_state_that_is_not_plain_data_is_the_authors_error_with_its_path(state, where):
    with pytest.raises(AuthorError, match=where):
        await gather(Frozen({}), MemoryBlobs(), Limits(), state=state)


async def test_state_that_contains_itself_is_the_authors_error():
    circle: list = []
    circle.append(circle)
    with pytest.raises(AuthorError):
        await gather(Frozen({}), MemoryBlobs(), Limits(), state={"x": circle})


async def test_state_nested_too_deep_is_the_authors_error():
    deep: list = []
    for _ in range(150):
        deep = [deep]
    with pytest.raises(AuthorError, match="nested more than 100 levels deep"):
        await gather(Frozen({}), MemoryBlobs(), Limits(), state=deep)


async def test_text_an_agent_put_into_the_state_can_always_be_written_down():
    record = await gather(Frozen({}), MemoryBlobs(), Limits(), state={"note\ud800": "a\udfffb"})
    assert record.state == {"note\\ud800": "a\\udfffb"}


class Gone:
    """A snapshot whose machine is lost after it has been listed."""

    async def survey(self):
        return Survey(sizes={f"/{number}": 1 for number in range(100)})

    async def read(self, path):
        raise SandboxError("the sandbox is gone", kind="gone")


async def test_a_sandbox_that_is_gone_is_one_failure_of_its_own_side():
    with pytest.raises(SandboxError, match="gone"):
        await gather(Gone(), MemoryBlobs(), Limits())


async def test_files_beyond_a_batch_are_all_kept_and_their_order_does_not_matter():
    files = {f"/{number:03}": bytes([number % 250]) * (number % 7) for number in range(200)}
    record = await gather(Frozen(files), MemoryBlobs(), Limits())
    assert {path: file.size for path, file in record.files.items()} == {path: len(data) for path, data in files.items()}
    assert list(record.files) == sorted(files)


async def test_what_is_no_file_is_recorded_by_its_kind():
    kinds = {"/out": "folder", "/out/link": "link", "/out/pipe": "other"}
    record = await gather(Frozen({"/out/a": b"1"}, kinds=kinds), MemoryBlobs(), Limits())
    evidence = StoredEvidence(record, TRACE, {})
    asked = ["/out/a", "/out", "/out/link", "/out/link/inside", "/out/pipe", "/none"]
    assert [evidence.kind(path) for path in asked] == ["file", "folder", "link", "link", "other", None]
    assert [path for path in asked if evidence.exists(path)] == ["/out/a"]
    with pytest.raises(NotInEvidence, match="`/out/link/inside` is a link or below one, and links are not followed"):
        evidence.read("/out/link/inside")
    assert not cut_events(record, 1)


async def test_too_many_paths_are_cut_nearest_to_the_root_first_and_counted():
    flood = {f"/deep/er/{number}": b"" for number in range(100)} | {"/out/answer": b"42"}
    record = await gather(Frozen(flood, kinds={"/deep/er": "folder"}), MemoryBlobs(), Limits(evidence_files=10))
    assert (len(record.files), record.kinds, record.left_out) == (10, {}, 92)
    assert "/out/answer" in record.files
    assert [event.detail["paths_left_out"] for event in cut_events(record, 1)] == [92]


async def test_a_flood_in_one_folder_does_not_push_out_results_in_another():
    flood = {f"/flood/{number}": b"" for number in range(100)} | {"/results/of/work.txt": b"42"}
    record = await gather(Frozen(flood), MemoryBlobs(), Limits(evidence_files=20))
    assert "/results/of/work.txt" in record.files


async def test_what_setup_left_is_recorded_however_much_it_is():
    setup = {f"/repo/src/{number}": b"" for number in range(100)}
    initial = {path: FileRecord(size=0, blob=None) for path in setup}
    left = Frozen(setup | {"/repo/src/new": b"1"}, kinds={"/repo": "folder", "/repo/src": "folder"})
    record = await gather(left, MemoryBlobs(), Limits(evidence_files=1), initial=initial)
    assert (len(record.files), record.left_out) == (101, 0)


@pytest.mark.parametrize(
    "question",
    [
        lambda evidence: evidence.exists("/secret"),
        lambda evidence: evidence.kind("/secret"),
        lambda evidence: evidence.read("/secret"),
        lambda evidence: evidence.list("/"),
        lambda evidence: evidence.diff(),
    ],
)
@pytest.mark.parametrize("record", [EvidenceRecord(left_out=3), EvidenceRecord(lost="the memory is full")])
def test_of_evidence_that_is_cut_nothing_is_said_to_be_absent(question, record):
    with pytest.raises(NotInEvidence, match=r"not known: .*(3 paths|memory is full)") as raised:
        question(StoredEvidence(record, TRACE, {}))
    assert raised.value.kind == "cut"


async def test_a_file_that_cannot_be_read_is_recorded_without_its_bytes():
    class Locked(Frozen):
        async def read(self, path):
            if path == "/locked":
                raise PermissionError(errno.EACCES, "no", path)
            return await super().read(path)

    record = await gather(Locked({"/locked": b"1", "/open": b"2"}), MemoryBlobs(), Limits())
    assert [file.blob is None for file in record.files.values()] == [True, False]
    assert cut_events(record, 2) == [
        Event(kind="evidence_cut", turn=2, detail={"paths_left_out": 0, "files_not_kept": 1, "lost": ""})
    ]


async def test_choosing_among_very_many_paths_leaves_the_loop_free():
    sizes = {f"/{number % 7}/{number}": 0 for number in range(40_000)}
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(others)
        await anyio.lowlevel.checkpoint()
        await gather(Frozen({}, sizes=dict.fromkeys(sizes, 10**9)), MemoryBlobs(), Limits(evidence_files=1))
        group.cancel_scope.cancel()
    assert turns > 10


class SlowToList(Frozen):
    """Files whose listing takes longer than gathering may."""

    async def survey(self):
        await anyio.sleep(0.2)
        return await super().survey()


async def test_many_files_that_take_long_to_list_are_no_failure_of_the_sandbox():
    with deadline(0.1, SandboxError, "gathering evidence"):
        record = await gather(SlowToList({"/a": b"1"}), MemoryBlobs(), Limits())
    assert set(record.files) == {"/a"}
