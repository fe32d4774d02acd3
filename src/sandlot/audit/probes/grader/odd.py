"""Answers and files that no author thought of: a grader decides `not met`, it does not break.

Answers are put on what the golden solution left, so that they are really read. Files that an agent can write as it likes may be
missing, empty, binary or huge: agents leave all of that. Files that only tools write are as the tools make them.
"""

import re
from collections import defaultdict
from random import Random
from typing import cast

import msgspec

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.probes.grader.asking import (
    GradedAnswer,
    Question,
    SolvedTask,
    answer_finding,
    ask,
    find_solved_tasks,
    needs_golden,
)
from sandlot.audit.probes.grader.fuzz import ODD_ANSWERS, damaged_answers, random_answer
from sandlot.audit.subject import Regrade, Trial
from sandlot.core.trace import EvidenceRecord, FileRecord
from sandlot.core.types import Json, Side, digest

_FUZZED = 200


async def _look_at_odd_answers(case: Case) -> list[Finding]:
    """Whatever is said, there is a score."""
    some = await find_solved_tasks(case, 8)
    if not some:
        return []
    rng = Random(case.seed)  # noqa: S311 - seeded, not secret
    words = [field.answer for field in some]
    questions = [Question(field, "odd", answer, solved=True) for field in some[:2] for answer in ODD_ANSWERS]
    questions += [Question(some[place % len(some)], "fuzz", random_answer(rng, words), solved=True) for place in range(_FUZZED)]
    questions += [Question(field, "bent", answer, solved=True) for field in some for answer in damaged_answers(field.answer)]
    return _crashes(await ask(case, questions), "odd-answers", "an answer")


def _crashes(told: list[GradedAnswer], probe: str, what: str) -> list[Finding]:
    """One finding for each way to break: the error's name, a hang, a value that is none."""
    ways: dict[tuple[str, str], list[GradedAnswer]] = defaultdict(list)
    for one in told:
        way = _breakage(one.trial)
        if way is not None:
            ways[way].append(one)
    titles = {
        "D09.crash": "{0} makes the grader raise {1}",
        "D09.hang": "{0} makes the grader hang{1}",
        "D09.died": "{0} ends the grader's process{1}",
        "D06.value": "{0} makes the grader return what is no reward: {1}",
    }
    return [
        answer_finding(
            code,
            titles[code].format(what, name) + f" ({len(each)} of {len(told)} tried)",
            probe,
            each,
            expected="a score: an answer that cannot be read is not met",
            severity=Severity.HIGH,
        )
        for (code, name), each in ways.items()
    ]


def _breakage(trial: Trial) -> tuple[str, str] | None:
    """The code of how a grading broke, and a word for it; None if it did not, or was never tried."""
    if trial.lost is not None:
        return {"hung": ("D09.hang", ""), "died": ("D09.died", "")}.get(trial.lost.kind)
    if trial.failed is None or trial.failed.side is not Side.GRADER:
        return None
    if trial.failed.kind == "bad_value":
        return "D06.value", trial.failed.message
    if trial.failed.kind == "timeout":
        return "D09.hang", ""
    names = re.findall(r"\b([A-Z]\w*(?:Error|Exception|Exit|Iteration|Interrupt|Warning))\b", trial.failed.message)
    return "D09.crash", f"`{names[0]}`" if names else "an error"


# -- files and state -----------------------------------------------------------------------------------------------------------

_HUGE = 1 << 20


async def _look_at_damage(case: Case) -> list[Finding]:
    """Whatever files an agent leaves, and however far it got, there is a score."""
    some = await find_solved_tasks(case, 6)
    damaged = [
        (field, how, request) for field in some for how, request in _damaged_evidence(field, case.seed, free=_has_shell(case))
    ]
    trials = await case.take([request for _, _, request in damaged])
    ways: dict[tuple[str, str], list[tuple[SolvedTask, str, Trial]]] = defaultdict(list)
    for (field, how, _), trial in zip(damaged, trials, strict=True):
        way = _breakage(trial)
        if way is not None:
            ways[way].append((field, how, trial))
    findings = [
        Finding(
            code=code,
            title=f"the grader fails on files or state an agent can leave: {name or code} ({len(each)} of {len(damaged)} tried)",
            layer=Layer.GRADER,
            probe="damaged-evidence",
            severity=Severity.HIGH,
            standing=Confidence.CONFIRMED,
            task=each[0][0].task.id,
            count=len({field.task.id for field, _, _ in each}),
            witness=Witness(
                inputs={"task": each[0][0].task.id, "on what was left by": "the golden solution", "changed": each[0][1]},
                expected="a score: what is missing or unreadable is not met",
                observed=each[0][2].fate,
            ),
        )
        for (code, name), each in ways.items()
    ]
    return findings + [_idle_crash(field, way) for field, way in _idle_crashes(some)[:1]]


def _idle_crashes(some: list[SolvedTask]) -> list[tuple[SolvedTask, tuple[str, str]]]:
    return [(field, way) for field in some if (way := _breakage(field.idle)) is not None]


def _idle_crash(field: SolvedTask, way: tuple[str, str]) -> Finding:
    return Finding(
        code=way[0],
        title=f"the grader fails when the agent did nothing: {way[1]}",
        layer=Layer.GRADER,
        probe="damaged-evidence",
        severity=Severity.HIGH,
        standing=Confidence.CONFIRMED,
        task=field.task.id,
        witness=Witness(
            inputs={"task": field.task.id, "play": "nothing"},
            expected="a score: nothing done is not met",
            observed=field.idle.fate,
        ),
    )


_SHELL = re.compile(r"(?i)^(?:command|cmd|script|code|shell|bash|program)$")


def _has_shell(case: Case) -> bool:
    """True if a tool takes commands: then any file may hold anything."""
    return any(
        _SHELL.match(name) for tool in case.description.tools for name in (tool.name, *tool.parameters.get("properties", {}))
    )


def _was_written_by_call(field: SolvedTask, path: str, content: bytes) -> bool:
    """True if the golden solution handed a tool what now stands in the file: somebody else may hand it something else."""
    said = [str(value) for node in (field.golden.trace.turns() if field.golden.trace else ()) for call in node.message.calls
            for value in call.arguments.values()]  # fmt: skip
    text = content.decode("utf-8", "replace").strip()
    return any(path in value for value in said) and any(text and text in value for value in said)


def _damaged_evidence(field: SolvedTask, seed: int, *, free: bool) -> list[tuple[str, Regrade]]:
    """What the golden solution left with one thing otherwise: each as a few words and the request."""
    trace = field.golden.trace
    assert trace is not None
    assert trace.evidence is not None
    evidence = trace.evidence
    changes: list[tuple[str, EvidenceRecord, dict[str, bytes]]] = []
    wrote = [path for path, file in evidence.files.items() if evidence.initial.get(path) != file][:4]
    for path in wrote:
        rest = {name: file for name, file in evidence.files.items() if name != path}
        changes.append((f"{path} is missing", msgspec.structs.replace(evidence, files=rest), {}))
        golden = field.golden.files.get(evidence.files[path].blob or "", b"")
        for what, data in _contents(golden, seed) if free or _was_written_by_call(field, path, golden) else ():
            files = rest | {path: FileRecord(size=len(data), blob=digest(data))}
            changes.append((f"{path} is {what}", msgspec.structs.replace(evidence, files=files), {digest(data): data}))
    changes += [(how, msgspec.structs.replace(evidence, state=state), {}) for how, state in _states_between(field)]
    return [
        (how, Regrade(trace=msgspec.structs.replace(trace, evidence=record), files=field.golden.files | more))
        for how, record, more in changes
    ]


def _contents(golden: bytes, seed: int) -> list[tuple[str, bytes]]:
    rng = Random(seed)  # noqa: S311 - seeded, not secret
    noise = rng.randbytes(400)
    return [
        ("empty", b""),
        ("binary", noise),
        ("cut in half", golden[: len(golden) // 2]),
        ("one line of text", b"hello\n"),
        ("a JSON list", b"[1, null, {}]"),
        ("a megabyte", b"0123456789abcde\n" * (_HUGE // 16)),
    ]


def _states_between(field: SolvedTask) -> list[tuple[str, dict[str, object]]]:
    """States between doing nothing and the golden solution: one field of either left as the other has it."""
    assert field.golden.trace is not None
    assert field.idle.trace is not None
    states = [trial.trace.evidence.state for trial in (field.golden, field.idle) if trial.trace and trial.trace.evidence]
    if not all(isinstance(state, dict) for state in states):
        return []
    golden, idle = cast("list[Json]", states)
    if golden.keys() != idle.keys() or len(golden) < 2:
        return []
    return [
        (f"state `{name}` is as at the start", {**golden, name: idle[name]})
        for name in list(golden)[:8]
        if golden[name] != idle[name]
    ]


PROBES = (
    Probe("odd-answers", Layer.GRADER, ("D09", "D06"), _look_at_odd_answers, needs_golden),
    Probe("damaged-evidence", Layer.GRADER, ("D09",), _look_at_damage, needs_golden),
)
