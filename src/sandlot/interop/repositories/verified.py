"""Tests that a real change repairs: run on the source before it and after it, as they will be graded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandlot.core.errors import ConfigError
from sandlot.core.ports.sandbox import Backend
from sandlot.interop.repositories.baseline import missing_modules, unsteady_functions
from sandlot.interop.repositories.planting import follows, graded_tests, guardable_tests
from sandlot.interop.repositories.site_folder import INSTALL_ROUNDS, PYTEST, distributions_of, install, write_metadata
from sandlot.interop.repositories.sources import SourceTree
from sandlot.interop.repositories.suite import GRADED_WALL_S, JobResult, RepositoryLayout, Suite, TestJob, open_suite

_WALL_S = 420.0
_SLOW_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTests:
    """The tests of one real change."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    unguarded: tuple[str, ...] = ()
    """Those of `fail_to_pass` to whose source no assertion can be added."""
    not_confirmed: tuple[str, ...] = ()
    """Tests that were named and do something else here."""

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


async def install_missing(
    libraries: LibraryFolder, backend: Backend, files: Mapping[str, bytes], layout: RepositoryLayout, places: Sequence[str]
) -> tuple[str, ...]:
    """Install the modules that test files miss after the change: what they declare may be too little. Returns their tests.

    No test runs: names that are not there make pytest collect the files, and nothing of them is wanted. A name of the
    repository's own is never installed: a helper that is only off the path would become some other project of that name.
    """
    tree = libraries.tree
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
        wanted = (*PYTEST, *tree.requires, *distributions_of(new))  # together, so that none changes the version of another
        install(wanted, libraries.site, libraries.python, without=tree.name)
        write_metadata(tree, libraries.site)
    return found


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
        not_confirmed=tuple(test for test in dict.fromkeys((*failing, *passing)) if test not in kept and test not in still),
    )
