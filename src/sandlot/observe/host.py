"""How busy this machine is: memory that can be taken, threads that want a processor, time lost for want of memory.

Memory is that of the machine or of the control groups we are in, whichever is less. What the kernel does not say is None.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """The machine at one moment."""

    cpus: int = 1
    """Processors of the machine, whichever of them this process may use: threads are counted on all of them."""
    runnable: float | None = None
    """Threads that run or wait for a processor."""
    free_bytes: int | None = None
    """Memory that can be taken without swapping."""
    total_bytes: int = 0
    memory_stall: float | None = None
    """Share of the last ten seconds in which everything waited for memory."""


def read_host(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> HostReading:
    """Read it; a few small files."""
    free, most = _machine_memory(proc)
    total = most
    for limit, used in _cgroup_memory(proc, cgroups):
        if most == 0 or limit < most:  # a group without a limit reports an enormous one
            total = min(total or limit, limit)
            free = limit - used if free is None else min(free, limit - used)  # an outer group may be fuller than ours
    return HostReading(
        cpus=os.cpu_count() or 1,
        runnable=_runnable(proc),
        free_bytes=None if free is None else max(0, free),
        total_bytes=total,
        memory_stall=_stall(proc / "pressure" / "memory"),
    )


def _machine_memory(proc: Path) -> tuple[int | None, int]:
    found: dict[str, int] = {}
    with suppress(OSError, ValueError, IndexError):
        for line in (proc / "meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in {"MemTotal", "MemAvailable"}:
                found[name] = int(rest.split()[0]) * 1024
    return found.get("MemAvailable"), found.get("MemTotal", 0)


def _cgroup_memory(proc: Path, cgroups: Path) -> Iterator[tuple[int, int]]:
    """Limit and use of each group that we are in, innermost first; file pages that can be dropped do not count as used."""
    try:
        rows = [line.split(":", 2) for line in (proc / "self" / "cgroup").read_text().splitlines() if line.count(":") > 1]
    except OSError:
        return
    for _, controllers, path in rows:
        if controllers == "":
            root, names, dropped = cgroups, ("memory.max", "memory.current"), "inactive_file"
        elif "memory" in controllers.split(","):
            root, names, dropped = cgroups / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file"
        else:
            continue
        inner = Path(path.lstrip("/"))
        for folder in (root / inner, *(root / parent for parent in inner.parents)):
            with suppress(OSError, ValueError):  # `max` is no number: no limit
                limit, used = (int((folder / name).read_text()) for name in names)
                yield limit, used - _counted(folder / "memory.stat", dropped)


def _counted(file: Path, name: str) -> int:
    with suppress(OSError, ValueError):
        return next((int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(f"{name} ")), 0)
    return 0


def _runnable(proc: Path) -> float | None:
    """From `/proc/loadavg`: `0.20 0.18 0.12 3/80 11206`; this thread is one of them."""
    with suppress(OSError, ValueError, IndexError):
        return max(0.0, float((proc / "loadavg").read_text().split()[3].partition("/")[0]) - 1)
    return None


def _stall(file: Path) -> float | None:
    """From the kernel's pressure stall information: `full avg10=0.00 avg60=... total=...`, in percent."""
    with suppress(OSError, ValueError, IndexError):
        for line in file.read_text().splitlines():
            if line.startswith("full "):
                return float(line.split()[1].partition("=")[2]) / 100
    return None
