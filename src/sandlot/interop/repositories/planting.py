"""Chooses bugs to plant in a package, and keeps those that some of its tests notice and others do not."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import anyio

from sandlot.core.syntax import parse_python
from sandlot.interop.repositories.baseline import Baseline, functions_of
from sandlot.interop.repositories.issue_text import says_something
from sandlot.interop.repositories.mutation import BugKind, Mutation, is_bug, mutations
from sandlot.interop.repositories.suite import JobResult, Suite, TestJob, TestReport

MAX_FAIL_TO_PASS = 12
"""Tests of one task that the bug breaks and the fix must mend. If it breaks more, the others are not graded."""
_MAX_RELEVANT = 40
_MAX_SHARE = 0.5
"""A bug that breaks a larger share of the tests near it is seen at first sight."""
_PER_FUNCTION = 6
"""Tasks about one function."""
PLANT_S = 1800.0
"""Longest time for planting bugs in one package."""
_BATCH = 16
"""Bugs of one start of the program that runs tests."""
_MAX_OTHERS = 15
_SLOW_TEST_S = 0.3
_MUTANT_TEST_S = 2.0
"""Bugs often make endless loops; a test that takes so long is one."""
_BITS = (True, True, False, True, True)
"""As often as in a grading: some tests change what they are given, and fail the second time."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A bug that could be planted, and the tests that run the changed lines, nearest first."""

    path: str
    mutation: Mutation
    tests: tuple[str, ...]

    @property
    def place(self) -> str:
        """The function it is in; tasks about one function are all in the same split."""
        return f"{self.path}::{self.mutation.function}"


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A bug that was planted, and what the tests say about it."""

    path: str
    mutation: Mutation
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    report: TestReport
    """The failure that the issue is written from."""

    @property
    def place(self) -> str:
        """The function it is in."""
        return f"{self.path}::{self.mutation.function}"


def candidates(sources: Mapping[str, str], baseline: Baseline, seed: str = "") -> Iterator[Candidate]:
    """Bugs in lines that tests run, spread over functions and kinds. The order depends on the source and the seed only."""
    by_place: dict[str, dict[BugKind, list[Candidate]]] = {}
    for path, source in sorted(sources.items()):
        lines = baseline.lines.get(path, {})
        if not lines:
            continue
        ranges = _ranges(source)
        for mutation in mutations(source):
            tests = _relevant(mutation, source, lines, ranges, baseline)
            if tests:
                candidate = Candidate(path, mutation, tests)
                by_place.setdefault(candidate.place, {}).setdefault(mutation.kind, []).append(candidate)
    queues = [_interleaved(kinds, seed) for _, kinds in sorted(by_place.items(), key=lambda item: _hash(seed, item[0]))]
    while queues:
        for queue in list(queues):
            candidate = next(queue, None)
            if candidate is None:
                queues.remove(queue)
            else:
                yield candidate


def _interleaved(kinds: dict[BugKind, list[Candidate]], seed: str) -> Iterator[Candidate]:
    """One of each kind, then the next of each."""
    ordered = [
        sorted(found, key=lambda each: _hash(seed, each.place, each.mutation.start, each.mutation.text))
        for _, found in sorted(kinds.items(), key=lambda item: _hash(seed, item[1][0].place, item[0]))
    ]
    while any(ordered):
        for found in ordered:
            if found:
                yield found.pop()


def _hash(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def _ranges(source: str) -> dict[str, tuple[int, int]]:
    """First and last line of each function of a file."""
    places = functions_of(parse_python(source))
    return {place.replace("::", "."): (node.lineno, node.end_lineno or node.lineno) for place, node in places.items()}


def _relevant(
    mutation: Mutation,
    source: str,
    lines: Mapping[int, tuple[str, ...]],
    ranges: Mapping[str, tuple[int, int]],
    baseline: Baseline,
) -> tuple[str, ...]:
    """Tests that run the changed lines, then tests that run the function; none if no test runs the lines."""
    last = mutation.line + source.count("\n", mutation.start, mutation.end)
    at = _tests_of(lines, mutation.line, last, baseline)
    if not at:
        return ()
    around = _tests_of(lines, *ranges.get(mutation.function, (mutation.line, last)), baseline)
    return tuple([*at, *(test for test in around if test not in at)][:_MAX_RELEVANT])


def _tests_of(lines: Mapping[int, tuple[str, ...]], first: int, last: int, baseline: Baseline) -> dict[str, None]:
    """Tests that run a range of lines, slow ones last. Exact times differ from run to run and would change the tasks."""
    found = {test for line in range(first, last + 1) for test in lines.get(line, ()) if test in baseline.seconds}
    return dict.fromkeys(sorted(found, key=lambda test: (baseline.seconds[test] > _SLOW_TEST_S, _hash(test))))


async def plant(
    suites: Sequence[Suite],
    sources: Mapping[str, str],
    baseline: Baseline,
    guardable: frozenset[str],
    limit: int,
    tried: Counter[str],
) -> list[PlantedBug]:
    """Bugs that make some tests fail and leave others passing. `tried` counts what became of each candidate.

    One batch runs in each suite at a time. After `PLANT_S` it returns what it has.
    """
    found: list[PlantedBug] = []
    per_place: Counter[str] = Counter()
    queue = candidates(sources, baseline)

    async def work(suite: Suite, batch: Sequence[Candidate], into: list[PlantedBug]) -> None:
        into += await _kept(suite, sources, baseline, guardable, batch, tried)

    with anyio.move_on_after(PLANT_S) as scope:
        while len(found) < limit:
            size = min(_BATCH, 1 + (limit - len(found)) // len(suites))
            batches = [_batch(queue, size, sources, per_place, tried) for _ in suites]
            if not any(batches):
                break
            results: list[list[PlantedBug]] = [[] for _ in suites]
            async with anyio.create_task_group() as group:
                for suite, batch, into in zip(suites, batches, results, strict=True):
                    group.start_soon(work, suite, batch, into)
            for bug in (bug for batch in results for bug in batch):
                per_place[bug.place] += 1
                if per_place[bug.place] <= _PER_FUNCTION and len(found) < limit:
                    found.append(bug)
    if scope.cancelled_caught:
        tried[f"not tried, since {PLANT_S:.0f} s were over"] += sum(1 for _ in queue)
    return found


def _batch(
    queue: Iterator[Candidate], size: int, sources: Mapping[str, str], per_place: Counter[str], tried: Counter[str]
) -> list[Candidate]:
    batch: list[Candidate] = []
    for candidate in queue:
        if per_place[candidate.place] >= _PER_FUNCTION:
            continue
        if is_bug(candidate.mutation, sources[candidate.path]):
            batch.append(candidate)
        else:
            tried["does not parse, or changes nothing"] += 1
        if len(batch) == size:
            break
    return batch


async def _kept(
    suite: Suite,
    sources: Mapping[str, str],
    baseline: Baseline,
    guardable: frozenset[str],
    batch: Sequence[Candidate],
    tried: Counter[str],
) -> list[PlantedBug]:
    """Run each bug's tests, then with other hashes as they are graded: on the right source and on the one with the bug."""
    if not batch:
        return []
    jobs = [
        _job(baseline, [*each.tests, *_others(each, baseline)], {each.path: each.mutation.applied(sources[each.path])})
        for each in batch
    ]
    bugs: list[PlantedBug] = []
    for each, result in zip(batch, await suite.run(*jobs, test_s=_MUTANT_TEST_S), strict=True):
        bug, why = judged(each, result, baseline, guardable)
        if bug is None:
            tried[why] += 1
        else:
            bugs.append(bug)
    if not bugs:
        return []
    plans = [graded_tests(bug.fail_to_pass, bug.pass_to_pass) for bug in bugs]
    right = [_job(baseline, plan, {}) for plan in plans]
    broken = [
        _job(baseline, plan, {bug.path: bug.mutation.applied(sources[bug.path])}) for bug, plan in zip(bugs, plans, strict=True)
    ]
    results = await suite.run(*right, *broken, hash_seed=1, test_s=_MUTANT_TEST_S)
    kept: list[PlantedBug] = []
    for bug, plan, repaired, unrepaired in zip(bugs, plans, results[: len(bugs)], results[len(bugs) :], strict=True):
        sure, why = gradable(bug, plan, repaired, unrepaired)
        tried[why or "task"] += 1
        if sure is not None:
            kept.append(sure)
    return kept


def _others(candidate: Candidate, baseline: Baseline) -> list[str]:
    """Tests of other parts, which the bug should not touch: of the same files first, since importing others takes time."""
    near = set(candidate.tests)
    files = {test.partition("::")[0] for test in near}
    rest = [test for test in baseline.seconds if test not in near]
    rest.sort(
        key=lambda test: (test.partition("::")[0] not in files, _hash(candidate.path, test.partition("::")[0]), _hash(test))
    )
    return rest[:_MAX_OTHERS]


def _job(baseline: Baseline, tests: Sequence[str | tuple[str, bool | None]], write: Mapping[str, str | None]) -> TestJob:
    plan = [(each, None) if isinstance(each, str) else each for each in tests]
    needed = sum(baseline.seconds[test] for test, _ in plan)
    return TestJob(tests=plan, write=write, wall_s=30 + 8 * needed, stop_when_late=bool(write))


def judged(
    candidate: Candidate, result: JobResult, baseline: Baseline, guardable: frozenset[str]
) -> tuple[PlantedBug | None, str]:
    """What became of a candidate: a bug to keep, or why not."""
    if result.late or not result.finished:
        return None, "does not end, or ends the test run"
    outcomes = result.outcomes()
    failed = [report for report in result.reports if report.outcome == "failed" and report.test in guardable]
    passed = [test for test, outcome in outcomes.items() if outcome == "passed"]
    broken = sum(outcome != "passed" for outcome in outcomes.values()) + len(set(candidate.tests) - outcomes.keys())
    if not broken:
        return None, "no test notices"
    if not failed or broken > _MAX_SHARE * len(baseline.seconds) or any("took more than" in _said(each) for each in failed):
        return None, "breaks everything, or only tests that cannot be graded"
    failed.sort(key=lambda report: (not says_something(report), report.said.get("depth", 9), len(_said(report)), report.test))
    told = failed[:MAX_FAIL_TO_PASS]
    if not passed:
        return None, "breaks everything, or only tests that cannot be graded"
    if not says_something(told[0]):
        return None, "no failure says what is wrong"
    return PlantedBug(candidate.path, candidate.mutation, tuple(each.test for each in told), tuple(passed), told[0]), ""


def _said(report: TestReport) -> str:
    return str(report.said.get("message", ""))


def graded_tests(fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]) -> list[tuple[str, bool | None]]:
    """The tests as they are graded: those of the bug once per bit, then the others."""
    plan: list[tuple[str, bool | None]] = [(test, bit) for bit in _BITS for test in fail_to_pass]
    return [*plan, *((test, None) for test in pass_to_pass)]


def follows(plan: Sequence[tuple[str, bool | None]], done: JobResult, *, repaired: bool = True) -> frozenset[str]:
    """The tests that do what they should in every round: those with bits pass on the right source if their bit says so.

    On the source with the bug they fail each time; those without bits pass on both.
    """
    there = {report.test for report in done.reports}
    ran = [(test, bit) for test, bit in plan if test in there]
    if done.late or [report.test for report in done.reports] != [test for test, _ in ran]:
        return frozenset()
    wrong = {
        test
        for (test, bit), report in zip(ran, done.reports, strict=True)
        if report.outcome != ("passed" if bit is None or (bit and repaired) else "failed")
    }
    return frozenset(there - wrong)


def gradable(
    bug: PlantedBug, plan: Sequence[tuple[str, bool | None]], repaired: JobResult, unrepaired: JobResult
) -> tuple[PlantedBug | None, str]:
    """The bug with the tests that a repair passes and doing nothing does not; or why it is not kept."""
    sure = confirmed(bug, follows(plan, repaired))
    if sure is None:
        return None, "the test of its issue does not pass on the right source as it is graded"
    sure = confirmed(sure, follows(plan, unrepaired, repaired=False)) if unrepaired.finished else None
    return sure, "" if sure else "the test of its issue does not fail each time"


def confirmed(bug: PlantedBug, right: frozenset[str]) -> PlantedBug | None:
    """The bug with the tests that can be relied on; None if the one that the issue tells of is not among them."""
    failing = tuple(test for test in bug.fail_to_pass if test in right)
    passing = tuple(test for test in bug.pass_to_pass if test in right)
    if not passing or bug.report.test not in failing:
        return None
    return PlantedBug(bug.path, bug.mutation, failing, passing, bug.report)


def guardable_tests(texts: Mapping[str, str], tests: Sequence[str]) -> frozenset[str]:
    """The tests whose function is written out in their own file, so that an assertion can be added to it."""
    places: dict[str, set[str]] = {}
    for path, text in texts.items():
        try:
            functions = functions_of(parse_python(text))
        except (SyntaxError, ValueError):
            continue
        places[path] = {
            place
            for place, node in functions.items()
            if not any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(node))
        }
    return frozenset(
        test for test in tests if test.partition("::")[2].partition("[")[0] in places.get(test.partition("::")[0], ())
    )
