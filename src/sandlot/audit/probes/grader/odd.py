"""Unusual answers and files: the grader decides `not met` and does not fail.

Answers are graded on the golden solution's evidence, so that they are really read. Files that an agent can write freely may be
missing, empty, binary or huge. Files that only tools write are not changed.
"""

import re
from collections import defaultdict
from random import Random
from typing import cast

from sandlot.audit.case import Case, Probe, regrade_changed
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.grader.asking import (
    GradedAnswer,
    Question,
    SolvedTask,
    answer_finding,
    ask,
    find_solved_tasks,
    find_targets,
    needs_golden,
)
from sandlot.audit.probes.grader.fuzz import ODD_ANSWERS, damaged_answers, random_answer
from sandlot.audit.subject import Regrade, Trial
from sandlot.core.trace import FileRecord
from sandlot.core.types import Json, Side, digest

_FUZZED = 200


async def _look_at_odd_answers(case: Case) -> list[Finding]:
    """Every answer gets a score."""
    some = await find_targets(case, 8)
    if not some:
        return []
    rng = Random(case.seed)  # noqa: S311 - seeded, not secret
    words = [target.answer for target in some]
    questions = [Question(target, "odd", answer, solved=True) for target in some[:2] for answer in ODD_ANSWERS]
    questions += [Question(some[place % len(some)], "fuzz", random_answer(rng, words), solved=True) for place in range(_FUZZED)]
    questions += [Question(target, "bent", answer, solved=True) for target in some for answer in damaged_answers(target.answer)]
    return _crashes(await ask(case, questions))


def _crashes(graded: list[GradedAnswer]) -> list[Finding]:
    """One finding per kind of failure: the error's name, a hang, an invalid value."""
    graded = list({id(one.trial): one for one in reversed(graded)}.values())  # answers that share a grading count once
    ways: dict[tuple[str, str], list[GradedAnswer]] = defaultdict(list)
    for one in graded:
        way = _breakage(one.trial)
        if way is not None:
            ways[way].append(one)
    titles = {
        "D09.crash": "an answer makes the grader raise {}",
        "D09.hang": "an answer makes the grader hang{}",
        "D09.died": "an answer ends the grader's process{}",
        "D06.value": "an answer makes the grader return an invalid reward: {}",
    }
    return [
        answer_finding(
            code,
            titles[code].format(name) + f" ({len(each)} of {len(graded)} tried)",
            each,
            expected="a score: an answer that cannot be read is `not met`",
            severity=Severity.HIGH,
        )
        for (code, name), each in ways.items()
    ]


def _breakage(trial: Trial) -> tuple[str, str] | None:
    """The code and name of a grading failure; None if grading did not fail or was not tried."""
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
    """All files and states that an agent can leave get a score."""
    some = await find_solved_tasks(case, 6)
    damaged = [
        (target, how, request) for target in some for how, request in _damaged_evidence(target, case.seed, free=_has_shell(case))
    ]
    trials = await case.take([request for _, _, request in damaged])
    ways: dict[tuple[str, str], list[tuple[SolvedTask, str, Trial]]] = defaultdict(list)
    for (target, how, _), trial in zip(damaged, trials, strict=True):
        way = _breakage(trial)
        if way is not None:
            ways[way].append((target, how, trial))
    findings = [
        make_finding(
            code,
            f"the grader fails on files or state an agent can leave: {name or code} ({len(each)} of {len(damaged)} tried)",
            Witness(
                inputs={"task": each[0][0].task.id, "on what was left by": "the golden solution", "changed": each[0][1]},
                expected="a score: what is missing or unreadable is `not met`",
                observed=each[0][2].fate,
            ),
            task=each[0][0].task.id,
            count=len({target.task.id for target, _, _ in each}),
        )
        for (code, name), each in ways.items()
    ]
    idle = [_idle_crash(target, way) for target in some if (way := _breakage(target.idle)) is not None]
    return findings + idle[:1]


def _idle_crash(target: SolvedTask, way: tuple[str, str]) -> Finding:
    witness = Witness(
        inputs={"task": target.task.id, "play": "nothing"},
        expected="a score: nothing done is `not met`",
        observed=target.idle.fate,
    )
    title = f"the grader fails when the agent did nothing: {way[1] or way[0]}"
    return make_finding(way[0], title, witness, task=target.task.id)


_SHELL = re.compile(r"(?i)^(?:command|cmd|script|code|shell|bash|program)$")


def _has_shell(case: Case) -> bool:
    """True if a tool runs commands, so that any file may have any content."""
    return any(
        _SHELL.match(name) for tool in case.description.tools for name in (tool.name, *tool.parameters.get("properties", {}))
    )


def _was_written_by_call(target: SolvedTask, path: str, content: bytes) -> bool:
    """True if golden passed the file's content to a tool, so that another agent may pass other content."""
    said = [str(value) for node in (target.golden.trace.turns() if target.golden.trace else ()) for call in node.message.calls
            for value in call.arguments.values()]  # fmt: skip
    text = content.decode("utf-8", "replace").strip()
    return any(path in value for value in said) and any(text and text in value for value in said)


def _damaged_evidence(target: SolvedTask, seed: int, *, free: bool) -> list[tuple[str, Regrade]]:
    """The golden solution's evidence with one change: a description and the request."""
    evidence = target.golden.evidence
    changes: list[tuple[str, Regrade]] = []
    wrote = [path for path, file in evidence.files.items() if evidence.initial.get(path) != file][:4]
    for path in wrote:
        rest = {name: file for name, file in evidence.files.items() if name != path}
        changes.append((f"{path} is missing", regrade_changed(target.golden, files=rest)))
        golden = target.golden.files.get(evidence.files[path].blob or "", b"")
        for what, data in _contents(golden, seed) if free or _was_written_by_call(target, path, golden) else ():
            files = rest | {path: FileRecord(size=len(data), blob=digest(data))}
            changes.append((f"{path} is {what}", regrade_changed(target.golden, {digest(data): data}, files=files)))
    return changes + [(how, regrade_changed(target.golden, state=state)) for how, state in _states_between(target)]


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


def _states_between(target: SolvedTask) -> list[tuple[str, dict[str, object]]]:
    """The golden state with one target as an idle agent left it."""
    states = [trial.evidence.state for trial in (target.golden, target.idle)]
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
    Probe("odd-answers", Layer.GRADER, ("D09", "D06"), _look_at_odd_answers, without_golden=True),
    Probe("damaged-evidence", Layer.GRADER, ("D09",), _look_at_damage, needs_golden),
)
