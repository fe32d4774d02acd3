"""Silent cuts: tool results that are truncated without a note.

A result is silently cut if it is the beginning of a longer text in the world's state, its files or the task's data, and neither
says so nor offers a way to read the rest.
"""

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sandlot.audit.answer_places import values_as_text
from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.likeness import Observation, leaves, left_behind, observations, opening
from sandlot.audit.probes.plays import choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.floor import needs_tools
from sandlot.audit.probes.scripted.reach import properties_of
from sandlot.audit.probes.static.code import Code, Function, Part, read_code
from sandlot.audit.probes.tour import tour_script
from sandlot.audit.subject import Script, Trial
from sandlot.core.groups import group_by_key
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task

_TASKS, _SANDBOXED = 16, 2
_SEVERAL = 3
"""Different results of one length; fewer may be chance."""
_MIN_SHOWN = 100
"""Shorter results may be summaries or titles."""
_MIN_SLICE = 40
"""Shorter slices are titles and names."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """A truncated result."""

    task: Task
    play: Script
    shown: Observation
    whole: str
    needed: str
    """A value of the key that occurs only in the part cut away; empty if there is none."""


async def _look_at_cuts(case: Case) -> list[Finding]:
    """Truncated results say that they are truncated."""
    golden, idle = await case.golden(), await case.idle()
    tasks = choose_tasks(case, _TASKS, sandboxed=_SANDBOXED)
    plays = [tour_script(case, golden.get(task.id, idle[task.id])) for task in tasks]
    trials = await case.take([request_for(case, task, play) for task, play in zip(tasks, plays, strict=True)])
    played = zip(tasks, plays, trials, strict=True)
    cuts = group_by_key((cut.shown.tool, cut) for each in played for cut in _cuts(case, *each))
    return [*(_finding(case, each) for each in cuts.values()), *await _cut_made_texts(case, tasks, trials, known=cuts)]


async def _cut_made_texts(case: Case, tasks: Sequence[Task], trials: Sequence[Trial], *, known: Collection[str]) -> list[Finding]:
    """Generated results with exactly the length that a slice in the tool's code keeps; the rest is stored nowhere."""
    kept = _kept_lengths(read_code(case))
    golden = await case.golden()
    cut: dict[str, list[tuple[Task, Observation]]] = defaultdict(list)
    for task, trial in zip(tasks, trials, strict=True):
        for shown in observations(trial):
            if len(shown.text) in kept and shown.tool not in known and not shown.error and shown.whole is None:
                cut[shown.tool].append((task, shown))
    found: list[Finding] = []
    for tool, each in cut.items():
        if len({shown.text for _, shown in each}) < _SEVERAL or len({len(shown.text) for _, shown in each}) > 1:
            continue
        seen = {task.id: _is_shown(golden[task.id]) for task, _ in each if task.id in golden and golden[task.id].passed}
        hidden = [task for task, is_seen in seen.items() if not is_seen]
        found.append(_made_text_finding(case, tool, each, hidden if any(seen.values()) else []))
    return found


def _kept_lengths(code: Code) -> set[int]:
    """Every fixed length that a slice in a tool's code keeps."""
    return {
        length
        for function in code.working_in(Part.TOOL)
        for node in function.nodes()
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and _from_start(node.slice)
        if (length := _number(code, function, node.slice.upper)) is not None and length >= _MIN_SLICE
    }


def _from_start(cut: ast.Slice) -> bool:
    return cut.step is None and (cut.lower is None or (isinstance(cut.lower, ast.Constant) and cut.lower.value == 0))


def _number(code: Code, function: Function, node: ast.expr | None) -> int | None:
    if isinstance(node, ast.Name):
        node = code.value_of(function.module, node.id)
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _is_shown(golden: Trial) -> bool:
    """True if golden's final answer occurs in a result that it was shown."""
    answer = golden.trace.answer.strip() if golden.trace else ""
    return any(answer and answer in shown.text for shown in observations(golden))


def _made_text_finding(case: Case, tool: str, cut: Sequence[tuple[Task, Observation]], hidden: Sequence[str]) -> Finding:
    task, shown = next((pair for pair in cut if pair[0].id in hidden), cut[0])
    title = f"`{tool}` truncates its result after {len(shown.text)} characters without saying so"
    if hidden:
        title += f", and on {len(hidden)} of {len({task.id for task, _ in cut})} tasks no result shows the answer"
    witness = Witness(
        inputs={"task": task.id, "call": {"tool": tool, "arguments": shown.arguments}},
        expected="the whole result, or a note that it was truncated and how to read the rest",
        observed=f"{len(shown.text)} characters, ending {shown.text[-60:]!r}",
        seed=case.seed,
    )
    count = len({task.id for task, _ in cut})
    return make_finding("D19.cut", title, witness, count=count, severity=Severity.HIGH if hidden else Severity.LOW)


def _cuts(case: Case, task: Task, play: Script, trial: Trial) -> Iterator[_Cut]:
    specs = {spec.name: spec for spec in case.description.tools if not _pages(spec)}
    held = [value for value in leaves({"left": left_behind(trial), "data": task.data}).values() if isinstance(value, str)]
    long = [text for text in dict.fromkeys(held) if len(text) > _MIN_SHOWN]
    everything = "\n".join([text for _, text in opening(trial)] + [shown.text for shown in observations(trial)])
    for shown in observations(trial):
        if shown.tool not in specs or shown.error or shown.whole is not None or len(shown.text) < _MIN_SHOWN:
            continue
        whole = next((text for text in long if text.startswith(shown.text) and len(text.rstrip()) > len(shown.text) + 1), None)
        if whole is not None:
            hidden = whole[len(shown.text) :]
            needed = next((value for value in values_as_text(task.key) if value in hidden and value not in everything), "")
            yield _Cut(task, play, shown, whole, needed)


def _pages(spec: ToolSpec) -> bool:
    """True if a tool takes a number: a page, a line, an offset."""
    return any("integer" in str(schema) for schema in properties_of(spec).values())


def _finding(case: Case, cuts: Sequence[_Cut]) -> Finding:
    worst = max(cuts, key=lambda cut: bool(cut.needed))
    needed = f", and the part cut away has what the task asks for: {worst.needed[:60]!r}" if worst.needed else ""
    expected = f"all {len(worst.whole)} characters, or a note that it was truncated and how to read the rest"
    observed = f"{len(worst.shown.text)} characters, ending {worst.shown.text[-60:]!r}"
    return make_finding(
        "D19.cut",
        f"`{worst.shown.tool}` truncates its result without saying so{needed}",
        witness_of(case, worst.task, worst.play, expected, observed),
        count=len({cut.task.id for cut in cuts}),
        severity=Severity.HIGH if worst.needed else Severity.LOW,
    )


PROBES = (Probe("silent-cuts", Layer.SCRIPTED, ("D19",), _look_at_cuts, needs_tools),)
