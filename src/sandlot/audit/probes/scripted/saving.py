"""What is said to be done is done: a deed that did not happen is not answered like one that did."""

from collections.abc import Iterator
from dataclasses import dataclass

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.probes.choice import choose_tasks
from sandlot.audit.probes.likeness import Observation, changes_between, observations
from sandlot.audit.probes.plays import request_for, witness_inputs
from sandlot.audit.probes.scripted.attacks import one_act_per_turn
from sandlot.audit.probes.scripted.calls import LONG, declared_arguments
from sandlot.audit.probes.scripted.drift import ROOM, author_tools
from sandlot.audit.probes.scripted.floor import needs_both
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works, properties_of
from sandlot.audit.subject import Call, Script, Trial

TASKS, SANDBOXED = 3, 1
_MIN_NEW = 4
"""A text of so many characters that was nowhere in the world before came from the call."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A golden call after what golden did before it, and a twin that may be lost: a long one, or the same too early."""

    work: GoldenWork
    before: tuple[Call, ...]
    call: Call
    twin: Call
    early: bool = False

    @property
    def scripts(self) -> tuple[Script, Script, Script]:
        """The world before, after the call, and after its twin."""
        lead = () if self.early else self.before
        return (
            one_act_per_turn("before", self.before),
            one_act_per_turn("done", [*self.before, self.call]),
            one_act_per_turn("twin", [*lead, self.twin]),
        )


async def look_at_saving(case: Case) -> list[Finding]:
    """Nothing is called saved that was not."""
    deeds = [
        deed for work in await find_works(case, choose_tasks(case, TASKS, sandboxed=SANDBOXED)) for deed in _changes(case, work)
    ]
    trials = await case.take([request_for(case, deed.work.task, each) for deed in deeds for each in deed.scripts], ROOM)
    unsaved: dict[str, tuple[_Change, Trial]] = {}
    for place, deed in enumerate(deeds):
        before, done, twin = trials[3 * place : 3 * place + 3]
        if _is_unsaved(deed, before, done, twin):
            unsaved.setdefault(deed.call.tool, (deed, twin))
    return [
        Finding(
            code="D04.unsaved",
            title=f"`{tool}` reports success whether or not it changed anything",
            layer=Layer.SCRIPTED,
            probe="said-and-done",
            severity=Severity.HIGH,
            standing=Confidence.CONFIRMED,
            witness=Witness(
                inputs=witness_inputs(deed.work.task, deed.scripts[2]),
                expected="an error, since nothing changed in the world",
                observed=f"`{_results(trial)[-1].text[:200]}`, as when it works; the world is as if nothing had been called",
                seed=case.seed,
            ),
        )
        for tool, (deed, trial) in unsaved.items()
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


def _is_unsaved(deed: _Change, before: Trial, done: Trial, twin: Trial) -> bool:
    said, again = _results(done), _results(twin)
    if not said or not again or said[-1].error or again[-1].error or said[-1].text != again[-1].text:
        return False
    effect = changes_between(before, done)
    if not effect or changes_between(deed.work.idle if deed.early else before, twin):
        return False
    known = {str(value) for value in deed.work.before.values()}
    carried = [value for value in deed.call.arguments.values() if isinstance(value, str) and len(value) >= _MIN_NEW]
    return any(value in str(new) and value not in known for new in effect.values() for value in carried)


def _results(trial: Trial) -> list[Observation]:
    """What tools said; a user who answers the agent's last words is no tool."""
    return [shown for shown in observations(trial) if shown.tool]


PROBES = (Probe("said-and-done", Layer.SCRIPTED, ("D04",), look_at_saving, needs_both),)
