"""Surroundings: the environment gives the same results on another day, machine or random seed.

First all surroundings are changed at once. Only if something differs, each is changed alone to find the cause.
"""

import datetime as dt
from collections.abc import Sequence

import msgspec

from sandlot.audit.case import IDLE, Case, Probe
from sandlot.audit.finding import Finding, Layer
from sandlot.audit.probes.differential.comparing import TrialDifference, difference_finding, differing_trials
from sandlot.audit.probes.likeness import Mismatch
from sandlot.audit.probes.plays import GOLDEN, choose_tasks
from sandlot.audit.probes.tour import tour_script
from sandlot.audit.subject import PLAIN, Conditions, Play, Regrade, Request, Take, Trial
from sandlot.core.concurrency.clock import SYSTEM_CLOCK

_TASKS, _SANDBOXED = 30, 4
_MAX_SUSPECTS = 12
_DAY_S = 86_400.0
_SAME = "the same opening, observations, final state and score under any surroundings"


def _surroundings(now_s: float) -> dict[str, Conditions]:
    """Each change alone, by the variant of its finding."""
    return {
        "clock": Conditions(clock_shift_s=_DAY_S),
        "leap-day": Conditions(clock_shift_s=_seconds_to_leap_day(now_s)),
        "years": Conditions(clock_shift_s=2 * 365.25 * _DAY_S),
        "network": Conditions(network=False),
        "random": Conditions(random_seed=20_011),
        "hash-seed": Conditions(hash_seed=1),
        "time-zone": Conditions(timezone="Pacific/Chatham"),
        "locale": Conditions(locale="de_DE.UTF-8"),
    }


def _combinations(now_s: float) -> list[Conditions]:
    """Three combinations that cover every change."""
    return [
        Conditions(
            clock_shift_s=_DAY_S, network=False, random_seed=20_011, hash_seed=1, timezone="Pacific/Chatham", locale="de_DE.UTF-8"
        ),
        Conditions(
            clock_shift_s=_seconds_to_leap_day(now_s),
            random_seed=7,
            hash_seed=2,
            timezone="America/St_Johns",
            locale="tr_TR.UTF-8",
        ),
        Conditions(clock_shift_s=2 * 365.25 * _DAY_S, random_seed=3, hash_seed=3),
    ]


def _seconds_to_leap_day(now_s: float) -> float:
    """Seconds until noon of the next 29 February."""
    today = dt.datetime.fromtimestamp(now_s, dt.UTC)
    year = next(year for year in range(today.year, today.year + 9) if year % 4 == 0 and dt.date(year, 2, 29) > today.date())
    return (dt.datetime(year, 2, 29, 12, tzinfo=dt.UTC) - today).total_seconds()


_TITLES = {
    "clock": "results differ one day later: the code reads the wall clock",
    "leap-day": "results differ on a leap day: the code reads the wall clock",
    "years": "results differ two years later: the code reads the wall clock",
    "network": "results differ without the network",
    "random": "results differ with another seed of Python's or numpy's global random generators",
    "chance": "the same trial gives different results: the code uses the clock or the system's random numbers",
    "hash-seed": "results differ with another `PYTHONHASHSEED`: the code uses the order of a set or the hash of a text",
    "time-zone": "results differ in another time zone",
    "locale": "results differ in another locale",
}


async def _look_at_surroundings(case: Case) -> list[Finding]:
    """Clock, network, random seed, hash seed, time zone and locale do not matter."""
    plain, requests = await _baseline(case)
    suspects: list[TrialDifference] = []
    now_s = SYSTEM_CLOCK.wall()
    reaching: list[TrialDifference] = []
    for conditions in _combinations(now_s):
        trials = await _repeat_under(case, requests, plain, conditions)
        suspects += differing_trials(case, requests, plain, trials)
        reaching += [
            _network_attempt(case, request, trial) for request, trial in zip(requests, trials, strict=True) if trial.reached
        ]
    found: list[Finding] = []
    if reaching:
        away = Conditions(network=False)
        expected = "no network access: everything comes from the task or the world"
        title = "the environment uses the network, whose answers may change"
        found.append(difference_finding(case, "D17.network", title, reaching, expected=expected, conditions=away))
    if suspects:
        parted = [
            request for request in requests if any((request.task, request.play) == (each.task.id, each.play) for each in suspects)
        ]
        found += await _find_causes(case, parted[:_MAX_SUSPECTS], now_s)
    return list({finding.code: finding for finding in found}.values())


def _network_attempt(case: Case, request: Take, trial: Trial) -> TrialDifference:
    task = next(task for task in case.tasks if task.id == request.task)
    return TrialDifference(
        task, request.play, Mismatch("network", "no connection", f"an attempt to reach {', '.join(trial.reached)}")
    )


async def _find_causes(case: Case, requests: Sequence[Take], now_s: float) -> list[Finding]:
    """Each change alone, compared with the same trials without it."""
    plain, again = await case.take(requests), await case.take(requests)
    if by_chance := differing_trials(case, requests, plain, again):
        return [await _chance_finding(case, requests, by_chance)]
    if differing_trials(case, requests, plain, await _repeat_under(case, requests, plain, PLAIN)):
        return []  # grading alone is not reproducible; `graded-again` reports that
    found: list[Finding] = []
    clock_is_read = False
    for name, conditions in _surroundings(now_s).items():
        parting = differing_trials(case, requests, plain, await _repeat_under(case, requests, plain, conditions))
        if parting and not (clock_is_read and conditions.clock_shift_s):
            title = _TITLES[name]
            found.append(difference_finding(case, f"D17.{name}", title, parting, expected=_SAME, conditions=conditions))
            clock_is_read = clock_is_read or conditions.clock_shift_s > 0
    return found


async def _chance_finding(case: Case, requests: Sequence[Take], found: Sequence[TrialDifference]) -> Finding:
    """The trial differs without any change: by global random generators if seeding them makes it reproducible."""
    seeded = Conditions(random_seed=1)
    one, other = [await case.take(requests, seeded) for _ in range(2)]
    name = "chance" if differing_trials(case, requests, one, other) else "random"
    return difference_finding(case, f"D17.{name}", _TITLES[name], found, expected="the same every time")


async def _baseline(case: Case) -> tuple[list[Trial], list[Take]]:
    """Idle, golden and tour trials without any change, and their requests."""
    tasks = choose_tasks(case, _TASKS, sandboxed=_SANDBOXED)
    golden, idle = await case.golden(), await case.idle()
    pairs: list[tuple[str, Play, Trial | None]] = [(task.id, IDLE, idle[task.id]) for task in tasks]
    pairs += [(task.id, GOLDEN, golden[task.id]) for task in tasks if task.id in golden]
    if case.description.tools and case.description.image is None:
        pairs += [(task.id, tour_script(case, golden[task.id]), None) for task in tasks[:_TASKS] if task.id in golden]
    requests = [Take(task=task, play=play, seed=case.seed) for task, play, _ in pairs]
    missing = [place for place, (_, _, trial) in enumerate(pairs) if trial is None]
    taken = dict(zip(missing, await case.take([requests[place] for place in missing]), strict=True))
    return [trial or taken[place] for place, (_, _, trial) in enumerate(pairs)], requests


async def _repeat_under(case: Case, requests: Sequence[Take], plain: Sequence[Trial], conditions: Conditions) -> list[Trial]:
    """The trials under these conditions, with the unchanged trials' evidence graded there as well."""
    again: list[Request] = [
        Regrade(trace=trial.trace, files=trial.files) for trial in plain if trial.trace and trial.trace.evidence
    ]
    trials = await case.take([*requests, *again], conditions)
    regraded = iter(trials[len(requests) :])
    return [
        _with_scores(trial, next(regraded)) if old.trace and old.trace.evidence else trial
        for trial, old in zip(trials, plain, strict=False)
    ]


def _with_scores(trial: Trial, regraded: Trial) -> Trial:
    """The trial, with the regraded scores if they differ."""
    if trial.scores and regraded.scores and trial.reward == regraded.reward:
        return trial
    return msgspec.structs.replace(trial, scores=regraded.scores) if regraded.scores else trial


PROBES = (Probe("other-surroundings", Layer.DIFFERENTIAL, ("D17",), _look_at_surroundings, without_golden=True),)
