"""Variants of held-out tasks, rephrased, to see whether a policy solves the task or depends on the wording of the training.

A variant is a pure function from a task to the same task with another prompt; world, data and key stay the same. These two work
for any prompt: they only add to it, so names, paths and numbers stay the same.
"""

from collections.abc import Callable

import msgspec

from sandlot.core.ports.model import Sampling
from sandlot.core.task import Task

Variant = Callable[[Task], Task] | Sampling
"""A function that rephrases a task, or other sampling settings."""


def polite(task: Task) -> Task:
    """The prompt with a greeting and thanks."""
    return msgspec.structs.replace(task, prompt=f"Hello! I would like you to do this for me:\n\n{task.prompt}\n\nThank you.")


def spaced(task: Task) -> Task:
    """The prompt between blank lines."""
    return msgspec.structs.replace(task, prompt=f"\n\n{task.prompt.rstrip()}\n\n")
