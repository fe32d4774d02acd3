import anyio
import duckdb
import pytest

from builders.traces import failed, make_row, make_trace
from sandlot.core.errors import ConfigError, StoreError
from sandlot.store.directory import open_run
from sandlot.store.entry import decode_trace
from sandlot.store.reader import RunReader
from sandlot.store.traces import Sealing

MANIFEST = b'{"format": 1}'
TRACES = [make_trace(f"t{number % 3}", number, outcome=failed() if number == 4 else None) for number in range(10)]


@pytest.fixture
async def live(tmp_path):
    """A run being written: two sealed segments of four and a log of two."""
    async with open_run(tmp_path / "r", manifest=MANIFEST, sealing=Sealing(traces=4)) as run:
        for trace in TRACES:
            await run.add(trace, make_row(trace))
        yield run


async def test_a_live_run_shows_everything_acknowledged(live):
    reader = RunReader(live.path)
    assert len(reader) == 10
    assert list(reader.traces()) == TRACES
    assert list(reader.rows()) == [make_row(trace) for trace in TRACES]
    assert reader.done_keys() == live.done_keys()
    assert reader.manifest == MANIFEST


@pytest.mark.parametrize(("start", "count"), [(0, 3), (2, 5), (7, 3), (0, 10), (9, 100), (10, 5), (50, 5), (3, 0)])
async def test_a_page_is_a_slice_of_all_rows(live, start, count):
    assert RunReader(live.path).page(start, count) == [make_row(trace) for trace in TRACES][start : start + count]


async def test_one_trace_by_its_key(live):
    reader = RunReader(live.path)
    assert [reader.trace(trace.task, trace.rollout) for trace in reversed(TRACES)] == TRACES[::-1]


@pytest.mark.parametrize(("task", "rollout", "hint"), [("zz", 0, "tasks: t0, t1, t2"), ("t0", 1, "rollouts of `t0`: 0, 3, 6, 9")])
async def test_a_trace_that_is_not_there_is_an_error_with_what_is(live, task, rollout, hint):
    with pytest.raises(ConfigError, match=hint):
        RunReader(live.path).trace(task, rollout)


async def test_a_negative_rollout_or_row_is_not_there(live):
    with pytest.raises(ConfigError):
        RunReader(live.path).trace("t0", -1)
    with pytest.raises(IndexError):
        RunReader(live.path).trace_at(-1)


async def test_columns_can_be_chosen(live):
    table = RunReader(live.path).table(["task", "score"])
    assert table.column_names == ["task", "score"]
    assert table.column("score").to_pylist() == [trace.reward for trace in TRACES]
    assert RunReader(live.path).table().num_rows == 10


async def test_a_table_goes_into_sql(live):
    rows = RunReader(live.path).table()
    assert duckdb.sql("select count(*), count(score) from rows").fetchall() == [(10, 9)]
    assert rows.num_columns > 20


async def test_a_reader_is_the_run_as_it_was_when_opened(live):
    before = RunReader(live.path)
    later = [make_trace("late", number) for number in range(5)]
    for trace in later:
        await live.add(trace, make_row(trace))
    assert len(before) == 10
    assert list(RunReader(live.path).traces()) == TRACES + later


async def test_an_empty_run_reads_as_empty(tmp_path):
    async with open_run(tmp_path / "r", manifest=MANIFEST):
        reader = RunReader(tmp_path / "r")
        assert (len(reader), list(reader.rows()), list(reader.traces()), reader.done_keys()) == (0, [], [], set())
        assert reader.table().num_rows == 0
        assert reader.table(["task"]).column_names == ["task"]
        with pytest.raises(ConfigError, match="it has none yet"):
            reader.trace("a", 0)


async def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"is not a run: it has no manifest\.json"):
        RunReader(tmp_path)


async def test_phases_of_one_segment_alone_are_null_in_the_others(tmp_path):
    odd = make_trace("odd", 0)
    odd.phases = {"own": 3.0}
    async with open_run(tmp_path / "r", manifest=MANIFEST, sealing=Sealing(traces=1)) as run:
        for trace in (make_trace("a", 0), odd, make_trace("a", 1)):
            await run.add(trace, make_row(trace))
    reader = RunReader(tmp_path / "r")
    assert reader.table(["phase_own"]).column("phase_own").to_pylist() == [None, 3.0, None]
    assert [row.phases for row in reader.rows()] == [odd_or.phases for odd_or in (make_trace(), odd, make_trace())]


async def test_a_column_nobody_has_is_refused_by_name(live):
    with pytest.raises(ConfigError, match="no column `scroe`; columns: task, rollout"):
        RunReader(live.path).table(["scroe"])


async def test_reading_while_logs_are_sealed_under_it(tmp_path):
    """Every look sees a prefix of what was kept, never less than was acknowledged before it."""
    traces = [make_trace("a", number) for number in range(30)]
    acknowledged = 0
    done = anyio.Event()

    async def write(run):
        nonlocal acknowledged
        for trace in traces:
            await run.add(trace, make_row(trace))
            acknowledged += 1
        done.set()

    async with open_run(tmp_path / "r", manifest=MANIFEST, sealing=Sealing(traces=2)) as run, anyio.create_task_group() as group:
        group.start_soon(write, run)
        while not done.is_set():
            before = acknowledged
            reader = await anyio.to_thread.run_sync(RunReader, tmp_path / "r")
            keys = [(row.task, row.rollout) for row in reader.rows()]
            assert keys == [trace.key for trace in traces[: len(keys)]]
            assert len(keys) >= before


async def test_a_corrupt_log_is_an_error_and_not_a_shorter_run(live):
    log = live.path / "log" / "000003.log"
    damaged = bytearray(log.read_bytes())
    damaged[60] ^= 1
    log.write_bytes(damaged)
    with pytest.raises(StoreError, match=r"000003\.log` is corrupt at byte 16"):
        RunReader(live.path)


async def test_traces_can_be_a_column_too(live):
    table = RunReader(live.path).table(["rollout", "trace"])
    assert [decode_trace(data, "t") for data in table.column("trace").to_pylist()] == TRACES


async def test_the_rows_of_a_task_are_in_the_order_of_its_rollouts(live):
    reader = RunReader(live.path)
    assert [(row.task, row.rollout) for row in reader.task_rows("t1")] == [("t1", 1), ("t1", 4), ("t1", 7)]
    with pytest.raises(ConfigError, match="no task `t9`; tasks: t0, t1, t2"):
        reader.task_rows("t9")
