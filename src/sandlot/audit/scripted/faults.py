"""Faults: what breaks below a tool, a check or a judge is told, or leaves no score. It never becomes an ordinary answer.

What tools do with files and commands of the world is made to fail. A tool that answers a golden call exactly as it does when
nothing is broken, though the call works on the world's files, has a default for the trouble; and a rollout whose evidence or
judge cannot be read has no score.
"""

from collections.abc import Sequence

from sandlot.audit.case import Case, Probe
from sandlot.audit.choice import chosen
from sandlot.audit.finding import Finding, Layer, Severity, Standing, Witness
from sandlot.audit.likeness import Shown, observations
from sandlot.audit.scripted.earning import EPSILON, inputs_of, take_of
from sandlot.audit.scripted.floor import needs_both, needs_golden
from sandlot.audit.subject import Conditions, Named, Regrade, Trial
from sandlot.task import Task

GOLDEN = Named(name="golden")
TASKS, SANDBOXED = 4, 1
QUICK = {"tool_s": 0.5, "time_s": 20.0}


async def look_at_tools(case: Case) -> list[Finding]:
    """A tool that could not do its work says so."""
    golden = await case.golden()
    tasks = [task for task in chosen(case, TASKS, sandboxed=SANDBOXED) if golden[task.id].passed]
    if not tasks or not any(_files(golden[task.id]) for task in tasks):
        return []
    found: list[Finding] = []
    for fault in ("tool:raise", "tool:hang"):
        conditions = Conditions(fault=fault, limits=QUICK)
        trials = await case.take([take_of(case, task, GOLDEN) for task in tasks], conditions)
        hidden = [(task, shown) for task, trial in zip(tasks, trials, strict=True) if (shown := _hidden(golden[task.id], trial))]
        if hidden:
            found.append(_silent(case, fault, hidden))
    return found


def _files(trial: Trial) -> bool:
    return bool(trial.trace and trial.trace.evidence and trial.trace.evidence.files)


def _hidden(golden: Trial, trial: Trial) -> Shown | None:
    """A write to the world's files that was answered as if it had happened, though it cannot have."""
    if trial.trace is None or trial.trace.evidence is None or trial.failed is not None or golden.trace is None:
        return None
    record = golden.trace.evidence
    if record is None or record.files in (trial.trace.evidence.files, record.initial):
        return None  # nothing was kept from being written
    said = {(shown.tool, str(shown.arguments)): shown for shown in observations(golden) if not shown.error}
    again = [shown for shown in observations(trial) if shown.tool]
    if any(shown.error for shown in again):
        return None
    return next((shown for shown in again if (shown.tool, str(shown.arguments)) in said), None)


def _silent(case: Case, fault: str, hidden: Sequence[tuple[Task, Shown]]) -> Finding:
    task, shown = hidden[0]
    happened = "raises" if fault == "tool:raise" else "never comes back"
    return Finding(
        code="D04.tool",
        title=f"`{shown.tool}` answers as usual when what it does to the world {happened}",
        layer=Layer.SCRIPTED,
        probe="broken-tools",
        severity=Severity.HIGH,
        standing=Standing.CONFIRMED,
        count=len(hidden),
        witness=Witness(
            inputs={**inputs_of(task, GOLDEN), "conditions": {"fault": fault, "limits": QUICK}},
            expected="an error result, or a failed rollout",
            observed=f"`{shown.tool}` said {shown.text[:200]!r}",
            seed=case.seed,
        ),
    )


async def look_at_evidence(case: Case) -> list[Finding]:
    """A check that cannot read its evidence, or a judge that gives no verdict, leaves no score."""
    golden = await case.golden()
    tasks = [task for task in chosen(case, TASKS, sandboxed=SANDBOXED) if golden[task.id].passed]
    faults = ["check:raise"] if any(_files(golden[task.id]) for task in tasks) else []
    faults += ["judge:raise"] if case.description.needs_judge and case.judge else []
    found: list[Finding] = []
    for fault in faults:
        requests = [Regrade(trace=trace, files=golden[task.id].files) for task in tasks if (trace := golden[task.id].trace)]
        trials = await case.take(requests, Conditions(fault=fault))
        made_up = [
            (task, trial)
            for task, trial in zip(tasks, trials, strict=True)
            if trial.reward is not None and abs(trial.reward - (golden[task.id].reward or 0.0)) > EPSILON
        ]
        if made_up:
            found.append(_made_up(case, fault, made_up))
    return found


def _made_up(case: Case, fault: str, made_up: Sequence[tuple[Task, Trial]]) -> Finding:
    task, trial = made_up[0]
    what = "evidence cannot be read" if fault.startswith("check") else "judge gives no verdict"
    return Finding(
        code="D04.grade",
        title=f"a rollout is scored although its {what}",
        layer=Layer.SCRIPTED,
        probe="broken-evidence",
        severity=Severity.HIGH,
        standing=Standing.CONFIRMED,
        count=len(made_up),
        witness=Witness(
            inputs={"task": task.id, "conditions": {"fault": fault}},
            expected="no score: the grader failed",
            observed=trial.fate,
            seed=case.seed,
        ),
    )


PROBES = (
    Probe("broken-tools", Layer.SCRIPTED, ("D04",), look_at_tools, needs_both),
    Probe("broken-evidence", Layer.SCRIPTED, ("D04",), look_at_evidence, needs_golden),
)
