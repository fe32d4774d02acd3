"""Search over documents: the files and the answer that golden leaves, with values changed, rows left out, or emptied.

All are graded on golden's evidence, which takes milliseconds. What a file hides is then shown by a play that writes it.
"""

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from sandlot.audit.case import Case, Probe, regrade_changed, regrade_with_answer
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.likeness import EPSILON, mentions
from sandlot.audit.probes.plays import MANY_TURNS, request_for
from sandlot.audit.probes.scripted.floor import needs_golden
from sandlot.audit.probes.scripted.reach import GoldenWork, find_works_to_do
from sandlot.audit.probes.search.depth import depth_of
from sandlot.audit.probes.search.documents import DocumentEdit, document_edits
from sandlot.audit.probes.search.facts import AskedWork
from sandlot.audit.reason import Reason, ReasonKind
from sandlot.audit.statement import numbers_in, shorten
from sandlot.audit.subject import Regrade, Script, Trial
from sandlot.core.trace import FileRecord
from sandlot.core.types import digest

_TASKS, _SANDBOXED = 8, 3
_FILES = 4
_A_DOCUMENT = 30
_SHOWN = 4000


@dataclass(frozen=True, slots=True)
class WrittenDocument:
    """A file that golden wrote, or its answer."""

    asked: AskedWork
    path: str
    """Empty for the answer."""
    text: str

    @property
    def work(self) -> GoldenWork:
        """The task and golden's work."""
        return self.asked.work

    @property
    def name(self) -> str:
        """In words."""
        return f"`{self.path}`" if self.path else "answer"

    def graded_with(self, text: str) -> Regrade:
        """The request to grade golden's work with another text in its place."""
        if not self.path:
            return regrade_with_answer(self.work.golden, text)
        data = text.encode()
        record = FileRecord(size=len(data), blob=digest(data))
        files = {**self.work.golden.evidence.files, self.path: record}
        return regrade_changed(self.work.golden, {digest(data): data}, files=files)


@dataclass(frozen=True, slots=True)
class GradedDocument:
    """A changed document and its grading."""

    document: WrittenDocument
    edit: DocumentEdit
    trial: Trial
    script: Script | None = None
    """The play that leaves it, if there is one."""

    @property
    def free(self) -> bool:
        """True if it scores no less than golden's."""
        return self.trial.reward is not None and self.trial.reward >= (self.document.work.golden.reward or 0.0) - EPSILON

    @property
    def reason(self) -> Reason | None:
        """Why it is wrong: a value that the task asks for lacks or is another one."""
        asked, edit = self.document.asked, self.edit
        named = bool(edit.name) and mentions(asked.prompt, edit.name.casefold())
        for value in edit.lost:
            source = asked.source_of(value)
            who = (
                f"{source} states"
                if source is not None
                else f"the prompt asks for `{edit.name}`, and golden states"
                if named
                else ""
            )
            if who and edit.instead is None:
                why = f"{who} `{shorten(value)}`, and here it is left out"
                return Reason(kind=ReasonKind.LEAVES_OUT, why=why)
            if who and edit.instead is not None and not _may_state(edit.instead, value):
                why = f"{who} `{shorten(value)}`, and here `{shorten(edit.instead or '')}` stands in its place"
                return Reason(kind=ReasonKind.CONTRADICTS, why=why)
        return None


def _may_state(instead: str, value: str) -> bool:
    """True if a text in a value's place may say the value too."""
    return not numbers_in(value) and value.casefold() in instead.casefold()


async def _look_at_documents(case: Case) -> list[Finding]:
    """No document that lacks what the task asks for, or says something else, scores like golden's."""
    works = await find_works_to_do(case, depth_of(case).tasks(_TASKS), depth_of(case).tasks(_SANDBOXED))
    asked = [AskedWork(work) for work in works]
    documents = [document for each in asked for document in _documents(each)]
    planned = [(document, edit) for document in documents for edit in _edits(document, documents)]
    trials = await case.take([document.graded_with(edit.text) for document, edit in planned])
    graded = [GradedDocument(document, edit, trial) for (document, edit), trial in zip(planned, trials, strict=True)]
    held = await _shown_by_plays(case, [one for one in graded if one.free and one.reason is not None])
    return _findings(case, held, graded)


def _documents(asked: AskedWork) -> Iterator[WrittenDocument]:
    work = asked.work
    for path, text in list(work.written.items())[:_FILES]:
        if _is_asked_for(path, asked.prompt) and "\\x" not in text and _is_data(path, text):
            yield WrittenDocument(asked, path, text)
    answer = work.golden.evidence.answer
    if work.golden.answer_was_read and len(document_edits(answer, [])) > 1:
        yield WrittenDocument(asked, "", answer)


def _is_asked_for(path: str, prompt: str) -> bool:
    """True if the prompt names the file: others are golden's own notes."""
    name = posixpath.basename(path).casefold()
    return path.casefold() in prompt or ("." in name and mentions(prompt, name))


def _is_data(path: str, text: str) -> bool:
    """True for values that are read, not for programs and prose."""
    return path.endswith((".json", ".csv", ".tsv", ".jsonl", ".txt", ".yaml", ".yml", ".toml", ".ini")) or "def " not in text


def _edits(document: WrittenDocument, everything: Sequence[WrittenDocument]) -> list[DocumentEdit]:
    others = [other.text for other in everything if other.path == document.path and other.work.task.id != document.work.task.id]
    return document_edits(document.text, others)[:_A_DOCUMENT]


async def _shown_by_plays(case: Case, found: Sequence[GradedDocument]) -> list[GradedDocument]:
    """Those that a play leaves, with that play; a changed answer needs none."""
    files = [one for one in found if one.document.path and one.document.work.writer is not None]
    scripts = [_writing(one) for one in files]
    requests = [request_for(case, one.document.work.task, script) for one, script in zip(files, scripts, strict=True)]
    trials = await case.take(requests, MANY_TURNS)
    played = [replace(one, script=script, trial=trial) for one, script, trial in zip(files, scripts, trials, strict=True)]
    return [one for one in [*played, *(each for each in found if not each.document.path)] if one.free]


def _writing(one: GradedDocument) -> Script:
    """Golden's play; before its last words the file is written again."""
    work = one.document.work
    assert work.writer is not None
    put = (work.writer.put(one.document.path, one.edit.text),)
    turns = work.script.turns
    return Script(name="searched", turns=(*turns[:-1], put, turns[-1]) if work.last_words else (*turns, put))


def _findings(case: Case, found: Sequence[GradedDocument], graded: Sequence[GradedDocument]) -> list[Finding]:
    groups: dict[tuple[str, str, bool], list[GradedDocument]] = defaultdict(list)
    for one in found:
        groups[one.document.name, one.edit.name, one.edit.instead is None].append(one)
    made: list[Finding] = []
    for (document, name, omitted), each in sorted(groups.items(), key=lambda item: -len(_tasks(item[1]))):
        tried = _tasks([one for one in graded if one.document.name == document and one.edit.name == name])
        made.append(_finding(case, document, name, each, len(tried), omitted=omitted))
    return made[:_FILES]


def _tasks(each: Sequence[GradedDocument]) -> set[str]:
    return {one.document.work.task.id for one in each}


def _finding(case: Case, document: str, name: str, each: Sequence[GradedDocument], tried: int, *, omitted: bool) -> Finding:
    first = min(each, key=lambda one: (len(one.edit.text), one.document.work.task.id))
    kinds = ", ".join(sorted({one.edit.kind for one in each}))
    num = len(_tasks(each))
    where = f"{document}, `{name}`," if name else document
    golden = first.document.work.golden.reward or 0.0
    left = {"play": msgspec.to_builtins(first.script)} if first.script is not None else {"answer": first.edit.text[:_SHOWN]}
    inputs = {
        "task": first.document.work.task.id,
        **left,
        **({} if first.script else {"on what was left by": "the golden solution"}),
    }
    expected = f"less than golden's {golden:g}: {first.document.name} {first.edit.kind}"
    return make_finding(
        "D02.left-out" if omitted else "D02.changed",
        f"golden's {where} keeps full marks {kinds}, on {num} of {tried} tasks",
        Witness(inputs=inputs, expected=expected, observed=first.trial.fate, seed=case.seed),
        severity=Severity.HIGH,
        sure=num > 1 or tried == 1,
        count=num,
        fix="compare every value that the task asks for, and that there are as many as there should be",
        reason=first.reason,
        paid=first.trial.paid,
    )


PROBES = (Probe("search-documents", Layer.SCRIPTED, ("D02",), _look_at_documents, needs_golden),)
