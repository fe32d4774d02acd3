"""The same rollouts in one process, in two worker processes, on a Ray that the command starts, and on a Ray cluster of two nodes.

    make bench NAME=executors

Rollouts do nothing, compute (tens of milliseconds of Python) or wait (0.2 s), always by the same command with another `--on`.
Each is run at two sizes: the slope is the price of one more rollout, the rest is start-up. CPU is that of a control group, with
all that Ray starts. In the last run a node of the cluster is killed after a third of the rollouts and another joins after two
thirds; every rollout must be there once, and scored as in the others. Ray comes from the virtual environment of `make test-ray`.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from report import Report, Row, measure, publish, say

from sandlot.run.results import Run

NAME = "executors"
HERE = Path(__file__).parent
TOIL = HERE / "environments" / "toil.py"
SIZES = {"nothing": (200, 1400), "compute": (40, 240), "wait": (128, 768)}
AT_ONCE = {"nothing": 64, "compute": 16, "wait": 64}
PLACES = {"local": "local", "processes:2": "processes:2", "ray:2": "ray:2@local"}
NODES = "ray, two nodes"


def ray_python() -> Path:
    """The Python of `make test-ray`, which has Ray and Sandlot."""
    script = (HERE.parent / "tests" / "foreign" / "ray.sh").read_text()
    version = next(line.partition("=")[2] for line in script.splitlines() if line.startswith("RAY="))
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    python = Path(os.environ.get("SANDLOT_RAY_VENV") or Path(cache) / "sandlot" / f"ray-{version}") / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{python} is not there; `make test-ray` installs it")
    return python


class ControlGroup:
    """A group of processes whose CPU is counted, whoever started them and whether anyone waited for them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def within(self, *command: object) -> list[str]:
        """The command, started in this group."""
        return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self._folder), *map(str, command)]

    def cpu_s(self) -> float:
        return int((self._folder / "cpu.stat").read_text().split()[1]) / 1e6

    def wait_until_empty(self) -> None:
        until = time.monotonic() + 60
        while (self._folder / "cgroup.procs").read_text() and time.monotonic() < until:
            time.sleep(0.05)


@contextmanager
def control_group() -> Generator[ControlGroup]:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    place = next((Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)
    if place is None:
        raise SystemExit("CPU is counted by a cgroup of version 2, and none is mounted here")
    folder = place / f"sandlot-bench-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir()
    group = ControlGroup(folder)
    try:
        yield group
    finally:
        group.wait_until_empty()
        with suppress(OSError):  # something in it does not end
            folder.rmdir()


@dataclass(frozen=True, slots=True)
class Costs:
    """What one run needed."""

    cpu_s: float
    wall_s: float


def run(python: Path, kind: str, num_rollouts: int, on: str, folder: Path, others: ControlGroup | None = None) -> Costs:
    """One run, to its end and checked; the CPU of `others` meanwhile is charged to it."""
    flags = ["--task", kind, "--group", num_rollouts, "--at-once", AT_ONCE[kind], "--run", folder / "run", "--on", on, "--json"]
    with control_group() as group:
        before = others.cpu_s() if others else 0.0
        words = [python, "-m", "sandlot", "run", TOIL, "--model", "scripted:golden", *flags]
        done = measure(group.within(*words), cwd=folder, env={"RAY_USAGE_STATS_ENABLED": "0"})
        group.wait_until_empty()
        cpu_s = group.cpu_s() + (others.cpu_s() - before if others else 0.0)
    said = json.loads(done.stdout.splitlines()[-1])
    if (said["scored"], said["score"]["mean"]) != (num_rollouts, 1.0):
        raise RuntimeError(f"{num_rollouts} rollouts on {on} should all be scored 1: {said}")
    return Costs(cpu_s, done.wall_s)


class Nodes:
    """A cluster on this machine, in a control group of its own."""

    def __init__(self, process: "subprocess.Popen[str]", group: ControlGroup, address: str) -> None:
        self._process, self.group, self.address = process, group, address

    def order(self, what: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(what, file=self._process.stdin, flush=True)
        if self._process.stdout.readline().strip() != "ok":
            raise RuntimeError(f"the cluster did not {what}")


@contextmanager
def cluster(python: Path) -> Generator[Nodes]:
    with control_group() as group:
        command = group.within(python, HERE / "ray_nodes.py", 2)
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield Nodes(process, group, process.stdout.readline().strip())
        finally:
            process.stdin.close()
            process.wait(120)


def disturb(nodes: Nodes, log: Path, num_rollouts: int) -> None:
    """Kill a node and let one join, when a third and two thirds of the rollouts have ended."""
    for share, order in ((1 / 3, "kill"), (2 / 3, "join")):
        while num_ended(log) < share * num_rollouts:
            time.sleep(0.05)
        nodes.order(order)
        say(f"{NODES}: {order} after {num_ended(log)} rollouts")


def num_ended(log: Path) -> int:
    return log.read_text().count('"rollout_ended"') if log.exists() else 0


def run_disturbed(python: Path, nodes: Nodes, num_rollouts: int, folder: Path) -> tuple[Costs, int]:
    """A run while nodes die and join, and how many attempts that cost."""
    helper = threading.Thread(target=disturb, args=(nodes, folder / "run" / "events.jsonl", num_rollouts), daemon=True)
    helper.start()
    costs = run(python, "compute", num_rollouts, f"ray:{nodes.address}", folder, nodes.group)
    helper.join(60)
    traces = list(Run(folder / "run"))
    if helper.is_alive() or len(traces) != num_rollouts or len({trace.key for trace in traces}) != num_rollouts:
        raise RuntimeError(f"{len(traces)} of {num_rollouts} rollouts: lost or doubled, or it was over too soon")
    return costs, sum(len(trace.attempts) for trace in traces)


def slopes(few: Costs, many: Costs, more: int) -> dict[str, float]:
    cpu_ms, wall_ms = (many.cpu_s - few.cpu_s) / more * 1000, (many.wall_s - few.wall_s) / more * 1000
    return {"cpu_ms": cpu_ms, "wall_ms": wall_ms, "per_s": 1000 / wall_ms}


def measured(*, small: bool) -> Report:
    python, scale = ray_python(), 10 if small else 1
    found: dict[str, dict[str, dict[str, float]]] = {}
    with cluster(python) as nodes:
        for name, on in {**PLACES, NODES: f"ray:2@{nodes.address}"}.items():
            others = nodes.group if name == NODES else None
            for kind, sizes in SIZES.items():
                few, many = (size // scale for size in sizes)
                costs = []
                for size in (few, many):
                    with tempfile.TemporaryDirectory() as folder:
                        costs.append(run(python, kind, size, on, Path(folder), others))
                each = slopes(costs[0], costs[1], many - few)
                each["start_s"] = costs[0].wall_s - few * each["wall_ms"] / 1000
                found.setdefault(kind, {})[name] = each
                figures = f"{each['cpu_ms']:.2f} ms CPU, {each['per_s']:.1f} per second, {each['start_s']:.1f} s to start"
                say(f"{kind} on {name}: {figures}")
        size = SIZES["compute"][1] * 2 // scale
        with tempfile.TemporaryDirectory() as folder:
            quiet = run(python, "compute", size, f"ray:2@{nodes.address}", Path(folder), nodes.group)
        with tempfile.TemporaryDirectory() as folder:
            disturbed, lost = run_disturbed(python, nodes, size, Path(folder))
    rows = [row for kind in SIZES for row in rows_of(kind, found[kind])]
    rows.append(Row("start-up and end, seconds of wall-clock", **split({n: f["start_s"] for n, f in found["nothing"].items()})))
    rows += [
        Row(f"{size} that compute: seconds, quiet", "", {NODES: quiet.wall_s}),
        Row("the same, a node killed and one joining", "", {NODES: disturbed.wall_s}),
        Row("attempts that were lost and taken again", "", {NODES: str(lost)}),
        Row("rollouts lost or doubled", "", {NODES: "0"}),
    ]
    compute = found["compute"]
    ratios = {f"compute per second, {name} / local": each["per_s"] / compute["local"]["per_s"] for name, each in compute.items()}
    ours = {"slopes": found, "disturbed": {"rollouts": size, "quiet_s": quiet.wall_s, "wall_s": disturbed.wall_s, "lost": lost}}
    return Report(NAME, ours, {}, ratios, rows)


def rows_of(kind: str, by_place: dict[str, dict[str, float]]) -> list[Row]:
    words = {"nothing": "that do nothing", "compute": "that compute", "wait": "that wait 0.2 s, 64 at once"}[kind]
    units = (("per_s", "per second, more is better"), ("cpu_ms", "CPU ms of each, less is better"))
    return [
        Row(f"rollouts {words}: {unit}", **split({name: each[field] for name, each in by_place.items()})) for field, unit in units
    ]


def split(by_place: dict[str, float]) -> dict:
    """`local` is the column of Sandlot alone; the other places stand beside it."""
    return {"ours": by_place["local"], "peers": {name: value for name, value in by_place.items() if name != "local"}}


if __name__ == "__main__":
    small = "--small" in sys.argv
    publish(measured(small=small), write_table=not small)
