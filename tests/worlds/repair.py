"""A small package with tests, as a source distribution and as a repair environment that needs no package index."""

import io
import shutil
import tarfile
from importlib.metadata import distribution
from importlib.util import cache_from_source
from pathlib import Path

from sandlot.interop.repositories.folder import write_repair_environment, write_repository
from sandlot.interop.repositories.mutation import BugKind, mutations
from sandlot.interop.repositories.package import task_of
from sandlot.interop.repositories.planting import PlantedBug
from sandlot.interop.repositories.sources import read_tree
from sandlot.interop.repositories.suite import RepositoryLayout, TestReport

LEDGER = '''"""Sums of money."""

import re


def total(rows, rate=0):
    """The sum of all amounts that are not negative, with interest."""
    found = 0
    for row in rows:
        if row < 0:
            continue
        found += row
    if rate > 0:
        found = found + found * rate // 100
    return found


def split(amount, people):
    """Shares that differ by at most one and add up to the amount."""
    if people <= 0:
        raise ValueError("nobody to share with")
    share, rest = divmod(amount, people)
    return [share + 1] * rest + [share] * (people - rest)


def words(text):
    return [word.lower() for word in re.findall(r"[a-z]+", text, re.I) if len(word) > 1]
'''
TESTS = """import time

import pytest

from ledger import split, total
from ledger.sums import words


@pytest.mark.parametrize(("rows", "right"), [([1, 2, 3], 6), ([5], 5), ([], 0), ([0, 4], 4), ([10, -3], 10)])
def test_total_of_rows(rows, right):
    assert total(rows) == right


def test_total_with_interest():
    assert total([100, 100], rate=10) == 220


class TestSplit:
    def test_even(self):
        assert split(9, 3) == [3, 3, 3]

    def test_uneven(self):
        assert split(10, 4) == [3, 3, 2, 2]

    def test_nobody(self):
        with pytest.raises(ValueError):
            split(5, 0)


def test_words():
    assert words("A Tale of Two") == ["tale", "of", "two"]


def test_changes_what_it_is_given(seen=[]):
    seen.append(1)
    assert len(seen) == 1


def test_is_quick():
    started = time.perf_counter()
    total([1])
    assert time.perf_counter() - started < 60


def test_is_wrong():
    assert total([1]) == 2
"""
FILES = {
    "PKG-INFO": "Metadata-Version: 2.1\nName: ledger\nVersion: 1.2\nLicense: MIT\n",
    "src/ledger/__init__.py": "from ledger.sums import split, total\n",
    "src/ledger/sums.py": LEDGER,
    "tests/test_sums.py": TESTS,
}
FAIL_TO_PASS = ("tests/test_sums.py::test_total_of_rows[rows0-6]", "tests/test_sums.py::test_total_of_rows[rows1-5]")
PASS_TO_PASS = ("tests/test_sums.py::test_total_of_rows[rows2-0]", "tests/test_sums.py::TestSplit::test_even")


def write_sdist(folder: Path, files: dict[str, str] | None = None) -> Path:
    """`ledger-1.2.tar.gz`."""
    path = folder / "ledger-1.2.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (files or FILES).items():
            about = tarfile.TarInfo(f"ledger-1.2/{name}")
            about.size = len(text.encode())
            archive.addfile(about, io.BytesIO(text.encode()))
    return path


def write_tree(folder: Path) -> Path:
    """The unpacked distribution."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


_LEXERS = {"__init__", "_mapping", "diff", "python"}
"""What pytest takes of hundreds."""


def copy_pytest(site: Path) -> None:
    """The pytest that runs these tests, and what it needs; compiled, as an installer leaves it."""
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        for file in distribution(name).files or ():
            other_lexer = file.parts[:2] == ("pygments", "lexers") and file.stem not in _LEXERS
            if ".." not in file.parts and not other_lexer and (file.suffix in {".py", ".txt"} or ".dist-info" in str(file)):
                source, target = Path(str(file.locate())), site / file
                copies = {source: target}
                if file.suffix == ".py":
                    compiled = Path(cache_from_source(source))
                    copies[compiled] = target.parent / "__pycache__" / compiled.name
                for one, other in copies.items():
                    if one.is_file():
                        other.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(one, other)  # with its times: a compiled file names that of its source


def write_repair(folder: Path) -> Path:
    """An environment with one task: `found += row` is missing in `total`."""
    tree = read_tree(write_tree(folder / "source"))
    env = folder / "env"
    env.mkdir()
    copy_pytest(env / "site")
    bug = next(
        each for each in mutations(LEDGER) if each.kind is BugKind.STATEMENT and "found += row" in LEDGER[each.start : each.end]
    )
    report = TestReport(
        FAIL_TO_PASS[0], "failed", 0.1, {"message": "assert 0 == 6\n +  where 0 = total([1, 2, 3])", "test_line": 11}
    )
    planted = PlantedBug("src/ledger/sums.py", bug, FAIL_TO_PASS, PASS_TO_PASS, report)
    task = task_of(tree, "ledger-1.2", LEDGER, {"tests/test_sums.py": TESTS}, planted, 1)
    layout = RepositoryLayout(paths=tree.paths, modules=tree.modules, tests=tree.tests)
    write_repository(env, "ledger-1.2", {name: text.encode() for name, text in FILES.items()}, layout)
    write_repair_environment(env, "ledger-repair", "One bug.", [task])
    return env
