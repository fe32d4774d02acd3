"""Hacker, fixer and solver in turn, without a model: `sandlot audit ENV --fix`.

The audit attacks. For each confirmed finding, small changes of the author's own files are proposed. One is kept only if, in a
copy, the witness loses, golden and all work that was accepted as right keep full marks, no other play changes its score without a
reason, and a whole audit of the copy confirms nothing new. That audit is the next attack.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from sandlot.audit.audit import audit_async
from sandlot.audit.effect import Direction, direction_of
from sandlot.audit.finding import Confidence, Finding
from sandlot.audit.repair.copies import SubjectCopy, copy_of
from sandlot.audit.repair.decisions import decision_for
from sandlot.audit.repair.edits import CodeChange, unified_diff
from sandlot.audit.repair.plays import PlayRecord, StoredPlay, accusers_of, recording, score_changes, unexplained, witness_plays
from sandlot.audit.repair.remedies import changes_for
from sandlot.audit.reports.formats import write_audit
from sandlot.audit.subjects.named import SubjectOptions, find_subject
from sandlot.audit.verdict import Audit, AuditVerdict, State
from sandlot.core.concurrency.blocking import blocking
from sandlot.core.errors import ConfigError

_ROUNDS = 3
_MAX_CHANGES = 24
"""Changes tried for one finding, at most."""
_MAX_AUDITS = 3
"""Audits of changed copies for one finding, at most."""


class KeptChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that passed, and the finding it removes."""

    finding: str
    """The finding's id."""
    code: str
    title: str
    file: str
    what: str
    gone: tuple[str, ...] = ()
    """Codes of all findings that are no longer confirmed with it."""


class OpenDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A finding for which no change passed."""

    finding: str
    code: str
    title: str
    decide: str
    """What a person must decide, in one sentence."""


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `--fix`."""

    kept: tuple[KeptChange, ...]
    left: tuple[OpenDecision, ...]
    diff: str
    """All kept changes, as `git apply` and `patch -p1` read them in `folder`."""
    folder: str
    verdict: AuditVerdict
    """Of the audit of the changed copy."""
    rounds: int
    tried: int
    written: bool = False


@dataclass(slots=True)
class _Version:
    """The files as they are in the copy, the audit of them, and what it played."""

    audit: Audit
    record: PlayRecord
    files: dict[str, str]


@dataclass(slots=True)
class _Loop:
    """The state of one repair."""

    copy: SubjectCopy
    options: dict[str, Any]
    first: _Version
    now: _Version
    kept: list[KeptChange] = field(default_factory=list[KeptChange])
    given_up: dict[str, OpenDecision] = field(default_factory=dict[str, OpenDecision])
    tried: int = 0


async def repair_async(
    subject: SubjectOptions, *, rounds: int = _ROUNDS, write: bool = False, record: PlayRecord | None = None, **options: Any
) -> tuple[Audit, Repair]:
    """Audit the subject, and propose changes that remove what was confirmed.

    - `rounds`: at most so many changes are kept, one after the other, each attacked by a whole audit.
    - `write`: write the changed files. Default: nothing of the author's is touched.
    - `record`: keeps what the first audit played.
    - `options`: as for `audit`.
    """
    if rounds < 1:
        raise ConfigError(f"--rounds is {rounds}; give 1 or more")
    with tempfile.TemporaryDirectory(prefix="sandlot-fix-") as place:
        copy = copy_of(subject, Path(place))
        record = PlayRecord() if record is None else record
        named = find_subject(subject, **_models(options))
        unkept: dict[str, Any] = {**options, "runs": None}
        audit = await audit_async(replace(named, open=recording(named.open, record)), **unkept)
        sources = record.description.sources if record.description else {}
        version = _Version(audit, record, copy.own(sources))
        if options.get("runs") and not any(options.get(name) for name in ("tasks", "layers", "probes")):
            write_audit(audit, Path(options["runs"]))
        loop = _Loop(copy, unkept, version, version)
        done = 0
        while done < rounds and await _round(loop):
            done += 1
        repair = _result(loop, done)
        if write and repair.diff:
            _write(loop)
            repair = msgspec.structs.replace(repair, written=True)
    return audit, repair


repair = blocking("repair", repair_async)


async def _round(loop: _Loop) -> bool:
    """Keep one change; False if none passes."""
    for finding in _confirmed(loop.now.audit):
        if _name(finding) not in loop.given_up and await _fix(loop, finding):
            return True
    return False


async def _fix(loop: _Loop, finding: Finding) -> bool:
    """Keep the smallest change that removes a finding; False if none does."""
    before, tried, audits, refused = loop.now, 0, 0, ""
    for change in _smallest_first(changes_for(before.record, before.files, finding), before.files):
        text = change.apply(before.files[change.file])
        if text is None or tried >= _MAX_CHANGES or audits >= _MAX_AUDITS:
            continue
        tried += 1
        loop.copy.write({change.file: text})
        why = await _try_plays(loop, finding)
        if why is None:
            audits += 1
            after = await _audit_copy(loop, before.files | {change.file: text})
            why = _new_trouble(before.audit, after.audit, finding)
            if why is None:
                _keep(loop, finding, change, after)
                loop.tried += tried
                return True
        refused = refused if refused and "still" not in refused else why
        loop.copy.write({change.file: before.files[change.file]})
    loop.tried += tried
    sentence = decision_for(finding, tried, refused)
    loop.given_up[_name(finding)] = OpenDecision(finding=finding.id, code=finding.code, title=finding.title, decide=sentence)
    return False


async def _try_plays(loop: _Loop, finding: Finding) -> str | None:
    """Give the changed copy the plays of the audit; why it is refused, or None."""
    record = loop.now.record
    accusers = accusers_of(loop.now.audit.findings)
    witness = witness_plays(record.plays, finding)
    quick = {id(play): play for play in (*witness, *(play for play in record.plays if play.is_right))}
    others = [play for play in record.plays if id(play) not in quick]
    named = loop.copy.named(**_models(loop.options))
    record_now = PlayRecord()
    async with recording(named.open, record_now)() as subject:
        for plays in (list(quick.values()), others):
            try:
                trials = await subject.take([play.request for play in plays])
            except ConfigError as error:
                return f"it cannot be loaded: {error}"
            if any(trial.lost for trial in trials):
                return "a play hangs or ends its process"
            changes = score_changes(plays, trials)
            for change in changes:
                if (why := unexplained(change, finding, accusers, record)) is not None:
                    return why
            if (
                plays
                and plays[0] in witness
                and not _witness_turned(finding, witness, {id(each.play): each.earned for each in changes})
            ):
                return "the witness still scores"
    return None


def _witness_turned(finding: Finding, witness: Sequence[StoredPlay], now: Mapping[int, float | None]) -> bool:
    """True if what the finding shows scores otherwise now."""
    accepts = direction_of(finding) is Direction.ACCEPTS_WRONG
    turned = [play for play in witness if id(play) in now and (not accepts or (now[id(play)] or 0.0) < (play.earned or 0.0))]
    return bool(turned)


async def _audit_copy(loop: _Loop, files: dict[str, str]) -> _Version:
    record = PlayRecord()
    named = loop.copy.named(**_models(loop.options))
    options = {name: value for name, value in loop.options.items() if name != "reports"}
    audit = await audit_async(replace(named, open=recording(named.open, record)), **options)
    return _Version(audit, record, files)


def _new_trouble(before: Audit, after: Audit, finding: Finding) -> str | None:
    """Why the audit of a changed copy speaks against the change; None if it does not."""
    known = {_name(each): each for each in _confirmed(before)}
    if _name(finding) in {_name(each) for each in _confirmed(after)}:
        return f"{finding.code} is still confirmed"
    new = [each for each in _confirmed(after) if _name(each) not in known]
    if new:
        return f"the audit confirms {new[0].code} then: {new[0].title}"
    broken = {probe.name for layer in before.layers for probe in layer.probes if probe.state is State.RAN}
    lost = [
        probe.name for layer in after.layers for probe in layer.probes if probe.name in broken and probe.state is not State.RAN
    ]
    return f"probe `{lost[0]}` cannot run then" if lost else None


def _keep(loop: _Loop, finding: Finding, change: CodeChange, after: _Version) -> None:
    remaining = {_name(each) for each in _confirmed(after.audit)}
    gone = sorted({each.code for each in _confirmed(loop.now.audit) if _name(each) not in remaining})
    loop.kept.append(
        KeptChange(
            finding=finding.id, code=finding.code, title=finding.title, file=change.file, what=change.what, gone=tuple(gone)
        )
    )
    loop.now = after


def _smallest_first(changes: Iterator[CodeChange], files: Mapping[str, str]) -> list[CodeChange]:
    """Each change once, in the order of the remedies, which begin with the smallest."""
    seen: dict[tuple[str, str | None], CodeChange] = {}
    for change in changes:
        if change.file in files:
            seen.setdefault((change.file, change.apply(files[change.file])), change)
    return list(seen.values())


def _confirmed(audit: Audit) -> list[Finding]:
    return [each for each in audit.findings if each.standing is Confidence.CONFIRMED]


def _name(finding: Finding) -> str:
    """The same defect in two versions of the code: its line may be another one, and another task may show it."""
    return f"{finding.code} {finding.probe} {finding.check or ''}"


def _models(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("judge", "user", "sandbox", "patience_s") if options.get(name)}


def _result(loop: _Loop, rounds: int) -> Repair:
    open_findings = {_name(each): each for each in _confirmed(loop.now.audit)}
    undecided = "rounds ended before it was tried; a person must decide, or repeat with more `--rounds`"
    left = [
        loop.given_up.get(name) or OpenDecision(finding=each.id, code=each.code, title=each.title, decide=undecided)
        for name, each in open_findings.items()
    ]
    return Repair(
        kept=tuple(loop.kept),
        left=tuple(left),
        diff=unified_diff(loop.first.files, loop.now.files),
        folder=str(loop.copy.base),
        verdict=loop.now.audit.verdict,
        rounds=rounds,
        tried=loop.tried,
    )


def _write(loop: _Loop) -> None:
    """Write the changed files, if the author has not changed them meanwhile."""
    changed = {name: text for name, text in loop.now.files.items() if text != loop.first.files[name]}
    for name in changed:
        if (loop.copy.base / name).read_text() != loop.first.files[name]:
            raise ConfigError(f"`{loop.copy.base / name}` has changed since the audit began; nothing was written")
    for name, text in changed.items():
        (loop.copy.base / name).write_text(text)
