"""How long a whole audit takes, and how much memory: all mandatory layers, 100 tasks played.

    make bench NAME=audit
    make bench NAME=audit ARGS="wholesaler"

Two ready environments, and a large tool environment (`environments/wholesaler.py`: 50 tools, 500 tasks over a database). The
large one is audited within a budget too: by how much it is exceeded is measured in seconds of wall-clock. Memory is the sum over
all processes at the same moment, shared pages counted once. `--small` plays few tasks with few probes and leaves the table alone.
The graders of reasoning-gym are swept by `make bench NAME=audit_graders`.
"""

import argparse
import json
import re
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from report import Report, Row, measure, publish, say, standing_rows

NAME = "audit"
ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = {
    "arithmetic": ("environments/arithmetic", "one question, no tools"),
    "helpdesk": ("environments/helpdesk", "ten tools, many turns, no sandbox"),
    "wholesaler": ("benchmarks/environments/wholesaler.py", "50 tools, 500 tasks over a database"),
}
LARGE = "wholesaler"
TASKS = 100
BUDGET_S = 60.0
SAMPLED_S = 0.5
SMALL = ("--limit", "4", "--probe", "hollow-answers", "--probe", "mutants", "--probe", "same-again")


class PeakMemory:
    """Watches what all processes that this one started hold together."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        own = str(Path("/proc/self").readlink())
        while not self._ended.wait(SAMPLED_S):
            self.peak_bytes = max(self.peak_bytes, sum(map(_held, _below(own))))


def _below(root: str) -> list[str]:
    """The processes below one, itself left out."""
    children: dict[str, list[str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        text = _read(stat)
        if text:
            children.setdefault(text.rpartition(")")[2].split()[1], []).append(stat.parent.name)
    found: list[str] = []
    left = list(children.get(root, ()))
    while left:
        found.append(left.pop())
        left += children.get(found[-1], ())
    return found


def _held(process: str) -> int:
    """Bytes of a process, with its share of pages that others have too."""
    said = re.search(r"^Pss: +(\d+) kB", _read(Path(f"/proc/{process}/smaps_rollup")), re.MULTILINE)
    return int(said[1]) * 1024 if said else 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended
        return ""


def audited(name: str, options: tuple[str, ...]) -> dict[str, Any]:
    """One audit by the command, from outside."""
    with tempfile.TemporaryDirectory() as runs, PeakMemory() as memory:
        report = Path(runs) / "report.json"
        command = f'"$@"; test $? -lt 4 -a -s {report}'  # 1 and 3 are verdicts
        words = [ROOT / ".venv/bin/sandlot", "audit", ROOT / ENVIRONMENTS[name][0], "--runs", runs, "--report", report, *options]
        started = time.monotonic()
        done = measure(["/bin/sh", "-c", command, "audit", *words], env={"PYTHONPATH": str(ROOT / "src")}, timeout_s=7200)
        wall_s = time.monotonic() - started
        said = json.loads(report.read_text())
    peak_mb = memory.peak_bytes / 1e6
    say(f"{name}: {said['verdict']}, {wall_s:.1f} s, {done.cpu_s:.1f} CPU-s, {peak_mb:.0f} MB, {said['trials']} trials")
    states = [probe["state"] for layer in said["layers"] for probe in layer["probes"]]
    return {
        "seconds": wall_s,
        "cpu_s": done.cpu_s,
        "peak_mb": peak_mb,
        "trials": said["trials"],
        "tasks": said["tasks"],
        "verdict": said["verdict"],
        "ran": states.count("ran"),
        "not_reached": states.count("not reached"),
    }


def rows_of(name: str, ours: dict[str, Any]) -> list[Row]:
    """The rows of one environment."""
    large = name == LARGE
    return [
        Row(
            f"{name} ({ENVIRONMENTS[name][1]}): seconds for {ours['tasks']} tasks",
            round(ours["seconds"], 1),
            target="" if large else "60",
        ),
        Row(f"{name}: CPU-seconds", round(ours["cpu_s"], 1), target="600" if large else ""),
        Row(f"{name}: peak MB, all processes", round(ours["peak_mb"]), target="1000" if large else ""),
        Row(f"{name}: trials", ours["trials"]),
    ]


def within_budget(*, small: bool) -> tuple[dict[str, Any], list[Row]]:
    """The large environment within a budget."""
    ours = audited(LARGE, ("--budget", f"{BUDGET_S:g}s", *(SMALL if small else ())))
    what = f"{LARGE}, --budget {BUDGET_S:g}s"
    return ours, [
        Row(f"{what}: seconds", round(ours["seconds"], 1), target=f"{BUDGET_S * 1.1:g}"),
        Row(f"{what}: probes that ran", ours["ran"]),
        Row(f"{what}: probes that were not reached, and named", ours["not_reached"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ENVIRONMENTS)} and budget; default: all")
    parser.add_argument("--small", action="store_true", help="few tasks and probes; the table is left alone")
    asked = parser.parse_args()
    names = asked.names or [*ENVIRONMENTS, "budget"]
    ours: dict[str, Any] = {}
    rows: list[Row] = []
    for name in names:
        if name == "budget":
            ours[name], added = within_budget(small=asked.small)
        else:
            ours[name] = audited(name, SMALL if asked.small else ("--limit", str(TASKS)))
            added = rows_of(name, ours[name])
        rows += added
    if not asked.small and asked.names:
        new = {row.what: row for row in rows}
        old = standing_rows(NAME)
        rows = [new.pop(row.what, row) for row in old] + list(new.values())
    publish(Report(name=NAME, ours=ours, peers={}, ratios={}, rows=rows), write_table=not asked.small)


if __name__ == "__main__":
    main()
