"""Runs tests of a repository inside a sandbox. It prints one line of JSON per job: what each test did, and nothing it concludes.

The process that reads the results is not the one that runs the tests: each job is a forked child of another user, which writes
a line per test into a pipe. Code under test runs in that child and can do to it whatever it likes: end it, patch pytest, write
lines of its own. So a test may be given a list of bits: it is run once per bit, with a last assertion added to its own source
that holds or does not. A test whose outcome does not follow the bits was not run, whatever the lines say.
"""

import ast
import contextlib
import io
import itertools
import json
import os
import resource
import select
import signal
import sys
import time
import types

PIPE_BYTES = 32 * 2**20
"""Most bytes of results of one job."""
MEMORY_BYTES = 4 * 2**30
USER = 1000
SAID_CHARS = 2_000


class TestTimeLimit(BaseException):
    """Raised in a test that takes too long."""


# -- the added assertion -----------------------------------------------------------------------------------------------


class _Guard(ast.NodeTransformer):
    """Puts `try: ... finally: assert NAME[function].pop(0)` around the bodies of the functions that have bits."""

    def __init__(self, name, wanted):
        self.name, self.wanted, self.stack, self.found = name, wanted, [], set()

    def visit_ClassDef(self, node):
        self.stack.append(node.name)
        self.generic_visit(node)
        self.stack.pop()
        return node

    def visit_FunctionDef(self, node):
        place = "::".join([*self.stack, node.name])
        if place in self.wanted and not any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(node)):
            self.found.add(place)
            [check] = ast.parse(f"assert {self.name}[{place!r}].pop(0)").body
            node.body = [ast.Try(body=node.body, handlers=[], orelse=[], finalbody=[check])]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef


def guarded(text, bits, name):
    """A test file whose functions end with an assertion that holds or not, in the order of their bits; and which were found."""
    tree = ast.parse(text)
    guard = _Guard(name, bits)
    tree = guard.visit(tree)
    place = 0
    for place, node in enumerate(tree.body):  # noqa: B007 - used after the loop
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
    tree.body[place:place] = ast.parse(f"{name} = {bits!r}").body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n", guard.found


def function_of(test):
    """(file, `Class::function`) of a test's id."""
    path, _, rest = test.partition("::")
    return path, rest.partition("[")[0]


def put_guards(root, job):
    """Write the guarded test files; returns what was in them. A function's bits are in the order in which its tests will run."""
    files, before = {}, {}
    for test, bit in job["tests"]:
        path, place = function_of(test)
        if bit is not None:
            files.setdefault(path, {}).setdefault(place, [])
    for test, bit in job["tests"]:
        path, place = function_of(test)
        if place in files.get(path, {}):
            files[path][place].append(bit is None or bool(bit))
    for path, bits in files.items():
        whole = os.path.join(root, path)
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            with open(whole, encoding="utf-8", newline="") as file:
                made, _ = guarded(file.read(), bits, job["name"])
            before[whole] = replace_text(whole, made)
    return before


TIMES = itertools.count(2_000_000_000)


def replace_text(path, text):
    """Write a file, or remove it if the text is None; returns what was there.

    No two versions have the same time, by which compiled files are told apart.
    """
    before = None
    if os.path.exists(path):
        with open(path, encoding="utf-8", newline="") as file:
            before = file.read()
    if text is None:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        return before
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    now = next(TIMES)
    os.utime(path, (now, now))
    return before


# -- in the child ------------------------------------------------------------------------------------------------------


class Recorder:
    """A pytest plugin: runs the tests of the job in their order, and writes a line when each is done."""

    def __init__(self, job, out, coverage):
        self.job, self.out, self.coverage, self.phases, self.places = job, out, coverage, {}, {}
        self.started = False

    def tell(self, *line):
        data = json.dumps(line).encode() + b"\n"
        while data:
            data = data[os.write(self.out, data) :]

    def pytest_collection_modifyitems(self, items):
        if self.job.get("collected"):
            for item in items:
                self.tell("collected", item.nodeid)
        if self.job.get("reverse"):
            items.reverse()
        if not self.job["tests"]:
            return
        by_id = {item.nodeid: item for item in items}
        import copy

        ordered, seen = [], set()
        for test, _ in self.job["tests"]:
            if test not in by_id:
                continue
            item = by_id[test]
            if test in seen:
                item = copy.copy(item)
                item._initrequest()
            seen.add(test)
            ordered.append(item)
        items[:] = ordered

    def pytest_pycollect_makeitem(self, obj):
        """Call `setup` and `teardown` of classes as pytest did before version 8; tests of that time rely on it."""
        for name in ("setup", "teardown"):
            plain = getattr(obj, name, None) if isinstance(obj, type) else None
            if isinstance(plain, types.FunctionType) and plain.__code__.co_argcount == 1 and not hasattr(obj, f"{name}_method"):
                setattr(obj, f"{name}_method", calling(name))

    def pytest_collectreport(self, report):
        if report.failed:
            self.tell("collect", report.nodeid, said_of(report))

    def pytest_runtest_logstart(self, nodeid):
        if self.coverage is not None:
            self.coverage.switch_context(nodeid)

    def pytest_runtest_makereport(self, item, call):
        """Keep where the test failed; pytest's own plugin makes the report, since this returns None."""
        self.places = place_of(item, call.excinfo) if call.excinfo else {}

    def pytest_runtest_logreport(self, report):
        outcome, seconds, said = self.phases.pop(report.nodeid, ("passed", 0.0, ""))
        if outcome == "passed" and (report.outcome != "passed" or hasattr(report, "wasxfail")):
            kind = "error" if report.failed and report.when != "call" else report.outcome
            outcome, said = ("xfail" if hasattr(report, "wasxfail") else kind), {**said_of(report), **self.places}
            if self.job.get("stop_when_late") and "TestTimeLimit" in str(report.longrepr):
                self.tell("late", report.nodeid)
                os._exit(0)
        self.phases[report.nodeid] = outcome, seconds + report.duration, said
        if report.when == "teardown":
            outcome, seconds, said = self.phases.pop(report.nodeid)
            self.tell("test", report.nodeid, outcome, round(seconds, 4), said)

    def pytest_sessionstart(self):
        self.started = True


def calling(name):
    """A method that calls the one of this name, which a subclass may have replaced."""
    return lambda self: getattr(self, name)()


class Tail(io.TextIOBase):
    """The end of what is written: pytest says there why it cannot start."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text = (self.text + text)[-SAID_CHARS:]
        return len(text)


def said_of(report):
    """The message of a failure."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return {"message": (crash.message if crash else str(report.longrepr or ""))[:SAID_CHARS]}


def place_of(item, failure):
    """The line of the test's file at which a test failed, and how many calls deep. Frames of pytest itself do not count."""
    entries = item._traceback_filter(failure)
    return {"test_line": entries[0].lineno + 1 if entries else 0, "depth": len(entries)}


def time_limited(seconds):
    """A pytest plugin that ends a test after some seconds of computing, which do not depend on how busy the machine is."""
    import pytest

    def late(*_):
        raise TestTimeLimit(f"took more than {seconds} s")

    class Limit:
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(self):
            signal.signal(signal.SIGPROF, late)
            signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)  # again and again: the test may catch it
            yield
            signal.setitimer(signal.ITIMER_PROF, 0)

    return Limit()


def run_job(given, job, out):
    """In the child: become another user and run pytest."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    home = "/tmp/home"
    os.makedirs(home, exist_ok=True)
    with contextlib.suppress(OSError):  # a sandbox of an ordinary user has no other users
        os.chown(home, USER, USER)
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    # a test may start another Python, as `python -m PACKAGE`: it finds what this one does
    found = os.pathsep.join([*given["paths"], *given["site"]])
    os.environ.update({"HOME": home, "TMPDIR": "/tmp", "COLUMNS": "80", "PYTHONPATH": found, **given.get("environ", {})})
    os.chdir(given["root"])
    sys.path[:0] = given["paths"]
    import pytest

    coverage = None
    if job.get("coverage"):
        import coverage as coverage_module

        coverage = coverage_module.Coverage(data_file=None, config_file=False, source=job["coverage"])
        coverage.start()
    options = [f"-pno:{plugin}" for plugin in ("cacheprovider", "randomly", "xdist", "unraisableexception", "threadexception")]
    # `native`: pytest's own tracebacks parse each file anew for each failure, which takes longer than the tests
    options += ["-q", "--rootdir", given["root"], "-o", "addopts=", "--continue-on-collection-errors", "--tb=native"]
    options += given.get("options", ())
    if any(bit is not None for _, bit in job["tests"]):
        options += ["--assert=plain"]  # nobody reads what these say, and to rewrite their files takes longer than to run them
    names = sorted({test for test, _ in job["tests"]}) or given["test_paths"]
    if len(names) > 500:  # whole files: thousands of names make a slow start
        names = sorted({name.partition("::")[0] for name in names})
    recorder, sys.stderr = Recorder(job, out, coverage), Tail()
    code = pytest.main([*options, *names], plugins=[recorder, time_limited(given["test_s"])])
    if code == pytest.ExitCode.USAGE_ERROR and job["tests"] and recorder.started:
        # One name that is not there ends pytest before any test: so it is when a file cannot be imported. Files always are there.
        names = sorted({name.partition("::")[0] for name in names})
        code = pytest.main([*options, *names], plugins=[recorder, time_limited(given["test_s"])])
    if code == pytest.ExitCode.USAGE_ERROR:  # a `conftest.py` that cannot be imported is no collected file
        recorder.tell("collect", "conftest.py", {"message": sys.stderr.text})
    else:
        recorder.tell("finished")
    if coverage is not None:
        coverage.stop()
        tell_lines(coverage.get_data(), given["root"], out)


def tell_lines(data, root, out):
    """For each file, the tests that ran each line."""
    for path in data.measured_files():
        lines = {str(line): [test for test in tests if test] for line, tests in data.contexts_by_lineno(path).items()}
        text = json.dumps(["lines", os.path.relpath(path, root), lines]).encode() + b"\n"
        while text:
            text = text[os.write(out, text) :]


# -- in the parent -----------------------------------------------------------------------------------------------------


def result_of(given, job):
    """Run a job in a child, and read what it writes until it ends or its time is over."""
    before = {}
    for path, text in job.get("write", {}).items():
        whole = os.path.join(given["root"], path)
        before[whole] = replace_text(whole, text)
    if job["tests"]:
        before.update(put_guards(given["root"], job))
    reading, writing = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        try:
            run_job(given, job, writing)
        finally:
            os._exit(0)
    os.close(writing)
    pieces, size, late = [], 0, False
    while True:
        left = started + job["wall_s"] - time.monotonic()
        ready = select.select([reading], [], [], max(left, 0))[0]
        data = os.read(reading, 2**16) if ready else b""
        size += len(data)
        if not ready or size > PIPE_BYTES:
            late = True
            break
        if not data:
            break
        pieces.append(data)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    for whole, text in before.items():
        replace_text(whole, text)
    lines = []
    for line in b"".join(pieces).split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            lines.append(json.loads(line))
    return {"late": late, "seconds": round(time.monotonic() - started, 3), "lines": lines}


def make_reachable(folder):
    """Let the other user pass the folders above this one, which may be a home folder. The sandbox's own copies are changed."""
    while folder != (folder := os.path.dirname(folder)):
        with contextlib.suppress(OSError):
            os.chmod(folder, os.stat(folder).st_mode | 0o011)  # noqa: S103 - to pass, not to list


def main():
    """Jobs on standard input; a line for each on standard output."""
    given = json.load(sys.stdin)
    sys.dont_write_bytecode = True
    sys.path += given["site"]
    for folder in given["site"]:
        make_reachable(folder)
    from _pytest.config import default_plugins

    __import__("_pytest", fromlist=default_plugins)  # imported once, before the forks
    if given.get("compiled"):  # where compiled files of many jobs are kept
        sys.dont_write_bytecode, sys.pycache_prefix = False, given["compiled"]
        os.makedirs(sys.pycache_prefix, exist_ok=True)
        os.chmod(sys.pycache_prefix, 0o777)  # noqa: S103 - the children are another user
    out = os.fdopen(os.dup(1), "w")
    out.write('"ready"\n')
    out.flush()
    for job in given["jobs"]:
        out.write(json.dumps(result_of(given, job)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
