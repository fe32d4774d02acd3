"""How long a whole audit takes: pure-Python environments, 100 tasks played, all mandatory layers.

    make bench NAME=audit

The graders of reasoning-gym are swept by `make bench NAME=audit_graders`.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from report import Report, Row, measure, publish, say

NAME = "audit"
ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = {"arithmetic": "one question, no tools", "helpdesk": "ten tools, many turns, no sandbox"}
TASKS = 100


def audited(name: str) -> dict[str, Any]:
    """One audit by the command, from outside."""
    with tempfile.TemporaryDirectory() as runs:
        options = ["--limit", str(TASKS), "--runs", runs, "--json"]
        done = measure([ROOT / ".venv/bin/sandlot", "audit", ROOT / "environments" / name, *options])
    said = json.loads(done.stdout)
    say(f"{name}: {said['verdict']}, {done.wall_s:.1f} s, {done.cpu_s:.1f} CPU-s, {said['trials']} trials")
    return {
        "seconds": done.wall_s,
        "cpu_s": done.cpu_s,
        "trials": said["trials"],
        "tasks": said["tasks"],
        "verdict": said["verdict"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.parse_args()
    ours = {name: audited(name) for name in ENVIRONMENTS}
    rows = [
        row
        for name, what in ENVIRONMENTS.items()
        for row in (
            Row(f"{name} ({what}): seconds for {ours[name]['tasks']} tasks", round(ours[name]["seconds"], 1), target="60"),
            Row(f"{name}: CPU-seconds", round(ours[name]["cpu_s"], 1)),
            Row(f"{name}: trials", ours[name]["trials"]),
        )
    ]
    publish(Report(name=NAME, ours=ours, peers={}, ratios={}, rows=rows), write_table=True)


if __name__ == "__main__":
    main()
