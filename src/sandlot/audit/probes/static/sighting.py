"""Suspicious patterns in code, and probes that search for them."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import GRAVE, Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.static.code import Code, Function, Module, read_code
from sandlot.core.groups import group_by_key


@dataclass(frozen=True, slots=True)
class Sighting:
    """One place in the code that looks like a defect. It becomes a lead, because only a trial shows what it does."""

    code: str
    title: str
    where: str
    fix: str
    severity: Severity = Severity.HIGH
    shown: str = ""
    """The code, if it proves the defect without a trial."""


def sighting_at(
    function: Function | Module, node: ast.AST, code: str, title: str, fix: str, severity: Severity = Severity.HIGH
) -> Sighting:
    """A sighting at a node; the title begins with the function's name."""
    path = function.path if isinstance(function, Module) else function.module.path
    whole_title = title if isinstance(function, Module) else f"`{function.name}` {title}"
    return Sighting(code, whole_title, f"{path}:{getattr(node, 'lineno', 1)}", fix, severity)


def code_probe(name: str, codes: tuple[str, ...], look: Callable[[Code], Iterable[Sighting]]) -> Probe:
    """A probe that searches the sources."""

    async def probe(case: Case) -> list[Finding]:
        return findings_from(look(read_code(case)))

    probe.__doc__ = look.__doc__
    return Probe(name, Layer.STATIC, codes, probe, _has_sources)


def _has_sources(case: Case) -> str | None:
    return None if any(path.endswith(".py") for path in case.description.sources) else "no Python sources were given"


def _witness(sighting: Sighting) -> Witness | None:
    if not sighting.shown:
        return None
    inputs = {"where": sighting.where, "code": sighting.shown}
    return Witness(inputs=inputs, expected=sighting.fix, observed=sighting.title)


def findings_from(sightings: Iterable[Sighting]) -> list[Finding]:
    """One finding per code and title, with the number of places; the most severe first."""
    kept = group_by_key(((sighting.code, sighting.title), sighting) for sighting in sightings)
    found = [
        make_finding(
            first.code,
            first.title,
            _witness(first),
            severity=first.severity,
            where=first.where,
            count=1 + len(others),
            fix=first.fix,
        )
        for first, *others in kept.values()
    ]
    return sorted(found, key=lambda finding: (finding.severity not in GRAVE, finding.code, finding.where or ""))
