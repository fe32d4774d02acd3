"""Held-out tasks in other words, to see whether a policy does the task or answers to the wording it was trained on.

A variant is a pure function from a task to the same task, put otherwise; the world, the data and the key stay. These two are safe
for any prompt: nothing in it is changed, so that names, paths and numbers are as they were.
"""

from collections.abc import Callable

import msgspec

from sandlot.core.ports.model import Sampling
from sandlot.core.task import Task

Variant = Callable[[Task], Task] | Sampling
"""Other words, or the same words with other sampling settings."""


def polite(task: Task) -> Task:
    """With a person's words around it."""
    return msgspec.structs.replace(task, prompt=f"Hello! I would like you to do this for me:\n\n{task.prompt}\n\nThank you.")


def spaced(task: Task) -> Task:
    """Set apart by blank lines."""
    return msgspec.structs.replace(task, prompt=f"\n\n{task.prompt.rstrip()}\n\n")
