"""Linting rubrics: errors, which make grading impossible, and warnings about what training may exploit.

The warnings are known ways in which rubrics are gamed: compound criteria, presence instead of correctness, negations that an
empty answer meets, one check worth half the score, two checks that ask the same. Only errors make a rubric unusable.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import combinations
from pathlib import Path

import msgspec

from sandlot.checks.found import pattern_fault
from sandlot.core.concurrency.author import is_async
from sandlot.core.errors import ConfigError, SandlotError
from sandlot.core.rubric import LAST_IMAGE, Check, JudgeCheck, PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.grade.checks import Function, binding, substitute_values
from sandlot.grade.grading import Functions, resolve
from sandlot.grade.loading import parse_rubric, read_rubric
from sandlot.grade.rules import find_faults, possible_points

_MAX_WEIGHT = 0.2
"""Maximum share of the points for one check, in rubrics of ten checks or more."""
_MAX_PRESENCE = 0.6
"""Maximum share of the points for mere presence."""
_MAX_OVERLAP = 0.8
"""Maximum share of words that two prompts may have in common."""
_MANY = 10

_REPORTED_VIEWS = frozenset({"transcript", LAST_IMAGE})
"""What a program in the sandbox reports itself, if it is the agent."""

_QUOTED = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)|`[^`]*`|\([^)]*\)|\bbetween\b.{1,60}?\band\b")
_COMPOUND = re.compile(r"\b(?:and|or|as well as|und|oder)\b|;", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:not|never|no|without|avoids?|cannot|nor|neither)\b|n't\b", re.IGNORECASE)
_PRESENCE = re.compile(
    r"\b(?:mentions?|includes?|contains?|lists?|states? that|refers? to|has an?|is present|exists?)\b", re.IGNORECASE
)
_PRESENCE_REF = re.compile(r"exist|present|contains|has_|mention")
_VARIABLE = re.compile(r"\$\w+\.")


class LintSeverity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"  # the rubric cannot be graded
    WARNING = "warning"  # the rubric may be gamed or misread
    INFO = "info"


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a rubric."""

    code: str
    severity: LintSeverity
    check: str | None
    message: str
    fix: str


def lint(rubric: Rubric, *, functions: Functions | None = None, tasks: Sequence[Task] = ()) -> list[LintFinding]:
    """All findings about a rubric, errors first.

    With `functions`, references and arguments are checked; with `tasks`, that every `$key.x` and `$data.x` exists in them.
    """
    broken = [
        LintFinding(code=fault.code, severity=LintSeverity.ERROR, check=fault.check, message=fault.message, fix=fault.fix)
        for fault in find_faults(rubric)
    ]
    found = [*broken, *_references(rubric, functions), *_variables(rubric, tasks)]
    if not broken:
        found += [
            *_weights(rubric),
            *_prompts(rubric),
            *_reported(rubric),
            *_duplicates(rubric),
            *_presence(rubric),
            *_groups(rubric),
        ]
    order = list(LintSeverity)
    return sorted(found, key=lambda finding: order.index(finding.severity))


def lint_file(path: Path, functions: Functions | None = None, tasks: Sequence[Task] = ()) -> list[LintFinding]:
    """Lint a file. If it is not a rubric, there is one finding that says where."""
    try:
        rubric = parse_rubric(read_rubric(path), str(path))
    except ConfigError as error:
        return [LintFinding(code="schema", severity=LintSeverity.ERROR, check=None, message=str(error), fix="fix this first")]
    return lint(rubric, functions=functions, tasks=tasks)


def require_gradable(rubric: Rubric, where: str, *, functions: Functions | None = None, tasks: Sequence[Task] = ()) -> None:
    """`ConfigError` that lists all errors of a rubric, before the first rollout."""
    errors = [finding for finding in lint(rubric, functions=functions, tasks=tasks) if finding.severity is LintSeverity.ERROR]
    if errors:
        raise ConfigError("\n".join(f"{where}: {finding.message}; {finding.fix}" for finding in errors))


def reported_checks(rubric: Rubric) -> list[JudgeCheck]:
    """The judge checks that read the conversation, which an agent of `--agent-command` reports itself."""
    return [check for check in rubric.checks if isinstance(check, JudgeCheck) and not _REPORTED_VIEWS.isdisjoint(check.view)]


def _warning(code: str, check: Check | None, message: str, fix: str) -> LintFinding:
    return LintFinding(code=code, severity=LintSeverity.WARNING, check=check.id if check else None, message=message, fix=fix)


def _error(code: str, check: Check, message: str, fix: str) -> LintFinding:
    return LintFinding(code=code, severity=LintSeverity.ERROR, check=check.id, message=message, fix=fix)


def _references(rubric: Rubric, functions: Functions | None) -> Iterator[LintFinding]:
    """Unknown references and wrong arguments. Without `functions` only built-in checks are looked up."""
    for check in rubric.checks:
        if not isinstance(check, PythonCheck) or (functions is None and not check.ref.startswith("sandlot:")):
            continue
        try:
            function = resolve(check.ref, functions or _nothing)
        except (LookupError, AttributeError, ImportError, SandlotError) as error:
            yield _error(
                "unknown-ref", check, f"`{check.ref}` is not found: {error}", "write `module:function`, or `sandlot:NAME`"
            )
            continue
        try:
            binding(function, frozenset(check.args))
        except (TypeError, ValueError) as error:
            message = f"`{check.ref}` cannot be called with {sorted(check.args)}: {error}"
            yield _error("wrong-args", check, message, "match its parameters")
            continue
        if check.isolate and is_async(function):
            yield _error(
                "async-isolate", check, f"`{check.ref}` is async and isolated", "write a plain `def`, or remove `isolate`"
            )
        fault = pattern_fault(check.args["pattern"]) if check.ref == "sandlot:answer_matches" else None
        if fault is not None:
            yield _error("bad-pattern", check, fault, "write a pattern without nested repetitions")


def _nothing(ref: str) -> Function:
    raise LookupError(f"no functions were given to look up `{ref}`")


def _variables(rubric: Rubric, tasks: Sequence[Task]) -> Iterator[LintFinding]:
    for check in rubric.checks:
        if not isinstance(check, PythonCheck):
            continue
        words = [word for word in _strings(check.args) if _VARIABLE.match(word)]
        for word in words:
            if not word.startswith(("$key.", "$data.")):
                yield _warning("odd-variable", check, f"`{word}` is used literally", "only `$key.` and `$data.` are replaced")
        for task in tasks if words else ():
            try:
                substitute_values(check.args, task)
            except LookupError as error:
                yield _error("unknown-path", check, str(error.args[0]), "use a name of the task's key or data")
                break


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():  # pyright: ignore[reportUnknownVariableType] - arguments are the author's JSON
            yield from _strings(item)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list | tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _strings(item)  # pyright: ignore[reportUnknownArgumentType]


def _weights(rubric: Rubric) -> Iterator[LintFinding]:
    total = possible_points(rubric)
    for check in rubric.checks:
        share = check.points / total
        if share > _MAX_WEIGHT and len(rubric.checks) >= _MANY:
            message = f"`{check.id}` is worth {share:.0%} of the score"
            yield _warning("heavy", check, message, f"split it; give one check at most {_MAX_WEIGHT:.0%}")
        if check.gate and check.points < 0:
            message = f"`{check.id}` is a gate with negative points: met, it costs points; not met, the score is 0"
            yield _warning("negative-gate", check, message, "invert the question and give it 0 points or more")
        if check.points == 0 and not check.gate and not any(check.id in other.requires for other in rubric.checks):
            yield _warning(
                "worthless", check, f"`{check.id}` is worth 0 points and nothing requires it", "give it points or remove it"
            )
    judged = sum(max(check.points, 0.0) for check in rubric.checks if isinstance(check, JudgeCheck)) / total
    if judged:
        message = f"{judged:.0%} of the points come from a judge"
        yield LintFinding(
            code="judge-share", severity=LintSeverity.INFO, check=None, message=message, fix="use Python checks where possible"
        )


def _prompts(rubric: Rubric) -> Iterator[LintFinding]:
    for check in rubric.checks:
        if not isinstance(check, JudgeCheck):
            continue
        bare = _QUOTED.sub(" ", check.prompt)
        word = _COMPOUND.search(bare)
        if word:
            message = f"`{check.id}` joins two facts with `{word.group()}`: one of them may earn all points"
            yield _warning("compound", check, message, "make it two checks")
        if _NEGATED.search(bare):
            message = f"`{check.id}` is a negation" + (
                " with negative points" if check.points < 0 else ", which an empty answer meets"
            )
            yield _warning(
                "negation",
                check,
                message,
                "ask for what must be there; for what must not, ask for its presence with negative points",
            )
        if not {example.verdict for example in check.examples} >= {check.choices[0], check.choices[-1]}:
            message = f"`{check.id}` has no example of both `{check.choices[0]}` and `{check.choices[-1]}`"
            yield _warning("no-examples", check, message, "add one that passes and one that fails")


def _reported(rubric: Rubric) -> Iterator[LintFinding]:
    for check in reported_checks(rubric):
        views = " and ".join(f"`{name}`" for name in check.view if name in _REPORTED_VIEWS)
        yield LintFinding(
            code="reported-view",
            severity=LintSeverity.WARNING,
            check=check.id,
            message=f"`{check.id}` reads {views}: with `--agent-command`, that is what the agent's own program reports",
            fix="for such agents let it read files, which are evidence, or check app journals and `tool_called` events",
        )


def _duplicates(rubric: Rubric) -> Iterator[LintFinding]:
    words = [
        (check, frozenset(re.findall(r"\w+", check.prompt.casefold())))
        for check in rubric.checks
        if isinstance(check, JudgeCheck)
    ]
    for (one, left), (other, right) in combinations(words, 2):
        if one.view == other.view and len(left & right) > _MAX_OVERLAP * len(left | right):
            yield _warning("near-duplicate", other, f"`{other.id}` asks nearly the same as `{one.id}`", "keep one of them")
    calls: dict[tuple[str, str], str] = {}
    for check in rubric.checks:
        if isinstance(check, PythonCheck):
            call = (check.ref, repr(check.args))
            if call in calls:
                yield _warning(
                    "near-duplicate", check, f"`{check.id}` makes the same call as `{calls[call]}`", "keep one of them"
                )
            calls.setdefault(call, check.id)


def _presence(rubric: Rubric) -> Iterator[LintFinding]:
    total = sum(max(check.points, 0.0) for check in rubric.checks)
    present = sum(max(check.points, 0.0) for check in rubric.checks if _is_presence(check))
    if present > _MAX_PRESENCE * total:
        message = f"{present / total:.0%} of the points are for presence, not for correctness"
        yield _warning(
            "presence", None, message, f"add checks of correctness; at most {_MAX_PRESENCE:.0%} should be for presence"
        )


def _is_presence(check: Check) -> bool:
    if isinstance(check, JudgeCheck):
        return _PRESENCE.search(check.prompt) is not None
    return _PRESENCE_REF.search(check.ref) is not None


def _groups(rubric: Rubric) -> Iterator[LintFinding]:
    worth = {check.id: max(check.points, 0.0) for check in rubric.checks}
    for group in rubric.groups:
        together = sum(worth[name] for name in group.checks)
        if group.cap >= together:
            message = f"group `{group.id}` has cap {group.cap:g}, but its checks give at most {together:g}"
            yield _warning("idle-cap", None, message, "lower the cap or remove the group")
