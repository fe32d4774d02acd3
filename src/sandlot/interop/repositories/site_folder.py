"""The folder of libraries that a package's tests need, beside the machine's own Python in the image.

Only wheels of the index are installed: unpacking one runs nothing of it. An address or a path could name a source distribution,
whose `setup.py` pip would run on this machine, so neither is installed.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from sandlot.core.errors import ConfigError
from sandlot.interop.repositories.index import normalized
from sandlot.interop.repositories.sources import SourceTree

PYTEST = ("pytest==8.4.2",)
"""What runs hidden tests; `run_tests.py` relies on it."""
TOOLS = ("coverage==7.11.0",)
_PYTEST_NEEDS = frozenset({"pytest", "iniconfig", "packaging", "pluggy", "pygments", "coverage"})
_UNWANTED = re.compile(
    r"(?i)(pytest|coverage|tox|nox|mypy|ruff|black|flake8|isort|pre-commit|twine|build|wheel|sphinx|furo|codecov|pylint|"
    r"pytest-cov|pytest-benchmark|pytest-codspeed|pytest-xdist|pytest-randomly|pytest-enabler|pytest-mypy|pytest-black|pytest-flake8|pytest-ruff|pytest-checkdocs|"
    r"pyright|jaraco[.-].*|pytest-perf|setuptools|tox-.*|types-.*|check-manifest|pyroma|bandit|ipython|ipdb|pdbpp|.*-stubs)\Z"
)
"""Requirements of tests that only format, measure or publish."""
_TIMEOUT_S = 600


_DISTRIBUTIONS = {
    "yaml": "PyYAML",
    "dateutil": "python-dateutil",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "jwt": "PyJWT",
    "pkg_resources": "setuptools<81",  # the last that have it
}
"""Names of distributions that differ from the module's."""
INSTALL_ROUNDS = 6
"""A module that cannot be imported hides the next: each `conftest.py` and each test file tells one at a time."""


def distributions_of(modules: Iterable[str]) -> list[str]:
    """What has to be installed for these modules."""
    return [_DISTRIBUTIONS.get(name, name) for name in sorted(modules)]


def require_apart(name: str) -> None:
    """`ConfigError` for a package that pytest itself runs on: a bug in it would be one in the test runner."""
    if normalized(name) in _PYTEST_NEEDS:
        raise ConfigError(f"package `{name}`: pytest itself needs it, so its bugs cannot be told from a broken test runner")


def install(requirements: tuple[str, ...], folder: Path, python: str, without: str = "") -> list[str]:
    """Install wheels into a folder for a version of Python such as `3.11`. Returns what could not be installed.

    `without` is the package under test: its own files are removed again if a dependency brings them.
    """
    wanted = [each for each in requirements if _is_wanted(each, without)]
    missing: list[str] = []
    if wanted and _pip(wanted, folder, python):
        missing = [each for each in wanted if _pip([*PYTEST, each], folder, python)]
    _finish(folder, without)
    return missing


def install_together(requirements: tuple[str, ...], folder: Path, python: str, without: str = "") -> bool:
    """Install all of them or, if that cannot be, nothing: False."""
    if _pip([each for each in requirements if _is_wanted(each, without)], folder, python):
        return False
    _finish(folder, without)
    return True


def _finish(folder: Path, without: str) -> None:
    if without:
        _remove(folder, without)
    shutil.rmtree(folder / "bin", ignore_errors=True)
    _compile(folder)


def write_metadata(tree: SourceTree, site: Path) -> None:
    """What `importlib.metadata` reads about the package under test, which is not installed."""
    version = tree.version or "0"
    about = site / f"{normalized(tree.name).replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    text = tree.metadata.strip() or f"Metadata-Version: 2.1\nName: {tree.name}\nVersion: {version}"
    (about / "METADATA").write_text(f"{text}\n", encoding="utf-8")
    if tree.entry_points:
        (about / "entry_points.txt").write_text(tree.entry_points, encoding="utf-8")


def _is_wanted(requirement: str, without: str) -> bool:
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return False
    if parsed.url:
        return False
    return requirement in (*PYTEST, *TOOLS, *_DISTRIBUTIONS.values()) or not (
        _UNWANTED.match(parsed.name) or normalized(parsed.name) == normalized(without)
    )


def _pip(requirements: list[str], folder: Path, python: str) -> str:
    """Run pip; returns the end of what it said if it failed."""
    command = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--target", str(folder.absolute()), "--upgrade"]
    command += ["--no-compile", "--no-warn-conflicts"]  # what it would compare with is not in the folder
    command += ["--only-binary=:all:", "--python-version", python, "--implementation", "cp", *requirements]
    try:
        # in an empty folder: pip takes `name.zip` for a file if there is one of that name
        with tempfile.TemporaryDirectory(prefix="sandlot-pip-") as empty:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, cwd=empty)  # noqa: S603
    except subprocess.TimeoutExpired:
        return f"took more than {_TIMEOUT_S} s"
    return done.stderr[-1000:] or "failed" if done.returncode else ""


def _compile(folder: Path) -> None:
    """Compile once for the sandboxes' Python, valid wherever the folder goes: pytest alone takes a second to compile."""
    sources = [path for path in sorted(folder.rglob("*.py")) if not any(path.parent.glob(f"__pycache__/{path.stem}.*.pyc"))]
    new = [str(path) for path in sources if "\n" not in str(path)]
    if not new:
        return
    options = ("-q", "-j", "1", "--invalidation-mode", "unchecked-hash", "-i", "-")
    command = ["/usr/bin/python3", "-I", "-S", "-m", "compileall", *options]  # -I: no module of the current folder
    lines = "".join(f"{path}\n" for path in new).encode()
    subprocess.run(command, input=lines, capture_output=True, check=False, timeout=_TIMEOUT_S)  # noqa: S603 - compiling runs nothing


def _remove(folder: Path, name: str) -> None:
    for about in folder.glob("*.dist-info"):
        if normalized(about.name.removesuffix(".dist-info").rpartition("-")[0]) != normalized(name):
            continue
        record = about / "RECORD"
        for line in record.read_text(encoding="utf-8").splitlines() if record.is_file() else ():
            path = folder / line.partition(",")[0]
            if path.resolve().is_relative_to(folder.resolve()):
                path.unlink(missing_ok=True)
        shutil.rmtree(about, ignore_errors=True)
