"""Compare pairs of trials that should be equal, and report where they differ."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from sandlot.audit.case import Case
from sandlot.audit.finding import Finding, Witness, make_finding
from sandlot.audit.probes.likeness import Mismatch, first_difference, gradings_of, left_behind, observations, observed_by_agent
from sandlot.audit.probes.plays import witness_inputs
from sandlot.audit.subject import Conditions, Play, Take, Trial
from sandlot.core.task import Task
from sandlot.core.types import Json


@dataclass(frozen=True, slots=True)
class TrialDifference:
    """A play whose two trials differ, and where."""

    task: Task
    play: Play
    where: Mismatch


def comparable_view(case: Case, trial: Trial) -> Json:
    """Everything in a trial that must be reproducible.

    Shell output, and files if the agent used a shell, are left out: process numbers, dates and repository data differ.
    """
    shells = case.shells
    volatile = case.description.declared.volatile
    used_shell = any(shown.tool in shells for shown in observations(trial))
    remains = left_behind(trial, volatile, without=trial.evidence.files if used_shell else ())
    if used_shell:
        remains.pop("files")
    return {**observed_by_agent(trial, volatile, shells), **remains, **gradings_of(trial)}


def differing_trials(case: Case, requests: Sequence[Take], one: Sequence[Trial], other: Sequence[Trial]) -> list[TrialDifference]:
    """The pairs of trials that differ. Pairs with a lost trial are skipped."""
    tasks = {task.id: task for task in case.tasks}
    found: list[TrialDifference] = []
    for request, left_trial, right_trial in zip(requests, one, other, strict=True):
        if left_trial.lost or right_trial.lost:
            continue
        difference = first_difference(comparable_view(case, left_trial), comparable_view(case, right_trial))
        if difference is not None:
            found.append(TrialDifference(tasks[request.task], request.play, difference))
    return found


def foreign_canaries(
    case: Case, requests: Sequence[Take], trials: Sequence[Trial], start: str, length: int
) -> Iterator[TrialDifference]:
    """Trials that show a canary word of `length` characters which their own play does not contain."""
    tasks = {task.id: task for task in case.tasks}
    for request, trial in zip(requests, trials, strict=True):
        seen = msgspec.json.encode(comparable_view(case, trial)).decode()
        own = msgspec.json.encode(request.play).decode()
        places = (found.start() for found in re.finditer(re.escape(start), seen))
        at = next((at for at in places if seen[at : at + length] not in own), None)
        if at is not None:
            where = Mismatch("canary", "'<nothing>'", repr(seen[max(0, at - 80) : at + 40]))
            yield TrialDifference(tasks[request.task], request.play, where)


def difference_finding(
    case: Case,
    code: str,
    title: str,
    found: Sequence[TrialDifference],
    *,
    expected: str,
    conditions: Conditions | None = None,
) -> Finding:
    """One finding for one cause; the witness shows the first difference of the first pair."""
    first = found[0]
    inputs = witness_inputs(first.task, first.play)
    if conditions is not None:
        inputs["conditions"] = {
            name: value for name, value in msgspec.to_builtins(conditions).items() if value != getattr(Conditions(), name)
        }
    witness = Witness(inputs=inputs, expected=expected, observed=str(first.where), seed=case.seed)
    return make_finding(code, title, witness, count=len({each.task.id for each in found}))
