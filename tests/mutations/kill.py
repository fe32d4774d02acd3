"""Does one mutation and lets the tests that reach it look for it."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from mutations.copies import apply_patch, restore
from mutations.near import near_files
from mutations.running import Ran, run_pytest

_QUIETLY = ["-p", "no:cacheprovider", "-q", "--timeout", "120", "-m", "not system", "--tb=no", "-rfE"]
_CHUNK = 40
_CHUNK_S = 6.0
"""Tests, and CPU-seconds of tests, that one pytest process gets."""
_MOST_S = 1800
_NOTHING_RAN = 5
"""How pytest ends where all tests of a file are deselected."""


@dataclass
class Killing:
    """The copy, and what the run of the whole suite told."""

    copy: Path
    work: Path
    bound_s: float
    near: bool = False
    """Show a mutation to the files that name what it changes; nothing is known of who reaches it."""
    costs: dict[str, float] = field(default_factory=dict)
    reaching: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    broken: set[str] = field(default_factory=set)
    """Tests that fail without a mutation too."""

    def __post_init__(self) -> None:
        if self.near:
            return
        failed: list[str] = []
        for line in (self.work / "costs.jsonl").read_text().splitlines():
            told = json.loads(line)
            self.costs[told["test"]] = told["cpu_s"]
            failed += [] if told["passed"] else [told["test"]]
        for line in (self.work / "reached.tsv").read_text().splitlines():
            mutation, _, test = line.partition("\t")
            self.reaching[mutation].add(test)
        self._note_broken(failed)

    def _note_broken(self, failed: list[str]) -> None:
        """The run of the whole suite was on code with more lines, and on a busy machine: what failed there is tried again."""
        file = self.work / "broken.txt"
        if not file.exists():
            file.write_text("\n".join(self.failing(failed)))
        self.broken = set(file.read_text().splitlines())

    def failing(self, tests: list[str]) -> list[str]:
        """Those of the tests that fail now."""
        return list(run_pytest(self.copy, [*_QUIETLY, *tests], most_s=_MOST_S).failed) if tests else []

    def distrust(self, tests: list[str]) -> None:
        """Show no mutation to these tests any more."""
        self.broken |= set(tests)
        (self.work / "broken.txt").write_text("\n".join(sorted(self.broken)))

    def tests_of(self, patch: Path) -> list[str]:
        """Those that a mutation is shown to: first of the mirrored folder, then the others, each the cheapest first."""
        text = patch.read_text()
        named = [tuple(line.split()[1:]) for line in text.splitlines() if line.startswith("tests: ")]
        if self.near:
            files = [file for file in (named[0] if named else near_files(self.copy, text)) if (self.copy / file).exists()]
            return files or [_mirrored(text)]
        found = [test for test in self.costs if test.startswith(named[0])] if named else self.reaching[patch.stem]
        room = _mirrored(text)
        known = [test for test in found if test in self.costs and test not in self.broken]
        return sorted(known, key=lambda test: (not test.startswith(room), self.costs[test], test))


def verdict_of(patch: Path, killing: Killing) -> dict[str, object]:
    """`killed` (by which test), `survived`, `unreached`, or `gone`: the patch does not fit this tree any more."""
    tests = killing.tests_of(patch)
    known: dict[str, object] = {"mutation": patch.stem, "verdict": "unreached", "reached_by": len(tests)}
    try:
        if apply_patch(killing.copy, patch) is None:
            return known | {"verdict": "gone"}
        return known | (_shown_to(tests, killing) if tests else {})
    finally:
        restore(killing.copy)


def _shown_to(tests: list[str], killing: Killing) -> dict[str, object]:
    spent_s, num_run = 0.0, 0
    without = [word for test in sorted(killing.broken) for word in ("--deselect", test)] if killing.near else []
    while num_run < len(tests) and spent_s < killing.bound_s:
        chunk = tests[num_run : num_run + 1] if killing.near else _next_chunk(tests[num_run:], killing.costs)
        done = run_pytest(killing.copy, ["-x", *_QUIETLY, *without, *chunk], most_s=_MOST_S)
        spent_s += done.cpu_s
        num_run += len(chunk)
        if done.code not in {0, _NOTHING_RAN}:
            return {"verdict": "killed", "by": _first_of(done), "num_run": num_run, "cpu_s": round(spent_s, 1)}
    return {"verdict": "survived", "cut": num_run < len(tests), "num_run": num_run, "cpu_s": round(spent_s, 1)}


def _next_chunk(tests: list[str], costs: dict[str, float]) -> list[str]:
    """Some that together are cheap, and at least one."""
    chunk, cost_s = tests[:1], costs[tests[0]]
    for test in tests[1:_CHUNK]:
        cost_s += costs[test]
        if cost_s > _CHUNK_S:
            break
        chunk.append(test)
    return chunk


def _first_of(done: Ran) -> str:
    return done.failed[0] if done.failed else f"pytest ended with {done.code}: {' '.join(done.said.split()[-30:])}"


def _mirrored(patch: str) -> str:
    """`tests/unit/run/` for a file of `src/sandlot/run/`."""
    place = next((line for line in patch.splitlines() if line.startswith("+++ b/src/sandlot/")), "")
    return f"tests/unit/{place.removeprefix('+++ b/src/sandlot/').partition('/')[0]}/"
