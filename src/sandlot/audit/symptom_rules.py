"""Rules that read a handful of rollouts by known players and say what looks mis-specified in the environment.

Each rule is a function from the rollouts to symptoms. What an author declares in `audit.toml` as intended is not reported.
"""

import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from sandlot.audit.probes.static.actions import find_unknown_tools
from sandlot.audit.subject import Description
from sandlot.audit.symptom import PlayedRollout, Symptom
from sandlot.core.text import one_line
from sandlot.core.types import End, Side

_IDLE = ("noop", "echo", "refuse")
"""Players that do nothing useful."""
_SHOWN = 3
_TURNS = 0.7
"""Largest share of the turn limit that the golden solution may use."""
_PARTIAL = 3
"""Rollouts with some checks met and others not, from which two checks can be compared."""
_MOST_PAIRS = 5
_LIMITS = {End.TURN_LIMIT.value, End.TOKEN_LIMIT.value, End.TIME_LIMIT.value, End.MEMORY_LIMIT.value}
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Played:
    """The rollouts of a diagnosis, and what they were played in."""

    env: str
    """The environment as the user named it."""
    model: str | None
    description: Description
    rollouts: Sequence[PlayedRollout]

    def by(self, *players: str) -> list[PlayedRollout]:
        """The rollouts of these players."""
        return [each for each in self.rollouts if each.player in players]

    def symptom(self, kind: str, said: str, shown: Sequence[PlayedRollout], *, wrong: bool, count: int | None = None) -> Symptom:
        """A symptom that these rollouts show."""
        first = shown[0]
        model = self.model if first.player == "model" else f"scripted:{first.player}"
        return Symptom(
            kind=kind,
            wrong=wrong,
            said=said,
            run=first.run,
            rollouts=tuple(each.key for each in shown[:_SHOWN] if each.run == first.run),
            count=len(shown) if count is None else count,
            show=shlex.join(("sandlot", "show", f"{first.run}/{first.task}/{first.rollout}")),
            again=shlex.join(("sandlot", "run", self.env, "--model", model or "", "--task", first.task)),
        )

    def may_idle(self, task: str) -> bool:
        """True if the author declares that doing nothing is right on this task."""
        correct = self.description.declared.noop_is_correct
        tags = next((each.tags for each in self.description.tasks if each.id == task), ())
        return task in correct or any(tag in correct for tag in tags)


def find_symptoms(played: Played) -> list[Symptom]:
    """What every rule says, what is wrong first."""
    return sorted((symptom for rule in _RULES for symptom in rule(played)), key=lambda symptom: not symptom.wrong)


# -- players that should win or lose -----------------------------------------------------------------------------------


def _golden_loses(played: Played) -> Iterator[Symptom]:
    golden = played.by("golden")
    lost = [each for each in golden if each.score is not None and not each.full]
    if lost:
        low = min(each.score or 0.0 for each in lost)
        said = f"the golden solution does not get full marks in {len(lost)} of {len(golden)} rollouts (lowest {low:.3f})"
        yield played.symptom("golden_loses", said, lost, wrong=True)
    scores: defaultdict[str, list[PlayedRollout]] = defaultdict(list)
    for each in golden:
        if each.score is not None:
            scores[each.task].append(each)
    unsteady = [group for group in scores.values() if len({each.score for each in group}) > 1]
    if unsteady:
        said = f"the golden solution gets different scores on the same task: {len(unsteady)} of {len(scores)} tasks"
        yield played.symptom("golden_unsteady", said, unsteady[0], wrong=True, count=len(unsteady))


def _idle_scores(played: Played) -> Iterator[Symptom]:
    floor = played.description.declared.floor + _EPSILON
    for player in _IDLE:
        rollouts = [each for each in played.by(player) if not played.may_idle(each.task)]
        paid = sorted((each for each in rollouts if (each.score or 0.0) > floor), key=lambda each: -(each.score or 0.0))
        if paid:
            said = (
                f"`{player}` does nothing useful and scores up to {paid[0].score:.3f} in {len(paid)} of {len(rollouts)} rollouts"
            )
            yield played.symptom("idle_scores", said, paid, wrong=True)


def _random_scores(played: Played) -> Iterator[Symptom]:
    idle = defaultdict(float, {each.task: 0.0 for each in played.rollouts})
    for each in played.by(*_IDLE):
        idle[each.task] = max(idle[each.task], each.score or 0.0)
    floor, random = played.description.declared.floor, played.by("random")
    paid = [each for each in random if (each.score or 0.0) > max(floor, idle[each.task]) + _EPSILON]
    paid = [each for each in paid if not played.may_idle(each.task)]
    if paid and not played.description.declared.guessable:
        paid.sort(key=lambda each: -(each.score or 0.0))
        said = f"random tool calls score up to {paid[0].score:.3f} in {len(paid)} of {len(random)} rollouts"
        yield played.symptom("random_scores", said, paid, wrong=paid[0].full)


def _failures(played: Played) -> Iterator[Symptom]:
    found: defaultdict[tuple[str, str], list[PlayedRollout]] = defaultdict(list)
    for each in played.rollouts:
        if each.failed is not None and each.failed.side is not Side.MODEL:
            found[each.failed.side.value, each.failed.kind].append(each)
    for (side, kind), failed in found.items():
        message = one_line(failed[0].failed.message if failed[0].failed else "", 300)
        said = f"{len(failed)} rollouts have no score ({side}, {one_line(kind, 80)}): {message}"
        yield played.symptom("failed", said, failed, wrong=True)


def _crashes(played: Played) -> Iterator[Symptom]:
    found: defaultdict[str, list[PlayedRollout]] = defaultdict(list)
    for each in played.rollouts:
        for crash in each.crashes:
            found[crash].append(each)
    for crash, shown in found.items():
        said = f"a crash of the environment in {len(shown)} rollouts, which are graded all the same: {one_line(crash, 200)}"
        yield played.symptom("crashed", said, shown, wrong=True)


def _no_spread(played: Played) -> Iterator[Symptom]:
    flat: list[list[PlayedRollout]] = []
    tasks: defaultdict[str, list[PlayedRollout]] = defaultdict(list)
    for each in played.rollouts:
        if each.player != "model" and each.score is not None:
            tasks[each.task].append(each)
    for task, group in tasks.items():
        players = {each.player for each in group}
        if (
            "golden" in players
            and players & set(_IDLE)
            and len({each.score for each in group}) == 1
            and not played.may_idle(task)
        ):
            flat.append(group)
    if flat:
        said = f"all players, golden and idle, get the same score on {len(flat)} of {len(tasks)} tasks"
        yield played.symptom("no_spread", said, flat[0], wrong=True, count=len(flat))
    model: defaultdict[str, list[PlayedRollout]] = defaultdict(list)
    for each in played.by("model"):
        model[each.task].append(each)
    same = [group for group in model.values() if len(group) > 1 and len({each.score for each in group}) == 1]
    if model and len(same) == len(model) and same:
        said = f"on each of {len(same)} tasks all rollouts of the model get the same score: a group teaches nothing"
        yield played.symptom("model_no_spread", said, same[0], wrong=False, count=len(same))


# -- checks ------------------------------------------------------------------------------------------------------------


def _checks(played: Played) -> Iterator[Symptom]:
    seen: defaultdict[str, list[PlayedRollout]] = defaultdict(list)
    for each in played.rollouts:
        for check in each.checks:
            seen[check].append(each)
    has_golden = bool(played.by("golden"))
    for check, rollouts in seen.items():
        met = [each for each in rollouts if each.checks[check] >= 1.0]
        name = one_line(check, 80)
        if not any(each.checks[check] > 0 for each in rollouts) and (has_golden or played.by("model")):
            said = f"check `{name}` gave no points in any of {len(rollouts)} rollouts"
            shown = [each for each in rollouts if each.player == "golden"] or rollouts
            yield played.symptom("check_never_met", said, shown, wrong=has_golden, count=len(rollouts))
        elif len(met) == len(rollouts) and any(each.player in _IDLE and not played.may_idle(each.task) for each in rollouts):
            said = f"check `{name}` is met in all {len(rollouts)} rollouts, also by players that do nothing"
            shown = [each for each in rollouts if each.player in _IDLE]
            yield played.symptom("check_always_met", said, shown, wrong=False, count=len(rollouts))


def _agreeing_checks(played: Played) -> Iterator[Symptom]:
    partial = [each for each in played.rollouts if 0 < sum(value >= 1 for value in each.checks.values()) < len(each.checks)]
    if len(partial) < _PARTIAL:
        return
    names = sorted({check for each in played.rollouts for check in each.checks})
    found = 0
    for one, other in combinations(names, 2):
        both = [each for each in played.rollouts if one in each.checks and other in each.checks]
        shown = [each for each in both if each in partial]
        agree = all(each.checks[one] == each.checks[other] for each in both)
        told = len({each.checks[one] for each in shown}) > 1  # both met and missed while other checks were not alike
        if agree and told and len(shown) >= _PARTIAL and found < _MOST_PAIRS:
            found += 1
            said = f"checks `{one_line(one, 80)}` and `{one_line(other, 80)}` agree in all {len(both)} rollouts"
            yield played.symptom("checks_agree", said, shown, wrong=False, count=len(both))


# -- limits and tools --------------------------------------------------------------------------------------------------


def _limits(played: Played) -> Iterator[Symptom]:
    hit: defaultdict[tuple[str, str], list[PlayedRollout]] = defaultdict(list)
    for each in played.rollouts:
        able = each.player in {"golden", "model"}
        if each.end in _LIMITS and (able or each.end != End.TURN_LIMIT):  # other players do not try to end
            hit[each.end, each.player].append(each)
    for (end, player), rollouts in hit.items():
        total = len(played.by(player))
        who = "the golden solution" if player == "golden" else "the model" if player == "model" else f"`{player}`"
        said = f"{who} was ended by the {end.replace('_', ' ')} in {len(rollouts)} of {total} rollouts"
        yield played.symptom("limit_hit", said, rollouts, wrong=player == "golden")
    limits, tasks = played.description.limits, {task.id: task for task in played.description.tasks}
    tight = [
        each
        for each in played.by("golden")
        if each.full and each.turns > max(1, _TURNS * limits.but(tasks[each.task].limits).turns)
    ]
    if tight:
        worst = max(tight, key=lambda each: each.turns)
        allowed = limits.but(tasks[worst.task].limits).turns
        said = f"the golden solution uses {worst.turns} of {allowed} turns: an agent that explores first cannot finish"
        yield played.symptom("limit_near", said, [worst, *tight], wrong=False, count=len(tight))


def _tools(played: Played) -> Iterator[Symptom]:
    able = played.by("golden", "model")
    if not able:
        return
    calls: Counter[str] = Counter(name for each in able for name, _ in each.calls)
    errors: Counter[str] = Counter(name for each in able for name, error in each.calls if error)
    known = [tool.name for tool in played.description.tools]
    unused = [name for name in known if not calls[name]]
    if unused:
        who = "the golden solution" + (" or the model" if played.model else "")
        said = f"tools that {who} never calls: {', '.join(f'`{one_line(name, 60)}`' for name in unused)}"
        yield played.symptom("tool_unused", said, able, wrong=False, count=len(unused))
    for name in known:
        if calls[name] and errors[name] == calls[name]:
            shown = [each for each in able if any(called == name for called, _ in each.calls)]
            said = f"every call of `{one_line(name, 60)}` is answered with an error ({calls[name]} calls)"
            yield played.symptom("tool_fails", said, shown, wrong=True)


def _unknown_tools(played: Played) -> Iterator[Symptom]:
    again = shlex.join(("sandlot", "audit", played.env, "--probe", "tool-schemas"))
    for finding in find_unknown_tools(played.description):
        shown = [each for each in played.rollouts if finding.task in {None, each.task}] or list(played.rollouts)
        yield Symptom(
            kind="tool_unknown",
            wrong=finding.grave,
            said=one_line(finding.title, 300),
            run=shown[0].run,
            rollouts=(shown[0].key,),
            count=finding.count,
            show=shlex.join(("sandlot", "show", f"{shown[0].run}/{shown[0].task}/{shown[0].rollout}")),
            again=again,
        )


_Rule = Callable[[Played], Iterator[Symptom]]
_RULES: tuple[_Rule, ...] = (
    _failures,
    _crashes,
    _golden_loses,
    _idle_scores,
    _random_scores,
    _no_spread,
    _checks,
    _agreeing_checks,
    _limits,
    _tools,
    _unknown_tools,
)
