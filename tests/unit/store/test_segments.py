import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.traces import cancelled, failed, make_row, make_trace
from sandlot.core.errors import StoreError
from sandlot.core.trace_row import TraceRow
from sandlot.store import segments
from sandlot.store.columns import rows_of, schema_of, table_of
from sandlot.store.entry import LogEntry, decode_trace, encode_trace
from sandlot.store.segments import Segment, write_segment

TEXT = st.text(max_size=8)
NUMBER = st.floats(allow_nan=False)
COUNT = st.integers(0, 2**40)
ROWS = st.builds(
    TraceRow,
    task=TEXT,
    rollout=COUNT,
    split=TEXT,
    tags=st.lists(TEXT, max_size=3).map(tuple),
    end=TEXT,
    outcome=TEXT,
    side=st.none() | TEXT,
    kind=st.none() | TEXT,
    message=st.none() | TEXT,
    score=st.none() | NUMBER,
    points=st.none() | NUMBER,
    possible=st.none() | NUMBER,
    passed=st.none() | st.booleans(),
    turns=COUNT,
    calls=COUNT,
    tool_errors=COUNT,
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    usd=NUMBER,
    seconds=NUMBER,
    phases=st.dictionaries(st.sampled_from(["model", "grade", "own phase", ""]), NUMBER),
    attempts=COUNT,
    started=NUMBER,
)


def entry(trace) -> LogEntry:
    return LogEntry(make_row(trace), encode_trace(trace))


@given(rows=st.lists(ROWS, max_size=5))
def test_rows_survive_as_columns(rows):
    assert list(rows_of(table_of(rows, schema_of(rows)))) == rows


def test_traces_and_rows_come_back(tmp_path):
    traces = [make_trace("a", 0), make_trace("a", 1, outcome=failed()), make_trace("b", 0, outcome=cancelled())]
    write_segment([entry(trace) for trace in traces], tmp_path / "s.parquet")
    segment = Segment(tmp_path / "s.parquet")
    assert list(rows_of(segment.table())) == [make_row(trace) for trace in traces]
    assert [decode_trace(data, "s") for data in segment.traces()] == traces
    assert [decode_trace(segment.trace(index), "s") for index in (2, 0, 1)] == [traces[2], traces[0], traces[1]]


@settings(deadline=None, max_examples=20)
@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=30), data=st.data())
def test_row_groups_divide_the_rows_without_a_seam(tmp_path_factory, sizes, data):
    path = tmp_path_factory.mktemp("groups") / "s.parquet"
    entries = [entry(make_trace("a", number, text="x" * size)) for number, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "_GROUP_ROWS", 4)
        patch.setattr(segments, "_GROUP_BYTES", 3 * len(entries[0].trace))
        write_segment(entries, path)
    segment = Segment(path)
    assert segment.num_rows == len(entries)
    start = data.draw(st.integers(0, len(entries) - 1))
    stop = data.draw(st.integers(start + 1, len(entries)))
    assert list(rows_of(segment.slice(start, stop))) == [item.row for item in entries[start:stop]]
    assert [segment.trace(index) for index in range(len(entries))] == [item.trace for item in entries]


def test_a_huge_trace_has_a_group_of_its_own(tmp_path):
    entries = [entry(make_trace("a", number, text="x" * 3 * 2**20)) for number in range(3)]
    write_segment(entries, tmp_path / "s.parquet")
    assert pq.read_metadata(tmp_path / "s.parquet").num_row_groups == 3


def test_anyone_reads_it_with_sql(tmp_path):
    traces = [make_trace("a", 0), make_trace("a", 1), make_trace("a", 2, outcome=failed())]
    for number, trace in enumerate(traces):
        write_segment([entry(trace)], tmp_path / f"{number:06d}.parquet")
    query = (
        f"select outcome, count(*), avg(score), sum(phase_model) from '{tmp_path}/*.parquet' group by outcome order by outcome"
    )
    assert duckdb.sql(query).fetchall() == [("failed", 1, None, 0.5), ("scored", 2, 1.0, 1.0)]


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_a_truncated_segment_is_refused_by_name(tmp_path, keep):
    path = tmp_path / "000001.parquet"
    write_segment([entry(make_trace())], path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(StoreError, match=r"segment `.*000001\.parquet` cannot be read"):
        Segment(path)


@given(data=st.data())
def test_a_damaged_segment_is_refused_or_unharmed_but_never_wrong(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "000001.parquet"
    entries = [entry(make_trace("a", number)) for number in range(20)]
    write_segment(entries, path)
    footer = pq.read_metadata(path).serialized_size + 8
    damaged = bytearray(path.read_bytes())
    damaged[data.draw(st.integers(4, len(damaged) - footer - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(damaged)
    segment = Segment(path)
    try:
        read = [list(rows_of(segment.table())), list(segment.traces())]
    except StoreError as error:
        assert f"`{path}` cannot be read" in str(error)  # noqa: PT017 - both ways are right
    else:
        assert read == [[item.row for item in entries], [item.trace for item in entries]]
