"""Sweeps the graders of reasoning-gym (from PyPI, in an environment of its own) with the grader layer of the auditor.

    make bench NAME=audit_graders                       all of them
    make bench NAME=audit_graders ARGS="--only sudoku --findings found.json"

One sandbox holds reasoning-gym, and each dataset is a case of its own with its own tasks. Every finding is printed with the very
answer that shows it.
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import anyio
import msgspec
from peers import CACHE, PEERS, Peer, ready
from report import Report, Row, publish, say

from sandlot.audit.case import Case
from sandlot.audit.finding import Confidence, Finding
from sandlot.audit.probes.panel import GRADER as PROBES
from sandlot.audit.subject import Description
from sandlot.audit.subjects.foreign.grader import GraderConfig, GraderSubject, open_grader
from sandlot.audit.subjects.foreign.worker import Budget

NAME = "audit_graders"
REASONING_GYM = Peer("reasoning-gym", ("reasoning-gym==0.1.25",))
SIZE, SEED = 12, 7


async def made(folder: Path) -> Path:
    """The task file, written once."""
    if not (folder / "tasks.jsonl").exists():
        say(f"making tasks of every dataset in {folder}")
        command = [REASONING_GYM.bin("python"), PEERS / "reasoning_gym_entries.py", folder, str(SIZE), str(SEED)]
        await anyio.run_process([str(word) for word in command], stderr=None)
    return folder / "tasks.jsonl"


async def swept(subject: GraderSubject, about: Description, dataset: str) -> tuple[list[Finding], int]:
    """Every probe on the tasks of one dataset."""
    tasks = tuple(task for task in about.tasks if task.data["dataset"] == dataset)
    has_golden = any(task.key for task in tasks)
    description = msgspec.structs.replace(about, name=dataset, tasks=tasks, has_golden=has_golden, sources={})
    case = Case(subject=subject, description=description, tasks=tasks, seed=SEED)
    findings: list[Finding] = []
    for probe in PROBES:
        if probe.applies(case) is None:
            findings += await probe.look(case)
    return findings, case.taken


async def sweep(only: set[str], at_once: int) -> dict[str, tuple[list[Finding], int, float]]:
    """All datasets, some beside each other: each worker has a share of them."""
    folder = CACHE / f"reasoning-gym-tasks-{SIZE}-{SEED}"
    config = GraderConfig(
        grader="marks:grade",
        tasks=str(await made(folder)),
        map="{answer} {dataset} {index}",
        path=(str(folder),),
        python=str(REASONING_GYM.bin("python")),
        budget=Budget(trial_s=5, load_s=300),
    )
    found: dict[str, tuple[list[Finding], int, float]] = {}
    waiting: list[str] = []

    async def work(place: int) -> None:
        async with open_grader(config) as subject:
            about = await subject.describe()
            names = sorted({str(task.data["dataset"]) for task in about.tasks})
            if place == 0:
                waiting.extend(name for name in names if not only or name in only)
            while waiting:
                name, started = waiting.pop(0), time.monotonic()
                findings, taken = await swept(subject, about, name)
                found[name] = findings, taken, time.monotonic() - started
                say(f"{name:30} {taken:6} gradings {found[name][2]:6.1f} s  " + ", ".join(shown(each) for each in findings))

    async with anyio.create_task_group() as group:
        for place in range(at_once):
            group.start_soon(work, place)
    return found


def shown(finding: Finding) -> str:
    return finding.code if finding.standing is Confidence.CONFIRMED else f"({finding.code})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="datasets; all if none is named")
    parser.add_argument("--findings", type=Path, help="where to write every finding as JSON")
    parser.add_argument("--at-once", type=int, default=2)
    options = parser.parse_args()
    ready(REASONING_GYM)
    started = time.monotonic()
    found = anyio.run(sweep, set(options.only), options.at_once)
    seconds = time.monotonic() - started
    if options.findings:
        options.findings.write_bytes(msgspec.json.format(msgspec.json.encode({name: each[0] for name, each in found.items()})))
    confirmed = Counter(f.code for findings, _, _ in found.values() for f in findings if f.standing is Confidence.CONFIRMED)
    gradings = sum(taken for _, taken, _ in found.values())
    ours = {"graders": len(found), "gradings": gradings, "seconds": round(seconds, 1), "confirmed": dict(confirmed)}
    rows = [
        Row("graders of reasoning-gym swept", len(found), target="106"),
        Row("gradings", gradings),
        Row("minutes, all in all", round(seconds / 60, 1), target="minutes"),
        Row("graders with a confirmed finding", sum(any(f.grave for f in findings) for findings, _, _ in found.values())),
    ]
    say(json.dumps(ours, indent=2))
    publish(Report(NAME, ours=ours, peers={}, ratios={}, rows=rows), write_table=not options.only)


if __name__ == "__main__":
    main()
