"""Editing a rubric file of the environment that the command named: lint while one types, try it on stored rollouts, save it.

What a request may change is small: points, gate, requirements, tags, what a judge is asked, the arguments of a check, and new
checks by a judge or by a built-in function. A request never names code: functions are those that the environment has already.
"""

import codecs
import fcntl
import hashlib
import inspect
import json
import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec

from sandlot.checks import LIBRARY
from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError
from sandlot.core.rubric import JudgeCheck, PythonCheck, Rubric
from sandlot.core.text import printable
from sandlot.core.trace import Outcome, Scored
from sandlot.env.environment import Environment
from sandlot.env.taskset import tasks_of
from sandlot.grade.editing import CheckEdit, edit_checks
from sandlot.grade.lint import LintFinding, LintSeverity, lint
from sandlot.grade.loading import parse_rubric, read_rubric
from sandlot.grade.rules import possible_points
from sandlot.run.catalog import list_runs
from sandlot.run.regrade import Regraded, RubricTrial, describe_outcome, try_rubric
from sandlot.run.results import Run
from sandlot.web.pages.environment import require_served
from sandlot.web.site import Asked, link
from sandlot.web.told import told_text

_COMMON = ("points", "gate", "requires", "tags")
_EDITABLE = {"judge": (*_COMMON, "prompt", "choices", "view", "votes", "examples"), "python": (*_COMMON, "args")}
"""The fields of a check that a page may change."""
_FIXED = {"judge": ("kind", "id"), "python": ("kind", "id", "ref")}
"""Those that a new check has besides."""
_MOST = 500
"""Maximum rollouts of a trial."""
_SHOWN = 60
"""Changed rollouts that a trial lists."""
_RUNS = 30
_trying = threading.Lock()
"""One trial at a time: it runs the environment's checks, and may ask a judge."""


@dataclass(frozen=True)
class _File:
    """A rubric file as it is now."""

    name: str
    path: Path
    env: Environment
    text: str
    rubric: Rubric

    @property
    def digest(self) -> str:
        return _digest(self.text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def rubric_page(asked: Asked) -> dict[str, Any]:
    """The rubric that is asked for, to be edited."""
    file = _read(asked, asked.query.get("name", "default"))
    runs = [entry for entry in reversed(list_runs(asked.site.folder)) if entry.environment == file.env.name and entry.scored]
    return {
        "title": f"rubric {file.name}",
        "name": file.name,
        "environment": file.env.name,
        "path": str(file.path),
        "digest": file.digest,
        "checks": [_shown(place, check) for place, check in enumerate(file.rubric.checks)],
        "groups": [
            (printable(each.id, 100), each.cap, [printable(name, 200) for name in each.checks]) for each in file.rubric.groups
        ],
        "functions": _functions(),
        "runs": [(Path(entry.run).name, entry.scored, entry.model) for entry in runs[:_RUNS]],
        "judge": asked.site.judge,
        **_findings(file, file.rubric),
    }


def lint_edit(asked: Asked, told: dict[str, Any]) -> dict[str, Any]:
    """What is wrong with the rubric as it stands on the page. Nothing is written."""
    file = _read(asked, told_text(told, "name"))
    try:
        _, rubric = _edited(file, told)
    except _FieldError as error:
        return _broken(str(error), error.check)
    except ConfigError as error:
        return _broken(str(error), None)
    return {**_findings(file, rubric), "changed": rubric != file.rubric}


def try_edit(asked: Asked, told: dict[str, Any]) -> dict[str, Any]:
    """What would change in stored rollouts. Nothing is written."""
    file = _read(asked, told_text(told, "name"))
    _, rubric = _edited(file, told)
    _require_valid(file, rubric)
    if rubric.needs_judge and asked.site.judge is None:
        raise ConfigError("this rubric has judge checks; start the view with a grader model: `--judge MODEL`")
    most = told.get("most", 100)
    if not isinstance(most, int) or not 1 <= most <= _MOST:
        raise ConfigError(f"`most` is `{str(most)[:60]}`; give 1 to {_MOST}")
    run = Run(Asked(asked.site, told_text(told, "run"), asked.query).run)
    if run.manifest.environment != file.env.name:
        raise ConfigError(f"`{run.path.name}` is a run of `{run.manifest.environment}`, not of `{file.env.name}`")
    if not _trying.acquire(blocking=False):
        raise ConfigError("another trial is running; wait until it ends")
    try:
        return _said(
            told_text(told, "run"),
            anyio.run(partial(try_rubric, run, file.env, file.name, rubric, judge=asked.site.judge, most=most)),
        )
    finally:
        _trying.release()


def save_edit(asked: Asked, told: dict[str, Any]) -> dict[str, Any]:
    """Write the rubric, whole or not at all. Refused if the file changed meanwhile, or the rubric cannot be graded."""
    if not asked.site.control:
        raise ConfigError("rubrics are saved only by a view that was started with `--control`")
    path = _path(asked, told_text(told, "name"))
    with _alone(path.parent):
        file = _read(asked, told_text(told, "name"))
        if told_text(told, "seen") != file.digest:
            raise ConfigError(
                f"`{file.path.name}` has changed since this page was loaded; load it again, then repeat your changes"
            )
        text, rubric = _edited(file, told)
        _require_valid(file, rubric)
        mode, mark = path.stat().st_mode & 0o777, _byte_order_mark(path)
        write_file(path, mark + text.encode())
        path.chmod(mode)
    file.env.marked.rubrics[file.name] = rubric
    return {"saved": str(path), "seen": _digest(text)}


# -- the file ----------------------------------------------------------------------------------------------------------


def _path(asked: Asked, name: str) -> Path:
    """The file of a rubric: one of those that the environment had when it was loaded."""
    served = require_served(asked)
    if name not in served.rubrics:
        known = ", ".join(served.rubrics) or "none: only environments that are folders have rubric files"
        raise ConfigError(f"no rubric file `{name[:100]}`; there are: {known}")
    return served.rubrics[name].resolve()


def _read(asked: Asked, name: str) -> _File:
    path = _path(asked, name)
    text = read_rubric(path)
    return _File(name, path, require_served(asked).env, text, parse_rubric(text, path.name))


def _byte_order_mark(path: Path) -> bytes:
    with path.open("rb") as file:
        return codecs.BOM_UTF8 if file.read(3) == codecs.BOM_UTF8 else b""


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Let one process at a time save a rubric here, so that none overwrites what another has just written."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


class _FieldError(ConfigError):
    """A field that is no value of its kind: a word where a number belongs."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(f"check `{check}`: {message}")
        self.check = check


def _broken(message: str, check: str | None) -> dict[str, Any]:
    found = LintFinding(code="schema", severity=LintSeverity.ERROR, check=check, message=message, fix="")
    return {"findings": [_finding(found)], "errors": 1, "points": None, "changed": True}


# -- the edit ----------------------------------------------------------------------------------------------------------


def _edited(file: _File, told: Mapping[str, Any]) -> tuple[str, Rubric]:
    """The text of the file with the posted checks, and the rubric that it is."""
    posted = told.get("checks")
    if not isinstance(posted, list) or len(cast("list[Any]", posted)) > 2000:
        raise ConfigError("`checks` must be a list of checks")
    stored = json.loads(file.text)["checks"]
    edits = [_edit(each, stored, place) for place, each in enumerate(cast("list[Any]", posted))]
    text = edit_checks(file.text, edits)
    return text, parse_rubric(text, file.path.name)


def _edit(posted: Any, stored: list[dict[str, Any]], place: int) -> CheckEdit:
    if not isinstance(posted, dict):
        raise ConfigError(f"check {place + 1} is not an object")
    check = cast("dict[str, Any]", posted)
    was = check.get("was")
    if was is None:
        _require_kinds(check, str(check.get("id", "")))
        return CheckEdit(None, _new_check(check, place))
    if not isinstance(was, int) or isinstance(was, bool) or not 0 <= was < len(stored):
        raise ConfigError(f"check {place + 1} names place `{str(was)[:60]}` of the file, which has {len(stored)} checks")
    old = stored[was]
    _require_kinds(check, str(old["id"]))
    changed = {name: check[name] for name in _EDITABLE[old["kind"]] if name in check and _differs(old, name, check[name])}
    return CheckEdit(was, {**old, **changed})


def _require_kinds(check: Mapping[str, Any], name: str) -> None:
    """Say in plain words what the schema would refuse: a field is filled in by a person who may not know its terms."""
    for field in ("points", "votes"):
        value = check.get(field, 1)
        if isinstance(value, bool) or not isinstance(value, int if field == "votes" else int | float):
            raise _FieldError(name, f"{field}: write a {'whole ' * (field == 'votes')}number, not `{str(value)[:60]}`")
    if not isinstance(check.get("examples", []), list):
        raise _FieldError(name, "the examples are not a list")
    if not isinstance(check.get("args", {}), dict):
        raise _FieldError(name, 'the arguments are not written as names and values, such as {"path": "/out/report.txt"}')


def _new_check(check: dict[str, Any], place: int) -> dict[str, Any]:
    kind = check.get("kind")
    if kind not in _EDITABLE:
        raise ConfigError(f"check {place + 1} is of kind `{str(kind)[:60]}`; a new one is by `judge` or `python`")
    if kind == "python" and check.get("ref") not in {f"sandlot:{name}" for name in LIBRARY}:
        raise ConfigError(
            f"check {place + 1}: a new check uses a built-in function: {', '.join(f'sandlot:{name}' for name in LIBRARY)}"
        )
    fixed = {name: check.get(name, "") for name in _FIXED[str(kind)]}
    given = {name: check[name] for name in _EDITABLE[str(kind)] if name in check and _differs(fixed, name, check[name])}
    return {**fixed, **given}


_DEFAULTS: dict[str, Any] = {
    field.name: json.loads(
        msgspec.json.encode(field.default if field.default is not msgspec.NODEFAULT else field.default_factory())
    )
    for kind in (JudgeCheck, PythonCheck)
    for field in msgspec.structs.fields(kind)
    if not field.required
}


def _differs(old: Mapping[str, Any], name: str, value: object) -> bool:
    """True if a field has to be written: it is not as it was, and not the default that the file leaves out."""
    return bool(value != old[name]) if name in old else value != _DEFAULTS.get(name, ...)


# -- what is said ------------------------------------------------------------------------------------------------------


def _findings(file: _File, rubric: Rubric) -> dict[str, Any]:
    found = _lint(file, rubric)
    errors = sum(each.severity is LintSeverity.ERROR for each in found)
    return {"findings": [_finding(each) for each in found], "errors": errors, "points": possible_points(rubric)}


def _lint(file: _File, rubric: Rubric) -> list[LintFinding]:
    tasks = [task for task in tasks_of(file.env) if task.rubric == file.name]
    return lint(rubric, functions=_resolver(file.env), tasks=tasks)


def _resolver(env: Environment) -> Callable[[str], Callable[..., Any]]:
    """Looks functions up among those that the environment has; nothing is imported."""

    def find(ref: str) -> Callable[..., Any]:
        if ref not in env.marked.functions:
            raise LookupError("the environment has no such function; start the view again if it was just written")
        return env.marked.functions[ref]

    return find


def _require_valid(file: _File, rubric: Rubric) -> None:
    errors = [each for each in _lint(file, rubric) if each.severity is LintSeverity.ERROR]
    if errors:
        raise ConfigError("; ".join(f"{each.message}: {each.fix}" for each in errors[:5]))


def _finding(found: LintFinding) -> dict[str, Any]:
    return {
        "code": found.code,
        "severity": str(found.severity),
        "check": printable(found.check or "", 200),
        "message": printable(found.message, 600),
        "fix": printable(found.fix, 400),
    }


def _shown(place: int, check: JudgeCheck | PythonCheck) -> dict[str, Any]:
    judged = isinstance(check, JudgeCheck)
    fields = {
        "place": place,
        "kind": "judge" if judged else "python",
        "id": printable(check.id, 200),
        "points": json.dumps(int(check.points) if check.points.is_integer() else check.points),
        "gate": check.gate,
        "requires": ", ".join(check.requires),
        "tags": ", ".join(check.tags),
    }
    if judged:
        words = {"choices": ", ".join(check.choices), "view": ", ".join(check.view)}
        return {**fields, **words, "prompt": check.prompt, "votes": check.votes, "examples": check.examples}
    function = LIBRARY.get(check.ref.removeprefix("sandlot:")) if check.ref.startswith("sandlot:") else None
    args = json.dumps(check.args, ensure_ascii=False) if check.args else ""
    return {**fields, "ref": printable(check.ref, 200), "args": args, "what": _first_line(function) if function else ""}


def _functions() -> list[dict[str, str]]:
    """The built-in checks, with their arguments."""
    found: list[dict[str, str]] = []
    for name, function in LIBRARY.items():
        parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "evidence"]
        needed = {each.name: "" for each in parameters if each.default is each.empty}
        said = ", ".join(each.name if each.default is each.empty else f"{each.name}?" for each in parameters)
        found.append({"ref": f"sandlot:{name}", "what": f"({said}) {_first_line(function)}", "args": json.dumps(needed)})
    return found


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _said(run: str, trial: RubricTrial) -> dict[str, Any]:
    changed = sorted((each for each in trial.graded if _size(each)), key=_size, reverse=True)
    checks: dict[str, int] = {}
    for each in changed:
        for name in each.changed_checks:
            checks[name] = checks.get(name, 0) + 1
    return {
        "graded": len(trial.graded),
        "of": trial.of,
        "stopped": trial.stopped,
        "same_environment": trial.same_environment,
        "changed": len(changed),
        "only_points": sum(not each.same for each in trial.graded) - len(changed),
        "before": _mean([each.before for each in trial.graded]),
        "now": _mean([each.now for each in trial.graded]),
        "passed_before": sum(isinstance(each.before, Scored) and each.before.score.passed for each in trial.graded),
        "passed_now": sum(isinstance(each.now, Scored) and each.now.score.passed for each in trial.graded),
        "checks": sorted(((printable(name, 200), count) for name, count in checks.items()), key=lambda pair: -pair[1]),
        "rollouts": [_changed(run, each) for each in changed[:_SHOWN]],
    }


def _size(each: Regraded) -> float:
    """How much the score changes; 0 if it does not, and more than any score if there is one no longer, or only now."""
    before, now = (outcome.score.value if isinstance(outcome, Scored) else None for outcome in (each.before, each.now))
    if before is None or now is None:
        return 0.0 if before is now else 1e9
    return abs(now - before) if abs(now - before) > 1e-9 else 0.0


def _mean(outcomes: list[Outcome]) -> float | None:
    scores = [outcome.score.value for outcome in outcomes if isinstance(outcome, Scored)]
    return sum(scores) / len(scores) if scores else None


def _changed(run: str, each: Regraded) -> dict[str, Any]:
    return {
        "task": each.task,
        "rollout": each.rollout,
        "link": link(run, "trace", task=each.task, rollout=each.rollout),
        "before": printable(describe_outcome(each.before), 200),
        "now": printable(describe_outcome(each.now), 200),
        "checks": [printable(name, 200) for name in each.changed_checks[:10]],
    }
