"""Tool results show what the task needs before they are cut, with room to spare.

A script calls every tool without required arguments, then does what golden did. Needed are the values of the key, and values
that golden used after a tool showed them. The script is played with the task's output limit and with half of it; a needed value
may then be cut away. Tools with paging, and shells, can still reach it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandlot.audit.answer_places import has_word, is_long_enough, values_as_text
from sandlot.audit.case import Case, Probe, script_of
from sandlot.audit.finding import Finding, Layer, Severity, make_finding
from sandlot.audit.probes.likeness import observations, opening
from sandlot.audit.probes.plays import choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.floor import needs_both
from sandlot.audit.probes.scripted.reach import find_works, properties_of, required_of
from sandlot.audit.subject import Call, Conditions, Script, Trial
from sandlot.core.groups import group_by_key
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import ToolResult

_TASKS, _SANDBOXED = 16, 2
_OPENED = 12
"""Most tools that are called first."""
_WIDE = 10_000_000
_FACTORS = (1.0, 0.5)


@dataclass(frozen=True, slots=True)
class _HiddenValue:
    """A needed value that the output limit hides."""

    task: Task
    play: Script
    value: str
    tool: ToolSpec
    """The tool that shows it if nothing is cut."""
    limit: int
    factor: float


async def _look_behind_cuts(case: Case) -> list[Finding]:
    """With the task's output limit, and with half of it, tool results show what golden needs."""
    found = [work for work in await find_works(case, choose_tasks(case, _TASKS, sandboxed=_SANDBOXED)) if work.shell is None]
    plays = {work.task.id: _reader_script(case, work.script) for work in found}
    wide = await _read(case, [work.task for work in found], plays, _WIDE)
    hidden: list[_HiddenValue] = []
    for factor in _FACTORS:
        by_limit: dict[int, list[Task]] = defaultdict(list)
        for task in [work.task for work in found]:
            limit = int(case.description.limits.but(task.limits).tool_output_chars * factor)
            if any(len(shown.text) > limit for shown in observations(wide[task.id])):
                by_limit[limit].append(task)
        for limit, tasks in by_limit.items():
            narrow = await _read(case, tasks, plays, limit)
            for task in tasks:
                hidden += _hidden_values(case, task, plays[task.id], wide[task.id], narrow[task.id], (limit, factor))
    by_tool = group_by_key((each.tool.name, each) for each in hidden)
    # half the limit is reported only where the whole limit hides nothing
    return [_finding(case, [each for each in found if each.factor == found[0].factor]) for found in by_tool.values()]


def _reader_script(case: Case, golden: Script) -> Script:
    calls = [Call(spec.name) for spec in case.description.tools if not required_of(spec)][:_OPENED]
    return Script(name="reader", turns=(*((call,) for call in calls), *golden.turns))


async def _read(case: Case, tasks: Sequence[Task], plays: dict[str, Script], limit: int) -> dict[str, Trial]:
    conditions = Conditions(limits={"turns": 1000, "tool_output_chars": max(1, limit)})
    trials = await case.take([request_for(case, task, plays[task.id]) for task in tasks], conditions)
    return {task.id: trial for task, trial in zip(tasks, trials, strict=True)}


def _hidden_values(
    case: Case, task: Task, play: Script, wide: Trial, narrow: Trial, at: tuple[int, float]
) -> Iterator[_HiddenValue]:
    tools = {spec.name: spec for spec in case.description.tools if not _pages(spec)}
    needed = dict.fromkeys(
        [*values_as_text(task.key), *(text for turn in script_of(narrow, "reader").turns for text in _used(turn))]
    )
    prompt = "\n".join(text for _, text in opening(wide))
    for value in needed:
        if not is_long_enough(value) or has_word(prompt, value):
            continue
        tool = _shown_by(wide, value)
        if tool in tools and _shown_by(narrow, value) is None:
            yield _HiddenValue(task, play, value, tools[tool], *at)


def _used(turn: Sequence[object]) -> Iterator[str]:
    for act in turn:
        if isinstance(act, Call):
            yield from values_as_text(act.arguments)


def _shown_by(trial: Trial, value: str) -> str | None:
    """The tool whose result shows the value before the agent uses it."""
    calls: dict[str, str] = {}
    for node in trial.trace.nodes if trial.trace else ():
        if node.sampled:
            calls |= {call.id: call.name for call in node.message.calls}
            if any(has_word(text, value) for call in node.message.calls for text in values_as_text(call.arguments)):
                return None
        for part in node.message.parts:
            if isinstance(part, ToolResult) and has_word(part.text, value):
                return calls.get(part.call)
    return None


def _pages(spec: ToolSpec) -> bool:
    """True if a tool takes a number: a page, a line, an offset."""
    return any("integer" in str(schema) or "number" in str(schema) for schema in properties_of(spec).values())


def _finding(case: Case, found: Sequence[_HiddenValue]) -> Finding:
    first = found[0]
    whole = first.factor == 1.0
    severity = Severity.HIGH if not properties_of(first.tool) else Severity.LOW
    cut = (
        "a value that the task needs is cut" if whole else "with half the output limit, a value that the task needs would be cut"
    )
    expected = f"{first.value[:80]!r} is shown, as it is when nothing is cut"
    observed = f"no result shows it when results are cut to {first.limit} characters"
    return make_finding(
        "D19.behind" if whole else "D19.margin",
        f"{cut} from the result of `{first.tool.name}`",
        witness_of(case, first.task, first.play, expected, observed, tool_output_chars=first.limit),
        count=len({each.task.id for each in found}),
        severity=severity if whole else Severity.INFO,
        fix="show less at once, add paging or search to the tool, or raise `tool_output_chars`",
    )


PROBES = (Probe("behind-the-cut", Layer.SCRIPTED, ("D19",), _look_behind_cuts, needs_both),)
