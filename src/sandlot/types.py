"""The words everything else is written in: ends, sides, splits, roles, identities.

One name per idea, the same in code, command line, documents and pages. Nothing here does anything;
`digest` and `derive_seed` are the two functions that identities are made with.
"""

import hashlib
from enum import StrEnum
from typing import Any

Json = dict[str, Any]
"""A JSON object as authors and models write it: checked where it enters, not described again here."""


class End(StrEnum):
    """Why the agent stopped. An end says nothing about the reward: that is the outcome's business."""

    DONE = "done"  # the agent said so, or the environment reached its own last step
    TURN_LIMIT = "turn_limit"  # the task's own budgets: what was left behind is graded like any other end
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - a limit, not a secret
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"  # the agent filled its sandbox's memory until every process in it was killed
    BREACH = "breach"  # a declared constraint was broken whose consequence is to end
    REFUSED = "refused"
    CUT = "cut"  # something failed: the outcome says what, and there is no reward


class Side(StrEnum):
    """Whose failure it was."""

    ENVIRONMENT = "environment"
    SANDBOX = "sandbox"
    MODEL = "model"
    GRADER = "grader"
    HARNESS = "harness"


class Split(StrEnum):
    """Which tasks may be learned from."""

    TRAIN = "train"
    HELDOUT = "heldout"


class Role(StrEnum):
    """Who speaks in a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


def digest(data: bytes) -> str:
    """The name of some bytes: SHA-256 in hex. Equal digests mean equal bytes, everywhere in a run."""
    return hashlib.sha256(data).hexdigest()


def derive_seed(*parts: str | int) -> int:
    """A 63-bit seed from named parts, stable across processes, machines and Python versions.

    World seed = derive_seed("world", environment seed, task); sampling seed = derive_seed("sampling", run, task, rollout, turn).
    """
    joined = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(joined.encode(), digest_size=8).digest(), "little") >> 1
