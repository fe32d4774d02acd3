"""What `show` prints: an environment, a run, a trace. Agent output is printed without terminal escapes."""

from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sandlot.cli.options import print_json
from sandlot.cli.summary import print_summary
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.grading import rubric_for
from sandlot.env.load import load
from sandlot.env.rendering import printable, rendered_message
from sandlot.env.taskset import tasks_of
from sandlot.rubric import Score
from sandlot.run.results import Run
from sandlot.task import split_of
from sandlot.trace import Scored


def show_environment(what: str, *, json: bool) -> None:
    """Tools with schemas, tasks by split, limits, constraints, rubric, fingerprint."""
    env = load(what)
    facts = environment_facts(env)
    if json:
        print_json(facts)
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{env.name}[/]  {escape(env.description.splitlines()[0]) if env.description else ''}")
    console.print(f"{facts['source']}  fingerprint {facts['fingerprint'][:12]}")
    splits = ", ".join(f"{count} {name}" for name, count in facts["splits"].items())
    console.print(f"tasks: {len(facts['tasks'])} ({splits}); image: {env.image or 'none'}; turns: {env.limits.turns}")
    for tool in facts["tools"]:
        arguments = ", ".join(tool.parameters.get("properties", {}))
        console.print(
            f"  [bold]{tool.name}[/]({arguments})  {escape(tool.description.splitlines()[0]) if tool.description else ''}"
        )
    for constraint in env.constraints:
        console.print(f"  rule [bold]{constraint.id}[/]: {escape(constraint.describe())}, else {constraint.on_breach}")
    for name, checks in facts["rubrics"].items():
        console.print(f"rubric [bold]{name}[/]: {len(checks)} checks, {sum(max(check.points, 0) for check in checks):g} points")


def environment_facts(env: Environment) -> dict[str, Any]:
    """Everything there is to know without running it; keys are never shown."""
    tasks = tasks_of(env)
    rubrics = {name: list(rubric.checks) for name, rubric in env.parts.rubrics.items()}
    if env.parts.checks:
        rubrics["default"] = list(rubric_for(env, tasks[0]).checks)
    return {
        "name": env.name,
        "description": env.description,
        "source": str(env.source or ""),
        "fingerprint": environment_fingerprint(env, build=False),
        "system": env.system,
        "image": env.image,
        "network": env.network,
        "seed": env.seed,
        "limits": env.limits,
        "constraints": list(env.constraints),
        "tools": [tool.spec for tool in env.tools],
        "mcp_servers": [repr(source) for source in env.parts.sources],
        "splits": dict(Counter(split_of(task).value for task in tasks)),
        "tasks": [
            {"id": task.id, "split": split_of(task), "prompt": task.prompt, "tags": task.tags, "rubric": task.rubric}
            for task in tasks
        ],
        "rubrics": rubrics,
        "solution": env.parts.solution is not None,
    }


def show_run(path: Path, *, json: bool) -> None:
    """Its summary; or, as JSON, every trace on a line of its own."""
    run = Run(path)
    if json:
        for trace in run:
            print_json(trace)
        return
    print_summary(run, run.summary())


def show_trace(path: Path, task: str, rollout: int, *, json: bool) -> None:
    """The conversation, what happened beside it, and every check."""
    trace = Run(path).trace(task, rollout)
    if json:
        print_json(trace)
        return
    console = Console(highlight=False, soft_wrap=True)
    for number, node in enumerate(trace.nodes):
        mark = "[green]*[/]" if node.sampled else " "
        for line in rendered_message(node.message):
            console.print(f"{mark} {number:>3}  {escape(line)}")
    for event in trace.events:
        console.print(f"[yellow]!    turn {event.turn}: {event.kind} {escape(str(event.detail))}[/]")
    console.print(f"\nend: [bold]{trace.end}[/]")
    if isinstance(trace.outcome, Scored):
        print_score(console, trace.outcome.score)
    else:
        console.print(f"outcome: [red]{escape(printable(str(trace.outcome)))}[/]")


def print_score(console: Console, score: Score) -> None:
    """`120/183`, and a line for every check with its evidence."""
    console.print(f"score: [bold]{score}[/]" + (f"  (gate `{score.gate}` not met)" if score.gate else ""))
    table = Table("check", "verdict", "points", "evidence", box=None, pad_edge=False)
    colours = {"met": "green", "partly": "yellow", "not_met": "red", "suppressed": "dim"}
    for check in score.checks:
        verdict = f"[{colours[check.verdict]}]{check.verdict}[/]"
        table.add_row(escape(check.id), verdict, f"{check.points:g}/{check.worth:g}", escape(printable(check.evidence))[:100])
    console.print(table)
    for tag, (points, possible) in sorted(score.by_tag().items()):
        console.print(f"  {escape(tag)}: {points:g}/{possible:g}")
