"""A grading sandbox: the image as it is, the files a check names, and nothing else of the agent's."""

from contextlib import asynccontextmanager

import anyio
import pytest

from drive.native_sandboxes import backend_of
from sandlot.core.errors import GradeError, NotInEvidence, SandboxError, SandboxOutOfMemory
from sandlot.core.limits import Limits
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord, FileRecord, Trace
from sandlot.env.environment import Environment
from sandlot.env.grading import load_evidence
from sandlot.rollout import grade_trace
from sandlot.sandbox.memory import MemoryFiles
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading

TASK = Task("one", prompt="Write it.")
IMAGE = {"/usr/bin/python3": b"the image's", "/opt/tool/run": b"the image's", "/data": b"a file"}


class Shelf:
    """A backend over files in memory: what it was asked for, and the machines it opened."""

    def __init__(self):
        self.asked = []
        self.machine = MemoryFiles()

    async def prepare(self, image):
        pass

    @asynccontextmanager
    async def open(self, image, network, limits):
        self.asked.append((image, network))
        for path, data in IMAGE.items():
            await self.machine.write(path, data)
        yield self.machine

    async def probe(self):
        return {}


async def evidence_of(backend, files, env=None):
    env = env or Environment("graded", image="any")
    blobs = MemoryBlobs()
    records = {path: FileRecord(size=len(data), blob=await blobs.put(data)) for path, data in files.items()}
    trace = Trace(run="r", task="one", rollout=0, seed=0, evidence=EvidenceRecord(files=records))
    return await load_evidence(env, TASK, trace, blobs, backend)


async def test_it_holds_the_files_that_are_named_and_no_others():
    shelf = Shelf()
    evidence = await evidence_of(shelf, {"/work/a.py": b"a", "/work/b.py": b"b"})
    async with evidence.grading_sandbox("/work/a.py") as world:
        assert await world.list("/work") == ["/work/a.py"]
    assert [event.detail for event in evidence.trace.events] == [{"files": 1, "first": ["/work/a.py"], "replaced": []}]


async def test_without_names_nothing_of_the_agents_is_brought():
    shelf = Shelf()
    evidence = await evidence_of(shelf, {"/work/a.py": b"a"})
    async with evidence.grading_sandbox() as world:
        assert await world.list("/work") == []


async def test_it_has_no_network_whatever_the_environment_has():
    shelf = Shelf()
    env = Environment("graded", image="any")
    env.network = "open"  # none of today's backends has such a network; a plug-in's may
    async with (await evidence_of(shelf, {}, env)).grading_sandbox():
        pass
    assert shelf.asked == [("any", "none")]


@pytest.mark.parametrize(
    "path",
    [
        "/usr/bin/python3",
        "/usr/local/bin/python3",
        "/opt/tool/run",
        "/data",
        "/etc/ld.so.preload",
        "/usr/lib/python3/dist-packages/evil.pth",
        "/opt/venv/lib/python3.13/site-packages/numpy.py",
        "/work/sitecustomize.py",
        "/root/.bash_profile",
        "/work/../usr/bin/env",
    ],
)
async def test_what_the_image_has_or_loads_is_brought_only_by_name(path):
    name = path.replace("/work/..", "")
    shelf = Shelf()
    evidence = await evidence_of(shelf, {name: b"the agent's"})
    with pytest.raises(NotInEvidence, match=f"`{name}` is not copied"):
        async with evidence.grading_sandbox(path):
            raise AssertionError
    async with evidence.grading_sandbox(replace=[path]) as world:
        assert await world.read(name) == b"the agent's"
    assert evidence.trace.events[-1].detail["replaced"] == [name]


async def test_a_file_where_none_can_be_written_is_not_met():
    evidence = await evidence_of(Shelf(), {"/data/below": b"1"})
    with pytest.raises(NotInEvidence, match="cannot be written"):
        async with evidence.grading_sandbox(replace=["/data/below"]):
            raise AssertionError


async def test_without_a_backend_there_is_none():
    with pytest.raises(GradeError, match="no `image`"):
        (await evidence_of(None, {})).grading_sandbox()


@pytest.mark.parametrize(
    ("error", "raised"), [(SandboxOutOfMemory("full"), NotInEvidence), (SandboxError("died", kind="died"), SandboxError)]
)
async def test_memory_that_the_agents_code_filled_is_not_met_and_a_lost_sandbox_is_a_failure(error, raised):
    evidence = await evidence_of(Shelf(), {})
    with pytest.raises(raised) as caught:
        async with evidence.grading_sandbox():
            raise error
    assert type(caught.value) is raised


async def test_code_that_never_ends_leaves_a_score():
    env = Environment("graded", image="host", limits=Limits(grade_s=5.0))

    @env.check(points=1)
    async def works(evidence):
        async with evidence.grading_sandbox("/work/run.sh") as world:
            return (await world.exec("sh /work/run.sh")).code == 0

    @env.check(points=1)
    def always(evidence):
        return True

    blobs = MemoryBlobs()
    files = {"/work/run.sh": FileRecord(size=9, blob=await blobs.put(b"sleep 999"))}
    trace = Trace(run="r", task="one", rollout=0, seed=0, evidence=EvidenceRecord(files=files))
    async with backend_of("root") as backend:
        async with backend.open("host"):
            pass  # the image is found before the clock runs
        score = await grade_trace(Grading(env=env, backend=backend), TASK, trace, blobs)
    assert str(score) == "1/2"
    assert "did not end within" in score.checks[0].evidence


class Stuck(Shelf):
    """A backend that does not open a sandbox."""

    @asynccontextmanager
    async def open(self, image, network, limits):
        await anyio.sleep_forever()
        yield self.machine


class Full(Shelf):
    """A backend whose sandboxes have no memory left before anything of the agent's is in them."""

    @asynccontextmanager
    async def open(self, image, network, limits):
        raise SandboxOutOfMemory("full")
        yield self.machine


def hanging(limits, *, checks, points=1):
    env = Environment("graded", image="any", limits=limits)
    for number in range(checks):

        async def hangs(evidence):
            async with evidence.grading_sandbox():
                await anyio.sleep_forever()

        hangs.__name__ = f"hangs_{number}"
        env.check(points=points)(hangs)
    env.check(points=1, id="always")(lambda evidence: True)
    return env


async def graded(env, backend):
    trace = Trace(run="r", task="one", rollout=0, seed=0, evidence=EvidenceRecord())
    return await grade_trace(Grading(env=env, backend=backend), TASK, trace, MemoryBlobs())


@pytest.mark.parametrize("backend", [Stuck(), Full()])
async def test_a_sandbox_that_does_not_open_leaves_no_score(backend):
    with pytest.raises(GradeError):
        await graded(hanging(Limits(grade_s=0.5), checks=1), backend)


async def test_code_that_never_ends_leaves_a_score_however_many_checks_run_it():
    score = await graded(hanging(Limits(grade_s=2.0), checks=60), Shelf())
    assert str(score) == "1/61"


async def test_code_that_never_ends_saves_no_penalty():
    score = await graded(hanging(Limits(grade_s=1.0), checks=1, points=-1), Shelf())
    assert score.checks[0].points == -1


async def test_the_agents_own_interpreter_grades_nothing():
    """An agent that plants code where the image's Python would load it is not met; the same work without it is."""
    env = Environment("graded", image="host")

    @env.check(points=1)
    async def works(evidence):
        async with evidence.grading_sandbox(*evidence.list("/work")) as world:
            return (await world.exec("/usr/bin/python3 /work/answer.py")).stdout == "42\n"

    results = []
    async with backend_of("root") as backend:
        for extra in ({}, {"/work/sitecustomize.py": b"print(42); exit()"}):
            blobs = MemoryBlobs()
            left = {"/work/answer.py": b"print(42)"} | extra
            files = {path: FileRecord(size=len(data), blob=await blobs.put(data)) for path, data in left.items()}
            trace = Trace(run="r", task="one", rollout=0, seed=0, evidence=EvidenceRecord(files=files))
            score = await grade_trace(Grading(env=env, backend=backend), TASK, trace, blobs)
            results.append(score.value)
    assert results == [1.0, 0.0]
