"""A package of somebody else, as docs/guides/own-parts.md has it: found by entry point, tested with the suites that we ship."""

import importlib
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import anyio
import pytest

from sandlot.core.errors import GradeError
from sandlot.interop.exporting import export_environment
from sandlot.testing.exporter import make_sums
from sandlot.wiring.config import judge_config
from sandlot.wiring.models import open_judge
from sandlot.wiring.parts import open_backend

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"^```(?:python|toml) (own-parts/[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def package(tmp_path) -> Path:
    for name, body in FILE.findall((ROOT / "docs" / "guides" / "own-parts.md").read_text()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(body)
    return tmp_path / "own-parts"


@pytest.fixture
def installed(package, monkeypatch) -> Path:
    """Where pip would have put it."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = package / "own_parts-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    (info / "entry_points.txt").write_text(
        "\n".join(f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in parts.items()) for group, parts in groups)
    )
    monkeypatch.syspath_prepend(str(package))
    importlib.invalidate_caches()
    yield package
    for module in ("logged_backend", "program_judge", "table_exporter"):
        sys.modules.pop(module, None)


def test_its_author_runs_the_suites_with_pytest_alone(package):
    """Another process, in a folder of its own, without our configuration, and with the plugins that `sandlot[testing]` brings."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHONPATH"))}
    plain["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-rs", "-W", "error", "-p", "anyio"]
    done = subprocess.run(command, cwd=package, env=plain, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    num_passed = int(re.search(r"(\d+) passed, 4 skipped", done.stdout)[1])
    assert num_passed > 80
    assert "the backend does not isolate processes: plain processes of this machine" in done.stdout


async def test_its_parts_are_found_by_their_names(installed, tmp_path):
    make_sums(tmp_path / "sums")
    written = await anyio.to_thread.run_sync(export_environment, "table", tmp_path / "sums", tmp_path / "out")
    assert (written.kind, len(written.tasks)) == ("table", 4)
    assert (tmp_path / "out" / "tasks.csv").read_text().count("What is") == 4
    async with open_judge(judge_config("program:grep -o yes")) as judge:
        assert (await judge.ask("Is it right?", ("no", "yes"), {"answer": ""}, 1)).verdicts == ("yes",)
        with pytest.raises(GradeError, match="non-zero exit status"):
            await judge.ask("Is it right?", ("no", "maybe"), {"answer": ""}, 1)
    async with open_backend("logged", 0) as backend:
        assert type(backend).__name__ == "LoggedBackend"
        assert (await backend.probe())["files"].startswith("yes")


def test_without_pytest_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(ImportError, match=r"needs pytest.*pip install 'sandlot\[testing\]'"):
        runpy.run_path(str(ROOT / "src" / "sandlot" / "testing" / "__init__.py"))


BROKEN = {
    "test_judge.py": """
import pytest
from program_judge import ProgramJudge
from sandlot.testing.judge import *

class Lenient(ProgramJudge):
    async def verdict(self, prompt, choices):
        said = (await self.answer(prompt)).strip()
        return said if said in choices else choices[0]

@pytest.fixture
def judge_of():
    def make(reply):
        async def answer(prompt):
            return str(reply)
        return Lenient("lenient", answer)
    return make

@pytest.fixture
def reply_with():
    return lambda verdict, reason: verdict
""",
    "test_exporter.py": """
import shutil
import pytest
from table_exporter import TableExporter
from sandlot.testing.exporter import *

class Overwriting(TableExporter):
    def write(self, env, folder, *, limit):
        named = folder.parent / env.name
        shutil.rmtree(named, ignore_errors=True)
        named.mkdir()
        return super().write(env, named, limit=limit)

@pytest.fixture
def exporter():
    return Overwriting()
""",
    "test_sandbox.py": """
from contextlib import asynccontextmanager
import pytest
from logged_backend import LoggedBackend, LoggedSandbox
from sandlot.testing.local import LocalBackend
from sandlot.testing.sandbox import *

class Finished:
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        return getattr(self.inner, name)
    async def wait(self):
        await self.inner.wait()
        return 0

class Lossy(LoggedSandbox):
    async def spawn(self, command):
        return Finished(await super().spawn(command))

class LossyBackend(LoggedBackend):
    @asynccontextmanager
    async def open(self, image, network, limits):
        async with self.inner.open(image, network, limits) as sandbox:
            yield Lossy(sandbox)

@pytest.fixture
async def backend():
    yield LossyBackend(LocalBackend())

@pytest.fixture
def image():
    return "none"
""",
}
BITTEN = {
    "test_judge.py::test_a_reply_that_is_not_a_verdict_is_an_error",
    "test_judge.py::test_one_bad_vote_of_several_is_an_error",
    "test_judge.py::test_a_model_that_fails_is_a_grade_error",
    "test_exporter.py::test_nothing_outside_its_folder_is_touched",
    "test_sandbox.py::test_a_command_gives_its_output_and_exit_code",
    "test_sandbox.py::test_a_command_ended_by_a_signal_has_a_negative_code",
    "test_sandbox.py::test_killing_a_command_ends_everything_it_started",
}


class Outcomes:
    """A pytest plugin that remembers what failed."""

    def __init__(self):
        self.failed: dict[str, str] = {}
        self.passed: set[str] = set()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed[report.nodeid.partition("[")[0]] = str(report.longrepr)
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)


def test_a_broken_part_does_not_pass(installed, monkeypatch, capsys):
    """A judge that says something where it has no verdict, an exporter that overwrites a folder, a sandbox without exit codes."""
    for name, body in BROKEN.items():
        (installed / "broken" / name).parent.mkdir(exist_ok=True)
        (installed / "broken" / name).write_text(body)
    monkeypatch.chdir(installed / "broken")
    outcomes = Outcomes()
    without = [word for plugin in ("cacheprovider", "randomly", "xdist") for word in ("-p", f"no:{plugin}")]
    chosen = ["-k", "not sandbox or command"]  # of the longest suite, what is about commands
    options = ["-q", "--rootdir", ".", "-c", os.devnull, "--import-mode", "importlib", *chosen, *without]
    assert pytest.main([*options, "."], plugins=[outcomes]) == pytest.ExitCode.TESTS_FAILED
    assert set(outcomes.failed) >= BITTEN
    assert (
        "assert (0, 'out\\n', 'err\\n') == (3, 'out\\n', 'err\\n')"
        in outcomes.failed["test_sandbox.py::test_a_command_gives_its_output_and_exit_code"]
    )
    assert len(outcomes.passed) > 25
