"""Limits that were declared for a task and do not hold in a run, which stores and shows them.

They are those of the format that a task was imported from, and the environment's own where a recipe gives others.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sandlot.core.limits import Limits
from sandlot.core.task import Task
from sandlot.env.declaration import Declaration
from sandlot.sandbox.quota import MIB, Quota


class OverriddenLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A declared limit in place of which another one holds."""

    name: str
    """A field of `Limits`, `memory_mib`, `cpus`, `disk_mib`, `network`, or the format's own name."""
    declared: Any
    here: Any
    """What holds in the run; None if nothing is limited."""
    tasks: int
    """Number of tasks that it concerns."""
    task: str
    """One of them."""

    def describe(self) -> str:
        """In one line: `memory_mib: 4096 declared, 2048 here (task-1 and 3 more)`."""
        more = f" and {self.tasks - 1:,} more" if self.tasks > 1 else ""
        here = "not limited" if self.here is None else self.here
        return f"{self.name}: {self.declared} declared, {here} here ({self.task}{more})"


def overridden_limits(env: Declaration, tasks: Sequence[Task]) -> tuple[OverriddenLimit, ...]:
    """The declared limits that do not hold, the same for several tasks once."""
    found: dict[tuple[str, str, str], OverriddenLimit] = {}
    for task in tasks:
        for name, declared, here in _of_task(env, task):
            key = (name, repr(declared), repr(here))
            known = found.get(key)
            found[key] = (
                OverriddenLimit(name=name, declared=declared, here=here, tasks=1, task=task.id)
                if known is None
                else msgspec.structs.replace(known, tasks=known.tasks + 1)
            )
    return tuple(found.values())


def _of_task(env: Declaration, task: Task) -> Iterator[tuple[str, Any, Any]]:
    if task.declared is msgspec.UNSET and env.declared_limits is None:
        return
    holds = env.limits.but(task.limits)
    here = msgspec.structs.asdict(holds) | _machine(env)
    for name, declared in (task.declared or {}).items():
        if declared != here.get(name):
            yield name, declared, here.get(name)
    own = env.declared_limits or env.limits
    for name in Limits.__struct_fields__:
        if name not in task.limits and getattr(own, name) != getattr(holds, name):
            yield name, getattr(own, name), getattr(holds, name)


def _machine(env: Declaration) -> dict[str, Any]:
    """What the sandbox allows."""
    quota = Quota()
    return {
        "memory_mib": quota.memory_bytes // MIB,
        "cpus": quota.cpus,
        "disk_mib": quota.disk_bytes // MIB,
        "network": env.network,
    }
