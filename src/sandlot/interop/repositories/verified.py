"""Tests that a real change repairs: run on the source before it and after it, as they will be graded."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from sandlot.core.errors import ConfigError
from sandlot.core.ports.sandbox import Backend
from sandlot.interop.repositories.baseline import missing_modules, unsteady_functions
from sandlot.interop.repositories.index import normalized
from sandlot.interop.repositories.planting import follows, graded_tests, guardable_tests
from sandlot.interop.repositories.site_folder import (
    INSTALL_ROUNDS,
    PYTEST,
    distributions_of,
    install,
    install_together,
    write_metadata,
)
from sandlot.interop.repositories.sources import SourceTree
from sandlot.interop.repositories.suite import GRADED_WALL_S, JobResult, RepositoryLayout, Suite, TestJob, open_suite

_WALL_S = 420.0
_SLOW_S = 5.0
_WORD = re.compile(r"\w[\w.-]*\w")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTests:
    """The tests of one real change."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    unguarded: tuple[str, ...] = ()
    """Those of `fail_to_pass` to whose source no assertion can be added."""
    not_confirmed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tests that were named and do something else here, and what."""

    def key(self) -> dict[str, Any]:
        """The part of a task's key that says what is run."""
        names = {"fail_to_pass": self.fail_to_pass, "pass_to_pass": self.pass_to_pass, "unguarded": self.unguarded}
        return {**{name: list(tests) for name, tests in names.items()}, "wall_s": GRADED_WALL_S}


@dataclass(frozen=True, slots=True)
class LibraryFolder:
    """The folder of what the tests of a package need."""

    site: Path
    python: str
    tree: SourceTree
    more: list[str] = field(default_factory=list[str])
    """What was installed beyond what the package declares for itself and its tests."""

    def add(self, requirements: Sequence[str]) -> None:
        """Install more, together with all before, so that none changes the version of another."""
        self.more.extend(requirements)
        install((*PYTEST, *self.tree.requires, *self.more), self.site, self.python, without=self.tree.name)
        write_metadata(self.tree, self.site)

    def add_if_possible(self, requirements: Sequence[str]) -> bool:
        """Install more if all of it can be had beside what is there."""
        wanted = (*PYTEST, *self.tree.requires, *self.more, *requirements)
        if not install_together(wanted, self.site, self.python, without=self.tree.name):
            return False
        self.more.extend(requirements)
        write_metadata(self.tree, self.site)
        return True


async def install_missing(
    libraries: LibraryFolder, backend: Backend, files: Mapping[str, bytes], layout: RepositoryLayout, places: Sequence[str]
) -> tuple[str, ...]:
    """Install the modules that test files miss after the change: what they declare may be too little. Returns their tests.

    No test runs: names that are not there make pytest collect the files, and nothing of them is wanted. A name of the
    repository's own is never installed: a helper that is only off the path would become some other project of that name.
    """
    job = TestJob(tests=[(f"{place}::none", None) for place in places], wall_s=_WALL_S, collected=True)
    found: tuple[str, ...] = ()
    known = {part.removesuffix(".py") for path in files for part in path.split("/")} | {"tests", "test"}
    for _ in range(INSTALL_ROUNDS):
        async with open_suite(backend, files, (libraries.site,), layout) as suite:
            [done] = await suite.run(job)
        new, found = missing_modules(done) - known, done.collected
        if not new:
            break
        known |= new
        libraries.add(distributions_of(new))
    return found


async def install_optional(
    libraries: LibraryFolder, backend: Backend, files: Mapping[str, bytes], layout: RepositoryLayout, tests: Sequence[str]
) -> None:
    """Install what the package declares as optional and these tests miss, which fail or are skipped after the change.

    They say so by its name: `No module named 'ephem'`, or as the reason of a skip `requires ephem`.
    """
    named = {name: each for each in libraries.tree.optional if (name := _distribution(each))}
    if not named or not tests:
        return
    async with open_suite(backend, files, (libraries.site,), layout) as suite:
        [done] = await suite.run(TestJob(tests=[(test, None) for test in tests], wall_s=_WALL_S))
    said = " ".join(str(report.said.get("message", "")) for report in done.reports if report.outcome != "passed")
    words = {normalized(word) for word in _WORD.findall(said)}
    wanted = [each for name, each in named.items() if name in words]
    if wanted and not libraries.add_if_possible(wanted):
        for each in wanted:
            libraries.add_if_possible([each])


def _distribution(requirement: str) -> str:
    with contextlib.suppress(InvalidRequirement):
        return normalized(Requirement(requirement).name)
    return ""


def whole_names(tests: Sequence[str], collected: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The tests that each name stands for. SWE-bench cuts names at the first space, so one may stand for several."""
    known = set(collected)
    cut = [test for test in tests if "[" in test and test not in known]
    return {test: (test,) for test in tests} | {
        test: found for test in cut if (found := tuple(each for each in collected if each.startswith(f"{test} ")))
    }


async def find_tests(
    suite: Suite, change: Mapping[str, str | None], texts: Mapping[str, str], most_failing: int, most_passing: int
) -> RepairTests:
    """Run all tests before and after a change. `ConfigError` if no test tells the two apart."""
    before, after = await suite.run(TestJob(wall_s=_WALL_S), TestJob(wall_s=_WALL_S, write=change))
    if after.late:
        raise ConfigError(f"its tests take more than {_WALL_S:.0f} s")
    require_end(before)
    old = before.outcomes()
    unsteady = {f"{path}::{place}" for path, text in texts.items() for place in unsteady_functions(text)}
    good = [
        report.test
        for report in after.reports
        if report.outcome == "passed"
        and report.seconds < _SLOW_S
        and report.test.partition("[")[0] not in unsteady
        and report.test.isascii()
        and report.test.isprintable()
    ]
    failing = [test for test in good if old.get(test) != "passed"]
    passing = [test for test in good if old.get(test) == "passed"]
    if not failing:
        raise ConfigError(f"none of {len(good)} tests that pass after the change fails before it")
    if not passing:
        raise ConfigError("no test passes before the change")
    return await confirm_tests(suite, change, texts, spread(failing, most_failing), spread(passing, most_passing))


def require_end(before: JobResult) -> None:
    """`ConfigError` if the run before the change was cut off: a test that it did not reach did not fail."""
    if before.late or not before.finished:
        raise ConfigError(
            f"its tests do not run to their end before the change ({len(before.reports)} of them did){_said(before, ())}"
        )


def _said(done: JobResult, tests: Sequence[str]) -> str:
    """What the first of these tests says, else the first file that could not be imported; `; ...` for the end of a message."""
    first = dict[str, str]()
    for report in done.reports:  # the first round: in others an added assertion fails
        first.setdefault(report.test, str(report.said.get("message", "")) if report.outcome != "passed" else "")
    said = [(test, first[test]) for test in tests if first.get(test, "").strip()]
    said += [(place, why) for place, why in done.not_collected.items() if why.strip()]
    missing = [test for test in tests if test not in first]
    if not said and missing:
        return f"; `{missing[0]}` is not there"
    return f"; `{said[0][0]}`: {said[0][1].strip().splitlines()[-1][:300]}" if said else ""


def spread(tests: Sequence[str], most: int) -> list[str]:
    """Some of the tests, evenly over their order."""
    return [tests[place * len(tests) // most] for place in range(most)] if len(tests) > most else list(tests)


async def confirm_tests(
    suite: Suite,
    change: Mapping[str, str | None],
    texts: Mapping[str, str],
    failing: Sequence[str],
    passing: Sequence[str],
    either: Sequence[str] = (),
) -> RepairTests:
    """Keep the tests that do what is said of them when run as graded. `ConfigError` if none of those to be repaired does.

    Of `either` it is not known which of them pass before the change.
    """
    failing = [*failing, *(test for test in either if test not in failing)]
    guardable = guardable_tests(texts, failing)
    guarded = [test for test in failing if test in guardable]
    bare = [test for test in failing if test not in guardable]
    plan = graded_tests(guarded, [*bare, *passing])
    before, after = await suite.run(
        TestJob(tests=plan, wall_s=GRADED_WALL_S), TestJob(tests=plan, wall_s=GRADED_WALL_S, write=change)
    )
    require_end(before)
    right, old = follows(plan, after), before.outcomes()
    at_times = {report.test for report in before.reports if report.outcome == "passed"}  # some fail only the first time
    kept = tuple(test for test in failing if test in right and test not in at_times)
    still = tuple(test for test in passing if test in right and old.get(test) == "passed")
    still += tuple(test for test in either if test in right & follows(plan, before) and test not in still)
    if not kept:
        why = "they pass before the change" if right.intersection(failing) else f"they fail after it too{_said(after, failing)}"
        raise ConfigError(f"none of {len(failing)} tests to be repaired by the change is confirmed: {why}")
    if passing and not still:  # some rows name none
        raise ConfigError("no test is confirmed that passes before and after the change")
    return RepairTests(
        fail_to_pass=kept,
        pass_to_pass=still,
        unguarded=tuple(test for test in kept if test not in guardable),
        not_confirmed={
            test: _otherwise(test, before, after)
            for test in dict.fromkeys((*failing, *passing))
            if test not in kept and test not in still
        },
    )


def _otherwise(test: str, before: JobResult, after: JobResult) -> str:
    """What a test does that its row does not say."""
    reports = [report for report in after.reports if report.test == test]
    if not reports:
        return "it is not there"
    if reports[0].outcome == "passed":
        passed = before.outcomes().get(test) == "passed"
        return "it passes before the change" if passed else "it does not pass each time, or not before the change"
    lines = str(reports[0].said.get("message", "")).strip().splitlines() or [""]
    return f"{reports[0].outcome} after the change: {lines[-1][:200]}"
