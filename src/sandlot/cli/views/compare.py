"""What changed, for a person: between two runs, with how sure it is and which tasks moved, or when a run was graded again."""

from rich.console import Console
from rich.markup import escape

from sandlot.cli.views.summary import clean
from sandlot.run.compare import RunComparison
from sandlot.run.regrade import Report, describe_outcome

_MAX_REGRADED = 20
"""Rollouts named whose outcome changed."""


def print_comparison(comparison: RunComparison) -> None:
    """Print the comparison."""
    console = Console(highlight=False, soft_wrap=True)
    if comparison.note:
        console.print(f"[yellow]{escape(comparison.note)}[/]")
    if comparison.evaluations:
        console.print(f"[dim]{escape(comparison.evaluations)}[/]")
    score, rate = comparison.score, comparison.pass_rate
    if score.value is None or rate.value is None:
        console.print("no task was scored in both runs, so there is nothing to compare")
        return
    tasks = f"{comparison.tasks} task{'s' if comparison.tasks != 1 else ''}"
    console.print(f"the second run against the first, over {tasks} in both, paired by task and rollout")
    p_value = f"   p = {comparison.p_value:.2g}"
    console.print(f"     score  [bold]{score.value:+.3f}[/]  {score.low:+.3f} to {score.high:+.3f} at 95%{p_value}")
    console.print(f"full marks  [bold]{rate.value:+.1%}[/]  {rate.low:+.1%} to {rate.high:+.1%}")
    if comparison.dropped.value:
        console.print(f"  unscored  [yellow]{comparison.dropped.value:+.1%}[/]")
    for name, changes in (("better", comparison.improved), ("worse", comparison.regressed)):
        if changes:
            shown = ", ".join(f"{clean(change.task)} {change.first:.2f} to {change.second:.2f}" for change in changes[:2])
            console.print(f"{name:>10}  {len(changes)}  [dim]{escape(shown)}{', ...' if len(changes) > 2 else ''}[/]")
    console.print(f" unchanged  {comparison.unchanged}")
    for name, tasks in (("only in the first", comparison.only_first), ("only in the second", comparison.only_second)):
        if tasks:
            console.print(
                f"{name}: {len(tasks)}  [dim]{escape(clean(', '.join(tasks[:3])))}{', ...' if len(tasks) > 3 else ''}[/]"
            )


def print_report(report: Report) -> None:
    """What regrading found: counts, and the rollouts whose outcome changed."""
    print(f"{report.run}: {report.regraded} rollouts graded again, {report.same} the same, {len(report.changed)} changed")
    if not report.same_environment:
        print("the environment has changed since the run was made")
    for item in report.changed[:_MAX_REGRADED]:
        checks = ", ".join(item.changed_checks[:6])
        print(f"  {clean(item.task)}/{item.rollout}: {describe_outcome(item.before)} -> {describe_outcome(item.now)}  ({checks})")
    if len(report.changed) > _MAX_REGRADED:
        print(f"  and {len(report.changed) - _MAX_REGRADED} more; `--json` has all")
