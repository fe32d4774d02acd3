"""Which test files a change can reach: `make test-changed BASE=...`, and the system tests that `.ci/run` chooses.

`reach.py` says what needs what. A data file, template or C source stands for the modules of the nearest folder above it that has
some. What cannot be mapped (configuration, requirements, a source file that was removed) reaches everything.
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from reach import PYTHON_ROOTS, Reach, is_test, node_of

ROOT = Path(__file__).parents[1]
# Tests of whole trees run with every change.
ALWAYS = ("tests/test_api.py", "tests/test_layers.py", "tests/test_structure.py", "tests/test_costs.py")
OF_PAGES = ("tests/test_docs.py", "tests/test_page_names.py", "tests/test_environment_pages.py")
# The configuration of all tests, those of environments too.
OF_ALL = ("tests/conftest.py", "tests/costs.py")
# Of no consequence for any test.
IDLE = re.compile(r"(CHANGELOG\.md|LICENSE|\.gitignore|\.ci/.*|tests/mutations/.*|tests/expensive\.txt)$")


@dataclass(frozen=True)
class Selection:
    """Test files to run, those left out, and the reason."""

    chosen: list[str]
    left_out: list[str]
    why: str


class Selector:
    """Finds the tests of changed paths in a repository."""

    def __init__(self, root: Path, paths: list[str]) -> None:
        self._paths = paths
        self._reach = Reach(root, paths)

    def select(self, changed: list[str]) -> Selection:
        tests = sorted(path for path in self._paths if is_test(path))
        unmapped = [path for path in changed if self._nodes_of(path) is None]
        if unmapped:
            return Selection(tests, [], f"all, since nothing says what `{unmapped[0]}` reaches")
        reached = self.reached_from(changed)
        chosen = [path for path in tests if path in reached or path in ALWAYS]
        return Selection(chosen, [path for path in tests if path not in chosen], f"{len(changed)} changed files")

    def way_to(self, test: str, changed: list[str]) -> list[str]:
        """From a test to the change that reaches it, step by step; empty if none does."""
        reached = self.reached_from(changed)
        way = []
        while test in reached:
            way.append(test)
            test = reached[test]
        return way

    def reached_from(self, changed: list[str]) -> dict[str, str]:
        """Each node that the changes reach, with the node it was reached through."""
        through = {node: "" for path in changed for node in self._nodes_of(path) or ()}
        queue = deque(through)
        while queue:
            node = queue.popleft()
            for user in sorted(self._needed_by[node] - through.keys()):
                through[user] = node
                queue.append(user)
        return through

    @cached_property
    def _needed_by(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for user, needs in self._reach.edges.items():
            for need in needs:
                found[need].add(user)
        return found

    def _nodes_of(self, path: str) -> list[str] | None:
        """The nodes a changed path stands for; None if that cannot be said."""
        if IDLE.search(path):
            return []
        if path.endswith(".md") or path.startswith("docs/"):
            return [*OF_PAGES, node_of(path)]
        if path in self._paths:
            return self._nodes_of_file(path)
        return [] if is_test(path) else None

    def _nodes_of_file(self, path: str) -> list[str] | None:
        folder = PurePosixPath(path).parent
        if path in OF_ALL or not folder.parts or folder.parts[0] not in (*PYTHON_ROOTS, "environments"):
            return None
        if path.endswith("conftest.py"):
            return [path, *(node for node in self._reach.edges if node.startswith(f"{path}::"))]
        if path.endswith(".py") or not path.startswith("src/"):
            return [node_of(path)]
        modules = {PurePosixPath(module): module for module in self._reach.modules.values()}
        while folder.parts:
            near = [module for place, module in modules.items() if place.parent == folder]
            if near:
                return near
            folder = folder.parent
        return None


def describe(selection: Selection) -> str:
    """What runs, and how many files of each room do not."""
    rooms: dict[str, int] = defaultdict(int)
    for path in selection.left_out:
        rooms["/".join(PurePosixPath(path).parent.parts[:3])] += 1
    head = f"{len(selection.chosen)} of {len(selection.chosen) + len(selection.left_out)} test files run ({selection.why})"
    rest = ", ".join(f"{room} {count}" if count > 1 else room for room, count in sorted(rooms.items()))
    return f"{head}\nleft out, as nothing they need has changed: {rest}" if rest else head


def tracked_paths() -> list[str]:
    """What git has, and what it would add."""
    return [path for path in _git("ls-files", "--cached", "--others", "--exclude-standard") if (ROOT / path).exists()]


def changed_since(base: str) -> list[str]:
    """Paths that differ from a commit: committed, uncommitted and new."""
    return sorted({*_git("diff", "--name-only", "--no-renames", base, "--"), *_git("ls-files", "--others", "--exclude-standard")})


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the test files that the changes since a commit can reach.")
    parser.add_argument("base", help="a commit")
    parser.add_argument("--why", metavar="TEST", help="print the way from a change to this test file instead")
    parser.add_argument("--marked", metavar="MARK", help="print only files with tests of this mark")
    options = parser.parse_args()
    selector = Selector(ROOT, tracked_paths())
    changed = changed_since(options.base)
    if options.why:
        way = selector.way_to(options.why, changed)
        sys.stdout.write("".join(f"{node}\n" for node in way) or f"no change since {options.base} reaches {options.why}\n")
        return
    selection = selector.select(changed)
    sys.stderr.write(f"{describe(selection)}\n")
    marked = [path for path in selection.chosen if not options.marked or f"mark.{options.marked}" in (ROOT / path).read_text()]
    sys.stdout.write("".join(f"{path}\n" for path in marked))


if __name__ == "__main__":
    main()
