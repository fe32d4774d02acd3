"""What `show` prints of an environment and of a trace. Agent output is printed without terminal escapes."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sandlot.cli.options import authors_on_stderr, print_json
from sandlot.cli.views.columns import print_columns
from sandlot.cli.views.summary import clean, end_text
from sandlot.core.concurrency.blocking import run_interruptible
from sandlot.core.errors import SandlotError
from sandlot.core.limits import OnBreach
from sandlot.core.ports.world import ToolSource, ToolSpec
from sandlot.core.rubric import JudgeCheck, RubricScore
from sandlot.core.text import one_line, printable
from sandlot.core.trace import CRASHES, Event, Failed, Node, Outcome, Scored
from sandlot.core.types import End
from sandlot.env.environment import Environment
from sandlot.env.facts import environment_facts
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.env.transcript import message_lines
from sandlot.run.manifest import list_served_tools
from sandlot.run.results import Run
from sandlot.tools.mcp import McpServer

_BREACH = {
    OnBreach.REFUSE: "a call that breaks it is refused",
    OnBreach.PENALTY: "breaking it costs points",
    OnBreach.END: "breaking it ends the rollout",
}
_MAX_FILES = 12
"""Files of the fingerprint shown; `--json` has them all."""
_MAX_REASON = 400
"""Characters shown of why an MCP server's tools cannot be listed."""
_NEWLINE = "\n"
_UNDER = "\n       "
"""Lines of one message stand under each other, right of its number."""


_MANY = 30
"""If there are more tasks than this, only the first `_FEW` are shown, unless all are asked for."""
_FEW = 20


def show_environment(what: str, *, json: bool, every: bool = False) -> None:
    """Tools with schemas, tasks, limits, constraints, rubric, fingerprint. An MCP server is started, to list its tools."""
    with authors_on_stderr():
        env = load(what)
        facts = environment_facts(env)
        if env.marked.sources:
            facts |= _served_facts(env)
    if json:
        print_json(facts)
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{env.name}[/]  {escape(env.description.splitlines()[0]) if env.description else ''}".rstrip())
    for name, value in _environment_lines(env, facts):
        console.print(f"[dim]{name:>9}[/]  {value}")
    _print_tasks(console, what, facts["tasks"], every=every)


def _served_facts(env: Environment) -> dict[str, Any]:
    """The tools of its MCP servers, or why they cannot be listed."""
    own = {tool.spec.name for tool in env.tools}
    try:
        served = run_interruptible(list_served_tools, env, tasks_of(env)[0])
    except SandlotError as error:
        return {"mcp_tools": [], "mcp_error": str(error)}
    return {"mcp_tools": [spec for spec in served if spec.name not in own]}


def _reason(error: str) -> str:
    """An error on one line. Of a long one the middle is left out: a server's traceback ends with the cause."""
    text = one_line(error, len(error))
    return text if len(text) <= _MAX_REASON else f"{text[:80]} ... {text[-(_MAX_REASON - 85) :]}"


def _print_tasks(console: Console, what: str, tasks: list[dict[str, Any]], *, every: bool) -> None:
    shown = tasks if every or len(tasks) <= _MANY else tasks[:_FEW]
    rows = [(task["id"], task["split"].value, escape(one_line(task["prompt"], 80))) for task in shown]
    console.print()
    print_columns(console, ("task", "split", "prompt"), rows)
    if len(shown) < len(tasks):
        console.print(f"[dim]... and {len(tasks) - len(shown):,} more: sandlot show {escape(shlex.quote(what))} --all[/]")


def _tool_line(tool: ToolSpec) -> str:
    arguments = ", ".join(tool.parameters.get("properties", {}))
    if not tool.description:
        return f"[bold]{escape(tool.name)}[/]({escape(arguments)})  [yellow]no description: add a docstring[/]"
    return f"[bold]{escape(tool.name)}[/]({escape(arguments)})  {escape(one_line(tool.description.splitlines()[0], 200))}"


def _environment_lines(env: Environment, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "source", f"{escape(facts['source'])}  [dim]fingerprint {facts['fingerprint'][:12]}[/]"
    yield (
        "files",
        f"{len(facts['files'])} in the fingerprint: {escape(', '.join(facts['files'][:_MAX_FILES]))}"
        + (", ..." if len(facts["files"]) > _MAX_FILES else ""),
    )
    splits = ", ".join(f"{count} {name}" for name, count in facts["splits"].items())
    yield "tasks", f"{len(facts['tasks'])} ({splits})"
    yield "limits", f"{env.limits.turns} turns, {env.limits.time_s:g} s"
    if env.seats:
        yield "seats", f"{', '.join(seat.name for seat in env.seats)}; they act {env.order}"
    if env.image is not None:
        yield "sandbox", f"image {escape(env.image)}, network {escape(env.network)}"
    for tool in facts["tools"]:
        yield "tool", _tool_line(tool)
    for source in env.marked.sources:
        yield "mcp", _source(source)
    for tool in facts.get("mcp_tools", ()):
        yield "mcp tool", _tool_line(tool)
    if "mcp_error" in facts:
        yield "mcp", f"[red]its tools cannot be listed[/]: {escape(_reason(facts['mcp_error']))}"
    if facts["user"]:
        yield "user", escape(facts["user"])
    for constraint in env.constraints:
        yield "rule", f"[bold]{escape(constraint.id)}[/]  {escape(constraint.describe())}; {_BREACH[constraint.on_breach]}"
    for name, checks in facts["rubrics"].items():
        judged = sum(isinstance(check, JudgeCheck) for check in checks)
        points = facts["points"][name]
        by_judge = f", {judged} by a judge" if judged else ""
        count = f"{len(checks)} check{'s' if len(checks) != 1 else ''}{by_judge}"
        yield "rubric", f"[bold]{escape(name)}[/]  {count}, {points:g} point{'s' if points != 1 else ''}"
    if not facts["solution"]:
        yield "solution", "[yellow]none: `--model scripted:golden` cannot run, and an audit is INCOMPLETE[/]"


def _source(source: ToolSource) -> str:
    if not isinstance(source, McpServer):
        return escape(repr(source))
    where = shlex.join(source.command) if source.command else source.url or ""
    return f"[bold]{escape(source.name)}[/]  {escape(where)}{', inside the sandbox' if source.inside else ''}"


def show_trace(path: Path, task: str, rollout: int, *, json: bool, most: int | None = None) -> None:
    """The conversation, events, and every check; `most` is the maximum number of characters per message."""
    trace = Run(path).trace(task, rollout)
    if json:
        print_json(trace)
        return
    console = Console(highlight=False, soft_wrap=True)
    for seat, record in trace.seats.items():
        score = f", score [bold]{record.score}[/]" if record.score is not None else ""
        console.print(f"[bold]{escape(seat)}[/]: end {end_text(record.end or End.CUT)}{score}")
        _print_nodes(console, [(number, trace.nodes[number]) for number in record.nodes], most)
        console.print()
    if not trace.seats:
        _print_nodes(console, list(enumerate(trace.nodes)), most)
    for event in trace.events:
        if event.kind == "user_told":
            console.print(f"[cyan]~[/]    the user was played by {escape(clean(event.detail['model']))}")
            continue
        if event.kind in CRASHES:
            print_crash(console, event, most)
            continue
        console.print(f"[yellow]!    turn {event.turn}: {event.kind} {escape(str(event.detail))}[/]")
    console.print(f"\nend: [bold]{end_text(trace.end or '')}[/]")
    print_outcome(console, trace.outcome, most)


def print_crash(console: Console, event: Event, most: int | None = None) -> None:
    """What crashed in the environment while the rollout went on."""
    message = event.detail.get("message") or event.detail["signature"]
    console.print(f"[red]!    turn {event.turn}: {event.kind}[/] {escape(clean(str(message)[:most]))}")
    for frame in event.detail.get("frames", ()):
        console.print(f"  [dim]at[/] {escape(printable(str(frame), most))}")


def _print_nodes(console: Console, nodes: list[tuple[int, Node]], most: int | None) -> None:
    for number, node in nodes:
        mark = "[green]*[/]" if node.is_turn else "[cyan]~[/]" if node.sampled else " "
        for line in message_lines(node.message):
            cut = f" ... and {len(line) - most:,} more characters" if most is not None and len(line) > most else ""
            console.print(f"{mark} {number:>3}  {escape(line[:most].rstrip().replace(_NEWLINE, _UNDER))}{cut}")


def print_outcome(console: Console, outcome: Outcome | None, most: int | None = None) -> None:
    """The score with its checks, or why there is none."""
    if isinstance(outcome, Scored):
        _print_score(console, outcome.score)
    elif isinstance(outcome, Failed):
        console.print(f"failed: [red]{outcome.side}/{escape(outcome.kind)}[/]  {escape(clean(outcome.message[:most]))}")
        for frame in outcome.frames:
            console.print(f"  [dim]at[/] {escape(printable(frame, most))}")
    elif outcome is not None:
        console.print(f"cancelled: {escape(clean(outcome.reason[:most]))}")


def _print_score(console: Console, score: RubricScore) -> None:
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
