"""The `sandlot` command as a person starts it: a process of its own, with its streams kept apart.

`started` is the real thing, from nothing: a second of imports. `Nursery` is a process that has the imports behind it and forks a
command for each request, so that a test can afford hundreds of them, and kill them. One `torch=True` has torch behind it
too, for commands that train.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ENVIRONMENTS = Path(__file__).parents[2] / "environments"
NOTES = Path(__file__).parents[1] / "worlds" / "notes.py"

WARM = (
    "sandlot.cli.main", "typer._adapters", "typer._click.decorators", "pydantic.plugin._loader", "rich._emoji_codes", "jinja2",
    "anyio._backends._asyncio", "anyio._core._signals", "zoneinfo", "numpy.ma", "pyarrow.compute", "pyarrow.dataset",
    "pyarrow.parquet",
    *(f"sandlot.cli.views.{name}" for name in (
        "audit", "calibrate", "compare", "data", "health", "images", "importing", "judge", "list", "placement", "play", "review",
        "run", "show", "show_run", "task", "tokens", "triage",
    )),
    "sandlot.cli.telemetry", "sandlot.analysis.tokens.audit", "sandlot.analysis.triage.triage", "sandlot.audit.audit",
    "sandlot.calibrate.tasks.calibrate", "sandlot.checks.answers", "sandlot.checks.files", "sandlot.interop.bundles.wheel",
    "sandlot.interop.data.stats", "sandlot.interop.export", "sandlot.interop.logged_runs", "sandlot.interop.sheets.draft",
    "sandlot.interop.sheets.preview", "sandlot.interop.sheets.template", "sandlot.model.endpoint.chat", "sandlot.run.catalog",
    "sandlot.run.replay", "sandlot.sandbox.docker.probe", "sandlot.sandbox.images.spec", "sandlot.sandbox.native.backend",
    "sandlot.tools.mcp", "sandlot.wiring.doctor",
)  # fmt: skip
"""What commands import when they are called: what is missing here is imported again in every fork."""
WITH_TORCH = ("torch._dynamo", "sandlot.cli.views.train", "sandlot.model.engine.engine", "sandlot.train.train")


@dataclass(frozen=True)
class Outcome:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.out.splitlines()]


def environ(**more: str) -> dict[str, str]:
    """What a command is started with: nothing of ours that would colour or widen its output, and no key."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "PYTHONPATH", "TMPDIR"}}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1"} | more


def started(*words: object, cwd: Path, patience_s: float = 60, **more: str) -> Outcome:
    """Run it from nothing."""
    command = [sys.executable, "-m", "sandlot", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, input=b"", capture_output=True, timeout=patience_s, check=False, env=environ(**more))
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


class Nursery:
    """Forks commands; a context."""

    def __init__(self, *, torch: bool = False):
        self._modules = (*WARM, *WITH_TORCH) if torch else WARM

    def __enter__(self):
        command = [sys.executable, __file__, *self._modules]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ())
        self._folder = tempfile.TemporaryDirectory()
        self._running: int | None = None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        with self._process:
            self._process.stdin.close()
        self._folder.cleanup()

    def start(self, *words: object, cwd: Path, stdin: str = "", code: str = "", **more: str) -> int:
        """Begin a command, or `python -c CODE WORDS`; its process id. `wait` must follow."""
        self._end_unfinished()
        streams = [str(Path(self._folder.name) / name) for name in ("in", "out", "err")]
        Path(streams[0]).write_text(stdin)
        request = {"words": [*map(str, words)], "cwd": str(cwd), "environ": environ(**more), "streams": streams, "code": code}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        self._streams = streams
        self._running = int(self._process.stdout.readline())
        return self._running

    def _end_unfinished(self) -> None:
        """End a command whose test timed out: else the next test would be given its answer."""
        if self._running is not None:
            os.kill(self._running, signal.SIGKILL)
            self.wait()

    def wait(self) -> Outcome:
        """How the command that was started last has ended."""
        code = int(self._process.stdout.readline())
        self._running = None
        return Outcome(code, *(Path(stream).read_bytes().decode() for stream in self._streams[1:]))

    def run(self, *words: object, cwd: Path, stdin: str = "", code: str = "", **more: str) -> Outcome:
        """Run a command to its end, or `python -c CODE WORDS`."""
        self.start(*words, cwd=cwd, stdin=stdin, code=code, **more)
        return self.wait()


def refused(outcome: Outcome) -> str:
    """The one sentence of a command that was wrong; anything else fails the test."""
    assert outcome.code == 2, outcome
    assert outcome.out == "", outcome
    assert outcome.err.startswith("sandlot: "), outcome
    assert outcome.err.count("\n") == 1, outcome
    return outcome.err


def fork_commands(modules: list[str]) -> None:
    for module in modules:
        __import__(module)
    gc.collect()
    gc.freeze()  # no fork walks through what all of them share
    os.write(1, b"ready\n")
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            become(request)
        os.write(1, b"%d\n" % pid)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def become(request: dict) -> None:
    """Be `python -m sandlot WORDS`, or `python -c CODE WORDS`, and end."""
    flags = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, (stream, flag) in enumerate(zip(request["streams"], flags, strict=True)):
        os.dup2(os.open(stream, flag, 0o600), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - what was read ahead is the nursery's
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    code = request["code"]
    sys.argv = ["-c" if code else "sandlot", *request["words"]]
    more = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = ["" if code else request["cwd"], *more]  # it was the folder of this file
    try:
        if code:
            sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))
        else:
            from sandlot.cli.main import main

            main()
    except SystemExit as exit_:
        if isinstance(exit_.code, int):
            end(exit_.code)
        raise
    end(0)


def end(code: int) -> None:
    """End as an interpreter does, but do not take its modules down: with torch that costs more than the command."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    fork_commands(sys.argv[1:])
    end(0)
