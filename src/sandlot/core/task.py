"""Tasks and their splits."""

import copy
import functools
import re
from typing import Any, cast

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.image_formats import BadImageError, image_facts
from sandlot.core.images import Image
from sandlot.core.types import Json, Split, derive_seed

_HELDOUT_SHARE = 0.2
"""Share of tasks held out if they name no split, chosen by a hash of the id."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})
"""Immutable types."""


class Task(msgspec.Struct, frozen=True):
    """One task for the agent.

    `data` is for setup and tools. `key` is only for checks and the golden solution: setup, tools, the user and the agent never
    see it. The id names the task in runs, commands and splits: it must be unique in the environment and must not change.
    `ConfigError` if it has other characters than listed below.

    ```python
    from sandlot import Task

    task = Task("add-1", prompt="What is 2+2?", key={"sum": 4}, tags=("easy",))
    assert task.public().key == {}
    ```
    """

    id: str
    """Up to 128 letters, digits, `.`, `_` or `-`, starting with a letter or digit."""
    prompt: str = ""
    """The first message to the agent."""
    data: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """What setup and tools need."""
    key: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """The right answer, or what checks need to recognise it."""
    split: Split | None = None
    """`train` or `heldout`. None: a hash of the id decides; about a fifth of the tasks is held out."""
    limits: Json = msgspec.field(default_factory=dict[str, Any])
    """Limits that differ from the environment's: `{"turns": 4}`."""
    rubric: str = "default"
    """The rubric that grades this task, in a folder environment."""
    tags: tuple[str, ...] = ()
    """Words to group tasks by in summaries."""
    images: tuple[Image, ...] = ()
    """Images that the first message shows after the prompt."""
    image: str | None = None
    """The image of this task's sandbox, in an environment with a sandbox. None: the environment's `image`."""
    declared: Json | msgspec.UnsetType = msgspec.UNSET
    """Limits that the format it was imported from declares; a run stores and shows those that do not hold in it.

    By the names of `limits`, and `memory_mib`, `cpus`, `disk_mib`, `network`: `{"time_s": 900.0, "cpus": 4}`.
    """

    def __post_init__(self) -> None:
        if not _ID.match(self.id):
            raise ConfigError(
                f"task id {self.id!r}: use up to 128 letters, digits, `.`, `_`, `-`, starting with a letter or digit"
            )
        for image in self.images:
            _require_image(self.id, image)

    def public(self) -> "Task":
        """A copy without the key, as setup, tools and the user get it. Its data may be changed."""
        return msgspec.structs.replace(self, key={}, data=_copied(self.data))

    def copied(self) -> "Task":
        """A copy whose data and key may be changed."""
        return msgspec.structs.replace(self, key=_copied(self.key), data=_copied(self.data))


def _copied(value: Any) -> Any:
    """A deep copy, twice as fast as `copy.deepcopy` for plain data."""
    kind = cast("type[Any]", type(value))
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key: _copied(item) for key, item in value.items()}
    if kind is list:
        return [_copied(item) for item in value]
    return copy.deepcopy(value)


def _require_image(task: str, image: Any) -> None:
    if not isinstance(image, Image):
        raise ConfigError(
            f"task `{task}`: images has a {type(image).__name__}; give `Image(data)` with the bytes of a PNG or JPEG"
        )
    try:
        _known_facts(image.data)
    except BadImageError as error:
        raise ConfigError(f"task `{task}`: {error}") from error


_known_facts = functools.lru_cache(maxsize=1024)(image_facts)  # tasks are made again and again


def split_of(task: Task) -> Split:
    """The split of a task: the one it names, else by a hash of its id."""
    if task.split is not None:
        return Split(task.split)
    return Split.HELDOUT if derive_seed("split", task.id) % 10_000 < _HELDOUT_SHARE * 10_000 else Split.TRAIN


def require_trainable(tasks: list[Task]) -> None:
    """`ConfigError` if one of these tasks is held out."""
    heldout = [task.id for task in tasks if split_of(task) is Split.HELDOUT]
    if heldout:
        shown = ", ".join(f"`{name}`" for name in heldout[:5]) + (f" and {len(heldout) - 5} more" if len(heldout) > 5 else "")
        raise ConfigError(f"{shown} held out for evaluation and cannot be trained on; use `--split train`")
