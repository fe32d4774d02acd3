"""A task: one thing to be done."""

import copy
import re
from typing import Any, cast

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.types import Json, Split, derive_seed

_HELDOUT_SHARE = 0.2
"""Of tasks that name no split, the share held out: stable, by hash of the id."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})
"""Types whose values cannot change."""


class Task(msgspec.Struct, frozen=True):
    """One thing to be done.

    `data` is for setup and tools. `key` is for checks and the golden solution only: setup, tools, the user and the agent never
    see it. The id names the task in runs, commands and splits: it must be unique in the environment and must not change.

    ```python
    from sandlot import Task

    task = Task("add-1", prompt="What is 2+2?", key={"sum": 4}, tags=("easy",))
    assert task.public().key == {}
    ```
    """

    id: str
    """Up to 128 letters, digits, `.`, `_` or `-`, starting with a letter or digit."""
    prompt: str = ""
    """What the agent is asked."""
    data: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """What setup and tools need for this task."""
    key: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """The right answer, or what is needed to recognise it."""
    split: Split | None = None
    """`train` or `heldout`. None: about a fifth of the tasks is held out, chosen by a hash of the id."""
    limits: Json = msgspec.field(default_factory=dict[str, Any])
    """Limits that differ from the environment's: `{"turns": 4}`."""
    rubric: str = "default"
    """The rubric of a folder environment that grades this task."""
    tags: tuple[str, ...] = ()
    """Words to group tasks by in summaries."""

    def __post_init__(self) -> None:
        if not _ID.match(self.id):
            raise ConfigError(
                f"task id {self.id!r}: use up to 128 letters, digits, `.`, `_`, `-`, starting with a letter or digit"
            )

    def public(self) -> "Task":
        """The task as setup, tools and user see it: without the key, with data of its own to change."""
        return msgspec.structs.replace(self, key={}, data=_copied(self.data))

    def copied(self) -> "Task":
        """The task with data and key of its own: what one rollout changes in them, no other one sees."""
        return msgspec.structs.replace(self, key=_copied(self.key), data=_copied(self.data))


def _copied(value: Any) -> Any:
    """A deep copy; plain data takes less than half of the time of `copy.deepcopy`."""
    kind = cast("type[Any]", type(value))
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key: _copied(item) for key, item in value.items()}
    if kind is list:
        return [_copied(item) for item in value]
    return copy.deepcopy(value)


def split_of(task: Task) -> Split:
    """The split a task belongs to: its own word, else a stable fifth of ids is held out."""
    if task.split is not None:
        return Split(task.split)
    return Split.HELDOUT if derive_seed("split", task.id) % 10_000 < _HELDOUT_SHARE * 10_000 else Split.TRAIN


def require_trainable(tasks: list[Task]) -> None:
    """Refuse to learn from held-out tasks, naming them."""
    heldout = [task.id for task in tasks if split_of(task) is Split.HELDOUT]
    if heldout:
        shown = ", ".join(f"`{name}`" for name in heldout[:5]) + (f" and {len(heldout) - 5} more" if len(heldout) > 5 else "")
        raise ConfigError(f"{shown} held out: what is tested on is not trained on. Use `--split train`")
