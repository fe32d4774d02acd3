"""D21: rubrics that cannot tell one answer from another, by reading them.

`grade/lint.py` knows what makes a rubric unusable or easy to game; here its words become findings. Beside that: rubrics that no
task uses, tasks whose rubric is missing, check functions nobody asks.
"""

from collections.abc import Iterator

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Standing, Witness
from sandlot.audit.static.code import Code
from sandlot.audit.subject import Description
from sandlot.grade import lint
from sandlot.rubric import PythonCheck, Rubric

NAME = "rubric-lint"
_PLACES = {
    "worthless": ("D21.worthless", Severity.LOW),
    "near-duplicate": ("D21.duplicate", Severity.LOW),
    "presence": ("D02.presence", Severity.INFO),
    "compound": ("D21.compound", Severity.INFO),
    "negation": ("D21.negation", Severity.INFO),
    "no-examples": ("D16.no_examples", Severity.INFO),
    "heavy": ("D21.heavy", Severity.INFO),
    "judge-share": ("D16.judge_share", Severity.INFO),
    "idle-cap": ("D21.idle_cap", Severity.INFO),
    "negative-gate": ("D21.negative_gate", Severity.LOW),
    "odd-variable": ("D21.variable", Severity.LOW),
}


async def look(case: Case) -> list[Finding]:
    """What the linter says of each rubric, and what nothing refers to."""
    said = case.description
    found: list[Finding] = []
    for name, rubric in said.rubrics.items():
        found += _linted(said, name, rubric)
    return [*found, *_unused(said)]


def _linted(said: Description, name: str, rubric: Rubric) -> Iterator[Finding]:
    tasks = [task for task in said.tasks if task.rubric == name] or list(said.tasks)
    together: dict[tuple[str, Severity], list[lint.Finding]] = {}
    for finding in lint.lint(rubric, tasks=tasks):
        broken = (f"D21.{finding.code.replace('-', '_')}", Severity.BLOCKER)
        place = (
            broken
            if finding.severity is lint.Severity.ERROR
            else _PLACES.get(finding.code, (f"D21.{finding.code}", Severity.LOW))
        )
        together.setdefault(place, []).append(finding)
    for (code, severity), findings in together.items():
        first = findings[0]
        sure = severity is Severity.BLOCKER
        yield Finding(
            code=code,
            title=f"rubric `{name}`: {first.message}" + (f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""),
            layer=Layer.STATIC,
            probe=NAME,
            severity=severity,
            standing=Standing.CONFIRMED if sure else Standing.LEAD,
            check=first.check,
            where=name,
            witness=Witness(inputs={"rubric": name, "check": first.check}, expected=first.fix, observed=first.message)
            if sure
            else None,
            count=len(findings),
            fix=first.fix,
        )


def _unused(said: Description) -> Iterator[Finding]:
    """Check functions of `checks.py` that no rubric names, and nothing calls."""
    if "environment.toml" not in said.sources:
        return
    refs = {check.ref for rubric in said.rubrics.values() for check in rubric.checks if isinstance(check, PythonCheck)}
    idle = [
        function
        for function in Code(said).functions
        if function.module.dotted == "checks"
        and function.owner is None
        and not function.parts
        and not function.name.startswith("_")
        and "evidence" in {parameter.arg for parameter in function.parameters}
        and f"checks:{function.name}" not in refs
    ]
    for function in idle:
        yield Finding(
            code="D21.unused",
            title=f"check `{function.name}` is asked by no rubric",
            layer=Layer.STATIC,
            probe=NAME,
            severity=Severity.LOW,
            where=function.where,
            fix="name it in a rubric, or take it out",
        )


PROBE = Probe(
    NAME,
    Layer.STATIC,
    ("D02", "D16", "D21"),
    look,
    lambda case: None if case.description.rubrics else "it grades itself, without a rubric",
)
