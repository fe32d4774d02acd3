"""Each ready check decides a tiny environment, and the auditor's panel attacks it: spray answers, other formats, empty and huge
answers, damaged files, planted files. No serious finding may stand."""

import pytest

from drive.in_process import InProcess
from sandlot.audit.audit import AuditPlan, audit_subject
from sandlot.audit.finding import Layer
from sandlot.audit.layers import AuditSelection
from unit.checks.check_worlds import CASES, world_of

QUICK = ("math_equals",)


async def grave_findings(name: str, *layers: Layer, num_tasks: int = 8) -> list[str]:
    plan = AuditPlan(wanted=AuditSelection(frozenset(layers)))
    audit = await audit_subject(InProcess(lambda: world_of(name, num_tasks)), plan)
    assert audit.trials > 60 * num_tasks
    return [f"{finding.code} {finding.title}" for finding in audit.findings if finding.grave]


@pytest.mark.parametrize("name", QUICK)
async def test_a_check_stands_against_answers_without_work(name):
    assert await grave_findings(name, Layer.GRADER, num_tasks=3) == []


@pytest.mark.system
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(CASES))
async def test_a_check_stands_against_the_whole_panel(name):
    assert await grave_findings(name, Layer.GRADER, Layer.SCRIPTED) == []
