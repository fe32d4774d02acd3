"""Parses Containerfiles: instructions with their flags, continued lines and here-documents.

The file may be malicious; nothing is run here. What cannot be built is a `ConfigError` that names the line.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sandlot.core.errors import ConfigError

LAYER_MARK = "# -- end of layer --"
"""A comment of ours: what stands before it is built as an image of its own, shared by all files that begin alike."""
_MAX_BYTES = 1 << 20
_KNOWN = frozenset(
    (
        *(
            "FROM",
            "RUN",
            "COPY",
            "ADD",
            "ENV",
            "ARG",
            "WORKDIR",
            "USER",
            "CMD",
            "ENTRYPOINT",
            "LABEL",
            "EXPOSE",
            "SHELL",
            "VOLUME",
        ),
        *("MAINTAINER", "STOPSIGNAL", "HEALTHCHECK", "ONBUILD"),
    )
)
_FLAG = re.compile(r"--([a-z]+)(?:=(\S+))?\s+")
_HEREDOC = re.compile(r"<<-?(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_VARIABLE = re.compile(
    r"\\(?P<escaped>\$)|\$(?:\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<rule>:[-+])(?P<other>[^}]*))?\}|(?P<plain>[A-Za-z_]\w*))"
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Containerfile."""

    line: int
    name: str
    """In capitals."""
    rest: str
    """What follows the name and the flags; continued lines are joined."""
    flags: Mapping[str, str] = field(default_factory=dict[str, str])
    documents: tuple[tuple[str, str], ...] = ()
    """Here-documents: name and text."""

    def words(self) -> list[str]:
        """The arguments, from JSON or separated by spaces."""
        return parse_list(self.rest) or self.rest.split()

    def refuse(self, why: str) -> ConfigError:
        """The error for an instruction that cannot be carried out."""
        return ConfigError(f"line {self.line}: `{self.name} {self.rest[:120]}`: {why}")


def parse_containerfile(text: str, *, whole: bool = True) -> list[Instruction]:
    """The instructions in order. `ConfigError` for a file that is not one; only a `whole` one must begin with `FROM`."""
    if len(text) > _MAX_BYTES or "\0" in text:
        raise ConfigError(f"a Containerfile of {len(text):,} characters, or with a NUL; at most {_MAX_BYTES:,} are read")
    found = list(_instructions(text.split("\n")))
    if whole and not any(each.name == "FROM" for each in found):
        raise ConfigError("a Containerfile without `FROM`")
    return found


def parse_list(text: str) -> list[str]:
    """A JSON list of strings, as `CMD` and `COPY` may have; empty if it is none."""
    if not text.lstrip().startswith("["):
        return []
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else []  # pyright: ignore[reportUnknownVariableType]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """The text with `$NAME`, `${NAME}`, `${NAME:-other}` and `${NAME:+other}` replaced."""

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        found = variables.get(match["braced"] or match["plain"], "")
        if match["rule"] == ":-":
            return found or match["other"]
        return (match["other"] if found else "") if match["rule"] == ":+" else found

    return _VARIABLE.sub(value, text)


def parse_pairs(instruction: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    """`ENV A=b C="d e"`, or the old form `ENV A b`."""
    text = instruction.rest
    if "=" not in text.split(None, 1)[0]:
        name, _, value = text.partition(" ")
        return {name: expand(value.strip(), variables)}
    found: dict[str, str] = {}
    pattern = r"([A-Za-z_][\w.-]*)=((?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s\"'\\])*)\s*"
    at = 0
    for match in re.finditer(pattern, text):
        if match.start() != at:
            break
        found[match[1]] = _unquote(match[2], variables)
        at = match.end()
    if at != len(text):
        raise instruction.refuse("write `NAME=value`, quoted if it has spaces")
    return found


def _unquote(text: str, variables: Mapping[str, str]) -> str:
    pieces = re.findall(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|(?:\\.|[^\"'\\])+", text)
    return "".join(_unquote_piece(piece, variables) for piece in pieces)


def _unquote_piece(piece: str, variables: Mapping[str, str]) -> str:
    if piece.startswith("'"):
        return piece[1:-1]
    inner = piece[1:-1] if piece.startswith('"') else piece
    return re.sub(r"\\([\"\\ ])", r"\1", expand(inner, variables))


def _instructions(lines: list[str]) -> Iterator[Instruction]:
    at = 0
    while at < len(lines):
        start = at
        if not lines[at].strip() or lines[at].lstrip().startswith("#"):
            at += 1
            continue
        text, at = _joined(lines, at)
        name, _, rest = text.strip().partition(" ")
        name, rest, flags = name.upper(), rest.strip(), dict[str, str]()
        if name not in _KNOWN:
            raise ConfigError(f"line {start + 1}: `{name[:40]}` is no instruction of a Containerfile")
        while match := _FLAG.match(rest):
            flags[match[1]] = match[2] or "true"
            rest = rest[match.end() :]
        documents: list[tuple[str, str]] = []
        if name in {"RUN", "COPY", "ADD"}:
            for mark in _HEREDOC.finditer(rest):
                body, at = _document(lines, at, mark[2], start)
                documents.append((mark[2], body))
        yield Instruction(start + 1, name, rest, flags, tuple(documents))


def _joined(lines: list[str], at: int) -> tuple[str, int]:
    """A line with those that continue it; comments and empty lines between them are dropped."""
    pieces: list[str] = []
    while at < len(lines):
        line = lines[at].rstrip("\r")
        at += 1
        if pieces and (not line.strip() or line.lstrip().startswith("#")):
            continue
        if not line.rstrip().endswith("\\"):
            pieces.append(line)
            break
        pieces.append(line.rstrip()[:-1])
    return "".join(pieces), at


def _document(lines: list[str], at: int, mark: str, start: int) -> tuple[str, int]:
    for end in range(at, len(lines)):
        if lines[end].strip() == mark:
            return "\n".join(lines[at:end]) + "\n", end + 1
    raise ConfigError(f"line {start + 1}: the here-document `{mark}` has no end")
