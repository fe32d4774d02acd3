"""Every error Sandlot raises, and the side each one blames.

    SandlotError
      ConfigError     the user's file or command is wrong          exit 2, no traceback
      AuthorError     the environment author's code raised         Failed(environment)
      ToolError       shown to the agent as an observation         never past the session
      SandboxError    infrastructure: retry elsewhere              Failed(sandbox)
        SandboxOutOfMemory  process 1 was killed for memory        what the agent did: its end, not infrastructure
      ModelError      provider or engine: retry by status          Failed(model)
      GradeError      a check or judge broke: no reward            Failed(grader)
      HarnessError    the loop itself broke                        Failed(harness)
      NotInEvidence   a check asked for what the agent never left  that check is not met
      StoppedByHook   an operator's hook ended the rollout         Cancelled
      StoreError      what is kept cannot be written or read       the run stops: nothing may count

Author code raises plain Python errors; `boundary` gives them a side at the one place where the call is made.
`record_outcome` in `rollout.py` is the one catcher that turns them into an outcome.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar, cast

from sandlot.core.types import Side


class SandlotError(Exception):
    """The base of every error Sandlot raises; the message says what happened, the value and what to do.

    `kind` is one word for tables: `crash`, `timeout`, `rate_limit`, ... All kinds of errors stand in the reference of errors.

    ```python
    import sandlot

    try:
        sandlot.load("no-such-environment")
    except sandlot.SandlotError as error:
        assert "no environment `no-such-environment`" in str(error)
    ```
    """

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
    """Raise it in a tool when the agent's request cannot be done: the agent reads the message and may try again.

    Any other exception in a tool is a failure of the environment, and the rollout has no reward.

    ```python
    from sandlot import Environment, ToolError, World

    env = Environment("shop", state=lambda: {"stock": 1})


    @env.tool
    def buy(world: World, count: int) -> str:
        "Buy some units."
        if count > world.state["stock"]:
            raise ToolError(f"only {world.state['stock']} in stock")
        world.state["stock"] -= count
        return "bought"
    ```
    """


class SandboxError(SandlotError):
    """The sandbox could not be opened, reached or closed."""

    side = Side.SANDBOX


class SandboxOutOfMemory(SandboxError):  # noqa: N818 - names what happened
    """The sandbox reached its memory limit and the kernel killed process 1, so every process in it has ended.

    What runs inside filled the memory, so this is not a fault of the infrastructure. `Files.freeze` still works afterwards on a
    backend that keeps the files (`native` does): the snapshot holds what was written before.
    """

    def __init__(self, message: str, *, kind: str = "memory") -> None:
        super().__init__(message, kind=kind)


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
    """A check asked for something the agent did not leave; the check is not met, nothing is broken.

    The kind `cut` says that what the agent left kept the check from an answer: too many files, or code that does not end. Then a
    check with negative points counts as met.
    """


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
