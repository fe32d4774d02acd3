"""Control groups: the kernel's limits on memory, processor time and processes of a sandbox.

Version 1 (one tree per controller) and version 2 (one tree) look the same from outside this file: a few folders, in each of which
the zygote makes a folder per sandbox and writes a few values. Where we may not make such folders there are no such limits, and
`probe` reports it. `make test-aarch64` runs version 2 on an emulated machine.
"""

import itertools
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sandlot.sandbox.owner import start_ticks
from sandlot.sandbox.quota import Quota

CONTROLLERS = ("memory", "cpu", "pids")
PERIOD_US = 20_000
"""Length of the period in which processor time is limited: short, so that a throttled sandbox runs in small steps."""

_SOCKETS_MOST = 64 << 20
"""Most memory of the sockets of one sandbox. The whole machine shares one limit (`net.ipv4.tcp_mem`)."""

_NAME = re.compile(r"sandlot-(\d+)-(\d+)-\d+\Z")
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The cgroup folders of this process's sandboxes, and the controllers of each."""

    folders: tuple[Path, ...] = ()
    place: dict[str, int] = field(default_factory=dict[str, int])
    """Controller -> index of its folder."""
    version: int = 0
    """1 or 2; 0 for none."""
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """Controller -> why it is missing."""
    ending: str = ""
    """How the kernel ends all processes of a sandbox at once: `cgroup.kill`, `freezer`, or empty if it does not."""

    def lines(self, quota: Quota) -> list[tuple[int, str, str]]:
        """The values to write for one sandbox: (index of the folder, file, value), in this order."""
        limit = str(quota.memory_bytes)
        share = str(max(1000, int(quota.cpus * PERIOD_US)))
        if self.version == 2:
            wanted = {
                "memory": [("memory.max", limit), ("memory.swap.max", "0")],
                "cpu": [("cpu.max", f"{share} {PERIOD_US}")],
                "pids": [("pids.max", str(quota.pids))],
            }
        else:
            wanted = {
                "memory": [
                    ("memory.limit_in_bytes", limit),
                    ("memory.memsw.limit_in_bytes", limit),
                    ("memory.kmem.tcp.limit_in_bytes", str(socket_bytes(quota))),
                ],
                "cpu": [("cpu.cfs_period_us", str(PERIOD_US)), ("cpu.cfs_quota_us", share)],
                "pids": [("pids.max", str(quota.pids))],
            }
        # Absent without swap accounting, or in a kernel built without socket accounting.
        optional = {"memory.swap.max", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"}
        return [
            (index, file, value)
            for controller, index in self.place.items()
            for file, value in wanted[controller]
            if file not in optional or (self.folders[index] / file).exists()
        ]

    def remove(self) -> bool:
        """Remove the folders; False if some are still in use. Those are left for the next `remove_leftovers`."""
        for folder in self.folders:
            _remove(folder)
        return not any(folder.exists() for folder in self.folders)


def socket_bytes(quota: Quota) -> int:
    """Memory limit of the sockets of one sandbox. Version 1 counts it apart from other memory; version 2 does not."""
    return min(quota.memory_bytes // 8, _SOCKETS_MOST)


def find_cgroups(proc: Path = Path("/proc")) -> Cgroups:
    """Make a folder for this process's sandboxes in every tree that allows it, and remove those of dead processes."""
    name = f"sandlot-{os.getpid()}-{start_ticks(proc, os.getpid())}-{next(_NUMBERS)}"
    rows = (line.split(":", 2) for line in (proc / "self" / "cgroup").read_text().splitlines() if line.count(":") > 1)
    own = {key: path for _, keys, path in rows for key in keys.split(",")}
    mounts = _read_mounts(proc)
    folders: list[Path] = []
    place: dict[str, int] = {}
    missing: dict[str, str] = {}
    for controller in CONTROLLERS:
        mount = next((where for where, kind, options in mounts if kind == "cgroup" and controller in options), None)
        if mount is None:
            missing[controller] = "no such cgroup"
            continue
        folder, why = _make(mount, own.get(controller, "/"), name)
        if folder is None:
            missing[controller] = why
        else:
            folders += [folder] if folder not in folders else []
            place[controller] = folders.index(folder)
    if place:
        ending = _add_ending(folders, mounts, own, name)
        return Cgroups(folders=tuple(folders), place=place, version=1, missing=missing, ending=ending)
    return _find_version_2(mounts, own.get("", "/"), name) or Cgroups(missing=missing)


def _add_ending(folders: list[Path], mounts: list[tuple[Path, str, str]], own: Mapping[str, str], name: str) -> str:
    """Add the folder by which version 1 ends processes: of version 2 where that is mounted too, else of the freezer."""
    for mount, kind, _ in mounts:
        if kind == "cgroup2":
            folder, _ = _make(mount, own.get("", "/"), name)
            if folder is not None and (folder / "cgroup.kill").exists():
                folders.append(folder)
                return "cgroup.kill"
            if folder is not None:
                _remove(folder)
    for mount, kind, options in mounts:
        if kind == "cgroup" and "freezer" in options.split(","):
            folder, _ = _make(mount, own.get("freezer", "/"), name)
            if folder is not None:
                folders += [folder] if folder not in folders else []
                return "freezer"
    return ""


def _find_version_2(mounts: list[tuple[Path, str, str]], own: str, name: str) -> Cgroups | None:
    mount = next((where for where, kind, _ in mounts if kind == "cgroup2"), None)
    if mount is None:
        return None
    for parent in dict.fromkeys((mount / own.lstrip("/"), mount)):
        with suppress(OSError):
            offered = (parent / "cgroup.controllers").read_text().split()
            wanted = [controller for controller in CONTROLLERS if controller in offered]
            enable = " ".join(f"+{controller}" for controller in wanted)
            # Refused (EBUSY) where processes live in the folder itself; the next candidate is the root, which may hold both.
            (parent / "cgroup.subtree_control").write_text(enable)
            remove_leftovers(parent)
            (parent / name).mkdir(exist_ok=True)
            (parent / name / "cgroup.subtree_control").write_text(enable)
            if wanted:
                missing = {controller: "not offered by cgroup v2" for controller in CONTROLLERS if controller not in wanted}
                ending = "cgroup.kill" if (parent / name / "cgroup.kill").exists() else ""
                return Cgroups((parent / name,), dict.fromkeys(wanted, 0), version=2, missing=missing, ending=ending)
    return None


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of dead processes: a killed Sandlot cannot remove its own."""
    for folder in parent.glob("sandlot-*"):
        match = _NAME.match(folder.name)
        if match and start_ticks(Path("/proc"), int(match[1])) != match[2]:
            _remove(folder)


def _make(mount: Path, own: str, name: str) -> tuple[Path | None, str]:
    why = ""
    for parent in dict.fromkeys((mount / own.lstrip("/"), mount)):
        try:
            remove_leftovers(parent)
            (parent / name).mkdir(exist_ok=True)
        except OSError as error:
            why = f"{parent}: {error.strerror}"
        else:
            return parent / name, ""
    return None, why


def _remove(folder: Path) -> None:
    for inner in folder.glob("*/"):
        with suppress(OSError):
            inner.rmdir()
    with suppress(OSError):
        folder.rmdir()


def _read_mounts(proc: Path) -> list[tuple[Path, str, str]]:
    """(mount point, file system, options) of every mount."""
    found: list[tuple[Path, str, str]] = []
    for line in (proc / "self" / "mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        rest = right.split()
        if len(rest) > 2:
            found.append((Path(left.split()[4]), rest[0], rest[2]))
    return found
