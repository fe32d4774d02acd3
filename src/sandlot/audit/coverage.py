"""Which parts of an environment an audit attacked, and with what result: the points of every rubric first.

A point is confirmed defective, under a lead, attacked without a finding, or untested. Only untested points stand in the way of
the verdict SHIP; turns, tools and kinds of artifacts that nothing attacked are named.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from sandlot.audit.attacked import SCORE, Attempts, AttemptsByPart, GoldenRecord, artifacts_left, spoken_turns
from sandlot.audit.finding import Confidence, Finding, Severity
from sandlot.audit.subject import Description
from sandlot.core.rubric import Rubric

_ABOUT_GRADING = ("D02", "D03", "D06", "D09", "D10", "D13", "D14", "D15", "D16", "D21", "D22")
"""Classes of findings about how points are given."""


class Standing(StrEnum):
    """What is known about a part."""

    CONFIRMED = "confirmed"
    LEAD = "lead"
    ATTACKED = "attacked"
    """Attacked, and nothing was found."""
    UNTESTED = "untested"


class CoveredPart(msgspec.Struct, frozen=True, kw_only=True):
    """One check, turn, tool or kind of artifact; of a Gymnasium environment its reward, and what was played and changed."""

    kind: str
    """`check`, `turn`, `tool` or `artifact`; `reward`, `play` or `surroundings`."""
    name: str
    share: float = 0.0
    """Its share of all points of all tasks; 0 for what gives no points."""
    standing: Standing
    tried: int = 0
    lost: int = 0
    why: str = ""
    """Why it is untested."""


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """All parts."""

    parts: tuple[CoveredPart, ...] = ()

    def share(self, standing: Standing) -> float:
        """The share of the points with this standing."""
        return sum(part.share for part in self.parts if part.standing is standing)

    @property
    def untested(self) -> list[CoveredPart]:
        """Parts that nothing attacked, those with points first."""
        return sorted((part for part in self.parts if part.standing is Standing.UNTESTED), key=lambda part: -part.share)

    @property
    def complete(self) -> bool:
        """True if every part that is worth points was attacked."""
        return not any(part.share > 0 for part in self.untested)


def coverage_of(
    about: Description, known: Mapping[str, GoldenRecord], attempts: AttemptsByPart, findings: Sequence[Finding]
) -> Coverage:
    """What was attacked, from the counts of all probes and their findings. `known` are the tasks that were played."""
    if about.kind == "gymnasium":
        return Coverage(parts=tuple(_gymnasium_parts(about, attempts, findings)))
    played = {record.rubric for record in known.values()}
    parts = [
        _check_part(about, rubric, check, share, attempts, findings, played) for rubric, check, share in _points(about, known)
    ]
    others = [_part(kind, name, attempts) for kind, name in _others(about, known)]
    if not about.rubrics and any(part.kind == "turn" for part in others):
        parts, others = _shared_by_turns(parts, others)
    return Coverage(parts=(*parts, *others))


_GYM_PLAYS = {
    "random": "random actions",
    "constant": "one action repeated",
    "outside": "an action outside the space",
    "dirty": "a reset after a rollout",
    "beside": "a second environment beside it",
}
_GYM_SURROUNDINGS = ("hash seed", "clock", "time zone", "new process")


def _gymnasium_parts(about: Description, attempts: AttemptsByPart, findings: Sequence[Finding]) -> Iterator[CoveredPart]:
    """The reward, attacked if agents that ignore the observations were compared with a solution; the plays; the surroundings."""
    rivals = [attempts.get(f"play {name}", Attempts()) for name in ("random", "constant")]
    tried = sum(each.tried for each in rivals) if attempts.get("play golden", Attempts()).tried else 0
    mine = [finding for finding in findings if finding.code.startswith(_ABOUT_GRADING) and finding.severity is not Severity.INFO]
    standing = _standing(mine, Attempts(tried, 0))
    why = "" if tried else "no solution was played to compare other agents with"
    yield CoveredPart(kind="reward", name="the return of a rollout", share=1.0, standing=standing, tried=tried, why=why)
    constant = not about.declared.guessable and any(task.data.get("constant") for task in about.tasks)
    for name, words in _GYM_PLAYS.items():
        if name != "constant" or constant:
            yield _gym_part("play", words, attempts.get(f"play {name}", Attempts()), "no probe played it")
    for name in _GYM_SURROUNDINGS:
        num = sum(each.tried for part, each in attempts.items() if part.startswith("surroundings ") and name in part)
        yield _gym_part(
            "surroundings", f"another {name}".replace("another new", "a new"), Attempts(num, 0), "no probe changed it"
        )


def _gym_part(kind: str, name: str, tried: Attempts, why: str) -> CoveredPart:
    standing = Standing.ATTACKED if tried.tried else Standing.UNTESTED
    return CoveredPart(kind=kind, name=name, standing=standing, tried=tried.tried, why="" if tried.tried else why)


def _shared_by_turns(checks: Sequence[CoveredPart], others: Sequence[CoveredPart]) -> tuple[list[CoveredPart], list[CoveredPart]]:
    """The points of what grades itself, shared by its turns: nobody declares which of them decides."""
    order = (Standing.CONFIRMED, Standing.LEAD, Standing.ATTACKED, Standing.UNTESTED)
    worst = min((part.standing for part in checks), key=order.index)
    num = sum(part.kind == "turn" for part in others)
    replace = msgspec.structs.replace
    shared = [
        replace(part, share=1 / num, standing=worst if part.standing is Standing.ATTACKED else part.standing)
        if part.kind == "turn"
        else part
        for part in others
    ]
    return [replace(part, share=0.0) for part in checks], shared


def _points(about: Description, known: Mapping[str, GoldenRecord]) -> Iterator[tuple[str, str, float]]:
    """Rubric, check and share of all points, for every check with points; turns share those of what has no rubric."""
    uses = Counter(task.rubric for task in about.tasks)
    for name, num in sorted(uses.items()):
        rubric = about.rubrics.get(name)
        worths = _worths(rubric) if rubric is not None else _seen_worths(name, known)
        whole = sum(worths.values()) or 1.0
        for check, worth in worths.items():
            yield name, check, worth / whole * num / len(about.tasks)


def _worths(rubric: Rubric) -> dict[str, float]:
    return {check.id: check.points for check in rubric.checks if check.points > 0} or {SCORE: 1.0}


def _seen_worths(name: str, known: Mapping[str, GoldenRecord]) -> dict[str, float]:
    """The checks that golden's scores have, where no rubric is declared."""
    found: dict[str, float] = {}
    for record in known.values():
        if record.rubric == name and record.golden.score is not None:
            found |= {check.id: check.worth for check in record.golden.score.checks if check.worth > 0}
    return found or {SCORE: 1.0}


def _check_part(
    about: Description,
    rubric: str,
    check: str,
    share: float,
    attempts: AttemptsByPart,
    findings: Sequence[Finding],
    played: set[str],
) -> CoveredPart:
    tried = attempts.get(f"check {rubric}/{check}", Attempts())
    rubrics = {task.id: task.rubric for task in about.tasks}
    mine = [finding for finding in findings if _concerns(finding, rubric, check, rubrics)]
    name = f"{rubric}/{check}" if len(set(rubrics.values())) > 1 else check
    standing = _standing(mine, tried)
    why = ""
    if standing is Standing.UNTESTED:
        missed = f"no task with this rubric was played; `--limit {len(set(rubrics.values()))}` or more plays all rubrics"
        why = missed if rubric not in played else "no probe graded wrong work with it"
    return CoveredPart(kind="check", name=name, share=share, standing=standing, tried=tried.tried, lost=tried.lost, why=why)


def _concerns(finding: Finding, rubric: str, check: str, rubrics: Mapping[str, str]) -> bool:
    """True if a finding is about the points of a check: its own, those that its witness got, or all of its task's rubric."""
    if not finding.code.startswith(_ABOUT_GRADING) or finding.severity is Severity.INFO:
        return False
    if finding.standing is Confidence.LEAD and finding.witness is None:
        return finding.check == check
    if finding.task is not None and rubrics.get(finding.task) != rubric:
        return False
    named = (finding.check,) if finding.check else finding.paid
    return not named or check in named


def _standing(mine: Iterable[Finding], tried: Attempts) -> Standing:
    found = {finding.standing for finding in mine}
    if Confidence.CONFIRMED in found:
        return Standing.CONFIRMED
    if Confidence.LEAD in found:
        return Standing.LEAD
    return Standing.ATTACKED if tried.tried else Standing.UNTESTED


def _others(about: Description, known: Mapping[str, GoldenRecord]) -> Iterator[tuple[str, str]]:
    """Kind and name of every part without points."""
    most = max((len(spoken_turns(record.turns)) for record in known.values()), default=0)
    if most > 1:
        yield from (("turn", str(number + 1)) for number in range(most))
    yield from (("tool", tool.name) for tool in about.tools)
    kinds = dict.fromkeys(kind for record in known.values() for kind in artifacts_left(record))
    yield from (("artifact", kind.removeprefix("artifact ")) for kind in kinds)


_WHY = {
    "turn": "no probe varied it with the other turns as golden's",
    "tool": "no probe called it otherwise than golden",
    "artifact": "no probe left another one",
}


def _part(kind: str, name: str, attempts: AttemptsByPart) -> CoveredPart:
    tried = attempts.get(f"{kind} {name}", Attempts())
    standing = Standing.ATTACKED if tried.tried else Standing.UNTESTED
    why = "" if tried.tried else _WHY[kind]
    return CoveredPart(kind=kind, name=name, standing=standing, tried=tried.tried, lost=tried.lost, why=why)


def shares_line(coverage: Coverage) -> str:
    """The shares of the points, in one line."""
    words = {
        Standing.CONFIRMED: "defective (confirmed)",
        Standing.LEAD: "under a lead",
        Standing.ATTACKED: "attacked without a finding",
        Standing.UNTESTED: "untested",
    }
    return "points: " + ", ".join(f"{coverage.share(standing):.0%} {text}" for standing, text in words.items())


def untested_line(coverage: Coverage) -> str:
    """What nothing attacked, in one line; empty if everything was."""
    groups: dict[tuple[str, str], list[str]] = {}
    for part in coverage.untested:
        groups.setdefault((part.kind, part.why), []).append(part.name)
    said = [
        f"{kind} {', '.join(f'`{name}`' for name in names[:6])}{', ...' if len(names) > 6 else ''} ({why})"
        for (kind, why), names in groups.items()
    ]
    return "not attacked: " + "; ".join(said) if said else ""
