"""Finding control groups, against made-up trees of both versions. Version 1 is also tested for real, by the escape suite."""

import os
from pathlib import Path

import pytest

from sandlot.sandbox.native.cgroup import CONTROLLERS, find_cgroups, remove_leftovers
from sandlot.sandbox.quota import Quota

QUOTA = Quota(memory_bytes=1 << 26, disk_bytes=1 << 24, cpus=1.5, pids=77)


def make_proc(root: Path, own: str, mounts: list[tuple[Path, str, str]]) -> Path:
    proc = root / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(own)
    lines = [f"30 24 0:26 / {where} rw,nosuid - {kind} {kind} rw,{options}" for where, kind, options in mounts]
    (proc / "self" / "mountinfo").write_text("\n".join(lines) + "\n")
    (proc / str(os.getpid())).mkdir()
    (proc / str(os.getpid()) / "stat").write_text(Path(f"/proc/{os.getpid()}/stat").read_text())
    return proc


@pytest.fixture
def version_1(tmp_path):
    mounts = []
    for controller in CONTROLLERS:
        (tmp_path / controller / "jobs" / "ours").mkdir(parents=True)
        mounts.append((tmp_path / controller, "cgroup", controller))
    own = "4:memory:/jobs/ours\n3:pids:/jobs/ours\n1:cpu:/jobs/ours\n0::/\n"
    return make_proc(tmp_path, own, mounts)


@pytest.fixture
def version_2(tmp_path):
    tree = tmp_path / "unified"
    (tree / "user.slice").mkdir(parents=True)
    for folder in (tree, tree / "user.slice"):
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        (folder / "cgroup.subtree_control").write_text("")
    return make_proc(tmp_path, "0::/user.slice\n", [(tree, "cgroup2", "nsdelegate")])


def test_version_1_has_a_folder_for_each_controller_below_our_own(version_1, tmp_path):
    found = find_cgroups(version_1)
    assert (found.version, found.missing) == (1, {})
    assert [folder.parent for folder in found.folders] == [tmp_path / name / "jobs" / "ours" for name in CONTROLLERS]


def test_version_1_limits_are_written_in_its_own_words(version_1):
    found = find_cgroups(version_1)
    assert found.lines(QUOTA) == [
        (0, "memory.limit_in_bytes", "67108864"),
        (1, "cpu.cfs_period_us", "20000"),
        (1, "cpu.cfs_quota_us", "30000"),
        (2, "pids.max", "77"),
    ]
    (found.folders[0] / "memory.memsw.limit_in_bytes").touch()
    assert (0, "memory.memsw.limit_in_bytes", "67108864") in found.lines(QUOTA)
    (found.folders[0] / "memory.kmem.tcp.limit_in_bytes").touch()
    assert (0, "memory.kmem.tcp.limit_in_bytes", str(8 << 20)) in found.lines(QUOTA)


def test_version_1_ends_processes_by_the_freezer_where_version_2_has_no_kill(version_1, tmp_path):
    assert find_cgroups(version_1).ending == ""
    (tmp_path / "freezer").mkdir()
    (tmp_path / "unified").mkdir()
    with (version_1 / "self" / "mountinfo").open("a") as mounts:
        for folder, kind in (("unified", "cgroup2"), ("freezer", "cgroup")):
            mounts.write(f"31 24 0:27 / {tmp_path / folder} rw - {kind} {kind} rw,{folder}\n")
    found = find_cgroups(version_1)
    assert (found.ending, found.folders[-1].parent) == ("freezer", tmp_path / "freezer")
    assert list((tmp_path / "unified").iterdir()) == []
    assert len(found.lines(QUOTA)) == 4


def test_controllers_mounted_together_share_a_folder(tmp_path):
    (tmp_path / "both").mkdir()
    proc = make_proc(tmp_path, "2:cpu,pids:/\n", [(tmp_path / "both", "cgroup", "cpu,pids")])
    found = find_cgroups(proc)
    assert (len(found.folders), found.place) == (1, {"cpu": 0, "pids": 0})
    assert found.missing == {"memory": "no such cgroup"}


def test_version_2_has_one_folder_and_its_own_words(version_2, tmp_path):
    found = find_cgroups(version_2)
    assert found.version == 2
    assert found.folders[0].parent == tmp_path / "unified" / "user.slice"
    assert (found.folders[0].parent / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"
    assert (found.folders[0] / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"
    assert found.lines(QUOTA) == [(0, "memory.max", "67108864"), (0, "cpu.max", "30000 20000"), (0, "pids.max", "77")]


def test_version_2_says_which_controllers_are_not_offered(version_2, tmp_path):
    (tmp_path / "unified" / "user.slice" / "cgroup.controllers").write_text("memory pids\n")
    found = find_cgroups(version_2)
    assert found.place == {"memory": 0, "pids": 0}
    assert found.missing == {"cpu": "not offered by cgroup v2"}


def test_a_machine_without_control_groups_is_not_an_error(tmp_path):
    found = find_cgroups(make_proc(tmp_path, "", []))
    assert (found.version, found.folders, found.lines(QUOTA)) == (0, (), [])
    assert set(found.missing) == set(CONTROLLERS)


def test_folders_of_dead_processes_are_swept_and_those_of_the_living_stay(tmp_path):
    dead, living, other = tmp_path / "sandlot-999999-1-0", tmp_path / "mine", tmp_path / "sandlot-docs"
    started = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19]
    living = tmp_path / f"sandlot-{os.getpid()}-{started}-3"
    reused = tmp_path / f"sandlot-{os.getpid()}-1-0"
    for folder in (dead, living, other, reused):
        (folder / "s0").mkdir(parents=True)
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([living, other])
