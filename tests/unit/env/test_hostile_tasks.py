"""Task files of strangers, in JSON Lines and Parquet: what is wrong or absurd is one sentence that names the file, and cheap."""

import io
import random

import pyarrow as pa
import pytest
from pyarrow import parquet

from sandlot.core.errors import ConfigError
from sandlot.env import taskset
from sandlot.env.taskset import tasks_from

GOOD = b'{"id": "a", "prompt": "p"}\n'
LINES = {
    "deep": b'{"id": "a", "prompt": "p", "data": {"x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}}",
    "deep objects": b'{"a":' * 200_000,
    "not UTF-8": b'{"id": "a", "prompt": "\xff\xfe"}',
    "half a surrogate": b'{"id": "a", "prompt": "\\ud800"',
    "a null byte": b"\x00" * 100,
    "a BOM": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "a number": b"1",
    "NaN": b'{"id": NaN, "prompt": "p"}',
    "a huge number": b'{"id": "a", "prompt": "p", "limits": {"turns": 1' + b"0" * 5000 + b"}}",
    "an unknown field": b'{"id": "a", "prompt": "p", "__class__": "os.system"}',
    "a pickle": b"\x80\x04\x95c\nos\nsystem\n",
    "Parquet": b"PAR1" + b"\x00" * 50,
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_line_that_is_no_task_is_an_error_that_names_file_and_line(tmp_path, line):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(GOOD + line + b"\n")
    with pytest.raises(ConfigError, match=r"tasks\.jsonl:2"):
        list(tasks_from(path))


def test_an_endless_line_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(taskset, "_MOST_ROW_BYTES", 1000)
    path = tmp_path / "tasks.jsonl"
    with path.open("wb") as file:
        file.write(GOOD)
        file.truncate(2**40)  # a hole: it has no bytes on the disk
    with pytest.raises(ConfigError, match=r"tasks\.jsonl:2: more than 1,000 bytes"):
        list(tasks_from(path))


def written(**columns) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def test_a_small_file_that_repeats_a_large_value_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(taskset, "_MOST_PARQUET_BYTES", 10_000_000)
    path = tmp_path / "tasks.parquet"
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 100_000]))
    path.write_bytes(written(id=pa.array(map(str, range(20_000))), prompt=repeated))
    assert path.stat().st_size < 1_000_000, "of 2 GB"
    with pytest.raises(ConfigError, match=r"tasks\.parquet` holds more than 10,000,000 bytes"):
        list(tasks_from(path))


COLUMNS = {
    "binary": pa.array([b"\xff\x00"]),
    "a list": pa.array([[["a"]]]),
    "a year far away": pa.array([2**62], pa.timestamp("us")),
    "a duration": pa.array([2**62], pa.duration("s")),
    "a decimal": pa.array([10**37], pa.decimal256(76)),
    "nothing": pa.nulls(1),
    "text that is not UTF-8": pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
    ),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_prompt_of_another_type_is_an_error_that_names_the_file(tmp_path, column):
    path = tmp_path / "tasks.parquet"
    path.write_bytes(written(id=["a"], prompt=column))
    with pytest.raises(ConfigError, match=r"tasks\.parquet"):
        list(tasks_from(path))


def test_a_damaged_file_is_read_as_it_is_or_named(tmp_path):
    """Flipped bytes, cuts and lies in the footer: never another error, and never a crash."""
    rows = 50
    good = written(
        id=[f"t{n}" for n in range(rows)], prompt=["p" * n for n in range(rows)], data=[{"a": [n, None]} for n in range(rows)]
    )
    path, draw = tmp_path / "tasks.parquet", random.Random(7)
    refused = []
    for number in range(40):
        bad = bytearray(good)
        for _ in range(draw.choice([1, 4, 40])):
            start = len(bad) - 1200 if number % 2 else 0  # the footer describes the rest
            bad[draw.randrange(start, len(bad))] = draw.randrange(256)
        path.write_bytes(bad[: draw.randrange(len(bad))] if number % 10 == 0 else bad)
        try:
            list(tasks_from(path))
        except ConfigError as error:
            refused.append(str(error))
    assert all("tasks.parquet" in each for each in refused)
    assert len(refused) > 10
