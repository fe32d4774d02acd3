"""Drill without a sandbox: the same tasks at a simulated shell, for machines where no sandbox can be opened.

The shell implements a dozen commands, pipes and redirections on files in memory, and starts no program. Prompts, tools and checks
are drill's own. As long as a model uses only these commands, it sees no difference.
"""

import functools
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sandlot import Environment, Evidence, Task, World, load, tasks_of

ROOT = Path(__file__).parent.parent
MOST = 4096
"""Maximum characters of a file or an output; drill's are much shorter."""


@functools.cache
def drill() -> Environment:
    return load(ROOT / "environments" / "drill")


env = Environment(
    "drill-pretended",
    description="Small file tasks at a simulated shell.",
    system=drill().system,
    seed=drill().seed,
    limits=drill().limits,
)


class Complaint(Exception):  # noqa: N818 - a message of the shell, not an error of ours
    """An error message of the shell."""


# -- the shell ---------------------------------------------------------------------------------------------------------

Files = dict[str, str]


def run(command: str, files: Files) -> str:
    """The output of a command; an error message ends with the exit code, as in the real `bash` tool."""
    try:
        text = ""
        for stage in pipeline(command):
            text = one(stage, text, files)
    except Complaint as complaint:
        return f"{complaint}\n[exit code 1]"
    return text or "(no output)"


def pipeline(command: str) -> list[list[str]]:
    """The words of each stage of a pipeline; a redirection is a separate word."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars="|<>;&()")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError as error:
        raise Complaint(f"sh: {error}") from error
    stages: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            stages.append([])
        elif set(word) <= set("<>|;&()") and word not in {"<", ">"}:
            raise Complaint(f"sh: this shell knows no `{word}`")
        else:
            stages[-1].append(word)
    return stages


def one(words: list[str], given: str, files: Files) -> str:
    """Run one command with its redirections and return its output."""
    target: str | None = None
    rest: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word not in {"<", ">"}:
            rest.append(word)
            continue
        name = next(waiting, None)
        if name is None:
            raise Complaint("sh: syntax error: unexpected end of line")
        if word == "<":
            given = content(name, files)
        else:
            target = name
    if not rest:
        raise Complaint("sh: syntax error: no command")
    if rest[0] not in COMMANDS:
        raise Complaint(f"sh: {rest[0]}: not found")
    text = COMMANDS[rest[0]](rest[1:], given, files)[:MOST]
    if target is None:
        return text
    files[target] = text
    return ""


def content(path: str, files: Files) -> str:
    if path not in files:
        raise Complaint(f"{path}: No such file or directory")
    return files[path]


def lines_of(words: list[str], given: str, files: Files) -> list[str]:
    """The lines of the named files, or else of the input."""
    return ("".join(content(path, files) for path in words) if words else given).splitlines()


def joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def edges(words: list[str], given: str, files: Files, take: Callable[[list[str], int], list[str]]) -> str:
    count = 10
    if len(words) >= 2 and words[0] == "-n" and words[1].isdigit():
        count, words = int(words[1]), words[2:]
    return joined(take(lines_of(words, given, files), count))


def head(words: list[str], given: str, files: Files) -> str:
    return edges(words, given, files, lambda lines, count: lines[:count])


def tail(words: list[str], given: str, files: Files) -> str:
    return edges(words, given, files, lambda lines, count: lines[-count:] if count else [])


def sort(words: list[str], given: str, files: Files) -> str:
    by_number = "-n" in words
    lines = lines_of([word for word in words if word != "-n"], given, files)
    return joined(sorted(lines, key=(lambda line: (number(line), line)) if by_number else None))


def number(line: str) -> float:
    found = re.match(r"\s*-?\d+(\.\d+)?", line)
    return float(found.group()) if found else 0.0


def sed(words: list[str], given: str, files: Files) -> str:
    if words[:1] == ["-n"] and len(words) > 1 and (found := re.fullmatch(r"(\d+)p", words[1])):
        place = int(found[1])
        return joined(lines_of(words[2:], given, files)[place - 1 : place])
    if words and (found := re.fullmatch(r"s/([^/]*)/([^/]*)/(g?)", words[0])):
        old, new, everywhere = found.groups()
        lines = lines_of(words[1:], given, files)
        return joined([line.replace(old, new, -1 if everywhere else 1) if old else line for line in lines])
    raise Complaint("sed: this shell knows `-n 2p` and `s/a/b/`")


def grep(words: list[str], given: str, files: Files) -> str:
    counting = words[:1] == ["-c"]
    words = words[1:] if counting else words
    if not words:
        raise Complaint("grep: no pattern")
    found = [line for line in lines_of(words[1:], given, files) if words[0] in line]
    return f"{len(found)}\n" if counting else joined(found)


def wc(words: list[str], given: str, files: Files) -> str:
    if words[:1] != ["-l"]:
        raise Complaint("wc: this shell knows `-l`")
    count = len(lines_of(words[1:], given, files))
    return f"{count} {words[1]}\n" if words[1:] else f"{count}\n"


def awk(words: list[str], given: str, files: Files) -> str:
    if not words or not re.fullmatch(r"\{\s*s\s*\+=\s*\$1\s*\}\s*END\s*\{\s*print s\s*\}", words[0]):
        raise Complaint("awk: this shell knows `{s+=$1} END {print s}`")
    return f"{sum(number(line) for line in lines_of(words[1:], given, files)):g}\n"


def cp(words: list[str], given: str, files: Files) -> str:  # noqa: ARG001 - every command is called alike
    if len(words) != 2:
        raise Complaint("cp: give a file and a place")
    files[words[1]] = content(words[0], files)
    return ""


def printf(words: list[str], given: str, files: Files) -> str:  # noqa: ARG001 - as above
    if words[:1] != [r"%s\n"]:
        raise Complaint(r"printf: this shell knows '%s\n'")
    return joined(words[1:] or [""])


COMMANDS: dict[str, Callable[[list[str], str, Files], str]] = {
    "awk": awk,
    "cat": lambda words, given, files: joined(lines_of(words, given, files)),
    "cp": cp,
    "echo": lambda words, _given, _files: " ".join(words) + "\n",
    "grep": grep,
    "head": head,
    "printf": printf,
    "sed": sed,
    "sort": sort,
    "tac": lambda words, given, files: joined(lines_of(words, given, files)[::-1]),
    "tail": tail,
    "wc": wc,
}


# -- the environment ---------------------------------------------------------------------------------------------------


@env.tasks
def tasks(_rng: Any) -> Iterator[Task]:
    yield from tasks_of(drill())


@env.setup
def put_files(world: World, task: Task) -> None:
    world.state.update(task.data["files"])


@env.tool
def bash(world: World, command: str) -> str:
    """Run a shell command in the sandbox; gives its output and, if it is not 0, its exit code.

    command: what to run, with /bin/sh
    """
    return run(command, world.state)


assert [tool.spec for tool in env.tools] == [tool.spec for tool in drill().tools]  # a model sees no difference


class FilesInMemory:
    """The part of `Evidence` that drill's checks use, for files in memory."""

    def __init__(self, evidence: Evidence) -> None:
        self._files: Files = evidence.state

    def exists(self, path: str) -> bool:
        return path in self._files

    def read(self, path: str) -> bytes:
        return self._files[path].encode()


def on_memory(judge: Callable[..., Any]) -> Callable[[Evidence, Task], Any]:
    return lambda evidence, task: judge(FilesInMemory(evidence), task)


for check in drill().marked.checks:
    env.check(points=check.points, id=check.id)(on_memory(drill().marked.functions[check.ref]))

solution = drill().marked.solution
assert solution is not None
env.solution(solution)
