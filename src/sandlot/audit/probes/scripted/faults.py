"""Faults: a failure below a tool, check or judge is reported or leaves no score. It never looks like an ordinary result.

The files and commands that tools use are made to fail. A tool hides the failure if it then answers a golden call exactly as
usual. A rollout whose evidence cannot be read, or whose judge fails, must have no score.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Witness, make_finding
from sandlot.audit.probes.likeness import EPSILON, Observation, observations
from sandlot.audit.probes.plays import GOLDEN, choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.drift import author_tools, in_turns
from sandlot.audit.probes.scripted.floor import needs_both, needs_golden, needs_tools
from sandlot.audit.probes.scripted.reach import only_text
from sandlot.audit.subject import Call, Conditions, Regrade, Trial
from sandlot.core.task import Task
from sandlot.core.types import Json

_TASKS, _SANDBOXED = 4, 1
_QUICK = {"tool_s": 0.5, "time_s": 20.0}
_SHORT_GRADING = {"grade_s": 2.0}
_PATIENT = {"tool_s": 6.0, "time_s": 60.0}
_NAMED, _SHORT = 6, 40
"""How many names are looked up, and the longest name in characters."""


async def _look_at_tools(case: Case) -> list[Finding]:
    """A tool that could not do its work reports an error."""
    golden = await case.golden()
    tasks = [task for task in choose_tasks(case, _TASKS, sandboxed=_SANDBOXED) if golden[task.id].passed]
    if not any(golden[task.id].evidence.files for task in tasks):
        return []
    own = {spec.name for spec in author_tools(case)}  # the sandbox's own shell is not made to fail
    found: list[Finding] = []
    for fault in ("tool:raise", "tool:hang"):
        conditions = Conditions(fault=fault, limits=_QUICK)
        trials = await case.take([request_for(case, task, GOLDEN) for task in tasks], conditions)
        hidden = [
            (task, shown)
            for task, trial in zip(tasks, trials, strict=True)
            if (shown := _hidden_failure(golden[task.id], trial)) and shown.tool in own
        ]
        if hidden:
            found.append(_silent_finding(case, fault, hidden))
    return found


def _hidden_failure(golden: Trial, trial: Trial) -> Observation | None:
    """A call that reported a write to the world's files as done, although the write failed."""
    if trial.trace is None or trial.trace.evidence is None or trial.failed is not None:
        return None
    if golden.evidence.files in (trial.evidence.files, golden.evidence.initial):
        return None  # nothing was kept from being written
    said = {(shown.tool, str(shown.arguments)): shown for shown in observations(golden) if not shown.error}
    again = [shown for shown in observations(trial) if shown.tool]
    if any(shown.error for shown in again):
        return None
    return next((shown for shown in again if (shown.tool, str(shown.arguments)) in said), None)


def _silent_finding(case: Case, fault: str, hidden: Sequence[tuple[Task, Observation]]) -> Finding:
    task, shown = hidden[0]
    happened = "fails" if fault == "tool:raise" else "hangs"
    title = f"`{shown.tool}` answers as usual when its access to the world {happened}"
    conditions = {"fault": fault, "limits": _QUICK}
    expected, observed = "an error result, or a failed rollout", f"`{shown.tool}` answered {shown.text[:200]!r}"
    witness = witness_of(case, task, GOLDEN, expected, observed, conditions=conditions)
    return make_finding("D04.tool", title, witness, count=len(hidden))


async def _look_at_evidence(case: Case) -> list[Finding]:
    """If a check cannot read its evidence or the judge gives no verdict, there is no score."""
    golden = await case.golden()
    tasks = [task for task in choose_tasks(case, _TASKS, sandboxed=_SANDBOXED) if golden[task.id].passed]
    faults = ["check:raise"] if any(golden[task.id].evidence.files for task in tasks) else []
    faults += ["judge:raise", "judge:hang"] if case.description.needs_judge and case.judge else []
    found: list[Finding] = []
    for fault in faults:
        requests = [Regrade(trace=trace, files=golden[task.id].files) for task in tasks if (trace := golden[task.id].trace)]
        trials = await case.take(requests, Conditions(fault=fault, limits=_SHORT_GRADING if fault.endswith("hang") else {}))
        made_up = [
            (task, trial)
            for task, trial in zip(tasks, trials, strict=True)
            if trial.reward is not None and abs(trial.reward - (golden[task.id].reward or 0.0)) > EPSILON
        ]
        if made_up:
            found.append(_made_up_finding(case, fault, made_up))
    return found


def _made_up_finding(case: Case, fault: str, made_up: Sequence[tuple[Task, Trial]]) -> Finding:
    task, trial = made_up[0]
    what = "evidence cannot be read" if fault.startswith("check") else "judge gives no verdict"
    inputs: Json = {"task": task.id, "conditions": {"fault": fault}}
    witness = Witness(inputs=inputs, expected="no score, because the grader failed", observed=trial.fate, seed=case.seed)
    return make_finding("D04.grade", f"a rollout gets a score although its {what}", witness, count=len(made_up))


# -- slow services -----------------------------------------------------------------------------------------------------


async def _look_at_slowness(case: Case) -> list[Finding]:
    """With a slow service, a tool gives the same result or reports a timeout."""
    tasks = choose_tasks(case, _TASKS, sandboxed=_SANDBOXED)
    plays = {task.id: in_turns("look-ups", list(_look_ups(case, task))) for task in tasks}
    requests = [request_for(case, task, plays[task.id]) for task in tasks if plays[task.id].turns]
    once, twice = await case.take(requests), await case.take(requests)
    slow = await case.take(requests, Conditions(fault="tool:slow", limits=_PATIENT))
    late: dict[str, tuple[Task, Observation, Observation]] = {}
    for request, first, second, third in zip(requests, once, twice, slow, strict=True):
        task = next(task for task in tasks if task.id == request.task)
        for usual, again, waited in zip(observations(first), observations(second), observations(third), strict=False):
            steady = usual == again and not usual.error and usual.tool == waited.tool
            if steady and not waited.error and usual.text != waited.text:
                late.setdefault(usual.tool, (task, usual, waited))
    conditions = {"fault": "tool:slow"}
    return [
        make_finding(
            "D04.late",
            f"`{tool}` times out silently, and its result then looks like an ordinary answer",
            witness_of(
                case,
                task,
                plays[task.id],
                f"{usual.text[:200]!r}, or an error",
                repr(waited.text[:200]),
                call=usual.arguments,
                conditions=conditions,
            ),
        )
        for tool, (task, usual, waited) in late.items()
    ]


def _look_ups(case: Case, task: Task) -> Iterator[Call]:
    """Calls of tools that take one text, with names from both the prompt and the task's data."""
    held = set(_names(task.data))
    words = dict.fromkeys(word.strip(".,;:?!`'\"()") for word in task.prompt.split())
    named = [word for word in (*words, *sorted(held)) if word in held][:_NAMED]
    for spec in author_tools(case):
        field = only_text(spec)
        if field is not None:
            yield from (Call(spec.name, {field: word}) for word in named)


def _names(thing: object) -> Iterator[str]:
    """Keys and short texts, at any depth."""
    if isinstance(thing, dict):
        for key, value in cast("Json", thing).items():
            yield str(key)
            yield from _names(value)
    elif isinstance(thing, list | tuple):
        for value in cast("Sequence[object]", thing)[:_NAMED]:
            yield from _names(value)
    elif isinstance(thing, str) and len(thing) < _SHORT:
        yield thing


PROBES = (
    Probe("slow-tools", Layer.SCRIPTED, ("D04",), _look_at_slowness, needs_tools),
    Probe("broken-tools", Layer.SCRIPTED, ("D04",), _look_at_tools, needs_both),
    Probe("broken-evidence", Layer.SCRIPTED, ("D04",), _look_at_evidence, needs_golden),
)
