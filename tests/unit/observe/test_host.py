"""What is read of a machine, from the files of its kernel."""

import os
from pathlib import Path

import pytest

from sandlot.observe.host import read_host

GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def machine(root: Path, **more: str) -> Path:
    files = {
        "meminfo": f"MemTotal:       {24 * GIB // 1024} kB\nMemFree: 5 kB\nMemAvailable:   {20 * GIB // 1024} kB\n",
        "loadavg": "0.20 0.18 0.12 7/80 11206\n",
        "self/cgroup": "",
    }
    return write(root / "proc", files | more)


def test_this_machine_has_processors_and_memory():
    found = read_host()
    assert found.cpus == os.cpu_count()
    assert found.free_bytes is not None
    assert 0 < found.free_bytes <= found.total_bytes
    assert found.runnable is not None


def test_threads_of_the_whole_machine_are_divided_by_the_processors_of_the_whole_machine(tmp_path):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert read_host(machine(tmp_path), tmp_path).cpus == os.cpu_count()
    finally:
        os.sched_setaffinity(0, before)


def test_memory_and_threads_are_those_of_the_machine_if_no_group_limits_them(tmp_path):
    found = read_host(machine(tmp_path), tmp_path / "cgroup")
    assert (found.free_bytes, found.total_bytes, found.runnable, found.memory_stall) == (20 * GIB, 24 * GIB, 6.0, None)


@pytest.mark.parametrize(
    ("own", "files"),
    [
        (
            "0::/a/b\n",
            {
                "a/b/memory.max": "max\n",
                "a/b/memory.current": "1\n",
                "a/memory.max": f"{2 * GIB}\n",
                "a/memory.current": f"{GIB}\n",
                "a/memory.stat": f"anon 5\ninactive_file {GIB // 2}\n",
            },
        ),
        (
            "4:memory:/a\n3:cpuset:/\n",
            {
                "memory/a/memory.limit_in_bytes": f"{2 * GIB}",
                "memory/a/memory.usage_in_bytes": f"{GIB}",
                "memory/a/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 2}\n",
                "memory/memory.limit_in_bytes": f"{2**63 - 4096}",
                "memory/memory.usage_in_bytes": f"{9 * GIB}",
            },
        ),
    ],
)
def test_a_control_group_bounds_the_memory_and_pages_it_can_drop_count_as_free(tmp_path, own, files):
    found = read_host(machine(tmp_path, **{"self/cgroup": own}), write(tmp_path / "cgroup", files))
    assert (found.free_bytes, found.total_bytes) == (3 * GIB // 2, 2 * GIB)


def test_the_fullest_of_the_groups_we_are_in_bounds_the_memory_even_if_it_is_not_the_smallest(tmp_path):
    files = {
        "pod/own/memory.max": f"{8 * GIB}\n",
        "pod/own/memory.current": f"{GIB}\n",
        "pod/memory.max": f"{16 * GIB}\n",
        "pod/memory.current": f"{15 * GIB}\n",
        "memory.max": f"{99 * GIB}\n",  # more than there is: no limit
        "memory.current": f"{99 * GIB}\n",
    }
    found = read_host(machine(tmp_path, **{"self/cgroup": "0::/pod/own\n"}), write(tmp_path / "cgroup", files))
    assert (found.free_bytes, found.total_bytes) == (GIB, 8 * GIB)


def test_the_time_lost_for_want_of_memory_is_a_share(tmp_path):
    text = "some avg10=40.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=12.50 avg60=0.00 avg300=0.00 total=1\n"
    assert read_host(machine(tmp_path, **{"pressure/memory": text}), tmp_path).memory_stall == 0.125


@pytest.mark.parametrize("broken", ["", "\n", "full", "full avg10=x", "MemAvailable:\n", "a b c d"])
def test_what_cannot_be_read_is_not_known(tmp_path, broken):
    files = {"meminfo": broken, "loadavg": broken, "pressure/memory": broken, "self/cgroup": "0::/x\n"}
    found = read_host(machine(tmp_path, **files), write(tmp_path / "cgroup", {"x/memory.max": broken, "x/memory.current": "1"}))
    assert (found.free_bytes, found.runnable, found.memory_stall) == (None, None, None)
