"""A hundred thousand rollouts end to end in one run: does memory stay flat, and how soon does what it stored open?

    make bench NAME=long_run                          100,000 rollouts of two turns and a tool, graded and stored
    python benchmarks/long_run.py --rollouts 5000     smaller; the table is left alone

The run is an ordinary `sandlot run` in a process of its own, whose resident memory is read twice a second. Then a fresh process
opens what it left and reads its summary.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from report import Measured, Report, Row, measure, plain_environment, publish, say

NAME = "long_run"
MANY = 100_000
TURN = Path(__file__).parent / "environments" / "turned.py"
SANDLOT = Path(sys.executable).with_name("sandlot")
EVERY_S = 0.5
OPENING = """
import json, sys, time
from pathlib import Path
from sandlot.run.results import Run
started = time.perf_counter()
run = Run(Path(sys.argv[1]))
summary = run.summary()
print(json.dumps({"scored": summary.scored, "mean": summary.score.value, "seconds": time.perf_counter() - started}))
"""


@dataclass(frozen=True, slots=True)
class Watched:
    """What a run needed, and its resident memory over its time."""

    seconds: float
    resident_bytes: list[int]

    def after(self, share: float) -> float:
        """Resident megabytes when this share of the time was over."""
        return self.resident_bytes[min(int(share * len(self.resident_bytes)), len(self.resident_bytes) - 1)] / 1e6


def watch(argv: list[str], cwd: Path) -> tuple[Watched, str]:
    """Run a command to its end and read its memory meanwhile; returns what it printed, too."""
    started, seen = time.monotonic(), list[int]()
    with tempfile.TemporaryFile() as out:
        with subprocess.Popen(argv, cwd=cwd, env=plain_environment(), stdout=out, stdin=subprocess.DEVNULL) as process:
            while process.poll() is None:
                seen += resident(process.pid)
                time.sleep(EVERY_S)
        out.seek(0)
        said = out.read().decode()
    if process.returncode != 0:
        raise RuntimeError(f"{argv} exited with {process.returncode}: {said[-2000:]}")
    return Watched(time.monotonic() - started, seen), said


def resident(pid: int) -> list[int]:
    """Resident bytes of a process; nothing if it has just ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rollouts", type=int, default=MANY)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        flags = ["--rollouts", str(options.rollouts), "--at-once", "64", "--json"]
        watched, said = watch([str(SANDLOT), "run", str(TURN), "--model", "scripted:golden", *flags], place)
        told = json.loads(said.splitlines()[-1])
        if (told["scored"], told["score"]["mean"]) != (options.rollouts, 1.0):
            raise RuntimeError(f"{options.rollouts} rollouts should all be scored 1: {told}")
        run = Path(place, told["run"])
        size = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
        opened = measure([sys.executable, "-c", OPENING, run])
        found = json.loads(opened.stdout)
        if (found["scored"], found["mean"]) != (options.rollouts, 1.0):
            raise RuntimeError(f"the run's folder says {found}")
    say(f"{options.rollouts} rollouts: {told['cpu_s']:.0f} CPU-s, {watched.seconds:.0f} s; opened in {found['seconds']:.2f} s")
    publish(report_of(options.rollouts, told, watched, size, opened, found["seconds"]), write_table=options.rollouts >= MANY)


def report_of(rollouts: int, told: dict[str, float], watched: Watched, size: int, opened: Measured, open_s: float) -> Report:
    """The table's lines."""
    memory = {f"after {share:.0%} of the time": round(watched.after(share), 1) for share in (0.1, 0.25, 0.5, 0.75, 0.99)}
    rows = [
        Row("rollouts of two turns and a tool, all scored", rollouts),
        Row("turns", told["turns"]),
        Row("CPU-seconds", told["cpu_s"]),
        Row("CPU-milliseconds a rollout", 1000 * told["cpu_s"] / rollouts),
        *(Row(f"resident MB {when}", value) for when, value in memory.items()),
        Row("bytes stored a rollout", size / rollouts),
        Row("seconds to open it and read its summary, in a fresh process", open_s, target="seconds"),
        Row("peak MB of that process", opened.peak_bytes / 1e6),
    ]
    ours = {"rollouts": rollouts, **told, "resident_mb": memory, "bytes": size, "open_s": open_s, "wall_s": watched.seconds}
    ratios = {"memory, end over a quarter": watched.after(0.99) / watched.after(0.25)}
    return Report(NAME, ours=ours, peers={}, ratios=ratios, rows=rows)


if __name__ == "__main__":
    main()
