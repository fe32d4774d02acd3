"""A foreign program: asked by many threads, ended, hostile."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drive.running import is_running
from sandlot.core.errors import AuthorError, ConfigError, SandboxError
from sandlot.interop import package_process
from sandlot.interop.package_process import (
    PackageProcess,
    ProgramGoneError,
    RunningPrograms,
    ServedRollout,
    package_version_of,
)

ECHO = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    do = asked["do"]
    if do == "die":
        sys.stderr.write("I fell over")
        sys.exit(3)
    if do == "fail":
        print(json.dumps({"id": asked["id"], "failed": "no such thing"}), flush=True)
    elif do == "raw":
        print(asked["line"], flush=True)
    elif do == "variables":
        print(json.dumps({"id": asked["id"], "result": dict(os.environ)}), flush=True)
    elif do in ("leave", "flood"):
        child = os.fork()
        if not child:
            os.setsid()
            import signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while os.getppid() == asked["parent"] or do == "leave":
                time.sleep(0.01)
            while True:
                os.write(1, b"{}" * 4096)
        print(json.dumps({"id": asked["id"], "result": {"child": child}}), flush=True)
    elif do != "sleep":
        print(json.dumps({"id": asked["id"], "result": {"got": asked["value"]}}), flush=True)
"""

KEPT = """
import asyncio, os, subprocess, sys
from request_loop import answer_requests

class Service:
    async def begin(self):
        child = os.fork()
        if not child:
            os.setsid()
            if os.fork():
                os._exit(0)
            while True:
                asyncio.run(asyncio.sleep(60))
        os.waitpid(child, 0)
        return {"sleeper": subprocess.Popen(["sleep", "600"], start_new_session=True).pid, "pid": os.getpid()}

    async def crash(self):
        os._exit(3)

asyncio.run(answer_requests(Service()))
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "echo.py").write_text(ECHO)
    return tmp_path / "echo.py"


@pytest.fixture
def process(program):
    opened = PackageProcess(sys.executable, program)
    yield opened
    opened.close()


def test_many_threads_ask_at_once(process):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda value: process.ask("echo", within_s=30, value=value), range(50)))
    assert answers == [{"got": value} for value in range(50)]


def test_a_failure_is_the_environments(process):
    with pytest.raises(AuthorError, match="no such thing"):
        process.ask("fail", within_s=30)
    assert process.ask("echo", within_s=30, value=1) == {"got": 1}


def test_a_program_that_ends_is_quoted(process):
    with pytest.raises(AuthorError, match="I fell over"):
        process.ask("die", within_s=30)
    with pytest.raises(ProgramGoneError, match="has ended"):
        process.ask("echo", within_s=30, value=1)
    assert not process.alive


def test_a_program_that_ends_while_several_wait_is_nobodys_doing(process):
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(process.ask, "sleep", within_s=600)]
        wait_until(lambda: len(process._waiting) == 1)
        asked.append(pool.submit(process.ask, "die", within_s=600))
        assert {type(each.exception()) for each in asked} == {ProgramGoneError}


def test_who_waits_too_long_is_named_and_who_waits_beside_is_not(process):
    with ThreadPoolExecutor(2) as pool:
        beside = pool.submit(process.ask, "sleep", within_s=600)
        wait_until(lambda: len(process._waiting) == 1)
        with pytest.raises(AuthorError, match=r"within 0\.1 s") as caught:
            process.ask("sleep", within_s=0.1)
        assert (type(caught.value), type(beside.exception())) == (AuthorError, ProgramGoneError)


def test_a_rollout_whose_program_is_gone_through_others_is_the_sandboxs_failure(process):
    with pytest.raises(AuthorError):
        process.ask("die", within_s=30)
    with pytest.raises(SandboxError, match="I fell over"):
        ServedRollout(process, 30).ask("echo", value=1)


def test_no_answer_in_time_ends_it(process):
    with pytest.raises(AuthorError, match=r"within 0\.2 s") as caught:
        process.ask("sleep", within_s=0.2)
    assert caught.value.kind == "timeout"
    assert not process.alive


@pytest.mark.parametrize("line", ["no json", "[1]", '{"id": "1"}', '{"id": 1, "result": 5}', "[" * 100_000])
def test_a_line_that_is_no_answer_ends_it(process, line):
    with pytest.raises(AuthorError, match="no answer"):
        process.ask("raw", within_s=30, line=line)


def test_it_gets_only_the_variables_that_are_named(program, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("WANTED", "yes")
    process = PackageProcess(sys.executable, program, variables=("WANTED",))
    given = process.ask("variables", within_s=30)
    process.close()
    assert ("OPENAI_API_KEY" in given, given["WANTED"]) == (False, "yes")
    assert given.keys() <= {*os.environ, "PYTHONDONTWRITEBYTECODE"}


def test_what_cannot_be_started_is_said(program):
    with pytest.raises(ConfigError, match="cannot be run"):
        PackageProcess("/no/python", program)
    with pytest.raises(ConfigError, match="`ABSENT_KEY` is not set"):
        PackageProcess(sys.executable, program, variables=("ABSENT_KEY",))
    with pytest.raises(ConfigError, match="pip install no-such-package"):
        package_version_of(sys.executable, "no-such-package")
    assert package_version_of(sys.executable, "msgspec")


@pytest.mark.parametrize("said", ['1.0", rows=__import__("os")', "1.0\n2.0", "", "9" * 300])
def test_what_is_no_version_is_refused(tmp_path, said):
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nprint({said!r})")
    python.chmod(0o755)
    with pytest.raises(ConfigError, match="which is none"):
        package_version_of(str(python), "nemo-gym")


def test_output_without_end_is_not_read_to_its_end(tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nwhile True: print(1)")
    python.chmod(0o755)
    with pytest.raises(ConfigError, match="more than 4,096 bytes"):
        package_version_of(str(python), "nemo-gym")


def test_who_says_a_version_gets_no_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "1.0")
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport os; print(os.environ.get('OPENAI_API_KEY', '2.0'))")
    python.chmod(0o755)
    assert package_version_of(str(python), "nemo-gym") == "2.0"


@pytest.fixture
def kept(tmp_path):
    (tmp_path / "kept.py").write_text(KEPT)
    (tmp_path / "request_loop.py").write_text((Path(package_process.__file__).parent / "inside" / "request_loop.py").read_text())
    return tmp_path / "kept.py"


def running_programs(program):
    """The processes with this program on their command line, whatever their group and parent."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if str(program).encode() in (place / "cmdline").read_bytes():
                found.add(int(place.name))
        except OSError:  # it has just ended
            continue
    return found


def wait_until(done):
    while not done():  # the test's own time limit ends this
        time.sleep(0.02)


@pytest.mark.parametrize("do", ["leave", "flood"])
def test_a_child_that_keeps_the_pipe_open_keeps_nobody_waiting(program, do):
    process = PackageProcess(sys.executable, program)
    parent = process._process.pid
    child = process.ask(do, within_s=30, parent=parent)["child"]
    try:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(process.ask, "sleep", within_s=600)
            wait_until(lambda: process._waiting)
            process.close()
            with pytest.raises(AuthorError, match=r"has ended|no answer"):
                asked.result()
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans a new parent below init")
@pytest.mark.parametrize("ending", ["closed", "crashed", "late", "killed"])
def test_whatever_it_started_ends_with_it(kept, ending):
    process = PackageProcess(sys.executable, kept)
    told = process.ask("begin", within_s=30)
    assert len(running_programs(kept)) >= 3  # the program, the one that keeps it, and one of another session
    if ending == "closed":
        process.close()
    elif ending == "crashed":
        with pytest.raises(AuthorError, match="has ended"):
            process.ask("crash", within_s=30)
    elif ending == "killed":
        os.kill(told["pid"], signal.SIGKILL)
    else:
        os.kill(told["pid"], signal.SIGSTOP)
        with pytest.raises(AuthorError, match="did not answer"):
            process.ask("begin", within_s=0.1)
    wait_until(lambda: not running_programs(kept) and not is_running(told["sleeper"]))
    process.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans a new parent below init")
def test_whatever_it_started_ends_when_we_are_killed(kept):
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from sandlot.interop.package_process import PackageProcess\n"
        "process = PackageProcess(sys.executable, Path(sys.argv[1]))\n"
        "print(process.ask('begin', within_s=30)['sleeper'], flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(kept)], stdout=subprocess.PIPE, text=True) as ours:
        sleeper = int(ours.stdout.readline())
        ours.send_signal(signal.SIGKILL)
    wait_until(lambda: not running_programs(kept) and not is_running(sleeper))


class SlowEnd:
    """A program that has ended and takes its time to be closed."""

    alive = False

    def __init__(self):
        self.may_close = threading.Event()

    def close(self):
        self.may_close.wait()


class Running:
    alive = True

    def close(self):
        pass


def test_a_slow_end_or_start_keeps_no_other_waiting():
    programs, slow, good = RunningPrograms(), SlowEnd(), Running()
    begun, may_start = threading.Event(), threading.Event()

    def start():
        begun.set()
        return good

    assert programs.running("a", lambda: slow) is slow
    with ThreadPoolExecutor(2) as pool:
        again = pool.submit(programs.running, "a", start)
        starting = pool.submit(programs.running, "b", lambda: may_start.wait() and good)
        begun.wait()
        assert programs.running("a", Running) is good  # nobody waits for the end of the one before
        assert programs.running("c", lambda: good) is good
        slow.may_close.set()
        may_start.set()
        assert (again.result(), starting.result()) == (good, good)
