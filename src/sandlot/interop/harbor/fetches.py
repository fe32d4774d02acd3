"""Finds what a solution fetches from the network, which a rollout does not have.

A reading of the script, not a run: commands that install or download, and models and data sets by name. What the Containerfile
names as well is there already, and installing it again needs no network.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

from sandlot.interop.harbor.source import commands_of, installed_by

_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w+)\1")
"""Where a here-document is announced, and what ends it."""
_BEFORE = re.compile(r"^(?:(?:sudo|time|then|do|else|if|!|nohup|exec|\(|\{)\s+|[A-Za-z_]\w*=\S*\s+)+")
_MANAGER = re.compile(
    r"(?:npm (?:i|install|ci)|yarn (?:add|install)|pnpm (?:add|install)|npx|gem install|cargo (?:install|add|fetch)"
    r"|go (?:get|install)|(?:\S*/)?(?:conda|mamba|micromamba) (?:install|create|env create|env update)"
    r"|cpanm?|opam install|huggingface-cli download|uv sync|poetry install|docker pull|rustup \w+)\b"
)
_ADDRESS = re.compile(r"(?:https?|ftp|git|ssh)://(?:[^@/\s]*@)?([A-Za-z0-9.-]+\.[A-Za-z]{2,})")
_MODEL = re.compile(
    r"\b((?:from_pretrained|load_dataset|snapshot_download|hf_hub_download)\(\s*[\"'](?![./~])[^\"'\n]{1,80}[\"'])"
)
_R_PACKAGE = re.compile(r"\b(install\.packages\([^)\n]{0,80}\))")
_ESSENTIAL = frozenset(("bash", "coreutils", "findutils", "grep", "gzip", "hostname", "ncurses-bin", "sed", "tar", "util-linux"))
"""Packages that every Debian has."""
_SHOWN = 3


def fetched(script: str, containerfile: str) -> list[str]:
    """What a script fetches, as it says it."""
    return list(dict.fromkeys(_fetched(script, containerfile)))


def fetch_reason(script: str, containerfile: str) -> str:
    """Why a task with this solution cannot be solved without a network; empty if it can."""
    found = fetched(script, containerfile)
    if not found:
        return ""
    shown = ", ".join(f"`{each}`" for each in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"its solution asks for the network, which a rollout does not have: {shown}{more}"


def _fetched(script: str, containerfile: str) -> Iterator[str]:
    for command in commands_of(_without_documents(script)):
        said = _BEFORE.sub("", command)
        words = said.split()
        for kind, package in installed_by(words):
            name = re.split(r"[\[=<>~!]", package.strip("\"'"))[0]
            if name not in _ESSENTIAL and not re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", containerfile, re.IGNORECASE):
                yield f"{'apt-get' if kind == 'apt' else 'pip'} install {package}"
        if _MANAGER.match(said):
            yield said[:80]
        elif words[:1] in (["curl"], ["wget"], ["aria2c"]) or words[:2] == ["git", "clone"]:
            yield from (f"{words[0]} {host}" for host in _ADDRESS.findall(said) if not _is_here(host))
    for pattern in (_MODEL, _R_PACKAGE):
        yield from pattern.findall(script)


def _without_documents(script: str) -> str:
    """The script without the text of its here-documents. Takes time in proportion to its length, whatever it says."""
    lines = script.split("\n")
    ends: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        ends.setdefault(line.strip(" \t"), []).append(number)
    kept: list[str] = []
    number = 0
    while number < len(lines):
        line, last = lines[number], number
        for _, name in _DOCUMENT.findall(line):
            later = ends.get(name, [])
            at = bisect_right(later, last)
            last = later[at] if at < len(later) else last  # without an end it is no document
        kept.append(_DOCUMENT.sub("", line) if last > number else line)
        number = last + 1
    return "\n".join(kept)


def _is_here(host: str) -> bool:
    """True for names that a task gives to its own server."""
    return host.endswith((".local", ".localhost", ".test", ".internal")) or host.startswith("127.")
