"""The rules for a valid rubric, shared by loading, linting and grading.

A rubric that breaks one of them cannot be graded, so it is refused before the first rollout. `find_faults` finds all of them at
once; `ordered` is the order in which checks run: the author's, with every check after those it requires.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import IMAGE_VIEW, LAST_IMAGE, Check, JudgeCheck, Rubric

_FORMAT = 1
PENALTY_PREFIX = "constraint:"
"""Prefix of the results of broken constraints; the id of a check must not begin with it."""
_MAX_VOTES = 15
MAX_POINTS = 1e9
"""So large that no rubric needs more, so small that no sum overflows."""
_SOUND: deque[Rubric] = deque(maxlen=8)
"""Rubrics that were found sound, the last ones: every rollout asks about the same few."""
_PLAIN_VIEWS = ("answer", "state", "transcript", LAST_IMAGE)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One broken rule: where, what, and the fix."""

    code: str
    message: str
    fix: str
    check: str | None = None
    path: str = "$"
    """The place in the rubric, as a JSON path."""


def find_faults(rubric: Rubric) -> list[Fault]:
    """All reasons why the rubric cannot be graded; empty if it is valid."""
    found = list(_of_whole(rubric))
    known = {check.id for check in rubric.checks}
    for index, check in enumerate(rubric.checks):
        found += _of_check(check, f"$.checks[{index}]", known)
    found += _of_groups(rubric, known)
    circle = _circle(rubric.checks)
    if circle:
        words = " -> ".join(f"`{name}`" for name in circle)
        found.append(
            Fault(
                code="cycle",
                message=f"checks require each other in a circle: {words}",
                fix="remove one `requires`",
                check=circle[0],
            )
        )
    return found


def require_sound(rubric: Rubric, where: str = "rubric") -> None:
    """`ConfigError` with every reason why the rubric cannot be graded."""
    if any(_is_same(rubric, known) for known in _SOUND):
        return
    found = find_faults(rubric)
    if found:
        raise ConfigError("\n".join(f"{where}: {fault.message}; {fault.fix}" for fault in found))
    _SOUND.append(rubric)


def _is_same(one: Rubric, other: Rubric) -> bool:
    """Whether both have the very same checks. Arguments of checks are never compared: they may be of any type."""
    if one is other:
        return True
    if len(one.checks) != len(other.checks) or any(a is not b for a, b in zip(one.checks, other.checks, strict=True)):
        return False
    return msgspec.structs.replace(one, checks=()) == msgspec.structs.replace(other, checks=())


def ordered(checks: Sequence[Check]) -> list[Check]:
    """The author's order, with every check after those it requires. `ConfigError` if they require each other in a circle."""
    by_id = {check.id: check for check in checks}
    placed: dict[str, Check] = {}
    for start in checks:
        waiting = [start]
        while waiting:
            check = waiting[-1]
            missing = [by_id[name] for name in check.requires if name in by_id and name not in placed]
            if not missing or check.id in placed:
                placed.setdefault(waiting.pop().id, check)
            elif len(waiting) > len(checks):
                raise ConfigError(f"check `{check.id}` requires itself through others; remove one `requires`")
            else:
                waiting.append(missing[0])
    return list(placed.values())


def possible_points(rubric: Rubric) -> float:
    """The denominator of the score: all positive points, at most `cap` per group. It does not depend on the answer."""
    worth = {check.id: min(max(check.points, 0.0), MAX_POINTS) for check in rubric.checks}
    grouped = {name for group in rubric.groups for name in group.checks}
    capped = [min(group.cap, math.fsum(worth.get(name, 0.0) for name in group.checks)) for group in rubric.groups]
    return math.fsum([*capped, *(points for name, points in worth.items() if name not in grouped)])


def _of_whole(rubric: Rubric) -> Iterator[Fault]:
    if rubric.format != _FORMAT:
        yield Fault(code="format", message=f"format is {rubric.format}", fix=f"use format {_FORMAT}", path="$.format")
    low, high = rubric.clip
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        yield Fault(
            code="clip", message=f"clip is [{low}, {high}]", fix="give two finite numbers, the lower first", path="$.clip"
        )
    for name, count in Counter(check.id for check in rubric.checks).items():
        if count > 1:
            yield Fault(
                code="duplicate-id", message=f"{count} checks have the id `{name}`", fix="give each its own id", check=name
            )
    total = possible_points(rubric)
    if not total > 0:
        yield Fault(code="zero-total", message=f"the positive points add up to {total:g}", fix="give a check positive points")


def _of_check(check: Check, path: str, known: set[str]) -> Iterator[Fault]:
    def fault(code: str, field: str, message: str, fix: str) -> Fault:
        return Fault(code=code, message=f"check `{check.id}`: {message}", fix=fix, check=check.id, path=f"{path}.{field}")

    if not check.id or len(check.id) > 128 or not check.id.isprintable() or check.id.startswith(PENALTY_PREFIX):
        yield fault(
            "bad-id", "id", f"id {check.id[:140]!r}", f"use 1 to 128 printable characters, not starting with `{PENALTY_PREFIX}`"
        )
    if not abs(check.points) <= MAX_POINTS:
        yield fault("points", "points", f"points are {check.points}", f"give a number between -{MAX_POINTS:g} and {MAX_POINTS:g}")
    for name in check.requires:
        if name not in known:
            yield fault("unknown-requires", "requires", f"requires `{name}`, which does not exist", _known(known))
    if isinstance(check, JudgeCheck):
        yield from _of_judge(check, fault)
    elif ":" not in check.ref or not all(check.ref.partition(":")[::2]):
        yield fault("bad-ref", "ref", f"ref `{check.ref}`", "write `module:function`, or `sandlot:NAME` for a built-in check")


def _of_judge(check: JudgeCheck, fault: Callable[[str, str, str, str], Fault]) -> Iterator[Fault]:
    choices = check.choices
    if len(choices) < 2 or len(set(choices)) != len(choices) or not all(word.strip() == word and word for word in choices):
        yield fault("choices", "choices", f"choices are {list(choices)}", "give two or more different words, worst to best")
    if not check.prompt.strip():
        yield fault("empty-prompt", "prompt", "the prompt is empty", "write what must be true")
    if not 1 <= check.votes <= _MAX_VOTES:
        yield fault("votes", "votes", f"{check.votes} votes", f"give 1 to {_MAX_VOTES}")
    for name in check.view:
        if name not in _PLAIN_VIEWS and not name.removeprefix(IMAGE_VIEW).startswith("/"):
            fix = f"use {', '.join(_PLAIN_VIEWS)} or the absolute path of a file, such as `/{name}`"
            yield fault("bad-view", "view", f"view `{name}`", fix)
    if not check.view:
        yield fault("bad-view", "view", "the judge is shown nothing", f"name {', '.join(_PLAIN_VIEWS)} or a file")
    for example in check.examples:
        if example.verdict not in choices:
            yield fault("bad-example", "examples", f"an example's verdict is `{example.verdict}`", f"use one of {list(choices)}")


def _of_groups(rubric: Rubric, known: set[str]) -> Iterator[Fault]:
    member_of: dict[str, str] = {}
    for index, group in enumerate(rubric.groups):
        path = f"$.groups[{index}]"
        if not 0 < group.cap < math.inf:
            yield Fault(
                code="cap", message=f"group `{group.id}`: cap is {group.cap}", fix="give a positive number", path=f"{path}.cap"
            )
        for name in group.checks:
            if name not in known:
                message = f"group `{group.id}` names check `{name}`, which does not exist"
                yield Fault(code="unknown-in-group", message=message, fix=_known(known), path=f"{path}.checks")
            elif name in member_of:
                message = f"check `{name}` is in the groups `{member_of[name]}` and `{group.id}`"
                yield Fault(code="two-groups", message=message, fix="keep it in one group", check=name, path=path)
            member_of.setdefault(name, group.id)


def _known(known: set[str]) -> str:
    names = sorted(known)
    return "checks: " + ", ".join(f"`{name}`" for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _circle(checks: Sequence[Check]) -> list[str]:
    """The ids of one circle of requirements, the first repeated at the end; empty if there is none."""
    requires = {check.id: check.requires for check in checks}
    clear: set[str] = set()
    for start, first in requires.items():
        trail: list[str] = [start]
        branches = [iter(first)]
        while branches:
            name = next(branches[-1], None)
            if name is None:
                branches.pop()
                clear.add(trail.pop())
            elif name in trail:
                return [*trail[trail.index(name) :], name]
            elif name in requires and name not in clear:
                trail.append(name)
                branches.append(iter(requires[name]))
    return []
