"""Tools behave as their schemas say: allowed calls work, forbidden calls are refused, golden uses declared arguments only.

Many calls share one rollout, so a sound environment costs few trials. If a rollout breaks, its calls are played one by one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, make_finding
from sandlot.audit.probes.likeness import Observation, observations
from sandlot.audit.probes.plays import GOLDEN, choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.calls import allowed_calls, forbidden_calls
from sandlot.audit.probes.scripted.floor import needs_both, needs_tools
from sandlot.audit.probes.scripted.reach import find_works, properties_of, required_of
from sandlot.audit.subject import Call, Conditions, Script, Trial
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.types import Side

_TASKS, _SANDBOXED = 2, 1
_A_TURN = 40
_TIME_S = 300.0
_DRIFTED = re.compile(r"unexpected keyword argument|missing \d+ required (positional|keyword)|got multiple values for argument")
_CRASHED = re.compile(
    r"Traceback \(most recent call last\)|\b(KeyError|TypeError|AttributeError|IndexError|NameError|UnboundLocalError)\b"
)


@dataclass(frozen=True, slots=True)
class _PlayedCall:
    """One call played alone, with its trial."""

    task: Task
    call: Call
    trial: Trial
    what: str = ""

    @property
    def shown(self) -> Observation | None:
        """The result of the call, if there is one."""
        return next(iter(observations(self.trial)), None)


def _one_call(call: Call) -> Script:
    return Script(name="one-call", turns=((call,),))


def in_turns(name: str, calls: Sequence[Call]) -> Script:
    """A script with up to 40 calls per turn."""
    return Script(name=name, turns=tuple(tuple(calls[at : at + _A_TURN]) for at in range(0, len(calls), _A_TURN)))


def room_for(scripts: Iterable[Script]) -> Conditions:
    """Limits within which each of these scripts can end. A user may go on asking for ever: nothing is said after the script."""
    return Conditions(limits={"turns": 1 + max((len(script.turns) for script in scripts), default=0), "time_s": _TIME_S})


def author_tools(case: Case) -> list[ToolSpec]:
    """The author's tools: all but the sandbox's own shell and terminal."""
    return [spec for spec in case.description.tools if spec.name not in case.shells]


async def _golden_calls(case: Case, tasks: Sequence[Task]) -> dict[str, list[Call]]:
    found = {work.task.id: work.calls for work in await find_works(case, tasks)}
    return {task.id: found.get(task.id, []) for task in tasks}


async def _take_all(case: Case, plays: Sequence[tuple[Task, Script]]) -> list[Trial]:
    return await case.take([request_for(case, *play) for play in plays], room_for(script for _, script in plays))


# -- what is allowed works ---------------------------------------------------------------------------------------------


async def _look_at_allowed(case: Case) -> list[Finding]:
    """No call that fits its schema crashes the tool, ends the rollout or returns an uncaught error."""
    tasks = choose_tasks(case, _TASKS, sandboxed=_SANDBOXED)
    golden = await _golden_calls(case, tasks)
    plans = [(task, spec, allowed_calls(spec, golden[task.id], case.seed)) for task in tasks for spec in author_tools(case)]
    trials = await _take_all(case, [(task, in_turns("allowed-calls", calls)) for task, _, calls in plans])
    broken = [plan for plan, trial in zip(plans, trials, strict=True) if _crashed(trial)]
    apart = [(task, call) for task, _, calls in broken for call in calls]
    single = await _take_all(case, [(task, _one_call(call)) for task, call in apart])
    crashed = [_PlayedCall(task, call, trial) for (task, call), trial in zip(apart, single, strict=True) if _crashed(trial)]
    found = [_crash_finding(case, [each for each in crashed if each.call.tool == spec.name]) for spec in author_tools(case)]
    return [finding for finding in found if finding] + _raw_error_findings(case, plans, trials)


def _crashed(trial: Trial) -> bool:
    """True if a tool call crashed its tool, or ended the rollout or its process."""
    ended = (trial.lost is not None and not trial.untried) or (trial.failed is not None and trial.failed.side is not Side.GRADER)
    return ended or bool(trial.crashes)


def _crash_finding(case: Case, crashed: Sequence[_PlayedCall]) -> Finding | None:
    if not crashed:
        return None
    first = min(crashed, key=lambda each: len(str(each.call.arguments)))
    title = f"a call of `{first.call.tool}` that fits its schema crashes the tool"
    expected = "a result, or an error the agent can read"
    witness = witness_of(case, first.task, _one_call(first.call), expected, first.trial.fate)
    return make_finding("D08.crash", title, witness, count=len(crashed))


def _raw_error_findings(case: Case, plans: Sequence[tuple[Task, ToolSpec, list[Call]]], trials: Sequence[Trial]) -> list[Finding]:
    """Results that show an uncaught Python error of the tool's code."""
    found: dict[tuple[str, bool], tuple[Task, Observation]] = {}
    for (task, _, _), trial in zip(plans, trials, strict=True):
        for shown in observations(trial):
            drifted = _DRIFTED.search(shown.text) is not None
            if drifted or (shown.error and _CRASHED.search(shown.text)):
                found.setdefault((shown.tool, drifted), (task, shown))
    expected = "a result, or an error message written for the agent"
    return [
        make_finding(
            "D08.handler" if drifted else "D08.raw-error",
            f"`{tool}` answers a call that fits its schema with an uncaught error of its own code",
            witness_of(case, task, _one_call(Call(tool, shown.arguments)), expected, shown.text[:300]),
            severity=Severity.HIGH if drifted else Severity.LOW,
        )
        for (tool, drifted), (task, shown) in found.items()
    ]


# -- what is forbidden is refused --------------------------------------------------------------------------------------


async def _look_at_forbidden(case: Case) -> list[Finding]:
    """Calls that break the schema get a readable error."""
    tasks = choose_tasks(case, 1)
    golden = await _golden_calls(case, tasks)
    plans = [
        (task, what, call)
        for task in tasks
        for spec in author_tools(case)
        for what, call in forbidden_calls(spec, allowed_calls(spec, golden[task.id], case.seed)[0].arguments)
    ]
    trials = await _take_all(case, [(task, _one_call(call)) for task, _, call in plans])
    played = [_PlayedCall(task, call, trial, what) for (task, what, call), trial in zip(plans, trials, strict=True)]
    found: dict[str, list[_PlayedCall]] = {}
    for each in played:
        if _crashed(each.trial) or (each.shown is not None and (not each.shown.error or not each.shown.text.strip())):
            found.setdefault(each.call.tool, []).append(each)
    return [_accepted(case, each) for each in found.values()]


def _accepted(case: Case, wrong: Sequence[_PlayedCall]) -> Finding:
    first = wrong[0]
    title = f"`{first.call.tool}` does not refuse a call that breaks its schema ({first.what})"
    observed = first.shown.text[:300] if first.shown else first.trial.fate
    witness = witness_of(case, first.task, _one_call(first.call), "an error the agent can read", observed)
    return make_finding("D08.accepts", title, witness, count=len(wrong))


# -- golden keeps to what is declared ----------------------------------------------------------------------------------


async def _look_at_golden(case: Case) -> list[Finding]:
    """The golden solution calls declared tools with declared arguments."""
    specs = {spec.name: spec for spec in case.description.tools}
    wrong: dict[str, list[tuple[Task, Call]]] = {}
    golden = await case.golden()
    for task in case.tasks:
        for call in _accepted_calls(golden.get(task.id)):
            spec = specs.get(call.tool)
            if spec is not None and (what := _undeclared(spec, call)):
                wrong.setdefault(f"`{call.tool}` {what}", []).append((task, call))
    expected = "only arguments that the schema declares, because agents see nothing else"
    crashes: dict[str, list[Task]] = {}
    for task in case.tasks:
        for crash in golden[task.id].crashes if task.id in golden else ():
            crashes.setdefault(crash, []).append(task)
    crashed = [
        make_finding(
            "D08.crash",
            f"the golden solution crashes a part of the environment ({crash})",
            witness_of(case, tasks[0], GOLDEN, "no crash", golden[tasks[0].id].fate),
            count=len(tasks),
        )
        for crash, tasks in crashes.items()
    ]
    return crashed + [
        make_finding(
            "D08.golden",
            f"the golden solution calls {what}",
            witness_of(case, each[0][0], _one_call(each[0][1]), expected, golden[each[0][0].id].fate),
            count=len({task.id for task, _ in each}),
        )
        for what, each in wrong.items()
    ]


def _accepted_calls(trial: Trial | None) -> list[Call]:
    return [Call(shown.tool, shown.arguments) for shown in observations(trial) if shown.tool and not shown.error] if trial else []


def _undeclared(spec: ToolSpec, call: Call) -> str:
    properties = properties_of(spec)
    for name in call.arguments:
        if properties and name not in properties and not spec.parameters.get("additionalProperties"):
            return f"with `{name}`, which its schema does not declare"
    missing = [name for name in required_of(spec) if name not in call.arguments]
    return f"without `{missing[0]}`, which its schema requires" if missing else ""


PROBES = (
    Probe("allowed-calls", Layer.SCRIPTED, ("D08",), _look_at_allowed, needs_tools),
    Probe("forbidden-calls", Layer.SCRIPTED, ("D08",), _look_at_forbidden, needs_tools),
    Probe("golden-calls", Layer.SCRIPTED, ("D08",), _look_at_golden, needs_both),
)
