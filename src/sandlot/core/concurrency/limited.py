"""Running several async functions at once, with a limit."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from sandlot.core.errors import GradeError

Answer = TypeVar("Answer")


async def gather_limited(questions: Sequence[Callable[[], Awaitable[Answer]]], at_once: int) -> list[Answer]:
    """All results, in order. A `GradeError` cancels the others; of several, the first function's is raised."""
    if len(questions) == 1:
        return [await questions[0]()]
    slots = anyio.CapacityLimiter(at_once)
    answers: dict[int, Answer] = {}
    errors: dict[int, GradeError] = {}

    async def one(index: int, scope: anyio.CancelScope) -> None:
        async with slots:
            try:
                answers[index] = await questions[index]()
            except GradeError as error:
                errors[index] = error
                scope.cancel()

    async with anyio.create_task_group() as group:
        for index in range(len(questions)):
            group.start_soon(one, index, group.cancel_scope)
    if errors:
        raise errors[min(errors)]
    return [answers[index] for index in range(len(questions))]
