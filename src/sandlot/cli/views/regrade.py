"""What regrading found, for a person."""

from sandlot.cli.views.summary import clean
from sandlot.run.regrade import Report, describe_outcome

_SHOWN = 20


def print_report(report: Report) -> None:
    """Counts, and the rollouts whose outcome changed."""
    print(f"{report.run}: {report.regraded} rollouts graded again, {report.same} the same, {len(report.changed)} changed")
    if not report.same_environment:
        print("the environment has changed since the run was made")
    for item in report.changed[:_SHOWN]:
        checks = ", ".join(item.changed_checks[:6])
        print(f"  {clean(item.task)}/{item.rollout}: {describe_outcome(item.before)} -> {describe_outcome(item.now)}  ({checks})")
    if len(report.changed) > _SHOWN:
        print(f"  and {len(report.changed) - _SHOWN} more; `--json` has all")
