"""What every benchmark says and where it says it: CPU-seconds of whole process trees, one JSON object, one table.

Speed is stated in CPU-seconds and as ratios to a named peer measured in the same run, because wall-clock on a shared machine says
little. People read stderr; the last line of stdout is the result (`name`, `machine`, `ours`, `peers`, `ratios`). The table in
`README.md` is written here, between each benchmark's own markers, and never by hand.

    rows = [Row("appends per CPU-second", 9000, {"sqlite": 3000}, target=">= 5000")]
    publish(Report("store", ours={...}, peers={"sqlite": {...}}, ratios={...}, rows=rows), write_table=not small)
"""

import json
import os
import platform
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("README.md")


class ChildFailedError(RuntimeError):
    """A measured command exited with an error: its figures would mean nothing."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one command cost, everything it started and waited for included."""

    cpu_s: float
    wall_s: float
    peak_bytes: int
    """Resident memory of its largest process."""
    stdout: str
    stderr: str

    def costs(self) -> dict[str, float]:
        return {"cpu_s": round(self.cpu_s, 3), "wall_s": round(self.wall_s, 3), "peak_mb": round(self.peak_bytes / 1e6, 1)}


def measure(
    argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout_s: float = 900
) -> Measured:
    """Run a command to its end and count the CPU-seconds of its process tree (`wait4`: descendants it waited for are in it)."""
    words = [str(word) for word in argv]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        process = subprocess.Popen(
            words,
            env={**plain_environment(), **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        status, used = _wait(process, started + timeout_s)
        wall_s = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)  # reaped by wait4: Popen must not wait again
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    if process.returncode != 0:
        raise ChildFailedError(f"{shlex.join(words)} exited with {process.returncode}:\n{stdout[-2000:]}\n{stderr[-4000:]}")
    return Measured(used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss * 1024, stdout, stderr)


def plain_environment() -> dict[str, str]:
    """This process's variables less Python's own.

    With `PYTHONDONTWRITEBYTECODE` every start would compile anew, charged most to whoever has most code.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _wait(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[int, resource.struct_rusage]:
    killed = False
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            return status, used
        if time.monotonic() > deadline and not killed:
            os.killpg(process.pid, signal.SIGKILL)
            killed = True
        time.sleep(0.01)


def best_of(times: int, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> float:
    """The least CPU-seconds of several runs, after one that warms the caches."""
    measure(argv, env=env)
    return min(measure(argv, env=env).cpu_s for _ in range(times))


def machine() -> dict[str, Any]:
    """Where the figures come from: enough to know whether two of them may be compared."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _field("/proc/cpuinfo", "model name"),
        "ram_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return platform.machine()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: ours next to the peers', in one unit."""

    what: str
    """Says the unit and, by `more is better` or `less is better`, the direction."""
    ours: float | str
    peers: Mapping[str, float | str] = field(default_factory=dict)
    target: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark's result."""

    name: str
    ours: Mapping[str, Any]
    peers: Mapping[str, Mapping[str, Any]]
    ratios: Mapping[str, float]
    """`ours per peer`, larger is better for us; every speed claim quotes one of these."""
    rows: Sequence[Row]
    machine: Mapping[str, Any] = field(default_factory=machine)


def say(line: str) -> None:
    """One line of progress for a person."""
    print(line, file=sys.stderr, flush=True)


def publish(report: Report, *, write_table: bool) -> None:
    """Show the result to a person, write its section of the table if asked to, and print the JSON object last."""
    table = table_of(report.rows)
    say(f"\n{report.name}\n\n{table}\n")
    if write_table:
        TABLE.write_text(with_section(TABLE.read_text(), report.name, f"{_byline(report)}\n\n{table}"))
        say(f"wrote the `{report.name}` section of {TABLE}")
    whole = {name: getattr(report, name) for name in ("name", "machine", "ours", "peers", "ratios")}
    print(json.dumps(whole), flush=True)


def table_of(rows: Sequence[Row]) -> str:
    """The rows as Markdown, with one column for every peer that any of them names."""
    names = list(dict.fromkeys(name for row in rows for name in row.peers))
    head = ["what", "target", "Sandlot", *names]
    body = [[row.what, row.target, _cell(row.ours), *(_cell(row.peers.get(name, "")) for name in names)] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def standing_rows(name: str, text: str | None = None) -> list[Row]:
    """The rows of a benchmark's section of the table, with their cells as they are written."""
    section = _section(name).search(TABLE.read_text() if text is None else text)
    table = [line for line in (section[0] if section else "").splitlines() if line.startswith("|")]
    lines = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in table]
    head, body = (lines[0], lines[2:]) if lines else ([], [])
    return [
        Row(what, ours, {name: cell for name, cell in zip(head[3:], cells, strict=True) if cell}, target)
        for what, target, ours, *cells in body
    ]


def with_section(text: str, name: str, section: str) -> str:
    """The document with what stands between `<!-- name -->` and `<!-- /name -->` replaced."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    pattern = _section(name)
    if not pattern.search(text):
        raise ValueError(f"{TABLE} has no section `{name}`; add the lines `{opening}` and `{closing}` where its table belongs")
    return pattern.sub(lambda _match: f"{opening}\n{section}\n{closing}", text)


def _section(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(f"<!-- {name} -->") + ".*?" + re.escape(f"<!-- /{name} -->"), re.DOTALL)


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return re.sub(r"(?<!\\)\|", r"\|", value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _byline(report: Report) -> str:
    where = report.machine
    day = datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
    hardware = f"{where['cores']} cores ({where['cpu']}), {where['ram_gb']} GB"
    system = f"Linux {where['kernel']}, Python {where['python']}, load average {where['load'][0]} at the start"
    return f"{day}, `{_command()}`, {hardware}, {system}."


def _command() -> str:
    """What was run; one benchmark may write several tables, by its arguments."""
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
