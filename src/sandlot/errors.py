"""Every error Sandlot raises, and the side each one blames.

    SandlotError
      ConfigError     the user's file or command is wrong          exit 2, no traceback
      AuthorError     the environment author's code raised         Failed(environment)
      ToolError       shown to the agent as an observation         never past the session
      SandboxError    infrastructure: retry elsewhere              Failed(sandbox)
      ModelError      provider or engine: retry by status          Failed(model)
      GradeError      a check or judge broke: no reward            Failed(grader)
      HarnessError    the loop itself broke                        Failed(harness)
      NotInEvidence   a check asked for what the agent never left  that check is not met
      StoppedByHook   an operator's hook ended the rollout         Cancelled
      StoreError      what is kept cannot be written or read       the run stops: nothing may count

Author code raises plain Python errors; `boundary` gives them a side at the one place where the call is made.
`recorded` in `rollout.py` is the one catcher that turns them into an outcome.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar, cast

from sandlot.types import Side


class SandlotError(Exception):
    """What happened, the value, what to do. `kind` is one word for tables: crash, timeout, rate_limit, ..."""

    side: ClassVar[Side | None] = None
    original: BaseException | None = None
    """The plain error it was made from. `__cause__` is lost where a task group's wrapping is taken off."""

    def __init__(self, message: str, *, kind: str = "crash") -> None:
        super().__init__(message)
        self.kind = kind


class ConfigError(SandlotError):
    """The user's file or command is wrong; the message names the value and the fix."""

    side = Side.ENVIRONMENT  # found only when a rollout met it, it is the environment that is wrong


class AuthorError(SandlotError):
    """The environment author's code raised or overran its deadline."""

    side = Side.ENVIRONMENT


class ToolError(SandlotError):
    """What the agent asked for cannot be done; it reads why and may try again."""


class SandboxError(SandlotError):
    """The sandbox could not be opened, reached or closed."""

    side = Side.SANDBOX


class ModelError(SandlotError):
    """The model endpoint or engine failed to give a turn."""

    side = Side.MODEL

    def __init__(self, message: str, *, kind: str = "crash", retryable: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(message, kind=kind)
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class GradeError(SandlotError):
    """A check or a judge broke: the rollout has no reward, never a zero."""

    side = Side.GRADER


class HarnessError(SandlotError):
    """The loop between policy and session broke its contract."""

    side = Side.HARNESS


class NotInEvidence(SandlotError):  # noqa: N818 - reads as a sentence in a check's result
    """A check asked for something the agent did not leave; the check is not met, nothing is broken."""


class StoppedByHook(SandlotError):  # noqa: N818 - an operator's decision, not a fault
    """A hook ended the rollout; its outcome is `Cancelled`."""


class StoreError(SandlotError):
    """The run directory cannot be written or read. No side of a rollout: what is not kept does not count, so the run stops."""


@contextmanager
def boundary(kind: type[SandlotError], what: str) -> Generator[None]:
    """Give every plain error raised inside a side and a place. Cancellation passes through untouched."""
    try:
        yield
    except SandlotError:
        raise
    except (Exception, SystemExit) as error:  # a library may exit, which must not end a whole run
        cause = unwrapped(error)
        if isinstance(cause, SandlotError):
            raise cause from error
        word = "timeout" if isinstance(cause, TimeoutError) else "crash"
        named = kind(f"{what}: {type(cause).__name__}: {cause}", kind=word)
        named.original = cause
        raise named from cause


def unwrapped(error: BaseException) -> BaseException:
    """The real error inside exception groups, which task groups wrap around everything: the first that names a side."""
    leaves = _leaves(error)
    named = (leaf for leaf in leaves if isinstance(leaf, SandlotError))
    return next(named, leaves[0] if len(leaves) == 1 else error)


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in cast("tuple[BaseException, ...]", error.exceptions) for leaf in _leaves(inner)]
