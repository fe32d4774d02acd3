"""The owner process of a leftover resource: its pid and start time, boot and pid namespace.

A killed Sandlot cannot clean up; the next one does, and must not touch what belongs to a live process. A pid alone is not enough:
pids are reused, and every pid namespace has its own.
"""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

_PREFIX = "sandlot."


def start_ticks(proc: Path, pid: int) -> str:
    """Start time of a process in clock ticks: together with the pid it is unique. Empty if the process is gone."""
    try:
        return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def owner_labels(proc: Path = Path("/proc")) -> dict[str, str]:
    """Labels for what this process makes: the process, and a new `sandlot.run`."""
    return {
        f"{_PREFIX}run": uuid.uuid4().hex,
        f"{_PREFIX}pid": str(os.getpid()),
        f"{_PREFIX}started": start_ticks(proc, os.getpid()),
        **_place(proc),
    }


def owner_is_dead(labels: Mapping[str, str], proc: Path = Path("/proc")) -> bool:
    """True if the process of these labels is certainly dead; False if it cannot be seen from here."""
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
