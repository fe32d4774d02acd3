"""Findings from people's labels on rollouts. They are leads, because only an executed witness confirms a finding."""

from collections import Counter

from sandlot.analysis.triage.labels import LabelledTrace, read_labels
from sandlot.audit.case import Case
from sandlot.audit.finding import Finding, make_finding
from sandlot.audit.probes.played.health import reported_findings
from sandlot.core.errors import ConfigError
from sandlot.run.results import Run

CODES = {
    "stale_observation": "D01",
    "hack_suspected": "D02",
    "env_crash": "D04",
    "env_timeout": "D04",
    "tool_error": "D04",
    "reset_leak": "D05",
    "grader_crash": "D09",
    "grader_flaky": "D10",
    "contaminated": "D11",
    "spec_ambiguous": "D15",
    "judge_unparseable": "D16",
}
"""The defect for each label that blames the environment; the others do not."""


async def look_at_labels(case: Case) -> list[Finding]:
    """No label of a person blames the environment."""
    assert case.reviewed is not None
    if Run(case.reviewed).manifest.fingerprints.environment != case.description.fingerprint:
        raise ConfigError(
            f"`{case.reviewed}` has rollouts of another environment, or of an older version; give a run of this version"
        )
    given = [(name, each) for each in read_labels(case.reviewed).counting if (name := each.counts_as) in CODES and name]
    times = Counter(name for name, _ in given)
    first: dict[str, LabelledTrace] = {}
    for name, each in given:
        first.setdefault(name, each)
    return [
        *reported_findings(Run(case.reviewed)),
        *(
            make_finding(
                f"{CODES[name]}.{name}",
                f"{each.by} labelled {each.task}/{each.rollout} `{each.label}`" + (f": {each.note}" if each.note else ""),
                task=each.task,
                count=times[name],
                fix=f"read the rollout: sandlot show {case.reviewed}/{each.task}/{each.rollout}",
            )
            for name, each in first.items()
        ),
    ]
