"""A repository's tests, run in a sandbox by the same program that later grades."""

import io
import json
import tarfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio

from sandlot.core.errors import SandlotError
from sandlot.core.limits import Limits
from sandlot.core.ports.sandbox import Backend, Command, Sandbox
from sandlot.sandbox.command import run_command
from sandlot.wiring.parts import open_backend

ROOT = "/work/repo"
RUNNER = "/grade/run_tests.py"
PYTHON = ("/usr/bin/python3", "-S", "-s", "-P", "-B")
PROGRAM = Path(__file__).parent / "inside" / "run_tests.py"
GRADED_WALL_S = 240.0
"""Time for the tests of one task when it is graded, and when an import runs them as graded; less than `grade_s` of the folder."""
GRADED_TEST_S = 20.0
"""Time of one test when it is graded, as in `template/checks.py`."""
_OUTPUT_BYTES = 256 * 2**20
_START_S = 60.0
"""Time for the start of the program, beyond that of its jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryLayout:
    """Where the parts of a repository are, as `template/trees.py` reads it."""

    paths: Sequence[str]
    """Folders in which its modules are found."""
    modules: Sequence[str]
    tests: Sequence[str]
    options: Sequence[str] = ()
    """Options of pytest."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables of its tests."""
    site: str = ""
    """The folder of its libraries inside of `site/`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestJob:
    """One run of pytest."""

    __test__ = False  # not a class of tests

    tests: Sequence[tuple[str, bool | None]] = ()
    """Ids of tests in their order, each with a bit for its added assertion, or None without one. Empty: all tests."""
    write: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """Files of the repository that are other ones during the job; None for one that is not there."""
    wall_s: float = 60.0
    reverse: bool = False
    stop_when_late: bool = False
    """End the run with the first test that takes too long."""
    collected: bool = False
    """List the tests that are found in the files, before those that were asked for are run."""
    coverage: tuple[str, ...] = ()
    """Folders and files of which it is recorded which test runs which line."""


@dataclass(frozen=True, slots=True)
class TestReport:
    """What one test did."""

    __test__ = False

    test: str
    outcome: str
    """`passed`, `failed`, `error` (outside of the test itself), `skipped` or `xfail`."""
    seconds: float
    said: Mapping[str, Any]
    """`message` of the failure, `test_line` of the test's file, `depth` of the traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What one run of pytest did."""

    reports: tuple[TestReport, ...]
    not_collected: Mapping[str, str]
    """Files that could not be imported, and why."""
    lines: Mapping[str, Mapping[int, tuple[str, ...]]]
    """File -> line -> the tests that run it."""
    finished: bool
    late: bool
    seconds: float
    collected: tuple[str, ...] = ()
    """The tests that were found, if that was asked for."""

    def outcomes(self) -> dict[str, str]:
        """The outcome of each test; for one that ran several times, the last."""
        return {report.test: report.outcome for report in self.reports}


@dataclass(frozen=True, slots=True)
class Suite:
    """An open sandbox with the repository in it."""

    sandbox: Sandbox
    layout: RepositoryLayout
    site: tuple[str, ...]

    async def run(self, *jobs: TestJob, hash_seed: int = 0, test_s: float = 10.0) -> list[JobResult]:
        """Run jobs one after the other, each test at most `test_s` seconds of computing.

        `SandlotError` if the program that runs them fails.
        """
        given = {
            "root": ROOT,
            "paths": [f"{ROOT}/{path}".removesuffix("/.") for path in self.layout.paths],
            "site": list(self.site),
            "test_paths": list(self.layout.tests),
            "options": list(self.layout.options),
            "environ": dict(self.layout.environ),
            "test_s": test_s,
            "compiled": "/tmp/compiled",  # noqa: S108 - in the sandbox
            "jobs": [
                {
                    "tests": [list(each) for each in job.tests],
                    "write": dict(job.write),
                    "wall_s": job.wall_s,
                    "reverse": job.reverse,
                    "stop_when_late": job.stop_when_late,
                    "collected": job.collected,
                    "coverage": [f"{ROOT}/{path}" for path in job.coverage],
                    "name": "_holds",
                }
                for job in jobs
            ],
        }
        command = Command(
            argv=(*PYTHON, RUNNER),
            env={"PYTHONHASHSEED": str(hash_seed), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            stdin=json.dumps(given).encode(),
            output_bytes=_OUTPUT_BYTES,
        )
        with anyio.fail_after(sum(job.wall_s for job in jobs) + _START_S):
            done = await run_command(self.sandbox, command)
        _, *lines = done.stdout.splitlines() or [""]
        if len(lines) != len(jobs):
            raise SandlotError(f"the tests could not be run in the sandbox: {done.stderr.strip()[-800:] or 'no output'}")
        return [read_result(json.loads(line)) for line in lines]


def read_result(given: Mapping[str, Any]) -> JobResult:
    """The output of `run_tests.py` for one job. Lines of other shapes are left out."""
    reports: list[TestReport] = []
    missing: dict[str, str] = {}
    ran: dict[str, dict[int, tuple[str, ...]]] = {}
    collected: list[str] = []
    finished = False
    for line in given["lines"]:
        fields = cast("list[Any]", line) if isinstance(line, list) else []
        match fields:
            case ["test", str(test), str(outcome), (int() | float()) as seconds, said]:
                about = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
                reports.append(TestReport(test, outcome, float(seconds), about))
            case ["collect", str(place), dict()]:
                missing[place] = str(cast("dict[str, Any]", fields[2]).get("message", ""))
            case ["lines", str(path), dict()]:
                ran[path] = {int(number): tuple(tests) for number, tests in cast("dict[str, list[str]]", fields[2]).items()}
            case ["collected", str(test)]:
                collected.append(test)
            case ["finished"]:
                finished = True
            case _:
                pass
    return JobResult(
        reports=tuple(reports),
        not_collected=missing,
        lines=ran,
        finished=finished,
        late=given["late"],
        seconds=given["seconds"],
        collected=tuple(collected),
    )


@asynccontextmanager
async def open_suite(
    backend: Backend, files: Mapping[str, bytes], site: Sequence[Path], layout: RepositoryLayout
) -> AsyncGenerator[Suite]:
    """A sandbox of the machine's Python with some folders of libraries, and the repository's files in it."""
    folders = tuple(str(each.absolute()) for each in site)
    async with backend.open(":".join(("host", *folders)), "none", Limits()) as opened:
        sandbox = cast("Sandbox", opened)
        await put_files(sandbox, files)
        await sandbox.write(RUNNER, PROGRAM.read_bytes())
        yield Suite(sandbox, layout, folders)


async def put_files(sandbox: Sandbox, files: Mapping[str, bytes]) -> None:
    """Write many files below the repository's folder at once."""
    await sandbox.write("/grade/files.tar", packed(files))
    argv = ("/bin/sh", "-c", f"mkdir -p {ROOT} && tar -xf /grade/files.tar -C {ROOT} && rm /grade/files.tar")
    done = await run_command(sandbox, Command(argv=argv))
    if done.code:
        raise SandlotError(f"the repository could not be written into the sandbox: {done.stderr.strip()[-400:]}")


def packed(files: Mapping[str, bytes]) -> bytes:
    """A tar archive of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            about.mode = 0o644
            archive.addfile(about, io.BytesIO(data))
    return out.getvalue()


async def python_version() -> str:
    """The version of the machine's `/usr/bin/python3`, as `3.11`."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    async with open_backend() as backend, backend.open("host", "none", Limits()) as sandbox:
        done = await run_command(cast("Sandbox", sandbox), Command(argv=(*PYTHON, "-c", code)))
    if done.code:
        raise SandlotError(f"/usr/bin/python3 does not run in a sandbox: {done.stderr.strip()[-400:]}")
    return done.stdout.strip()
