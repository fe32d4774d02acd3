"""Logs as Inspect writes them, and logs as nobody should."""

import json
import struct
import zipfile
import zlib

import pyarrow as pa

HEADER = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "sums",
        "created": "2026-11-17T02:14:10+00:00",
        "dataset": {"samples": 1, "sample_ids": [1]},
        "model": "mockllm/model",
        "config": {"epochs": 1},
        "packages": {"inspect_ai": "0.3.285"},
    },
    "plan": {"steps": [{"solver": "generate"}]},
    "stats": {"started_at": "2026-11-17T02:14:10+00:00", "completed_at": "2026-11-17T02:14:40+00:00"},
}


def header(**eval_fields):
    return {**HEADER, "eval": {**HEADER["eval"], **eval_fields}}


def sample(**fields):
    said = {"id": "m2", "role": "assistant", "content": "2", "source": "generate"}
    return {
        "id": 1,
        "epoch": 1,
        "target": "2",
        "messages": [{"id": "m1", "role": "user", "content": "What is 1+1?", "source": "input"}, said],
        "output": {"model": "mockllm/model", "choices": [{"message": said, "stop_reason": "stop"}], "completion": "2"},
        "scores": {"match": {"value": "C", "answer": "2"}},
        "events": [{"event": "span_begin", "type": "scorers"}],
        "started_at": "2026-11-17T02:14:10+00:00",
        "total_time": 2.0,
        **fields,
    }


def entry_name(each):
    return f"samples/{each['id']}_epoch_{each['epoch']}.json"


def write_zstd_zip(path, entries, *, crc=None, declared=None):
    """A ZIP archive with entries of method 93. `entries` are (name, bytes); `declared` is a wrong size for the directory."""
    body, directory = b"", b""
    for name, data in entries:
        packed = pa.Codec("zstd").compress(data, asbytes=True)
        raw = name.encode()
        check = zlib.crc32(data) if crc is None else crc
        size = len(data) if declared is None else declared
        sizes = struct.pack("<III", check, len(packed), size)
        directory += (
            struct.pack("<4sHHHHHH", b"PK\1\2", 20, 20, 0x800, 93, 0, 0)
            + sizes
            + struct.pack("<HHHHHII", len(raw), 0, 0, 0, 0, 0, len(body))
            + raw
        )
        body += struct.pack("<4sHHHHH", b"PK\3\4", 20, 0x800, 93, 0, 0) + sizes + struct.pack("<HH", len(raw), 0) + raw + packed
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, len(entries), len(entries), len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    return path


def write_eval(path, *samples, head=None, method=zipfile.ZIP_DEFLATED):
    """An `.eval` log."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for each in samples:
            archive.writestr(entry_name(each), json.dumps(each))
        archive.writestr("header.json", json.dumps(head or HEADER))
    return path
