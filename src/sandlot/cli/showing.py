"""What `show` prints: an environment, a run, a trace. Agent output is printed without terminal escapes."""

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sandlot.cli.options import authors_on_stderr, print_json
from sandlot.cli.summary import plain, print_summary
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint, files_of
from sandlot.env.load import load
from sandlot.env.rendering import printable, rendered_message
from sandlot.env.taskset import tasks_of
from sandlot.grade.rules import possible_points
from sandlot.limits import OnBreach
from sandlot.ports import ToolSource
from sandlot.rubric import JudgeCheck, Rubric, Score
from sandlot.run.results import Run
from sandlot.task import split_of
from sandlot.tools.mcp import McpServer
from sandlot.trace import Failed, Outcome, Scored

BREACH = {
    OnBreach.REFUSE: "a call that breaks it is refused",
    OnBreach.PENALTY: "breaking it costs points",
    OnBreach.END: "breaking it ends the rollout",
}
MAX_FILES = 12
"""Files of the fingerprint shown; `--json` has them all."""
NEWLINE = "\n"
UNDER = "\n       "
"""Lines of one message stand under each other, right of its number."""


def show_environment(what: str, *, json: bool) -> None:
    """Tools with schemas, tasks by split, limits, constraints, rubric, fingerprint."""
    with authors_on_stderr():
        env = load(what)
        facts = environment_facts(env)
    if json:
        print_json(facts)
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{env.name}[/]  {escape(env.description.splitlines()[0]) if env.description else ''}".rstrip())
    for name, value in _environment_lines(env, facts):
        console.print(f"[dim]{name:>9}[/]  {value}")


def _environment_lines(env: Environment, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "source", f"{escape(facts['source'])}  [dim]fingerprint {facts['fingerprint'][:12]}[/]"
    yield (
        "files",
        f"{len(facts['files'])} in the fingerprint: {escape(', '.join(facts['files'][:MAX_FILES]))}"
        + (", ..." if len(facts["files"]) > MAX_FILES else ""),
    )
    ids = [task["id"] for task in facts["tasks"]]
    splits = ", ".join(f"{count} {name}" for name, count in facts["splits"].items())
    yield "tasks", f"{len(ids)} ({splits}): {', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''}"
    yield "limits", f"{env.limits.turns} turns, {env.limits.time_s:g} s"
    if env.image is not None:
        yield "sandbox", f"image {escape(env.image)}, network {escape(env.network)}"
    for tool in facts["tools"]:
        arguments = ", ".join(tool.parameters.get("properties", {}))
        said = (
            escape(tool.description.splitlines()[0]) if tool.description else "[yellow]no docstring: nothing tells the agent[/]"
        )
        yield "tool", f"[bold]{tool.name}[/]({arguments})  {said}"
    for source in env.parts.sources:
        yield "mcp", _source(source)
    if facts["user"]:
        yield "user", escape(facts["user"])
    for constraint in env.constraints:
        yield "rule", f"[bold]{escape(constraint.id)}[/]  {escape(constraint.describe())}; {BREACH[constraint.on_breach]}"
    for name, checks in facts["rubrics"].items():
        judged = sum(isinstance(check, JudgeCheck) for check in checks)
        points = facts["points"][name]
        by_judge = f", {judged} by a judge" if judged else ""
        count = f"{len(checks)} check{'s' if len(checks) != 1 else ''}{by_judge}"
        yield "rubric", f"[bold]{escape(name)}[/]  {count}, {points:g} point{'s' if points != 1 else ''}"
    if not facts["solution"]:
        yield "solution", "[yellow]none: `scripted:golden` cannot play it[/]"


def _source(source: ToolSource) -> str:
    if not isinstance(source, McpServer):
        return escape(repr(source))
    where = shlex.join(source.command) if source.command else source.url or ""
    return f"[bold]{escape(source.name)}[/]  {escape(where)}{', inside the sandbox' if source.inside else ''}"


def environment_facts(env: Environment) -> dict[str, Any]:
    """Everything there is to know without running it; keys are never shown."""
    tasks = tasks_of(env)
    rubrics = dict(env.parts.rubrics)
    if env.parts.checks:
        rubrics["default"] = Rubric(checks=tuple(env.parts.checks))
    return {
        "name": env.name,
        "description": env.description,
        "source": str(env.source or ""),
        "fingerprint": environment_fingerprint(env, build=False),
        "files": [name for name, _ in files_of(env)],
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
        "rubrics": {name: list(rubric.checks) for name, rubric in rubrics.items()},
        "points": {name: possible_points(rubric) for name, rubric in rubrics.items()},
        "solution": env.parts.solution is not None,
        "user": _user(env),
    }


def _user(env: Environment) -> str | None:
    """Who answers the agent's plain messages; an environment of one function asks for itself."""
    if env.parts.persona is not None:
        stand_in = "without it the author's own replies" if env.parts.user is not None else "needs it: nobody else answers"
        return f"played by a model, `--user MODEL`; {stand_in}"
    return "the author's own replies" if env.parts.user is not None and env.parts.grade is None else None


def show_run(path: Path, *, json: bool) -> None:
    """Its summary, or what a training run has come to; as JSON, every trace on a line of its own."""
    run = Run(path)
    if json:
        for trace in run:
            print_json(trace)
    elif (path / "recipe.json").is_file():
        from sandlot.cli.training import show_training  # noqa: PLC0415 - other runs do not need torch

        show_training(path)
    else:
        print_summary(run, run.summary())


def show_trace(path: Path, task: str, rollout: int, *, json: bool, most: int | None = None) -> None:
    """The conversation, what happened beside it, and every check; of each message at most so many characters."""
    trace = Run(path).trace(task, rollout)
    if json:
        print_json(trace)
        return
    console = Console(highlight=False, soft_wrap=True)
    for number, node in enumerate(trace.nodes):
        mark = "[green]*[/]" if node.is_turn else "[cyan]~[/]" if node.sampled else " "
        for line in rendered_message(node.message):
            cut = f" ... and {len(line) - most:,} more characters" if most is not None and len(line) > most else ""
            console.print(f"{mark} {number:>3}  {escape(line[:most].rstrip().replace(NEWLINE, UNDER))}{cut}")
    for event in trace.events:
        if event.kind == "user_told":
            console.print(f"[cyan]~[/]    the user was played by {escape(plain(event.detail['model']))}")
            continue
        console.print(f"[yellow]!    turn {event.turn}: {event.kind} {escape(str(event.detail))}[/]")
    console.print(f"\nend: [bold]{trace.end}[/]")
    print_outcome(console, trace.outcome, most)


def print_outcome(console: Console, outcome: Outcome | None, most: int | None = None) -> None:
    """The score with its checks, or why there is none."""
    if isinstance(outcome, Scored):
        print_score(console, outcome.score)
    elif isinstance(outcome, Failed):
        console.print(f"failed: [red]{outcome.side}/{escape(outcome.kind)}[/]  {escape(plain(outcome.message[:most]))}")
        for frame in outcome.frames:
            console.print(f"  [dim]at[/] {escape(printable(frame, most))}")
    elif outcome is not None:
        console.print(f"cancelled: {escape(plain(outcome.reason[:most]))}")


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
