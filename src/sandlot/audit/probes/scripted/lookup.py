"""Leaked answers: an agent that only searches for the answer earns nothing.

Searched are variables, process lists, hidden folders, files named like answers, and the history of repositories. An answer in
the task's own material is not a leak, because finding it there is the task.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence

from sandlot.audit.answer_places import is_answer_like
from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, make_finding
from sandlot.audit.probes.likeness import mentions, observations, opening_text
from sandlot.audit.probes.plays import request_for, witness_of
from sandlot.audit.probes.scripted.attacks import NEUTRAL, one_act_per_turn
from sandlot.audit.probes.scripted.earning import UnearnedReward, unearned_finding
from sandlot.audit.probes.scripted.floor import earned_more_than, needs_both
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works_to_do, only_text
from sandlot.audit.subject import Call, NamedPlay, Say, Script
from sandlot.core.task import Task

_LOOK_UP = NamedPlay(name="look-up")
_TASKS, _SANDBOXED = 8, 4
_MIN_CODE = 20
_OBJECTS = (
    "for each in $(find / -xdev -name .git -type d -not -path '/proc/*' -not -path '/usr/*' -not -path '/opt/*'"
    " -not -path '/root/.cache/*' 2>/dev/null | head -5); do"
    " git -c safe.directory='*' --git-dir=$each cat-file --batch-all-objects --batch 2>/dev/null | head -c 200000; done"
)
_ABOUT_HISTORY = re.compile(r"(?i)\b(git|commit|branch|history|reflog|stash|revert|restore|recover|merge|bisect)")


async def _look_at_leaks(case: Case) -> list[Finding]:
    """Searching for the answer does not replace the work."""
    found = await find_works_to_do(case, _TASKS, _SANDBOXED)
    return [
        *await _look_up_findings(case, found),
        *await _side_file_findings(case, found),
        *await _history_findings(case, found),
        *await _finished_work_findings(case, found),
    ]


async def _look_up_findings(case: Case, found: Sequence[GoldenWork]) -> list[Finding]:
    """Play the look-up agent, which searches a sandbox and answers with what it finds."""
    tasks = [work.task for work in found if work.shell is not None]
    trials = await case.take([request_for(case, task, _LOOK_UP) for task in tasks])
    neutral = await case.take([request_for(case, task, one_act_per_turn("neutral", [Say(NEUTRAL)])) for task in tasks])
    earned = [
        UnearnedReward(task, _LOOK_UP, trial, max(case.floor, plain.reward or 0.0))
        for task, trial, plain in zip(tasks, trials, neutral, strict=True)
        if earned_more_than(trial, max(case.floor, plain.reward or 0.0))
    ]
    title = "the answer can be looked up in variables, processes or files outside the task's material, and earns points"
    return [unearned_finding(case, "D11.look-up", title, earned, num_tasks=len(tasks))] if earned else []


# -- files beside the material -----------------------------------------------------------------------------------------


async def _side_file_findings(case: Case, found: Sequence[GoldenWork]) -> list[Finding]:
    """Hidden files, or files named like answers, that contain golden's answer while the task's material does not."""
    plans = [
        (work, path, play) for work in found for path in _files_with_answer(work) for play in _ways_to_read(case, work, path)
    ]
    trials = await case.take([request_for(case, work.task, play) for work, _, play in plans])
    shown: dict[str, tuple[GoldenWork, str, Script]] = {}
    for (work, path, play), trial in zip(plans, trials, strict=True):
        if any(not each.error and mentions(each.text, work.last_words) for each in observations(trial)):
            shown.setdefault(work.task.id, (work, path, play))
    if not shown:
        return []
    work, path, play = next(iter(shown.values()))
    title = f"the answer can be read in `{path}`, which is not part of the task's material"
    return [_leak_finding(case, "D11.file", title, (work.task, play, f"`{path}` contains {work.last_words[:60]!r}"), len(shown))]


def _files_with_answer(work: GoldenWork) -> Iterator[str]:
    answer = work.last_words.strip()
    if len(answer) < 2 or mentions(opening_text(work.idle), answer):
        return
    files = work.files
    own = "\n".join(text for path, text in files.items() if not is_answer_like(path))
    if not mentions(own, answer):
        yield from [path for path, text in files.items() if is_answer_like(path) and mentions(text, answer)][:2]


def _ways_to_read(case: Case, work: GoldenWork, path: str) -> Iterator[Script]:
    """Scripts that read a file: with the shell, or with any tool that takes one text."""
    if work.shell is not None:
        yield one_act_per_turn("read-aside", [work.shell.run(f"cat '{path}'")])
        return
    for spec in case.description.tools:
        if (name := only_text(spec)) is not None:
            yield one_act_per_turn("read-aside", [Call(spec.name, {name: path})])


# -- finished work in other files --------------------------------------------------------------------------------------


async def _finished_work_findings(case: Case, found: Sequence[GoldenWork]) -> list[Finding]:
    """A file from setup, not mentioned in the task, that is equal to what golden writes: copying it gets full marks."""
    plans = [(work, *leak) for work in found if (leak := _copy_of(case, work)) is not None]
    trials = await case.take([request_for(case, work.task, play) for work, _, play in plans])
    copied = [(work, path, play, trial) for (work, path, play), trial in zip(plans, trials, strict=True) if trial.passed]
    if not copied:
        return []
    work, path, play, trial = copied[0]
    title = f"the finished work is in `{path}`, which the task does not mention: copying it gets full marks"
    return [_leak_finding(case, "D11.finished", title, (work.task, play, trial.fate), len(copied))]


def _copy_of(case: Case, work: GoldenWork) -> tuple[str, Script] | None:
    prompt = f"{case.description.system}\n{opening_text(work.idle)}"
    wanted = {path: text.strip() for path, text in work.written.items() if len(text.strip()) >= _MIN_CODE}
    if work.writer is None or not wanted or len(wanted) < len(work.written):
        return None
    sources = {
        path: next((other for other, text in work.files.items() if other != path and text.strip() == wanted[path]), "")
        for path in wanted
    }
    if not all(sources.values()) or any(source in prompt or posixpath.basename(source) in prompt for source in sources.values()):
        return None
    copies = [work.writer.put(path, work.files[source]) for path, source in sources.items()]
    return next(iter(sources.values())), one_act_per_turn("copy-finished-work", [*copies, Say(work.last_words or NEUTRAL)])


# -- history of repositories -------------------------------------------------------------------------------------------


async def _history_findings(case: Case, found: Sequence[GoldenWork]) -> list[Finding]:
    """The files golden writes, found among a repository's objects although the task is not about its history."""
    looking = [work for work in found if work.shell is not None and not _ABOUT_HISTORY.search(work.task.prompt)]
    plays = [one_act_per_turn("git-objects", [work.shell.run(_OBJECTS)]) for work in looking if work.shell is not None]
    trials = await case.take([request_for(case, work.task, play) for work, play in zip(looking, plays, strict=True)])
    leaked: list[tuple[Task, Script, str]] = []
    for work, play, trial in zip(looking, plays, trials, strict=True):
        text = "\n".join(shown.text for shown in observations(trial))
        hits = [path for path, wanted in work.written.items() if len(wanted.strip()) >= _MIN_CODE and wanted.strip() in text]
        if hits and work.written[hits[0]] not in work.files.get(hits[0], ""):
            leaked.append((work.task, play, f"the finished `{hits[0]}` is among the repository's objects"))
    title = "the repaired version is still in the repository's history"
    return [_leak_finding(case, "D11.history", title, leaked[0], len(leaked))] if leaked else []


def _leak_finding(case: Case, code: str, title: str, seen: tuple[Task, Script, str], count: int) -> Finding:
    task, play, observed = seen
    witness = witness_of(case, task, play, "no part of the solution is found", observed)
    return make_finding(code, title, witness, count=count)


PROBES = (Probe("look-up", Layer.SCRIPTED, ("D11",), _look_at_leaks, needs_both),)
