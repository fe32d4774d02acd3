"""Grades and replays a few rollouts again, and compares them with what is stored.

Grading again runs every check on the stored evidence: a different score means a flaky grader. Replaying takes the recorded
turns in a fresh world: different observations, files or scores mean that the world does not depend on its seed alone. Both need
the environment as it was; if it has changed, there is no result.
"""

from collections.abc import Sequence

import anyio
import msgspec

from sandlot.analysis.health.item import HealthItem, HealthMark, too_little
from sandlot.core.errors import ConfigError, SandlotError
from sandlot.core.text import printable
from sandlot.core.trace import EvidenceRecord, Scored, Trace
from sandlot.core.types import End
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.model.policy.replay import ReplayUsers, replay_policies
from sandlot.rollout import run_rollout
from sandlot.run.regrade import describe_outcome, regrade
from sandlot.run.results import Run
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.config import judge_config
from sandlot.wiring.parts import Grading, RolloutParts, open_grading, open_harness

_SECONDS = 60.0
"""Time limit for replaying and for grading again; rollouts after that are left out, and the count shows it."""
_REPEATABLE = frozenset({End.DONE, End.TURN_LIMIT, End.BREACH, End.REFUSED})
"""Ends that depend only on the turns; running out of time or tokens may not repeat."""
_SHOWN = 3
_SHOWN_CHARS = 200
_AROUND_CHARS = 40
_MOST_SERIOUS_FIRST = ("score", "observations", "evidence")


class SentinelDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout that differs."""

    task: str
    rollout: int
    what: str
    """The most serious difference: `score`, `observations` or `evidence`."""
    detail: str


class _Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one of the two comparisons."""

    compared: int
    asked: int
    different: tuple[SentinelDifference, ...]


async def run_sentinel(
    run: Run, regraded: Sequence[Trace], replayed_again: Sequence[Trace], *, env: str | None = None, judge: str | None = None
) -> tuple[HealthItem, HealthItem]:
    """Grade some traces again, and replay some."""
    try:
        environment = load(env or run.manifest.source).in_image(run.manifest.config.image)
        changed = environment_fingerprint(environment, build=False) != run.manifest.fingerprints.environment
    except SandlotError as error:
        return _cannot(
            f"the environment cannot be opened: {printable(str(error), _SHOWN_CHARS)}", "the environment, `--env PATH`"
        )
    if changed:
        return _cannot("the environment has changed since the run", "the environment as it was, `--env PATH`")
    config = run.manifest.config
    try:
        async with open_grading(environment, judge=judge_config(judge), rubric=config.rubric, sandbox=config.sandbox) as grading:
            return (
                _regrade_item(await _grade_again(run, grading, regraded)),
                _replay_item(await _play_again(run, environment, grading, replayed_again)),
            )
    except SandlotError as error:
        return _cannot(f"{printable(str(error), _SHOWN_CHARS)}", "the fix that this error names")


async def _grade_again(run: Run, grading: Grading, traces: Sequence[Trace]) -> _Compared:
    """Run every check on the stored evidence again; the judge's cache is not used."""
    can = [trace for trace in traces if trace.evidence is not None and (grading.judge is not None or not _judged(trace))]
    different: list[SentinelDifference] = []
    compared = 0
    with anyio.move_on_after(_SECONDS):
        async for again in regrade(run, grading, can):
            compared += 1
            if not again.same:
                checks = ", ".join(f"`{name}`" for name in again.changed_checks[:_SHOWN])
                where = f" in {checks}" if checks else ""
                detail = printable(f"{describe_outcome(again.before)} then {describe_outcome(again.now)}{where}", _SHOWN_CHARS)
                different.append(SentinelDifference(task=again.task, rollout=again.rollout, what="score", detail=detail))
    return _Compared(compared=compared, asked=len(traces), different=tuple(different))


async def _play_again(run: Run, environment: Environment, grading: Grading, traces: Sequence[Trace]) -> _Compared:
    """Replay the recorded turns in fresh worlds, one after the other."""
    agent = run.manifest.config.agent
    can = [trace for trace in traces if is_repeatable(trace)] if agent.harness != "command" else []
    if not can:
        return _Compared(compared=0, asked=len(traces), different=())
    harness = open_harness(msgspec.structs.replace(agent, hooks=()))  # without the operator's hooks
    tasks = {task.id: task for task in tasks_of(environment)}
    different: list[SentinelDifference] = []
    compared = 0
    with anyio.move_on_after(_SECONDS):
        for trace in can:
            if trace.task not in tasks:
                raise ConfigError(f"the same environment no longer has task `{trace.task}`: its tasks are not stable")
            policies = replay_policies(lambda _task, _rollout, trace=trace: trace)
            users = ReplayUsers(lambda _task, _rollout, trace=trace: trace) if run.manifest.config.user else None
            parts = RolloutParts(grading=grading, policies=policies, harness=harness, users=users)
            again = await run_rollout(parts, tasks[trace.task], run=trace.run, rollout=trace.rollout, blobs=MemoryBlobs())
            compared += 1
            found = difference_of(trace, again)
            different += [found] if found else []
    return _Compared(compared=compared, asked=len(traces), different=tuple(different))


def is_repeatable(trace: Trace) -> bool:
    """True if a replay should give the same result: it ended by itself, and without intervention."""
    quiet = all(event.kind not in {"intervention", "drift"} for event in trace.events)
    return isinstance(trace.outcome, Scored) and trace.end in _REPEATABLE and trace.num_turns > 0 and quiet


def difference_of(then: Trace, now: Trace) -> SentinelDifference | None:
    """The most serious difference of two rollouts; None if they are identical."""
    what, detail = _difference(then, now)
    shown = printable(detail, _SHOWN_CHARS)
    return SentinelDifference(task=then.task, rollout=then.rollout, what=what, detail=shown) if what else None


def _difference(then: Trace, now: Trace) -> tuple[str, str]:
    without_judge = _judged(then) and not isinstance(now.outcome, Scored)  # there is no judge now
    if not without_judge and (then.reward is None or then.reward != now.reward):
        outcomes = [describe_outcome(trace.outcome) if trace.outcome else "none" for trace in (then, now)]
        return "score", f"{outcomes[0]} then {outcomes[1]}"
    diverged = next((event for event in now.events if event.kind == "replay_diverged"), None)
    if diverged is not None:
        detail = diverged.detail
        was, now_is = around_difference(str(detail.get("recorded")), str(detail.get("now")))
        return "observations", f"before turn {diverged.turn + 1} it saw {was!r}, and now {now_is!r}"
    names = _differing_evidence(then.evidence, now.evidence)
    return ("evidence", f"{names} differ") if names else ("", "")


def around_difference(one: str, other: str) -> tuple[str, str]:
    """Two texts around the first difference."""
    at = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, at - _AROUND_CHARS // 3)
    return one[start : at + _AROUND_CHARS], other[start : at + _AROUND_CHARS]


def _differing_evidence(then: EvidenceRecord | None, now: EvidenceRecord | None) -> str:
    if then is None or now is None:
        return "" if then is now else "the evidence"
    files = sorted(path for path in then.files.keys() | now.files.keys() if then.files.get(path) != now.files.get(path))
    names = [f"`{path}`" for path in files[:_SHOWN]]
    names += ["the state"] if then.state != now.state else []
    return ", ".join(names)


def _judged(trace: Trace) -> bool:
    return isinstance(trace.outcome, Scored) and any(check.judge is not None for check in trace.outcome.score.checks)


def _regrade_item(found: _Compared) -> HealthItem:
    if not found.compared:
        needed = "scored rollouts, and `--judge MODEL` if a judge decides checks"
        return too_little("regrade", "nothing could be graded again", needed)
    return _item("regrade", f"{found.compared} graded again", found)


def _replay_item(found: _Compared) -> HealthItem:
    if not found.compared:
        needed = "scored rollouts that ended by themselves, with a harness that can be replayed"
        return too_little("replay", "nothing could be replayed", needed)
    return _item("replay", f"{found.compared} replayed in fresh worlds", found)


def _item(name: str, done: str, found: _Compared) -> HealthItem:
    """The result of a comparison: another score is a failure, any other difference a warning."""
    worst_first = sorted(found.different, key=lambda each: _MOST_SERIOUS_FIRST.index(each.what))
    figures = msgspec.to_builtins(found)
    if not worst_first:
        return HealthItem(name=name, mark=HealthMark.OK, said=f"{done}, all the same", figures=figures)
    worst = worst_first[0]
    said = f"{done}, {len(worst_first)} differ: {worst.task}/{worst.rollout}, {worst.what}: {worst.detail}"
    mark = HealthMark.FAIL if worst.what == "score" else HealthMark.WARN
    look = tuple(f"{each.task}/{each.rollout}" for each in worst_first[:_SHOWN])
    return HealthItem(name=name, mark=mark, said=said, figures=figures, look=look)


def _cannot(why: str, needed: str) -> tuple[HealthItem, HealthItem]:
    return too_little("regrade", why, needed), too_little("replay", why, needed)
