"""Cases for the static layer: descriptions written by hand, and no subject that could be played."""

from pathlib import Path
from typing import Any

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Severity
from sandlot.audit.subject import Description

HEAD = """
from sandlot import Environment, Evidence, Task, World, ToolError
env = Environment("made")
"""


class Unplayable:
    """A subject for layers that must not ask for a trial."""

    async def describe(self):
        raise AssertionError("the static layer has its description")

    async def take(self, requests, conditions=None):
        raise AssertionError("the static layer plays nothing")


def case_of(
    source: str = "", *, head: str = HEAD, reference: Path | None = None, manifest: Path | None = None, **fields: Any
) -> Case:
    """A case over one file, or over `sources`."""
    fields = {
        "name": "made",
        "kind": "environment",
        "fingerprint": "f",
        "tasks": (),
        "sources": {"made.py": head + source},
    } | fields
    description = Description(**fields)
    return Case(subject=Unplayable(), description=description, tasks=description.tasks, reference=reference, manifest=manifest)


async def found(probe: Probe, case: Case) -> list[Finding]:
    """What a probe says; nothing if it does not apply."""
    return await probe.look(case) if probe.applies(case) is None else []


async def codes(probe: Probe, source: str, **fields: Any) -> list[str]:
    """The codes a probe finds in one file, as often as it does."""
    return [finding.code for finding in await found(probe, case_of(source, **fields))]


async def high(probe: Probe, source: str, **fields: Any) -> list[str]:
    """The same, of those that matter."""
    return [finding.code for finding in await found(probe, case_of(source, **fields)) if finding.severity is Severity.HIGH]
