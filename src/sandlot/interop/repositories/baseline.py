"""Which tests of a repository can be relied on, and which lines each of them runs."""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sandlot.core.errors import ConfigError
from sandlot.core.syntax import parse_python
from sandlot.interop.repositories.suite import JobResult, Suite, TestJob, TestReport

MAX_TEST_S = 0.5
"""Longest time of a test that is used. It runs five times in each grading."""
_LATE_TEST_S = 2.0
"""When a test is ended: coverage makes it slower than it is."""
_WALL_S = 420.0
_MIN_TESTS = 5
_TIMED = re.compile(r"\b(perf_counter|process_time|timeit|monotonic)\b|\btime\.(sleep|time)\b|\bsleep\(")
_DRAWN = re.compile(r"random|shuffle|uuid[14]|secrets|@(\w+\.)?given\b")
_MISSING = re.compile(r"No module named '([\w.]+)'")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the tests do on the right source."""

    seconds: Mapping[str, float]
    """The tests that are used, in their order, and how long each takes."""
    lines: Mapping[str, Mapping[int, tuple[str, ...]]]
    """File of the package -> line -> the tests that run it."""
    left_out: Mapping[str, int]
    """Why tests are not used, and how many."""


async def run_all(suite: Suite, modules: tuple[str, ...]) -> JobResult:
    """Run all tests, and record which lines of the modules each of them runs."""
    [done] = await suite.run(TestJob(coverage=modules, wall_s=_WALL_S), test_s=_LATE_TEST_S)
    if done.late:
        raise ConfigError(f"its tests take more than {_WALL_S:.0f} s, of which {len(done.reports)} ended")
    return done


def missing_modules(done: JobResult) -> set[str]:
    """Modules that some test files need and that are not there."""
    return {name.partition(".")[0] for said in done.not_collected.values() for name in _MISSING.findall(said)}


async def measure_baseline(suite: Suite, first: JobResult, texts: Mapping[str, str]) -> Baseline:
    """Run all tests a second time, in reverse order and with other hashes; keep those that pass both times.

    `texts` are the test files. `ConfigError` if hardly any test can be used.
    """
    [second] = await suite.run(TestJob(reverse=True, wall_s=_WALL_S), hash_seed=1, test_s=_LATE_TEST_S)
    found = sorted_out(first, second, texts)
    if len(found.seconds) < _MIN_TESTS:
        raise ConfigError(_too_few(found, first))
    return Baseline(found.seconds, first.lines, found.left_out)


def sorted_out(first: JobResult, second: JobResult, texts: Mapping[str, str]) -> Baseline:
    """The tests that pass in both runs, and why the others are not used."""
    again = second.outcomes()
    unsteady = {path: unsteady_functions(text) for path, text in texts.items()}
    used: dict[str, float] = {}
    left_out: Counter[str] = Counter()
    for report in first.reports:
        why = _reason(report, again.get(report.test))
        path, _, place = report.test.partition("::")
        why = why or unsteady.get(path, {}).get(place.partition("[")[0], "")
        if not why and not re.fullmatch(r"[\x20-\x7e]+", report.test):
            why = "has an id that is not plain text"
        if why:
            left_out[why] += 1
        else:
            used[report.test] = report.seconds
    if first.not_collected:
        left_out["file that cannot be imported"] = len(first.not_collected)
    return Baseline(used, {}, dict(left_out))


def _reason(report: TestReport, again: str | None) -> str:
    if report.seconds > MAX_TEST_S or "took more than" in str(report.said):
        return "takes too long"
    if report.outcome != "passed":
        return {"skipped": "is skipped here", "xfail": "is expected to fail"}.get(report.outcome, "fails on the right source")
    return "" if again == "passed" else "fails in another order"


def unsteady_functions(text: str) -> dict[str, str]:
    """The test functions, as `Class::function`, that may do something else the next time, and why.

    A test that draws its input may miss a bug, and then doing nothing would earn its points.
    """
    if not _TIMED.search(text) and not _DRAWN.search(text):
        return {}
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError):
        return {}
    lines, found = text.split("\n"), dict[str, str]()
    for place, node in functions_of(tree).items():
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        whole = "\n".join(lines[first - 1 : node.end_lineno])
        if _TIMED.search(whole):
            found[place] = "measures time"
        elif _DRAWN.search(whole):
            found[place] = "draws its input at random"
    return found


def functions_of(tree: ast.Module) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a test file by `Class::function`, those in other functions left out."""
    found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}

    def look(body: list[ast.stmt], before: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                look(node.body, f"{before}{node.name}::")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found[before + node.name] = node

    look(tree.body, "")
    return found


def _too_few(found: Baseline, first: JobResult) -> str:
    why = ", ".join(f"{count} {reason}" for reason, count in found.left_out.items())
    failures = Counter(str(each.said.get("message", "")) for each in first.reports if each.outcome in {"failed", "error"})
    said = next(iter(first.not_collected.values()), "")[-300:] or next((text[:300] for text, _ in failures.most_common(1)), "")
    return f"only {len(found.seconds)} of its tests can be used ({why or 'none ran'}){': ' + said if said else ''}"
