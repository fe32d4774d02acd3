import errno
import os
import sys

import anyio
import pytest

from builders.traces import make_row, make_trace
from fakes.failing_disk import Countdown
from sandlot.core.errors import ConfigError, StoreError
from sandlot.store.directory import open_run, read_manifest
from sandlot.store.reader import RunReader

MANIFEST = b'{"format": 1, "env": "arithmetic"}'


async def keep(path, *keys):
    async with open_run(path, manifest=MANIFEST) as run:
        for task, rollout in keys:
            trace = make_trace(task, rollout)
            await run.add(trace, make_row(trace))


async def test_a_run_goes_on_where_it_was(tmp_path):
    await keep(tmp_path / "r", ("a", 0), ("a", 1))
    async with open_run(tmp_path / "r") as run:
        assert run.done_keys() == {("a", 0), ("a", 1)}
        assert ("a", 1) in run
        assert ("b", 0) not in run
        with pytest.raises(StoreError, match="already stored"):
            await run.add(make_trace("a", 1), make_row(make_trace("a", 1)))
        await run.add(make_trace("b", 0), make_row(make_trace("b", 0)))
    assert RunReader(tmp_path / "r").done_keys() == {("a", 0), ("a", 1), ("b", 0)}


async def test_the_manifest_stays_as_it_was_first_written(tmp_path):
    await keep(tmp_path / "r")
    async with open_run(tmp_path / "r", manifest=b'{"format": 1, "env": "other"}') as run:
        assert run.manifest == MANIFEST
    assert read_manifest(tmp_path / "r") == MANIFEST


async def test_a_second_writer_is_refused_with_the_pid_of_the_first(tmp_path):
    async with open_run(tmp_path / "r", manifest=MANIFEST):
        with pytest.raises(ConfigError, match=f"written by process {os.getpid()}"):
            async with open_run(tmp_path / "r"):
                pass
    async with open_run(tmp_path / "r"):
        pass


async def test_a_writer_in_another_process_is_named(tmp_path):
    script = (
        "import anyio, sys; from pathlib import Path; from sandlot.store.directory import open_run\n"
        "async def main():\n"
        "    async with open_run(Path(sys.argv[1]), manifest=b'{\"format\": 1}'):\n"
        "        print('open', flush=True); sys.stdin.read()\n"
        "anyio.run(main)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "r")]
    async with await anyio.open_process(command) as child:
        assert (await child.stdout.receive()).startswith(b"open")
        with pytest.raises(ConfigError, match=f"written by process {child.pid}"):
            async with open_run(tmp_path / "r"):
                pass
        await child.stdin.aclose()
        await child.wait()


async def test_what_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"no manifest\.json"):
        async with open_run(tmp_path / "missing"):
            pass
    assert not (tmp_path / "missing").exists()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"cat")
    with pytest.raises(ConfigError, match=r"neither a run nor empty \(it has `cat\.png`\)"):
        async with open_run(tmp_path / "photos", manifest=MANIFEST):
            pass
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.png"]


@pytest.mark.parametrize("manifest", [b"", b"not json", b"[]", b"{}", b'{"format": 2}', b'{"format": "1"}', b"\xff\xfe"])
async def test_a_manifest_without_format_1_is_refused(tmp_path, manifest):
    with pytest.raises(ConfigError, match="format"):
        async with open_run(tmp_path / "r", manifest=manifest):
            pass
    assert not (tmp_path / "r").exists()


async def test_a_place_that_cannot_be_written_is_an_error_with_its_name(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot create a run at"):
        async with open_run(tmp_path / "file" / "r", manifest=MANIFEST):
            pass


async def test_a_read_only_disk_is_an_error_for_the_writer_and_none_for_the_reader(tmp_path):
    await keep(tmp_path / "r", ("a", 0))
    read_only = Countdown(left=0, error=OSError(errno.EROFS, "Read-only file system"))
    with pytest.raises(StoreError, match="Read-only file system"):
        async with open_run(tmp_path / "r", disk=read_only.disk) as run:
            await run.add(make_trace("b", 0), make_row(make_trace("b", 0)))
    assert RunReader(tmp_path / "r").done_keys() == {("a", 0)}


async def test_foreign_files_are_left_alone(tmp_path):
    await keep(tmp_path / "r", ("a", 0))
    foreign = [
        tmp_path / "r" / name for name in ("notes.md", "log/x.log", "segments/.DS_Store", "blobs/packs/readme", "blobs/old")
    ]
    for path in foreign:
        path.write_text("mine")
    await keep(tmp_path / "r", ("a", 1))
    assert RunReader(tmp_path / "r").done_keys() == {("a", 0), ("a", 1)}
    assert all(path.read_text() == "mine" for path in foreign)


async def test_drafts_a_crash_left_are_removed(tmp_path):
    await keep(tmp_path / "r", ("a", 0))
    drafts = [tmp_path / "r" / "segments" / "000009.parquet.tmp", tmp_path / "r" / "manifest.json.tmp"]
    for draft in drafts:
        draft.write_bytes(b"half")
    await keep(tmp_path / "r")
    assert not any(draft.exists() for draft in drafts)


async def test_a_run_that_died_at_any_step_of_its_birth_can_be_born_again(tmp_path):
    for steps in range(12):
        path = tmp_path / f"r{steps}"
        try:
            async with open_run(path, manifest=MANIFEST, disk=Countdown(left=steps, torn=3).disk):
                pass
        except StoreError:
            pass
        await keep(path, ("a", 0))
        assert RunReader(path).done_keys() == {("a", 0)}
        assert read_manifest(path) == MANIFEST
