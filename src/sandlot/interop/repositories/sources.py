"""A package's source tree: where its modules are, where its tests are, what it says about itself."""

import configparser
import contextlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import Any, cast

from sandlot.core.errors import ConfigError
from sandlot.interop.repositories.index import normalized
from sandlot.interop.repositories.setup_script import setup_arguments, strings

_NOT_PACKAGES = frozenset(
    {
        *("test", "tests", "testing", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "bench", "tools", "tool"),
        *("scripts", "script", "build", "dist", "changelog.d", "requirements", "news", "tasks", "ci", "util", "utils", "bin"),
    }
)
_LEFT_OUT = frozenset({"doc", "docs", "benchmark", "benchmarks", "changelog.d", "news", "node_modules"})
"""Folders that no task needs."""
_TEST_FILE = re.compile(r"((unit)?test_.*|.*_test|tests?|conftest)\.py\Z")
_TEST_EXTRAS = frozenset({"test", "tests", "testing", "dev", "unittest", "pytest", "check", "checks"})
_MAX_FILE_BYTES = 4 * 2**20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"([A-Za-z0-9][A-Za-z0-9._+!-]*)?")
_EXTRA = re.compile(r"""\s*(?:and\s+)?\(?\s*extra\s*==\s*["']([^"']+)["']\s*\)?""")


@dataclass(frozen=True, slots=True)
class SourceTree:
    """An unpacked source distribution or repository."""

    root: Path
    name: str
    version: str = ""
    license: str = ""
    requires: tuple[str, ...] = ()
    """Requirements of the package and of its tests, as `pip` reads them."""
    optional: tuple[str, ...] = ()
    """Requirements that it declares for other extras, such as those of features that some of its tests skip without them."""
    modules: tuple[str, ...] = ()
    """Folders and files of the package itself, relative to the root."""
    tests: tuple[str, ...] = ()
    """Folders and files with tests, relative to the root."""
    options: tuple[str, ...] = field(default=())
    """Options of pytest that the repository's own configuration sets and its tests need."""
    metadata: str = ""
    """The `PKG-INFO` of a source distribution; empty for a repository."""
    entry_points: str = ""
    """Its `entry_points.txt`, or what it would be."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Folders, relative to the root, in which the package's modules are found."""
        return tuple(dict.fromkeys(str(PurePosixPath(module).parent) for module in self.modules))

    def files(self) -> Iterator[str]:
        """Relative paths of the files that a task needs, sorted."""
        for path in sorted(self.root.rglob("*")):
            inside = path.relative_to(self.root)
            if inside.parts[0] in _LEFT_OUT or "__pycache__" in inside.parts or path.is_symlink() or not path.is_file():
                continue
            if path.suffix in {".pyc", ".so", ".pyd"} or path.stat().st_size > _MAX_FILE_BYTES:
                continue
            yield inside.as_posix()

    def is_source(self, path: str) -> bool:
        """True for a file of the package itself that is not one of its tests."""
        return is_below(path, self.modules) and not self.is_test(path)

    def is_test(self, path: str) -> bool:
        """True for a file of the tests or of their configuration."""
        return is_below(path, self.tests) or bool(_TEST_FILE.match(PurePosixPath(path).name))


def named(row: Any, field: str) -> str:
    """What a row of foreign data calls itself, for a report; the row itself if it has no such field."""
    fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    return str(fields.get(field, row))[:100]


def is_below(path: str, places: tuple[str, ...]) -> bool:
    """True if a path is one of these places or inside one."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def read_tree(root: Path, name: str = "") -> SourceTree:
    """What an unpacked source distribution says about itself. `ConfigError` if it has no modules or no tests.

    What it does not say about its name and version, that of its folder does: `NAME-VERSION`.
    """
    metadata = _metadata(root)
    project, settings, script = _toml(root / "pyproject.toml"), _settings(root), setup_arguments(root / "setup.py")
    named = _about(project, settings, script)
    name = name or metadata.get("Name", "") or named.get("name", "") or root.name.rpartition("-")[0]
    version = (
        metadata.get("Version", "") or named.get("version", "") or (root.name.rpartition("-")[2] if "-" in root.name else "")
    )
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):  # both become names of folders
        raise ConfigError(f"its source distribution names itself {name[:80]!r} {version[:80]!r}, which is no name and version")
    modules = _modules(root, name)
    if not modules:
        raise ConfigError(f"`{name}`: no Python package or module found in its source distribution")
    tests = _tests(root, modules)
    if not tests:
        raise ConfigError(f"`{name}` {version}: its source distribution has no tests")
    found = [*(_required(metadata) if metadata.keys() else _declared(project, settings, script)), *_grouped(project)]
    extras = _required(metadata, tests=False) if metadata.keys() else _extras(project, settings, script, tests=False)
    optional = dict.fromkeys(each.strip() for each in extras if each.strip())
    return SourceTree(
        root=root,
        name=name,
        version=version,
        license=_license(metadata, project, settings, script),
        requires=tuple(dict.fromkeys(each for each in found if each.strip())),
        optional=tuple(each for each in optional if each not in found),
        modules=modules,
        tests=tests,
        options=_options(root, project),
        metadata=metadata.as_string(),
        entry_points=_entry_points(root, project, settings, script),
    )


def _metadata(root: Path) -> Any:
    path = root / "PKG-INFO"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return HeaderParser().parsestr(text)


def _toml(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return tomllib.loads(path.read_text(encoding="utf-8"))
    return {}


def _settings(root: Path) -> configparser.ConfigParser:
    """Its `setup.cfg`."""
    settings = configparser.ConfigParser(interpolation=None, strict=False)
    settings.optionxform = lambda optionstr: optionstr  # names of groups are taken as they are
    with contextlib.suppress(configparser.Error, OSError, UnicodeDecodeError):
        settings.read(root / "setup.cfg", encoding="utf-8")
    return settings


def _about(project: dict[str, Any], settings: configparser.ConfigParser, script: dict[str, Any]) -> dict[str, str]:
    """The name and version that a repository declares, as far as they are written out."""
    found: dict[str, str] = {}
    for what, form in (("name", _NAME), ("version", _VERSION)):
        for stated in (script.get(what), settings.get("metadata", what, fallback=""), project.get("project", {}).get(what)):
            if isinstance(stated, str) and stated and form.fullmatch(stated):
                found[what] = stated
    return found


def _entry_points(root: Path, project: dict[str, Any], settings: configparser.ConfigParser, script: dict[str, Any]) -> str:
    """By which others find functions of the package, and often it finds its own."""
    for file in root.glob("**/*.egg-info/entry_points.txt"):
        return file.read_text(encoding="utf-8", errors="replace")
    groups: dict[str, list[str]] = {}
    declared = script.get("entry_points")
    for group, lines in cast("dict[Any, Any]", declared).items() if isinstance(declared, dict) else ():
        groups[str(group)] = list(strings(lines))
    for group, lines in settings["options.entry_points"].items() if settings.has_section("options.entry_points") else ():
        groups[group] = lines.splitlines()
    for group, table in project.get("project", {}).get("entry-points", {}).items():
        groups[group] = [f"{name} = {value}" for name, value in table.items()]
    lines = [line for group, each in groups.items() for line in (f"[{group}]", *each)]
    return "".join(f"{line.strip()}\n" for line in lines if line.strip())


def _license(metadata: Any, project: dict[str, Any], settings: configparser.ConfigParser, script: dict[str, Any]) -> str:
    given = metadata.get("License-Expression") or metadata.get("License")
    given = str(given or settings.get("metadata", "license", fallback="") or script.get("license") or "")
    if given and len(given) < 60:
        return given
    table = project.get("project", {})
    classifiers = [*map(str, metadata.get_all("Classifier", [])), *map(str, table.get("classifiers", ()))]
    classifiers += strings(script.get("classifiers"))
    names = [each.rpartition("::")[2].strip() for each in classifiers if each.startswith("License")]
    stated = table.get("license", "")
    return ", ".join(dict.fromkeys(names)) or (stated if isinstance(stated, str) else str(stated.get("text", ""))) or "not stated"


def _modules(root: Path, name: str) -> tuple[str, ...]:
    base = root / "src" if (root / "src").is_dir() else root
    top = {line.strip() for file in root.glob("**/*.egg-info/top_level.txt") for line in file.read_text().splitlines()}
    wanted = normalized(name).replace("-", "_")
    found: list[Path] = []
    for path in sorted(base.iterdir()):
        stem = path.name.removesuffix(".py")
        if path.is_symlink() or stem in _NOT_PACKAGES or _TEST_FILE.match(path.name) or not stem.isidentifier():
            continue
        is_package = path.is_dir() and ((path / "__init__.py").is_file() or (base != root and any(path.rglob("*.py"))))
        is_module = path.is_file() and path.suffix == ".py" and stem not in {"setup", "noxfile", "tasks", "conftest"}
        if (is_package or is_module) and (stem in top or not top or stem == wanted):
            found.append(path)
    own = [
        path for path in found if path.stem.lower() in {wanted, wanted.removeprefix("python_"), wanted.removesuffix("_python")}
    ]
    if own and not top:
        found = own
    return tuple(path.relative_to(root).as_posix() for path in found)


def _tests(root: Path, modules: tuple[str, ...]) -> tuple[str, ...]:
    places = [root / name for name in ("tests", "test", "testing") if (root / name).is_dir()]
    for module in modules:
        places += [path for path in sorted((root / module).rglob("*")) if path.is_dir() and path.name in {"tests", "test"}]
    places += [path for path in sorted(root.glob("*.py")) if _TEST_FILE.match(path.name) and path.name != "conftest.py"]
    kept = [place for place in places if place.is_file() or any(_TEST_FILE.match(each.name) for each in place.rglob("*.py"))]
    outer = [place for place in kept if not any(other in place.parents for other in kept)]
    return tuple(place.relative_to(root).as_posix() for place in outer)


def _required(metadata: Any, *, tests: bool = True) -> Iterator[str]:
    """What the package and its tests require, or without `tests` what its other extras do."""
    for line in metadata.get_all("Requires-Dist", []):
        requirement, _, marker = str(line).partition(";")
        extra = _EXTRA.search(marker)
        if tests == bool(extra and extra[1].lower() not in _TEST_EXTRAS):
            continue
        rest = _EXTRA.sub("", marker).strip().removeprefix("and ").strip()
        yield f"{requirement.strip()} ; {rest}" if rest else requirement.strip()


def _declared(project: dict[str, Any], settings: configparser.ConfigParser, script: dict[str, Any]) -> Iterator[str]:
    """Requirements that a repository declares in `pyproject.toml`, `setup.cfg` and `setup.py`, for tests too."""
    for name in ("install_requires", "tests_require"):
        yield from strings(script.get(name))
    yield from (each for each in project.get("project", {}).get("dependencies", ()) if isinstance(each, str))
    yield from settings.get("options", "install_requires", fallback="").split("\n")
    yield from _extras(project, settings, script, tests=True)


def _extras(
    project: dict[str, Any], settings: configparser.ConfigParser, script: dict[str, Any], *, tests: bool
) -> Iterator[str]:
    """The requirements of the extras that are for tests, or of all others."""
    extras = script.get("extras_require")
    stated = cast("dict[Any, Any]", extras) if isinstance(extras, dict) else {}
    groups = [(str(name), list(strings(group))) for name, group in stated.items()]
    groups += project.get("project", {}).get("optional-dependencies", {}).items()
    section = "options.extras_require"
    groups += [
        (name, settings[section][name].split("\n")) for name in (settings[section] if settings.has_section(section) else ())
    ]
    for name, group in groups:
        if tests == (normalized(name) in _TEST_EXTRAS):
            yield from (each for each in group if isinstance(each, str))


def _grouped(project: dict[str, Any]) -> Iterator[str]:
    """Dependency groups for tests; poetry's too."""
    groups: dict[str, list[Any]] = project.get("dependency-groups", {})
    for name, group in groups.items():
        if normalized(name) in _TEST_EXTRAS:
            yield from (each for each in group if isinstance(each, str))
    poetry = project.get("tool", {}).get("poetry", {})
    for name, group in poetry.get("group", {}).items():
        if normalized(name) in _TEST_EXTRAS:
            yield from (each for each in group.get("dependencies", {}) if each != "python")


def _options(root: Path, project: dict[str, Any]) -> tuple[str, ...]:
    """`--import-mode` of the repository's own options; the others are about coverage, speed and looks."""
    settings: list[str] | str = project.get("tool", {}).get("pytest", {}).get("ini_options", {}).get("addopts", "")
    text = " ".join(map(str, settings)) if isinstance(settings, list) else settings
    for name in ("pytest.ini", "tox.ini", "setup.cfg"):
        with contextlib.suppress(OSError):
            text += " " + (root / name).read_text(encoding="utf-8", errors="replace")
    mode = re.search(r"--import-mode[= ](\w+)", text)
    return (f"--import-mode={mode[1]}",) if mode else ()
