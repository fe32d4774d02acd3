"""A tool reports success only if it changed something."""

from collections.abc import Iterator
from dataclasses import dataclass

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, make_finding
from sandlot.audit.probes.likeness import Observation, changes_between, observations
from sandlot.audit.probes.plays import choose_tasks, request_for, witness_of
from sandlot.audit.probes.scripted.attacks import one_act_per_turn
from sandlot.audit.probes.scripted.calls import LONG, declared_arguments
from sandlot.audit.probes.scripted.drift import author_tools, room_for
from sandlot.audit.probes.scripted.floor import needs_both
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works, properties_of
from sandlot.audit.subject import Call, Script, Trial

_TASKS, _SANDBOXED = 3, 1
_MIN_NEW = 4
"""A new text of at least this many characters must come from the call."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A golden call after golden's earlier calls, and a variant that may fail: with a long text, or made too early."""

    work: GoldenWork
    before: tuple[Call, ...]
    call: Call
    twin: Call
    early: bool = False

    @property
    def scripts(self) -> tuple[Script, Script, Script]:
        """Scripts that end before the call, after it, and after its variant."""
        lead = () if self.early else self.before
        return (
            one_act_per_turn("before", self.before),
            one_act_per_turn("done", [*self.before, self.call]),
            one_act_per_turn("twin", [*lead, self.twin]),
        )


async def _look_at_saving(case: Case) -> list[Finding]:
    """No tool reports a change that did not happen."""
    changes = [
        change
        for work in await find_works(case, choose_tasks(case, _TASKS, sandboxed=_SANDBOXED))
        for change in _changes(case, work)
    ]
    plays = [(change.work.task, script) for change in changes for script in change.scripts]
    trials = await case.take([request_for(case, *play) for play in plays], room_for(script for _, script in plays))
    unsaved: dict[str, tuple[_Change, Trial]] = {}
    for place, change in enumerate(changes):
        before, done, twin = trials[3 * place : 3 * place + 3]
        if _is_unsaved(change, before, done, twin):
            unsaved.setdefault(change.call.tool, (change, twin))
    return [
        make_finding(
            "D04.unsaved",
            f"`{tool}` reports success whether or not it changed anything",
            witness_of(
                case,
                change.work.task,
                change.scripts[2],
                "an error, because nothing changed in the world",
                f"`{_results(trial)[-1].text[:200]}`, as when it works; the world did not change",
            ),
        )
        for tool, (change, trial) in unsaved.items()
    ]


def _changes(case: Case, work: GoldenWork) -> Iterator[_Change]:
    specs = {spec.name: spec for spec in author_tools(case)}
    last = {call.tool: place for place, call in enumerate(work.calls) if call.tool in specs}
    for tool, place in last.items():
        call, before = work.calls[place], tuple(work.calls[:place])
        if before and any(isinstance(value, str) and len(value) >= _MIN_NEW for value in call.arguments.values()):
            yield _Change(work, before, call, call, early=True)
        base = declared_arguments(specs[tool], call.arguments)
        for name, schema in properties_of(specs[tool]).items():
            if schema.get("type") == "string" and "enum" not in schema and len(LONG) <= schema.get("maxLength", len(LONG)):
                yield _Change(work, before, call, Call(tool, {**base, name: LONG}))


def _is_unsaved(change: _Change, before: Trial, done: Trial, twin: Trial) -> bool:
    said, again = _results(done), _results(twin)
    if not said or not again or said[-1].error or again[-1].error or said[-1].text != again[-1].text:
        return False
    effect = changes_between(before, done)
    if not effect or changes_between(change.work.idle if change.early else before, twin):
        return False
    known = {str(value) for value in change.work.before.values()}
    carried = [value for value in change.call.arguments.values() if isinstance(value, str) and len(value) >= _MIN_NEW]
    return any(value in str(new) and value not in known for new in effect.values() for value in carried)


def _results(trial: Trial) -> list[Observation]:
    """Tool results, without the replies of a simulated user."""
    return [shown for shown in observations(trial) if shown.tool]


PROBES = (Probe("said-and-done", Layer.SCRIPTED, ("D04",), _look_at_saving, needs_both),)
