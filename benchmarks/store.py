"""Keeping and opening a million traces, next to JSONL, SQLite (WAL) and Inspect's `.eval` log.

    python benchmarks/store.py [--small] [--folder DIR] [--no-inspect]

Appends are durable before they are acknowledged: 256 writers at once share each sync here; the peers are given the same favour,
one sync (one commit) for every 256 records. Reading is measured in a fresh process over a warm page cache; `open_s` counts the
imports. Human lines go to stderr; the last line of stdout is one JSON object.
"""

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from peers import INSPECT, ready
from report import Report, Row, publish, say

NAME = "store"

WRITERS = 256
PAGE_ROWS = 50
LOOKS = 500
MANIFEST = b'{"format": 1, "env": "synthetic"}'
WORDS = ["".join(Random(n).choices("etaoinshrdlucmfwyp", k=2 + n % 9)) for n in range(2000)]
"""As hard to compress as plain English, roughly: eleven bits a word."""


# -- what is kept ------------------------------------------------------------------------------------------------------


def made(count: int) -> Iterator[tuple]:
    """One-turn traces of about a kilobyte, all different, with their rows."""
    import msgspec

    from sandlot.core.rubric import CheckResult, CheckVerdict, RubricScore
    from sandlot.core.trace import EvidenceRecord, Node, Scored, Trace, Usage, text_message
    from sandlot.core.trace_row import row_of
    from sandlot.core.types import End, Role

    random = Random(0)
    check = CheckResult(id="right", verdict=CheckVerdict.MET, value=1.0, points=1.0, worth=1.0, evidence="it is right")
    outcome = Scored(RubricScore(points=1, possible=1, value=1.0, checks=(check,)))
    phases = {"setup": 0.001, "model": 0.5, "gather": 0.001, "grade": 0.01, "teardown": 0.001}
    evidence, usage = EvidenceRecord(answer="42"), Usage(prompt_tokens=60, completion_tokens=40)
    trace = Trace(run="bench", task="", rollout=0, seed=1, end=End.DONE, outcome=outcome, evidence=evidence, phases=phases)
    for number in range(count):
        text = " ".join(random.choices(WORDS, k=40))
        question = Node(message=text_message(Role.USER, text[:120]))
        answer = Node(message=text_message(Role.ASSISTANT, text), parent=0, sampled=True, usage=usage)
        this = msgspec.structs.replace(
            trace,
            task=f"task-{number // 8}",
            rollout=number % 8,
            nodes=[question, answer],
            seed=number,
            started=1.7e9 + number * 0.01,
        )
        yield this, row_of(this, split="train")


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(item.stat().st_size for item in path.rglob("*") if item.is_file())


def cpu_of(work: Callable[[], None]) -> dict[str, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}


# -- appending ---------------------------------------------------------------------------------------------------------


def append_ours(folder: Path, count: int) -> dict[str, float]:
    import anyio

    from sandlot.store.directory import open_run

    pairs = list(made(count))

    async def keep() -> None:
        rest = iter(pairs)

        async def write() -> None:
            for trace, row in rest:
                await run.add(trace, row)

        async with open_run(folder, manifest=MANIFEST) as run, anyio.create_task_group() as group:
            for _ in range(WRITERS):
                group.start_soon(write)

    return cpu_of(lambda: anyio.run(keep))


def append_jsonl(path: Path, count: int, batch: int = WRITERS) -> dict[str, float]:
    import msgspec

    pairs, encoder = list(made(count)), msgspec.json.Encoder()

    def keep() -> None:
        with path.open("wb") as file:
            for start in range(0, count, batch):
                for trace, row in pairs[start : start + batch]:
                    file.write(encoder.encode({"row": row, "trace": trace}) + b"\n")
                file.flush()
                os.fdatasync(file.fileno())

    return cpu_of(keep)


def sqlite_at(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    return connection


def append_sqlite(path: Path, count: int, batch: int = WRITERS) -> dict[str, float]:
    import msgspec

    pairs, encoder = list(made(count)), msgspec.msgpack.Encoder()
    fields = [name for name in type(pairs[0][1]).__struct_fields__ if name not in {"tags", "phases"}]

    def keep() -> None:
        connection = sqlite_at(path)
        columns = ", ".join(f'"{name}"' for name in fields)
        connection.execute(f"create table traces ({columns}, tags, phases, trace blob, primary key (task, rollout))")
        insert = f"insert into traces values ({', '.join('?' * (len(fields) + 3))})"
        for start in range(0, count, batch):
            with connection:
                connection.executemany(
                    insert,
                    [
                        (*(getattr(row, name) for name in fields), *map(encoder.encode, (row.tags, row.phases, trace)))
                        for trace, row in pairs[start : start + batch]
                    ],
                )
        connection.close()

    return cpu_of(keep)


# -- a million of them -------------------------------------------------------------------------------------------------


def fill_ours(folder: Path, count: int) -> None:
    """Bulk: the same sealing code, without the log before it."""
    from sandlot.core.disk import DISK, make_folder, write_file
    from sandlot.store.entry import LogEntry, encode_trace
    from sandlot.store.layout import folders, manifest_file, segment_file
    from sandlot.store.segments import write_segment
    from sandlot.store.traces import Sealing

    for place in folders(folder):
        make_folder(place, DISK)
    write_file(manifest_file(folder), MANIFEST, DISK)
    entries: list[LogEntry] = []
    number = 0
    for index, (trace, row) in enumerate(made(count), 1):
        entries.append(LogEntry(row, encode_trace(trace)))
        if len(entries) == Sealing().traces or index == count:
            number += 1
            write_segment(entries, segment_file(folder, number), DISK)
            entries = []


def fill_jsonl(path: Path, count: int) -> None:
    append_jsonl(path, count, batch=2**16)


def fill_sqlite(path: Path, count: int) -> None:
    append_sqlite(path, count, batch=2**16)


# -- reading, in a fresh process ---------------------------------------------------------------------------------------


def timed(looks: list[Callable[[], object]]) -> dict[str, float]:
    times = []
    for look in looks:
        start = time.perf_counter()
        assert look()
        times.append((time.perf_counter() - start) * 1000)
    return {"p50": statistics.median(times), "p99": statistics.quantiles(times, n=100)[98]}


def read_results(started: float, count: int, pages: Callable, trace: Callable, mean: Callable) -> dict:
    opened = time.perf_counter() - started
    random = Random(1)
    numbers = [random.randrange(count) for _ in range(LOOKS)]
    start = time.perf_counter()
    trace(f"task-{numbers[0] // 8}", numbers[0] % 8)
    first = time.perf_counter() - start
    start = time.perf_counter()
    assert mean() == 1.0
    scan = time.perf_counter() - start
    return {
        "open_s": opened,
        "first_trace_s": first,
        "page_ms": timed([lambda at=number: pages(min(at, count - PAGE_ROWS), PAGE_ROWS) for number in numbers]),
        "trace_ms": timed([lambda at=number: trace(f"task-{at // 8}", at % 8) for number in numbers]),
        "mean_score_s": scan,
    }


def read_ours(path: Path, count: int) -> dict:
    started = time.perf_counter()
    from sandlot.store.reader import RunReader

    reader = RunReader(path)
    assert len(reader) == count

    def mean() -> float:
        import pyarrow.compute

        return pyarrow.compute.mean(reader.table(["score"]).column("score")).as_py()

    found = read_results(started, count, reader.page, reader.trace, mean)
    start = time.perf_counter()
    assert len(reader.done_keys()) == count
    return found | {"done_keys_s": time.perf_counter() - start}


def read_jsonl(path: Path, count: int) -> dict:
    started = time.perf_counter()
    import msgspec

    from sandlot.core.trace import Trace
    from sandlot.core.trace_row import TraceRow

    class Row(msgspec.Struct):
        row: TraceRow

    class Kept(msgspec.Struct):
        trace: Trace

    rows, whole = msgspec.json.Decoder(Row), msgspec.json.Decoder(Kept)
    offsets, places, scores, at = [], {}, [], 0
    file = path.open("rb")
    for line in file:
        row = rows.decode(line).row
        places[row.task, row.rollout] = at
        offsets.append(at)
        scores.append(row.score)
        at += len(line)
    assert len(offsets) == count

    def line_at(offset: int) -> bytes:
        file.seek(offset)
        return file.readline()

    return read_results(
        started,
        count,
        lambda start, size: [rows.decode(line_at(offset)).row for offset in offsets[start : start + size]],
        lambda task, rollout: whole.decode(line_at(places[task, rollout])).trace,
        lambda: statistics.fmean(scores),
    )


def read_sqlite(path: Path, count: int) -> dict:
    started = time.perf_counter()
    import msgspec

    from sandlot.core.trace import Trace

    decoder = msgspec.msgpack.Decoder(Trace)
    connection = sqlite_at(path)
    assert connection.execute("select count(*) from traces").fetchone() == (count,)
    columns = ", ".join(row[1] for row in connection.execute("pragma table_info(traces)") if row[1] not in {"trace", "end"})
    page = f'select {columns}, "end" from traces where rowid > ? order by rowid limit ?'
    one = "select trace from traces where task = ? and rollout = ?"
    return read_results(
        started,
        count,
        lambda start, size: connection.execute(page, (start, size)).fetchall(),
        lambda task, rollout: decoder.decode(connection.execute(one, (task, rollout)).fetchone()[0]),
        lambda: connection.execute("select avg(score) from traces").fetchone()[0],
    )


# -- Inspect -----------------------------------------------------------------------------------------------------------


def run_inspect(folder: Path, count: int) -> dict:
    script = Path(__file__).parent / "store_inspect.py"
    command = [str(ready(INSPECT).bin("python")), str(script), str(folder), str(count), str(LOOKS)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


# -- the road ----------------------------------------------------------------------------------------------------------

STORES = {
    "sandlot": (append_ours, fill_ours, read_ours),
    "jsonl": (append_jsonl, fill_jsonl, read_jsonl),
    "sqlite": (append_sqlite, fill_sqlite, read_sqlite),
}


def fresh(step: str, name: str, path: Path, count: int) -> dict:
    """One step in a process of its own, so that no step pays for another's imports and memory."""
    command = [sys.executable, __file__, "--step", step, "--name", name, "--folder", str(path), "--count", str(count)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def one_step(step: str, name: str, path: Path, count: int) -> dict:
    append, fill, read = STORES[name]
    if step == "append":
        return append(path, count)
    return read(path, count) if step == "read" else (fill(path, count) or {})


def measured(name: str, folder: Path, appends: int, count: int) -> dict:
    appended = fresh("append", name, folder / f"{name}-appended", appends)
    fresh("fill", name, folder / f"{name}-full", count)
    read = fresh("read", name, folder / f"{name}-full", count)
    found = {
        "appends_per_cpu_s": appends / appended["cpu_s"],
        "appends_per_s": appends / appended["wall_s"],
        "bytes_per_trace": size_of(folder / f"{name}-full") / count,
        "traces": count,
        **read,
    }
    say(
        f"{name:8} {found['appends_per_cpu_s']:9.0f} appends/CPU-s  {found['bytes_per_trace']:6.0f} B/trace  "
        f"open {found['open_s']:7.3f} s  page p50 {found['page_ms']['p50']:.2f} ms  trace p50 {found['trace_ms']['p50']:.2f} "
        f"p99 {found['trace_ms']['p99']:.2f} ms  mean score {found['mean_score_s']:.3f} s"
    )
    for path in folder.glob(f"{name}-*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return found


def ratios(ours: dict, peers: dict[str, dict]) -> dict[str, float]:
    """How many times better than the peer: more appends, fewer bytes, less time."""
    found = {}
    for name, peer in peers.items():
        if "appends_per_cpu_s" in peer:
            found[f"appends_per_cpu_s vs {name}"] = ours["appends_per_cpu_s"] / peer["appends_per_cpu_s"]
        for metric in ("bytes_per_trace", "open_s", "mean_score_s"):
            if metric in peer:
                found[f"{metric} vs {name}"] = peer[metric] / ours[metric]
        for metric in ("page_ms", "trace_ms"):
            if metric in peer:
                found[f"{metric} p50 vs {name}"] = peer[metric]["p50"] / ours[metric]["p50"]
    return found


def rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def rows(ours: dict, peers: dict[str, dict], count: int, samples: int) -> list[Row]:
    """The lines of the table. Inspect holds a hundredth of what the others hold."""
    lines = [
        ("appends per CPU-second, durable (more is better)", lambda found: found.get("appends_per_cpu_s", ""), ""),
        ("bytes a trace (less is better)", lambda found: found["bytes_per_trace"], ""),
        ("seconds to open (less is better)", lambda found: found["open_s"], "seconds"),
        (
            "ms for a page of 50 rows, p50 (less is better)",
            lambda found: found["page_ms"]["p50"] if "page_ms" in found else "",
            "",
        ),
        ("ms for one trace, p50 (less is better)", lambda found: found["trace_ms"]["p50"], ""),
        ("seconds for the mean score of all (less is better)", lambda found: found.get("mean_score_s", ""), ""),
    ]
    sizes = Row("traces held", f"{count:,}", {name: f"{samples if name == 'inspect' else count:,}" for name in peers})
    return [
        sizes,
        *(Row(what, take(ours), {name: take(peer) for name, peer in peers.items()}, target) for what, take, target in lines),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a hundredth of everything")
    parser.add_argument("--no-inspect", action="store_true")
    parser.add_argument("--folder", type=Path, help="where to write; by default a temporary folder")
    for hidden in ("--step", "--name"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(one_step(options.step, options.name, options.folder, options.count)))
        return
    appends, count, samples = (2_000, 10_000, 200) if options.small else (100_000, 1_000_000, 10_000)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="sandlot-store-") as temporary:
        folder = Path(temporary)
        found = {name: measured(name, folder, appends, count) for name in STORES}
        peers = {name: result for name, result in found.items() if name != "sandlot"}
        if not options.no_inspect:
            peers["inspect"] = run_inspect(folder, samples)
            say(f"inspect  {json.dumps(rounded(peers['inspect']))}")
    ours = found["sandlot"]
    report = Report(
        NAME,
        ours=rounded(ours),
        peers=rounded(peers),
        ratios=rounded(ratios(ours, peers)),
        rows=rows(ours, peers, count, samples),
    )
    publish(report, write_table=not options.small)


if __name__ == "__main__":
    main()
