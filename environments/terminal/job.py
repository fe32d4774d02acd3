"""A job: what lies in the sandbox, what is asked, what must be there afterwards, and how a person at a shell would do it."""

from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

from sandlot import Task

WORDS = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "gamma", "hazel", "indigo", "juniper", "kelp", "larch", "maple"),
    *("nectar", "ocean", "pepper", "quartz", "river", "saffron", "tundra", "umber", "violet", "walnut", "yarrow", "zephyr"),
)
PEOPLE = ("Ada Okafor", "Bo Lindqvist", "Chiara Neri", "Dev Patel", "Eva Novak", "Farid Haddad", "Grete Voss", "Hugo Marin")


@dataclass(frozen=True, slots=True)
class Job:
    prompt: str
    wants: list[dict[str, Any]]
    """What must be there, in the words of `wanted.py`."""
    solution: list[Any]
    """Shell commands, and calls of `terminal` as their arguments; they find the answer in the sandbox, not in the key."""
    files: dict[str, str] = field(default_factory=dict)
    archives: dict[str, bytes] = field(default_factory=dict)
    script: str = ""
    """Run after the files are there, with `stdin`; what it starts keeps running."""
    stdin: str = ""
    kept: tuple[str, ...] = ()
    """Files nobody was asked to change."""
    port: int = 0
    """A port that is open once what the script started is ready; 0 for none."""
    word: str = ""
    """What the program at the port is asked with when the agent has ended; empty if it is not asked."""
    closed: int = 0
    """A port on which nothing may listen when the agent has ended; 0 for none."""
    executable: dict[str, Any] | None = None
    """What the watcher must say of a file that has to be executable; without it nothing is right."""
    lasting: dict[str, Any] | None = None
    """What the watcher must say of programs that nobody was asked to end."""
    same: tuple[str, ...] = ()
    """Files that setup made and nobody was asked to change."""
    refs: dict[str, str] = field(default_factory=dict)
    """Branches of the repository that must stay where they are."""

    def task(self, name: str) -> Task:
        return Task(
            name,
            prompt=self.prompt,
            data={"files": self.files, "archives": self.archives, "script": self.script, "stdin": self.stdin}
            | ({"port": self.port} if self.port else {})
            | {name: value for name in ("word", "closed") if (value := getattr(self, name))},
            key={
                "wants": self.wants,
                "solution": self.solution,
                "kept": {path: sha256(self.content(path)).hexdigest() for path in self.kept},
                "refs": self.refs,
                **({"same": list(self.same)} if self.same else {}),
                **{name: value for name in ("executable", "lasting") if (value := getattr(self, name))},
            },
            tags=(name.rpartition("-")[0],),
        )

    def content(self, path: str) -> bytes:
        return self.archives[path] if path in self.archives else self.files[path].encode()


def token(rng: Random, length: int = 12) -> str:
    return "".join(rng.choices("abcdefghjkmnpqrstuvwxyz23456789", k=length))


def lines(rows: list[Any]) -> str:
    return "".join(f"{row}\n" for row in rows)
