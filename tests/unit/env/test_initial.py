"""What setup left in a sandbox, and the diff against it."""

import pytest

from drive.native_sandboxes import sh
from sandlot.core.limits import Limits
from sandlot.core.task import Task
from sandlot.core.trace import FileRecord, Trace
from sandlot.core.types import digest
from sandlot.env.environment import Environment
from sandlot.env.grading import load_evidence
from sandlot.env.initial import record_initial_files
from sandlot.env.session import open_session
from sandlot.grade.gather import SmallFiles
from sandlot.sandbox.native.backend import open_native
from sandlot.store.blobs import MemoryBlobs

TASK = Task("one", prompt="go")


@pytest.fixture
async def backend():
    async with open_native() as backend:
        yield backend


async def left(backend, setup, act, limits=None):
    """The evidence of a rollout in which `setup` prepared and the agent did `act`."""
    env, blobs = Environment("files", image="host", limits=limits), MemoryBlobs()
    env.setup(setup)
    async with open_session(env, TASK, backend=backend, blobs=blobs) as session:
        await act(session.world)
        record = await session.gather("")
    trace = Trace(run="r", task="one", rollout=0, seed=0, evidence=record)
    return await load_evidence(env, TASK, trace, blobs)


async def touch_some(world):
    await world.exec("echo changed > /data/b; rm /data/c; echo new > /data/d")


async def test_the_diff_shows_what_the_agent_changed_and_not_what_setup_wrote(backend):
    async def setup(world, task):
        for name in "abc":
            await world.write(f"/data/{name}", f"{name}\n")

    evidence = await left(backend, setup, touch_some)
    assert list(evidence.diff()) == ["/data/b", "/data/c", "/data/d"]
    assert evidence.diff()["/data/b"][0] == FileRecord(size=2, blob=digest(b"b\n"))


async def test_files_setup_made_by_commands_are_known_too(backend):
    async def setup(world, task):
        await world.write("/data/a", "a\n")
        await world.exec("cd /data && cp a b && cp a c && echo z > a")

    evidence = await left(backend, setup, touch_some)
    assert list(evidence.diff()) == ["/data/b", "/data/c", "/data/d"]
    assert evidence.record.initial["/data/a"].blob == digest(b"z\n")


@pytest.mark.parametrize("command", [None, "echo a > /data/b; echo longer > /data/c"])
async def test_what_the_agent_changed_is_stored_as_it_was_before(backend, command):
    async def setup(world, task):
        for name, text in (("b", "as b was"), ("c", "as c was"), ("large", "l" * 70_000), ("same", "same")):
            await world.write(f"/data/{name}", text)
        if command:
            await world.exec(command)

    async def act(world):
        await world.exec("echo changed > /data/b; rm /data/c; echo small > /data/large")

    blobs = MemoryBlobs()
    env = Environment("files", image="host")
    env.setup(setup)
    async with open_session(env, TASK, backend=backend, blobs=blobs) as session:
        await act(session.world)
        record = await session.gather("")
    found = {path: await blobs.get(record.initial[path].blob) for path in ("/data/b", "/data/c", "/data/same")}
    wanted = (b"as b was", b"as c was") if command is None else (b"a\n", b"longer\n")
    assert (found["/data/b"], found["/data/c"]) == wanted
    with pytest.raises(KeyError):
        await blobs.get(record.initial["/data/large"].blob)


async def test_a_change_that_keeps_size_and_time_is_seen(backend):
    async def setup(world, task):
        await world.exec("echo aaaa > /data; touch -d @1 /data")

    async def forge(world):
        await world.exec("echo bbbb > /data; touch -d @1 /data")

    assert list((await left(backend, setup, forge)).diff()) == ["/data"]


async def test_what_setup_started_goes_on(backend):
    async def setup(world, task):
        await world.exec("(while :; do date > /beat; sleep 0.01; done) > /dev/null 2>&1 & echo $! > /pid")
        await world.exec("until [ -s /beat ]; do sleep 0.01; done")

    async def alive(world):
        assert (await world.exec("kill -0 $(cat /pid)")).code == 0

    assert "/beat" in (await left(backend, setup, alive)).record.initial


async def test_finish_sees_programs_that_still_run(backend):
    env, blobs = Environment("files", image="host"), MemoryBlobs()

    @env.finish
    async def look(world, task):
        world.state["alive"] = (await world.exec("kill -0 $(cat /pid)")).code == 0

    async with open_session(env, TASK, backend=backend, blobs=blobs) as session:
        await session.world.exec("sleep 1000 > /dev/null 2>&1 & echo $! > /pid")
        assert (await session.gather("")).state == {"alive": True}


async def test_a_path_through_a_link_of_the_image_is_known_by_its_real_name(backend):
    async def setup(world, task):
        await world.write("/usr/bin/once", "a")
        await world.write("/bin/once", "b")

    async def nothing(world):
        pass

    evidence = await left(backend, setup, nothing)
    assert evidence.record.initial["/usr/bin/once"].blob == digest(b"b")
    assert not evidence.diff()


async def test_a_file_too_large_to_keep_counts_as_changed(backend):
    async def setup(world, task):
        await world.write("/big", bytes(400_000))

    async def nothing(world):
        pass

    assert list((await left(backend, setup, nothing, Limits(evidence_bytes=1_000_000))).diff()) == ["/big"]


async def test_nothing_is_read_back_that_was_only_written(backend):
    """What was noted is believed: a record that could not have been read says so."""
    async with backend.open("host") as sandbox:
        await sandbox.write("/a", b"x")
        noted = {"/a": FileRecord(size=1, blob="noted")}
        assert await record_initial_files(sandbox, noted, 1000, SmallFiles()) == noted
        assert await record_initial_files(sandbox, None, 1000, SmallFiles()) == {"/a": FileRecord(size=1, blob=digest(b"x"))}
        await sh(sandbox, "echo longer > /a")
        assert (await record_initial_files(sandbox, noted, 1000, SmallFiles()))["/a"].blob == digest(b"longer\n")
