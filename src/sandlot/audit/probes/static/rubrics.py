"""D21: rubrics that cannot tell answers apart.

The results of `grade/lint.py` become findings. Check functions that no rubric uses are reported too.
"""

from collections.abc import Iterator

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.static.code import Code, read_code
from sandlot.audit.subject import Description
from sandlot.core.rubric import PythonCheck
from sandlot.grade import lint

_PLACES = {
    "worthless": ("D21.worthless", Severity.LOW),
    "near-duplicate": ("D21.duplicate", Severity.LOW),
    "presence": ("D02.presence", Severity.INFO),
    "compound": ("D21.compound", Severity.INFO),
    "negation": ("D21.negation", Severity.INFO),
    "no-examples": ("D16.no_examples", Severity.INFO),
    "heavy": ("D21.heavy", Severity.INFO),
    "judge-share": ("D16.judge_share", Severity.INFO),
    "reported-view": ("D16.reported_view", Severity.INFO),
    "idle-cap": ("D21.idle_cap", Severity.INFO),
    "negative-gate": ("D21.negative_gate", Severity.LOW),
    "odd-variable": ("D21.variable", Severity.LOW),
}


async def _look(case: Case) -> list[Finding]:
    """Rubrics pass the linter, and every check function is used."""
    said = case.description
    together: dict[tuple[str, Severity], list[tuple[str, lint.LintFinding]]] = {}
    for name, rubric in said.rubrics.items():
        tasks = [task for task in said.tasks if task.rubric == name] or said.tasks
        for finding in lint.lint(rubric, tasks=tasks):
            together.setdefault(_place(finding), []).append((name, finding))
    return [*(_finding(code, severity, found) for (code, severity), found in together.items()), *_unused(said, read_code(case))]


def _place(finding: lint.LintFinding) -> tuple[str, Severity]:
    if finding.severity is lint.LintSeverity.ERROR:
        return f"D21.{finding.code.replace('-', '_')}", Severity.BLOCKER
    return _PLACES.get(finding.code, (f"D21.{finding.code.replace('-', '_')}", Severity.LOW))


def _finding(code: str, severity: Severity, found: list[tuple[str, lint.LintFinding]]) -> Finding:
    """Confirmed only if the rubric is unusable, because it is refused before the first rollout."""
    name, first = found[0]
    sure = severity is Severity.BLOCKER
    title = f"rubric `{name}`: {first.message}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")
    witness = Witness(inputs={"rubric": name, "check": first.check}, expected=first.fix, observed=first.message) if sure else None
    return make_finding(code, title, witness, severity=severity, check=first.check, where=name, count=len(found), fix=first.fix)


def _unused(said: Description, code: Code) -> Iterator[Finding]:
    """Functions of `checks.py` that no rubric names and nothing calls."""
    if "environment.toml" not in said.sources:
        return
    refs = {check.ref for rubric in said.rubrics.values() for check in rubric.checks if isinstance(check, PythonCheck)}
    idle = [
        function
        for function in code.functions
        if function.module.dotted == "checks"
        and function.owner is None
        and not function.parts
        and not function.name.startswith("_")
        and "evidence" in {parameter.arg for parameter in function.parameters}
        and f"checks:{function.name}" not in refs
    ]
    for function in idle:
        title = f"no rubric uses check `{function.name}`"
        fix = "name it in a rubric, or remove it"
        yield make_finding("D21.unused", title, severity=Severity.LOW, where=function.where, fix=fix)


PROBE = Probe(
    "rubric-lint",
    Layer.STATIC,
    ("D02", "D16", "D21"),
    _look,
    lambda case: None if case.description.rubrics else "the environment has no rubric",
)
