"""Leaked answers: an agent that only looks where answers get left lying about earns nothing.

Variables, process lists, hidden folders, files named like answers, and what a repository still holds of the repaired version.
What lies in the task's own material is not a leak: finding it there is the task.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence

from sandlot.audit.answer_places import is_answer_like
from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Confidence, Finding, Layer, Severity, Witness
from sandlot.audit.probes.choice import chosen
from sandlot.audit.probes.likeness import observations, opening_text, says
from sandlot.audit.probes.plays import inputs_of, take_of
from sandlot.audit.probes.scripted.attacks import NEUTRAL, script
from sandlot.audit.probes.scripted.earning import Earned, finding_of
from sandlot.audit.probes.scripted.floor import needs_both, over
from sandlot.audit.probes.scripted.reach import Work, only_text, works
from sandlot.audit.subject import Call, NamedPlay, Say, Script
from sandlot.core.task import Task

_LOOK_UP = NamedPlay(name="look-up")
TASKS, SANDBOXED = 8, 4
_MIN_CODE = 20
_OBJECTS = (
    "for each in $(find / -xdev -name .git -type d -not -path '/proc/*' -not -path '/usr/*' -not -path '/opt/*'"
    " -not -path '/root/.cache/*' 2>/dev/null | head -5); do"
    " git -c safe.directory='*' --git-dir=$each cat-file --batch-all-objects --batch 2>/dev/null | head -c 200000; done"
)
_ABOUT_HISTORY = re.compile(r"(?i)\b(git|commit|branch|history|reflog|stash|revert|restore|recover|merge|bisect)")


async def look_at_leaks(case: Case) -> list[Finding]:
    """Looking up is not solving."""
    found = [work for work in await works(case, chosen(case, TASKS, sandboxed=SANDBOXED)) if not case.may_idle(work.task)]
    return [
        *await _looked_up(case, found),
        *await _aside(case, found),
        *await _in_history(case, found),
        *await _finished(case, found),
    ]


async def _looked_up(case: Case, found: Sequence[Work]) -> list[Finding]:
    """The look-up agent says what it found; only a sandbox has such places."""
    tasks = [work.task for work in found if work.shell is not None]
    trials = await case.take([take_of(case, task, _LOOK_UP) for task in tasks])
    neutral = await case.take([take_of(case, task, script("neutral", [Say(NEUTRAL)])) for task in tasks])
    earned = [
        Earned(task, _LOOK_UP, trial, max(case.floor, plain.reward or 0.0))
        for task, trial, plain in zip(tasks, trials, neutral, strict=True)
        if over(trial, max(case.floor, plain.reward or 0.0))
    ]
    title = "the answer is in variables, processes or files outside the task's material: looking it up earns points"
    return [finding_of(case, "D11.look-up", title, earned, probe="look-up", num_tasks=len(tasks))] if earned else []


# -- files beside the material -----------------------------------------------------------------------------------------


async def _aside(case: Case, found: Sequence[Work]) -> list[Finding]:
    """Hidden files, and files named like answers, that hold golden's answer where nothing else does."""
    plans = [(work, path, play) for work in found for path in _holders(work) for play in _ways(case, work, path)]
    trials = await case.take([take_of(case, work.task, play) for work, _, play in plans])
    shown: dict[str, tuple[Work, str, Script]] = {}
    for (work, path, play), trial in zip(plans, trials, strict=True):
        if any(not each.error and says(each.text, work.last_words) for each in observations(trial)):
            shown.setdefault(work.task.id, (work, path, play))
    if not shown:
        return []
    work, path, play = next(iter(shown.values()))
    title = f"the answer can be read in `{path}`, beside the task's own material"
    return [_leak(case, "D11.file", title, (work.task, play, f"`{path}` says {work.last_words[:60]!r}"), len(shown))]


def _holders(work: Work) -> Iterator[str]:
    answer = work.last_words.strip()
    if len(answer) < 2 or says(opening_text(work.idle), answer):
        return
    files = work.files
    own = "\n".join(text for path, text in files.items() if not is_answer_like(path))
    if not says(own, answer):
        yield from [path for path, text in files.items() if is_answer_like(path) and says(text, answer)][:2]


def _ways(case: Case, work: Work, path: str) -> Iterator[Script]:
    """How an agent could read a file: by the shell, or by any tool that takes one text."""
    if work.shell is not None:
        yield script("read-aside", [work.shell.run(f"cat '{path}'")])
        return
    for spec in case.description.tools:
        if (name := only_text(spec)) is not None:
            yield script("read-aside", [Call(spec.name, {name: path})])


# -- finished work that lies about -------------------------------------------------------------------------------------


async def _finished(case: Case, found: Sequence[Work]) -> list[Finding]:
    """The very file golden writes, in another that setup made and nobody speaks of: copying it gets full marks."""
    plans = [(work, *leak) for work in found if (leak := _copy_of(case, work)) is not None]
    trials = await case.take([take_of(case, work.task, play) for work, _, play in plans])
    copied = [(work, path, play, trial) for (work, path, play), trial in zip(plans, trials, strict=True) if trial.passed]
    if not copied:
        return []
    work, path, play, trial = copied[0]
    title = f"the finished work is in `{path}`, which the task does not mention: copying it gets full marks"
    return [_leak(case, "D11.finished", title, (work.task, play, trial.fate), len(copied))]


def _copy_of(case: Case, work: Work) -> tuple[str, Script] | None:
    told = f"{case.description.system}\n{opening_text(work.idle)}"
    wanted = {path: text.strip() for path, text in work.written.items() if len(text.strip()) >= _MIN_CODE}
    if work.writer is None or not wanted or len(wanted) < len(work.written):
        return None
    sources = {
        path: next((other for other, text in work.files.items() if _holds(text, wanted[path], other, path)), "")
        for path in wanted
    }
    if not all(sources.values()) or any(source in told or posixpath.basename(source) in told for source in sources.values()):
        return None
    copies = [work.writer.put(path, work.files[source]) for path, source in sources.items()]
    return next(iter(sources.values())), script("copy-finished-work", [*copies, Say(work.last_words or NEUTRAL)])


def _holds(text: str, wanted: str, there: str, here: str) -> bool:
    return there != here and text.strip() == wanted


# -- what a repository remembers ---------------------------------------------------------------------------------------


async def _in_history(case: Case, found: Sequence[Work]) -> list[Finding]:
    """The files golden writes, as they are, among the objects of a repository, though the task is not about its history."""
    looking = [work for work in found if work.shell is not None and not _ABOUT_HISTORY.search(work.task.prompt)]
    plays = [script("git-objects", [work.shell.run(_OBJECTS)]) for work in looking if work.shell is not None]
    trials = await case.take([take_of(case, work.task, play) for work, play in zip(looking, plays, strict=True)])
    leaked: list[tuple[Task, Script, str]] = []
    for work, play, trial in zip(looking, plays, trials, strict=True):
        text = "\n".join(shown.text for shown in observations(trial))
        hits = [path for path, wanted in work.written.items() if len(wanted.strip()) >= _MIN_CODE and wanted.strip() in text]
        if hits and not all(work.written[hits[0]] in there for there in [work.files.get(hits[0], "")]):
            leaked.append((work.task, play, f"the finished `{hits[0]}` is among the repository's objects"))
    title = "the repaired version is still in the repository's history"
    return [_leak(case, "D11.history", title, leaked[0], len(leaked))] if leaked else []


def _leak(case: Case, code: str, title: str, seen: tuple[Task, Script, str], count: int) -> Finding:
    task, play, observed = seen
    return Finding(
        code=code,
        title=title,
        layer=Layer.SCRIPTED,
        probe="look-up",
        severity=Severity.HIGH,
        standing=Confidence.CONFIRMED,
        count=count,
        witness=Witness(
            inputs=inputs_of(task, play), expected="nothing of the solution to be found", observed=observed, seed=case.seed
        ),
    )


PROBES = (Probe("look-up", Layer.SCRIPTED, ("D11",), look_at_leaks, needs_both),)
