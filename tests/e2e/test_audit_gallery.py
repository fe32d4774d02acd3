"""The auditor on one planted defect of each class that ruins training most, by the probe that found it in the last sweep.

`make gallery` does the same for every folder with every probe, which takes minutes.
"""

import pytest

from sandlot.audit.audit import PANEL, AuditPlan, audit_subject
from sandlot.audit.finding import Confidence, Finding
from sandlot.audit.layers import AuditSelection
from sandlot.audit.subjects.environment.subject import EnvironmentSubject
from worlds.gallery import PLACE, defect

PLANTS = {
    "stale-cache-lookup": "stale-readings",
    "substring-match": "hollow-answers",
    "empty-when-late": "slow-tools",
    "default-argument-history": "after-others",
    "rounded-share": "ladder",
    "tidy-contacts": "real-data",
    "declared-value-crashes": "allowed-calls",
    "digits-only": "near-misses",
}


async def confirmed(name: str, twin: str, probe: str) -> list[Finding]:
    said = defect(name)
    place = PLACE / name / f"{twin}.py"
    layers = frozenset(each.layer for each in PANEL if each.name == probe)
    reference = PLACE / name / said["reference"] if "reference" in said else None
    given = AuditPlan(subject=str(place), reference=reference, wanted=AuditSelection(layers=layers, probes=frozenset({probe})))
    found = await audit_subject(EnvironmentSubject(str(place)), given)
    return [finding for finding in found.findings if finding.standing is Confidence.CONFIRMED]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PLANTS)
async def test_what_is_planted_is_found_and_its_twin_is_left_alone(name: str):
    found = await confirmed(name, "broken", PLANTS[name])
    assert any(finding.code.startswith(defect(name)["code"]) for finding in found)
    assert await confirmed(name, "clean", PLANTS[name]) == []
