"""The basic types: ends, sides, splits, roles; and the two functions that make identities, `digest` and `derive_seed`."""

import hashlib
from enum import StrEnum
from typing import Any

Json = dict[str, Any]
"""A JSON object from authors or models."""


class End(StrEnum):
    """Why the agent stopped. The outcome, not the end, says whether there is a reward.

    A rollout that ends at a limit or with a refusal is graded. Only `cut` means that something failed.

    ```python
    from sandlot import End

    assert End("turn_limit") is End.TURN_LIMIT
    ```
    """

    DONE = "done"  # the agent or the environment ended it
    TURN_LIMIT = "turn_limit"  # the agent used all its turns
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - the agent used all its tokens
    TIME_LIMIT = "time_limit"  # the agent used all its time
    MEMORY_LIMIT = "memory_limit"  # the agent filled the memory of its sandbox, and the kernel killed it
    BREACH = "breach"  # the agent broke a constraint with `on_breach="end"`
    REFUSED = "refused"  # the model refused to answer
    CUT = "cut"  # ended by a failure: the outcome says which, and there is no reward

    @property
    def terminated(self) -> bool:
        """True if the task itself is over; False if a limit or a failure ended the rollout."""
        return self in {End.DONE, End.BREACH, End.REFUSED}


class Side(StrEnum):
    """Which part failed."""

    ENVIRONMENT = "environment"
    SANDBOX = "sandbox"
    MODEL = "model"
    GRADER = "grader"
    HARNESS = "harness"


INFRASTRUCTURE = frozenset({Side.SANDBOX, Side.MODEL})
"""What may work the next time. An author's error is the same every time."""


class Split(StrEnum):
    """Which tasks a model may learn from. Training refuses held-out tasks; evaluation uses them.

    ```python
    from sandlot import Split, Task

    assert Task("exam-1", split=Split.HELDOUT).split == "heldout"
    ```
    """

    TRAIN = "train"  # a model may learn from it
    HELDOUT = "heldout"  # for evaluation only


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Dtype(StrEnum):
    """Number types that our own models compute in."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def derive_seed(*parts: str | int) -> int:
    """A 63-bit seed from named parts, stable across processes, machines and Python versions.

    World seed = derive_seed("world", environment seed, task); sampling seed = derive_seed("sampling", run, task, rollout, turn).
    """
    joined = "\x1f".join([f"{type(part).__name__}:{part}" for part in parts])
    return int.from_bytes(hashlib.blake2b(joined.encode(), digest_size=8).digest(), "little") >> 1
