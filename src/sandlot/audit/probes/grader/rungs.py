"""Part of the work: golden evidence with some of the changes undone.

The golden solution changes several similar parts (entries of one record, elements of a list in the answer, files). Leaving out
one, or half of them, gives work that is worse than golden and better than nothing.
"""

import copy
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from sandlot.audit.case import regrade_changed, regrade_with_answer
from sandlot.audit.probes.grader.asking import SolvedTask
from sandlot.audit.subject import Regrade

_LEAST = 4
"""Fewest parts for a ladder."""
_MOST = 8

_Path = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Rung:
    """Golden work with some parts left out."""

    without: frozenset[int]
    description: str
    request: Regrade


@dataclass(frozen=True, slots=True)
class Ladder:
    """The similar parts at one place of the golden work."""

    place: str
    """`state.orders`, `answer` or `files`."""
    target: SolvedTask
    names: tuple[Any, ...]

    def without(self, left_out: Collection[int]) -> Rung:
        """The golden work without these parts."""
        gone = [self.names[place] for place in sorted(left_out)]
        description = f"{self.place} without {', '.join(map(str, gone))}" if gone else f"{self.place} whole"
        return Rung(frozenset(left_out), description, _regrade_without(self, gone))


def ladders(target: SolvedTask) -> list[Ladder]:
    """Every place with enough parts, the largest first."""
    evidence, idle = target.golden.evidence, target.idle.evidence
    found = [Ladder("answer", target, tuple(parts))] if len(parts := _elements(target.answer)) >= _LEAST else []
    for path, names in _changed(evidence.state, idle.state).items():
        if len(names) >= _LEAST:
            found.append(Ladder(".".join(("state", *map(str, path))), target, tuple(names)))
    wrote = [path for path, file in evidence.files.items() if idle.files.get(path) != file]
    if len(wrote) >= _LEAST:
        found.append(Ladder("files", target, tuple(wrote)))
    short = [Ladder(each.place, each.target, each.names[:_MOST] if each.place != "answer" else each.names) for each in found]
    return sorted(short, key=lambda ladder: -len(ladder.names))


def rungs(target: SolvedTask, rng: Random) -> list[Rung]:
    """Works between golden and nothing, least left out first, from up to two ladders."""
    found: list[Rung] = []
    for ladder in ladders(target)[:2]:
        order = rng.sample(range(len(ladder.names)), len(ladder.names))
        found += [ladder.without(order[:count]) for count in range(1, len(order))]
    return sorted(found, key=lambda rung: len(rung.without))


# -- finding parts -------------------------------------------------------------------------------------------------------------


def _elements(answer: str) -> list[str]:
    """The elements of a written list; empty if the answer is not one."""
    inner = answer.strip().strip("[](){}")
    parts = [part.strip() for part in re.split(r"[,;\n]", inner)]
    return parts if all(parts) and all(len(part) < 40 for part in parts) and len(set(parts)) == len(parts) else []


def _changed(golden: Any, idle: Any, path: _Path = ()) -> dict[_Path, list[Any]]:
    """Where two records differ: the path of the container, and its differing names."""
    found: dict[_Path, list[Any]] = defaultdict(list)
    if not isinstance(golden, dict):
        return found
    new, old = _record(golden), _record(idle)
    for name, value in new.items():
        if name in old and old[name] == value:
            continue
        found[path].append(name)
        for deeper, names in _changed(value, old.get(name), (*path, name)).items():
            found[deeper] += names
    return found


# -- leaving them out ----------------------------------------------------------------------------------------------------------


def _regrade_without(ladder: Ladder, gone: Sequence[Any]) -> Regrade:
    golden = ladder.target.golden
    if ladder.place == "answer":
        return regrade_with_answer(golden, _answer_without(ladder.target.answer, [str(name) for name in gone]))
    evidence, idle = golden.evidence, ladder.target.idle.evidence
    if ladder.place == "files":
        files = {path: file for path, file in evidence.files.items() if path not in gone}
        files |= {path: idle.files[path] for path in gone if path in idle.files}
        return regrade_changed(golden, ladder.target.idle.files, files=files)
    path = ladder.place.split(".")[1:]
    return regrade_changed(golden, ladder.target.idle.files, state=_state_without(evidence.state, idle.state, path, gone))


def _answer_without(answer: str, gone: Sequence[str]) -> str:
    parts = _elements(answer)
    stripped = answer.strip()
    before, after = (stripped[0], stripped[-1]) if stripped[:1] in "[({" and stripped[:1] else ("", "")
    joint = next((mark for mark in (", ", ",", "; ", ";", "\n") if mark in stripped), ", ")
    return before + joint.join(part for part in parts if part not in gone) + after


def _state_without(golden: Any, idle: Any, path: Sequence[str], gone: Sequence[Any]) -> Any:
    """The golden state with some entries of one record as at the start, or removed."""
    state = copy.deepcopy(golden)
    place, before = state, idle
    for name in path:
        place = place[name]
        before = _record(before).get(name)
    for name in gone:
        if name in _record(before):
            place[name] = copy.deepcopy(_record(before)[name])
        else:
            del place[name]
    return state


def _record(thing: Any) -> dict[Any, Any]:
    return cast("dict[Any, Any]", thing) if isinstance(thing, dict) else {}
