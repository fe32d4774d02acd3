"""Jobs with a watcher: a program that saw what went on in the sandbox, and answers the environment when the agent has ended."""

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from .job import token

WATCHER = Path(__file__).with_name("watcher.py").read_text()
PORT = 7070
WATCH = "exec 3<&0; python3 - <&3 >/dev/null 2>&1 &\n"


@dataclass(frozen=True)
class Watch:
    """A watcher: its program, the word that it answers to, and what it must answer."""

    program: str
    word: str
    want: dict[str, Any]

    @property
    def parts(self) -> dict[str, Any]:
        """What a job needs besides `WATCH` at the end of its script."""
        return {"stdin": self.program, "port": PORT, "word": self.word}


def watch(rng: Random, watched: dict[str, list[str]], ended: list[str], **config: Any) -> Watch:
    """The program that watches these command lines, and wanted: that the work is done and only these have `ended`."""
    seal, word = token(rng, 32), token(rng, 32)
    whole = {"seal": seal, "word": word, "port": PORT, "watched": watched, **config}
    want = {"kind": "watched", "seal": seal, "name": "what went on", "value": {"done": True, "ended": sorted(ended)}}
    return Watch(f"{WATCHER}\nmain(json.loads({json.dumps(whole)!r}))\n", word, want)


def watch_mode(rng: Random, path: str) -> Watch:
    """The program that tells whether a file can be executed. It runs nothing that the agent could have replaced."""
    return watch(rng, {}, [], executable=path)
