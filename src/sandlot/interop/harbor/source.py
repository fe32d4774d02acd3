"""Reads task folders of Harbor (`task.toml`) and Terminal-Bench (`task.yaml`) into one record.

Formats as in harbor 0.25 and terminal-bench 0.2. Nothing of a task is run. A task that cannot be run here is a `ConfigError` with
the reason.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from sandlot.core.errors import ConfigError
from sandlot.interop.harbor.compose import read_compose
from sandlot.interop.harbor.yaml_file import MAX_TEXT, read_mapping, read_yaml, table
from sandlot.interop.untrusted import read_text

HARBOR, TERMINAL_BENCH = "task.toml", "task.yaml"
_COMMENT = re.compile(r"""(?P<quoted>"(?:[^"\\]|\\.)*"|'[^']*')|(?:^|(?<=\s))#.*""")
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s?([KMGTkmgt])i?[bB]?")
_MOST_DECLARED = 1e12
_CANARY = re.compile(r"canary", re.IGNORECASE)
_LICENCES = (
    (re.compile(r"Apache License\s+Version 2\.0"), "Apache-2.0"),
    (re.compile(r"\bMIT License\b|Permission is hereby granted, free of charge"), "MIT"),
    (re.compile(r"GNU GENERAL PUBLIC LICENSE\s+Version 3"), "GPL-3.0"),
    (re.compile(r"Redistribution and use in source and binary forms"), "BSD"),
    (re.compile(r"Attribution 4\.0 International"), "CC-BY-4.0"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFolder:
    """One task of either format."""

    folder: Path
    instruction: str
    context: Path
    """The folder with the Containerfile."""
    containerfile: str
    """Its name in that folder."""
    tests: Path
    tests_script: str
    """Relative to the folder of the tests once it is in the sandbox."""
    extra_tests: tuple[Path, ...] = ()
    """Files that go beside the tests."""
    solution: tuple[Path, ...] = ()
    """A folder, or single files; empty if the task has none."""
    solution_script: str = ""
    solution_folder: str = "/solution"
    reward: str = "file"
    """`file` for a reward file, `pytest` for pytest's summary."""
    declared: dict[str, Any] = field(default_factory=dict[str, Any])
    """Limits that its files declare, as in `Task.declared`."""
    agent_s: float = 900.0
    tests_s: float = 600.0
    tests_env: dict[str, str] = field(default_factory=dict[str, str])
    solution_env: dict[str, str] = field(default_factory=dict[str, str])
    image_env: dict[str, str] = field(default_factory=dict[str, str])
    """Variables of the container that its Containerfile does not set."""
    image_folder: str = ""
    """Where commands run, if that is not what its Containerfile says."""
    tags: tuple[str, ...] = ()
    canary: bool = False
    """True if the authors ask to keep the task out of training data."""
    notes: tuple[str, ...] = ()


def find_tasks(source: Path, manifest: str) -> list[Path]:
    """The task folders at or directly below a folder. `ConfigError` if there are none."""
    if not source.is_dir():
        raise ConfigError(f"`{source}` is not a folder; name a task folder, or a folder of them")
    if (source / manifest).is_file():
        return [source]
    found = sorted(each for each in source.iterdir() if (each / manifest).is_file())
    if not found:
        raise ConfigError(f"`{source}` has no `{manifest}`, and no folder in it has one")
    return found


def licence_of(folder: Path) -> str:
    """The licence in a `LICENSE` file of the folder or one of the three above it; `unknown` if there is none."""
    for place in (folder, *list(folder.resolve().parents)[:3]):
        for file in sorted(place.glob("LICEN[CS]E*")):
            if file.is_file() and not file.is_symlink():
                text = read_text(file, at_most=MAX_TEXT)
                return next((name for pattern, name in _LICENCES if pattern.search(text)), f"see {file.name}")
    return "unknown"


def read_harbor(folder: Path) -> TaskFolder:
    """A Harbor task: `task.toml`, `instruction.md`, `environment/`, `tests/test.sh`, `solution/solve.sh`."""
    try:
        config = tomllib.loads(read_text(folder / HARBOR, at_most=MAX_TEXT))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"`{HARBOR}`: {error}") from error
    environment, verifier = table(config, "environment"), table(config, "verifier")
    if config.get("steps"):
        raise ConfigError("a task of several steps is not supported")
    if str(environment.get("os", "linux")).lower() != "linux":
        raise ConfigError(f"it is for `{environment['os']}`; sandboxes are Linux")
    if environment.get("gpus") or environment.get("tpu"):
        raise ConfigError("it asks for an accelerator")
    if environment.get("mcp_servers"):
        raise ConfigError("it brings MCP servers, which are not supported")
    context = folder / "environment"
    if (context / "docker-compose.yaml").is_file():
        raise ConfigError("it needs several containers (`docker-compose.yaml`)")
    _require_files(folder, "environment/Dockerfile", "tests/test.sh", "instruction.md")
    instruction = read_text(folder / "instruction.md", at_most=MAX_TEXT)
    metadata = table(config, "metadata")
    solved = (folder / "solution" / "solve.sh").is_file()
    notes = _pin_notes(folder / "tests" / "test.sh")
    if not solved:
        notes.append("it has no solution")
    unset = [name for part in (verifier, environment) for name, value in table(part, "env").items() if "${" in str(value)]
    if unset:
        notes.append(f"variables that the host would set are left out: {', '.join(unset)}")
    return TaskFolder(
        folder=folder,
        instruction=_without_canary(instruction),
        context=context,
        containerfile="Dockerfile",
        tests=folder / "tests",
        tests_script="test.sh",
        solution=(folder / "solution",) if solved else (),
        solution_script="solve.sh",
        declared=_declared(table(config, "agent"), environment),
        agent_s=_seconds(table(config, "agent").get("timeout_sec"), 900.0),
        tests_s=_seconds(verifier.get("timeout_sec"), 600.0),
        tests_env=_plain(table(verifier, "env")),
        solution_env=_plain(table(table(config, "solution"), "env")),
        tags=_tags(metadata),
        canary=_has_canary(instruction, context / "Dockerfile", folder / HARBOR, folder / "tests" / "test.sh"),
        notes=tuple(notes),
    )


def read_terminal_bench(folder: Path) -> TaskFolder:
    """A Terminal-Bench task: `task.yaml`, `Dockerfile`, `run-tests.sh`, `tests/`, `solution.sh`, `docker-compose.yaml`."""
    config = read_mapping(folder / TERMINAL_BENCH)
    instruction = config.get("instruction")
    if not isinstance(instruction, str):
        raise ConfigError(f"`{TERMINAL_BENCH}` has no `instruction`")
    if config.get("parser_name", "pytest") != "pytest":
        raise ConfigError(f"its results are read by the parser `{config['parser_name']}`; only `pytest` is supported")
    if config.get("run_tests_in_same_shell"):
        raise ConfigError("its tests look into the agent's own shell, which has ended when it is graded")
    compose = read_compose(folder)
    file = (compose.context.relative_to(folder) / compose.containerfile).as_posix()
    _require_files(folder, file, "run-tests.sh")
    notes = [*compose.notes, *_pin_notes(folder / "run-tests.sh")]
    solved = [folder / name for name in ("solution.sh", "solution.yaml") if (folder / name).is_file()][:1]
    if not solved:
        notes.append("it has no solution")
    elif solved[0].name == "solution.yaml":
        notes.append("its solution is a list of commands typed into a terminal; they are played as one script")
    return TaskFolder(
        folder=folder,
        instruction=_without_canary(instruction),
        context=compose.context,
        containerfile=compose.containerfile,
        tests=folder / "tests",
        tests_script="run-tests.sh",
        extra_tests=(folder / "run-tests.sh",),
        solution=tuple(solved),
        solution_script="solution.sh",
        solution_folder="/oracle",
        reward="pytest",
        declared=_declared({"timeout_sec": config.get("max_agent_timeout_sec")}, {}),
        agent_s=_seconds(config.get("max_agent_timeout_sec"), 360.0),
        tests_s=_seconds(config.get("max_test_timeout_sec"), 60.0),
        image_env=compose.env,
        image_folder=compose.folder,
        tags=_tags(config),
        canary=_has_canary(folder / TERMINAL_BENCH, folder / file, folder / "run-tests.sh"),
        notes=tuple(notes),
    )


def script_of(path: Path) -> str:
    """The commands of a `solution.yaml` as a script. `ConfigError` if it presses keys that are no commands."""
    steps: Any = read_yaml(path)
    if not isinstance(steps, list):
        raise ConfigError(f"`{path.name}` is not a list of commands")
    lines: list[str] = []
    for step in cast("list[Any]", steps):
        command: Any = step.get("command") if isinstance(step, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not isinstance(command, str) or not step.get("append_enter", True):  # pyright: ignore[reportUnknownMemberType]
            raise ConfigError(f"`{path.name}` presses keys in an interactive program, which is not played")
        lines.append(command)
    return "\n".join(lines) + "\n"


def test_requirements(script: str) -> Iterator[tuple[str, str]]:
    """What a test script installs, as (`apt`, `tests` or `python`, name): for Debian, for the tests, for the system's Python.

    Names of Debian packages come without the version: it is that of another release.
    """
    for kind, word in _requirements(script):
        name = word.partition("=")[0] if kind == "apt" else word
        if (kind, name) != ("apt", "curl"):
            yield kind, name


def _pin_notes(script: Path) -> list[str]:
    found = _requirements(read_text(script, at_most=MAX_TEXT))
    pinned = sorted({word.partition("=")[0] for kind, word in found if kind == "apt" and "=" in word})
    said = "the tests pin versions of Debian packages, and get those of the image's release"
    return [f"{said}: {', '.join(pinned)}"] if pinned else []


def commands_of(script: str) -> Iterator[str]:
    """The simple commands of a shell script, without comments."""
    for line in re.sub(r"\\\n", " ", script).splitlines():
        plain = _COMMENT.sub(lambda match: match["quoted"] or "", line)
        yield from (command.strip() for command in re.split(r"&&|\|\||;|\|", plain))


def _requirements(script: str) -> Iterator[tuple[str, str]]:
    for command in commands_of(script):
        yield from installed_by(command.split())


def installed_by(words: list[str]) -> Iterator[tuple[str, str]]:
    """What one command installs, as `test_requirements` gives it, with versions."""
    joined = " ".join(words)
    if re.match(r"(sudo )?apt(-get)? .*\binstall\b", joined):
        yield from (("apt", word) for word in words[words.index("install") + 1 :] if _is_package(word))
    elif re.match(r"uv (pip install|add)\b", joined):
        yield from (
            ("tests", word) for word in words[words.index("install" if "install" in words else "add") + 1 :] if _is_package(word)
        )
    elif words[:1] == ["uvx"] or words[:2] == ["uv", "run"]:
        marks = [at for at, word in enumerate(words) if word in {"-w", "--with"}]
        yield from (("tests", words[at + 1]) for at in marks if at + 1 < len(words) and _is_package(words[at + 1]))
    elif re.match(r"(\S*python3? -m )?\S*pip3? install\b", joined):
        yield from (("python", word) for word in words[words.index("install") + 1 :] if _is_package(word))


def _is_package(word: str) -> bool:
    return (
        re.fullmatch(
            r"[A-Za-z0-9][A-Za-z0-9._+\[\]-]*([=<>~!]=?[A-Za-z0-9.*+!-]+(,[=<>~!]=?[A-Za-z0-9.*]+)*)?", word.strip("\"'")
        )
        is not None
    )


def _require_files(folder: Path, *names: str) -> None:
    for name in names:
        if not (folder / name).is_file():
            raise ConfigError(f"it has no `{name}`")


def _seconds(value: Any, default: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
        raise ConfigError(f"a time limit of {value!r} s; at most a day is taken")
    return float(value)


def _declared(agent: dict[str, Any], environment: dict[str, Any]) -> dict[str, Any]:
    """The limits that a `task.toml` declares, by our names where we have them."""
    given = {
        "time_s": _number(agent.get("timeout_sec")),
        "cpus": _number(environment.get("cpus")),
        "memory_mib": _number(environment.get("memory_mb")) or _mebibytes(environment.get("memory")),
        "disk_mib": _number(environment.get("storage_mb")) or _mebibytes(environment.get("storage")),
        "build_s": _number(environment.get("build_timeout_sec")),
        "network": "internet" if environment.get("allow_internet") is True else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 < value < _MOST_DECLARED else None


def _mebibytes(value: Any) -> float | None:
    """`2G` as older files write it."""
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) * {"K": 2**-10, "M": 1, "G": 2**10, "T": 2**20}[found[2].upper()] if found else None


def _plain(env: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in env.items() if "${" not in str(value)}


def _tags(metadata: dict[str, Any]) -> tuple[str, ...]:
    tags: Any = metadata.get("tags")
    words = [metadata.get("difficulty"), metadata.get("category"), *(cast("list[Any]", tags) if isinstance(tags, list) else ())]
    return tuple(dict.fromkeys(str(word) for word in words if word and word != "unknown"))


def _has_canary(*where: str | Path) -> bool:
    texts = (read_text(each, at_most=MAX_TEXT) if isinstance(each, Path) and each.is_file() else str(each) for each in where)
    return any(_CANARY.search(text) for text in texts)


def _without_canary(instruction: str) -> str:
    """The instruction without the comment lines that carry a canary: the agent is not shown them elsewhere either."""
    return "\n".join(line for line in instruction.splitlines() if not (_CANARY.search(line) and "GUID" in line)).strip()
