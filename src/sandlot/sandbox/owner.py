"""Who a thing left behind belongs to: a process, named so that its name is never used again.

A killed Sandlot cannot clean up after itself; the next one does, and must not touch what belongs to one that lives. A process
number alone says too little: numbers are given out again, and another pid namespace has its own.
"""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

_PREFIX = "sandlot."


def start_ticks(proc: Path, pid: int) -> str:
    """When a process started, in ticks: with its number, an identity that is never used again. Empty if it is gone."""
    try:
        return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def owner_labels(proc: Path = Path("/proc")) -> dict[str, str]:
    """Our process and a fresh `sandlot.run`, as labels to put on what it makes."""
    return {
        f"{_PREFIX}run": uuid.uuid4().hex,
        f"{_PREFIX}pid": str(os.getpid()),
        f"{_PREFIX}started": start_ticks(proc, os.getpid()),
        **_place(proc),
    }


def owner_is_dead(labels: Mapping[str, str], proc: Path = Path("/proc")) -> bool:
    """True if the process that made these labels is dead for certain; one that cannot be seen from here is not."""
    boot, namespace = f"{_PREFIX}boot", f"{_PREFIX}pid_namespace"
    pid = labels.get(f"{_PREFIX}pid", "")
    here = _place(proc)
    if not pid.isdecimal() or boot not in labels:
        return False
    if labels[boot] != here[boot]:
        return True
    return labels.get(namespace) == here[namespace] and start_ticks(proc, int(pid)) != labels.get(f"{_PREFIX}started")


def _place(proc: Path) -> dict[str, str]:
    return {
        f"{_PREFIX}boot": (proc / "sys/kernel/random/boot_id").read_text().strip(),
        f"{_PREFIX}pid_namespace": str((proc / "self/ns/pid").readlink()),
    }
