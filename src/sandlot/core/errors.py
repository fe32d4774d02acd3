"""Every error that Sandlot raises, and the side that each one blames.

    SandlotError
      ConfigError     the user's file or command is wrong          exit code 2, no traceback
      AuthorError     the environment author's code raised         Failed(environment)
        InsideError   what is inside the sandbox broke             the same; once the agent acts, it may have caused it
      ToolError       shown to the agent as a tool result          stays inside the session
      SandboxError    infrastructure: retry elsewhere              Failed(sandbox)
        SandboxOutOfMemory  the agent filled the sandbox's memory  the rollout ends with memory_limit and is graded
      ModelError      provider or engine: retry by status          Failed(model)
      GradeError      a check or judge broke: no reward            Failed(grader)
      HarnessError    the loop itself broke                        Failed(harness)
      NotInEvidence   a check asked for a file that is not there   that check is not met
      StoppedByHook   an operator's hook ended the rollout         Cancelled
      StoreError      the run directory cannot be written or read  the run stops

Author code raises plain Python errors; `boundary` gives them a side where the code is called.
`record_outcome` in `rollout.py` is the only place that turns them into an outcome.
"""

from typing import ClassVar, cast

from sandlot.core.types import Side


class SandlotError(Exception):
    """The base of every error that Sandlot raises. The message says what happened, the value and the fix.

    `kind` is one word for tables: `crash`, `timeout`, `rate_limit`, ... The reference of errors lists all subclasses.

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
    """The Python error it was made from; `__cause__` is lost when an exception group is unwrapped."""

    def __init__(self, message: str, *, kind: str = "crash") -> None:
        super().__init__(message)
        self.kind = kind


class ConfigError(SandlotError):
    """The user's file or command is wrong; the message names the value and the fix."""

    side = Side.ENVIRONMENT  # if it is raised during a rollout, the environment is wrong


class AuthorError(SandlotError):
    """The environment author's code raised or overran its deadline."""

    side = Side.ENVIRONMENT


class InsideError(AuthorError):
    """A program or file inside the sandbox was not as the author's code needs it.

    Once the agent acts, it may have killed the program or removed the file. Then its crash is recorded, but never stops a run.
    """


class ToolError(SandlotError):
    """Raise it in a tool when the agent's request cannot be done. The agent sees the message and may try again.

    Any other exception in a tool is a defect of the environment: the agent gets an error without its text.

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

    The agent's programs filled the memory, so this is no infrastructure failure. On a backend that keeps the files, such as
    `native`, `Files.freeze` still works: the snapshot holds what was written before.
    """

    def __init__(self, message: str, *, kind: str = "memory") -> None:
        super().__init__(message, kind=kind)


class ModelError(SandlotError):
    """The model endpoint or engine failed to produce a turn."""

    side = Side.MODEL

    def __init__(
        self,
        message: str,
        *,
        kind: str = "crash",
        retryable: bool = False,
        retry_after_s: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message, kind=kind)
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.status = status
        """Of the endpoint's answer, if that was an error."""

    def with_message(self, message: str) -> "ModelError":
        """The same error with another message, and without its cause."""
        return ModelError(message, kind=self.kind, retryable=self.retryable, retry_after_s=self.retry_after_s, status=self.status)


class GradeError(SandlotError):
    """A check or a judge failed to run: the rollout has no reward, which is not a reward of 0."""

    side = Side.GRADER


class HarnessError(SandlotError):
    """The harness, the loop between policy and session, failed or was called wrongly."""

    side = Side.HARNESS


class NotInEvidence(SandlotError):  # noqa: N818 - reads as a sentence in a check's result
    """A check asked for something that is not in the evidence: the check is not met, and nothing failed.

    The kind `cut` means that the agent made it impossible to know: it left too many files, or code that does not end. Then a
    check with negative points counts as met.
    """


class StoppedByHook(SandlotError):  # noqa: N818 - an operator's decision, not a failure
    """A hook stopped the rollout; its outcome is `Cancelled`."""


class StoreError(SandlotError):
    """The run directory cannot be written or read. The run stops, since a rollout that is not stored does not count."""


class boundary:  # noqa: N801 - used as a function: `with boundary(AuthorError, "setup"):`
    """Turn a plain error raised inside into `kind`, with `what` in the message. Cancellation passes through."""

    __slots__ = ("_kind", "_what")

    def __init__(self, kind: type[SandlotError], what: str) -> None:
        self._kind = kind
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, SandlotError) or not isinstance(error, Exception | SystemExit):
            return  # SystemExit counts as an error: a library that calls `exit` must not end the run
        cause = unwrapped(error)
        if isinstance(cause, SandlotError):
            raise cause from error
        word = "timeout" if isinstance(cause, TimeoutError) else "crash"
        named = self._kind(f"{self._what}: {type(cause).__name__}: {cause}", kind=word)
        named.original = cause
        raise named from cause


def unwrapped(error: BaseException) -> BaseException:
    """The error inside an exception group of a task group: the first `SandlotError`, else the only one, else the group."""
    leaves = _leaves(error)
    named = (leaf for leaf in leaves if isinstance(leaf, SandlotError))
    return next(named, leaves[0] if len(leaves) == 1 else error)


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in cast("tuple[BaseException, ...]", error.exceptions) for leaf in _leaves(inner)]
