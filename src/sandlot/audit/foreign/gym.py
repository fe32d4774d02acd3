"""A Gymnasium environment as a subject: tasks are seeds, and what it showed is data.

Gymnasium is no dependency of ours: the environment is made and played by the user's own Python, in the sandbox. There is no
golden solution and no rubric here, so what is asked are promises every environment makes: the same seed opens the same world,
nothing of one rollout is left in the next, steps are of the agreed shape, rewards are numbers in range, spaces tell the truth.
"""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Standing, Witness
from sandlot.audit.foreign.place import open_place
from sandlot.audit.foreign.python import interpreter
from sandlot.audit.foreign.worker import Answer, Budget, Workshop, open_workshop
from sandlot.audit.subject import PLAIN, Call, Conditions, Description, Named, Regrade, Request, Take, Trial
from sandlot.errors import ConfigError
from sandlot.ports import ToolSpec
from sandlot.task import Task
from sandlot.trace import EvidenceRecord, Trace
from sandlot.types import End, Json, digest

PLAYS = ("random", "outside", "dirty")
"""Actions out of the space; actions that are not in it; random ones, and one more reset when they are over."""


class GymConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which environment, and how far it is played."""

    env: str
    """`module:make`, or the id it is registered with."""
    arguments: Json = {}
    """For making it."""
    seeds: int = 8
    steps: int = 50
    python: str = "python3"
    path: tuple[str, ...] = (".",)
    """Folders modules are looked for in; the sandbox sees these, the Python, and nothing else of the machine."""
    budget: Budget = Budget()


class GymSubject:
    """An environment and its seeds (port `Subject`). Get one from `open_gym`."""

    def __init__(self, config: GymConfig, workshop: Workshop) -> None:
        self._config = config
        self._workshop = workshop

    async def describe(self) -> Description:
        """What its spaces are; `ConfigError` if it cannot be made."""
        facts = await self._workshop.facts(PLAIN)
        tasks = tuple(Task(f"seed-{seed}", data={"seed": seed, **facts}) for seed in range(self._config.seeds))
        about = f"One step with an action of {facts.get('actions')}."
        act = ToolSpec(name="act", description=about, parameters={"type": "object", "properties": {"action": {}}})
        stamp = digest(msgspec.json.encode([self._config, facts]))
        return Description(name=self._config.env, kind="gymnasium", fingerprint=stamp, tasks=tasks, tools=(act,))

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        """Play each; what was shown is the final state of its evidence. There is no score."""
        answers = await self._workshop.call([self._call(request) for request in requests], conditions)
        return [_trial(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def _call(self, request: Request) -> Json:
        if isinstance(request, Regrade):
            raise ConfigError("a Gymnasium environment has no grader to ask again")
        named = request.play.name if isinstance(request.play, Named) else ""
        if isinstance(request.play, Named) and named not in PLAYS:
            raise ConfigError(f"nobody called `{named}` plays a Gymnasium environment; there are: {', '.join(PLAYS)}")
        turns = () if isinstance(request.play, Named) else request.play.turns
        actions = [act.arguments.get("action") for turn in turns for act in turn if isinstance(act, Call)]
        return {
            "seed": int(request.task.removeprefix("seed-")),
            "play": named,
            "actions": actions,
            "draws": request.seed,
            "steps": self._config.steps,
            "again": named == "dirty",
        }


def _trial(request: Request, answer: Answer) -> Trial:
    assert isinstance(request, Take)
    if answer.lost is not None:
        return Trial(lost=answer.lost)
    evidence = EvidenceRecord(state=answer.results)
    trace = Trace(run="audit", task=request.task, rollout=0, seed=request.seed, end=End.DONE, evidence=evidence)
    return Trial(trace=trace, seconds=answer.seconds, peak_bytes=answer.peak_bytes)


@asynccontextmanager
async def open_gym(config: GymConfig, *, without_sandbox: bool = False) -> AsyncGenerator[GymSubject]:
    """An environment, ready to be audited for as long as the context lasts."""
    python = interpreter(config.python)
    folders = tuple(Path(folder).resolve() for folder in config.path)  # noqa: ASYNC240 - a handful of names
    spec: Json = {"env": config.env, "arguments": config.arguments, "path": [str(folder) for folder in folders]}
    async with (
        open_place(python, folders, unconfined=without_sandbox) as place,
        open_workshop(place, "sandlot_gym", spec, config.budget) as workshop,
    ):
        yield GymSubject(config, workshop)


# -- probes --------------------------------------------------------------------------------------------------------------------


def shown(trial: Trial) -> Json:
    """What a trial noted; empty if it was lost."""
    return cast("Json", trial.trace.evidence.state) if trial.trace and trial.trace.evidence else {}


async def look_at_resets(case: Case) -> list[Finding]:
    """The same seed opens the same world and the same actions lead to the same: again, in another process, after others."""
    requests = [Take(task=task.id, play=Named(name="random"), seed=case.seed) for task in case.tasks]
    first = await case.take(requests)
    others = {
        "played again in the same process": (await case.take([*requests, *requests]))[len(requests) :],
        "played in a process of its own": await case.take(requests, Conditions(alone=True)),
        "played with another hash seed and other random numbers": await case.take(
            requests, Conditions(hash_seed=1, random_seed=5)
        ),
    }
    found: list[Finding] = []
    for how, trials in others.items():
        part = [(task, one, two) for task, one, two in zip(case.tasks, first, trials, strict=True) if _path(one) != _path(two)]
        if part:
            task, one, two = part[0]
            code = "D17.process" if "hash" in how else "D05.reset"
            witness = Witness(inputs={"task": task.id, "play": "random", "then": how}, expected=_said(one), observed=_said(two))
            found.append(_finding(code, f"the same seed and actions lead elsewhere when {how}", task, witness, len(part)))
    return found[:1]  # one cause: the first is the plainest


async def look_at_leaks(case: Case) -> list[Finding]:
    """A reset after a whole rollout opens the world that the seed names."""
    trials = await case.take([Take(task=task.id, play=Named(name="dirty"), seed=case.seed) for task in case.tasks])
    part = [(task, shown(trial)) for task, trial in zip(case.tasks, trials, strict=True) if _leaks(shown(trial))]
    if not part:
        return []
    task, noted = part[0]
    witness = Witness(
        inputs={"task": task.id, "play": "random until it ends, then reset with the same seed"},
        expected=f"observation {noted['opening']['digest']}",
        observed=f"observation {noted['reopening']['digest']}",
    )
    return [
        _finding("D05.leak", "a reset does not bring the opening back: something of the rollout stays", task, witness, len(part))
    ]


async def look_at_steps(case: Case) -> list[Finding]:
    """Steps are of the agreed shape, observations in their space, rewards finite and in range, sampled actions taken."""
    trials = await case.take([Take(task=task.id, play=Named(name="random"), seed=case.seed) for task in case.tasks])
    seen: dict[str, list[tuple[Task, str]]] = {}
    for task, trial in zip(case.tasks, trials, strict=True):
        for code, what in _breaches(trial, task):
            seen.setdefault(code, []).append((task, what))
    titles = {
        "D08.action": "an action out of the action space is not taken",
        "D08.observation": "an observation is not in the observation space",
        "D08.shape": "reset or step return something else than agreed",
        "D06.nan": "a reward is no finite number",
        "D06.range": "a reward is outside of the declared range",
        "D13.lost": "playing it breaks",
    }
    return [
        _finding(
            code,
            titles[code],
            each[0][0],
            Witness(
                inputs={"task": each[0][0].id, "play": "random"}, expected="what Gymnasium's interface says", observed=each[0][1]
            ),
            len({task.id for task, _ in each}),
        )
        for code, each in seen.items()
    ]


async def look_outside(case: Case) -> list[Finding]:
    """An action that is not in the space is refused."""
    trials = await case.take([Take(task=task.id, play=Named(name="outside"), seed=case.seed) for task in case.tasks])
    taken = [
        (task, noted["steps"][0])
        for task, trial in zip(case.tasks, trials, strict=True)
        if (noted := shown(trial)).get("steps") and "raised" not in noted["steps"][0]
    ]
    if not taken:
        return []
    task, step = taken[0]
    witness = Witness(inputs={"task": task.id, "action": step["action"]}, expected="an error", observed=f"a step: {step}")
    title = "actions that are not in the action space are taken as if they were"
    return [_finding("D08.outside", title, task, witness, len(taken), Severity.LOW)]


def _breaches(trial: Trial, task: Task) -> list[tuple[str, str]]:
    noted = shown(trial)
    if trial.lost is not None or noted.get("error"):
        return [("D13.lost", trial.fate if trial.lost else str(noted["error"]))]
    found = [("D08.shape", "reset returns no pair")] if not noted["opening"]["pair"] else []
    found += [("D08.observation", "the first")] if noted["opening"]["inside"] is False else []
    for number, step in enumerate(noted["steps"]):
        found += [(code, f"step {number} ({step['action'][:80]}): {what}") for code, what in _step_breaches(step, task)]
    return found


def _step_breaches(step: Json, task: Task) -> list[tuple[str, str]]:
    if "raised" in step:
        return [("D08.action", step["raised"])]
    if step["parts"] != 5 or not step["flags"]:
        return [("D08.shape", f"{step['parts']} values, terminated and truncated are bools: {step.get('flags')}")]
    found = [("D08.observation", "outside")] if step["inside"] is False else []
    reward = float(step["reward"] or "nan")
    if not math.isfinite(reward):
        return [*found, ("D06.nan", f"reward {step['reward'] or 'is no number'}")]
    bounds = [float(bound) for bound in cast("list[str]", task.data.get("reward_range") or []) if bound]
    outside = len(bounds) == 2 and not bounds[0] <= reward <= bounds[1]
    return [*found, ("D06.range", f"reward {reward:g}, declared {bounds[0]:g} to {bounds[1]:g}")] if outside else found


def _leaks(noted: Json) -> bool:
    return "reopening" in noted and noted["reopening"]["digest"] != noted["opening"]["digest"]


def _path(trial: Trial) -> Any:
    noted = shown(trial)
    steps = [
        (step.get("digest"), step.get("reward"), step.get("terminated"), step.get("raised")) for step in noted.get("steps", ())
    ]
    return trial.lost is not None, noted.get("opening", {}).get("digest"), steps


def _said(trial: Trial) -> str:
    noted = shown(trial)
    steps = noted.get("steps", [])
    rewards = [step.get("reward") for step in steps][:8]
    return f"opening {noted.get('opening', {}).get('digest')}, {len(steps)} steps, rewards {rewards}"


def _finding(code: str, title: str, task: Task, witness: Witness, count: int, severity: Severity = Severity.HIGH) -> Finding:
    probe = {"D05": "gym-resets", "D17": "gym-resets", "D08": "gym-steps"}.get(code[:3], "gym-steps")
    probe = {"D05.leak": "gym-leaks", "D08.outside": "gym-outside"}.get(code, probe)
    layer = Layer.DIFFERENTIAL if code[:3] in {"D05", "D17"} else Layer.SCRIPTED
    return Finding(
        code=code, title=title, layer=layer, probe=probe, severity=severity, standing=Standing.CONFIRMED, task=task.id,
        count=count, witness=witness,
    )  # fmt: skip


PROBES = (
    Probe("gym-resets", Layer.DIFFERENTIAL, ("D05", "D17"), look_at_resets),
    Probe("gym-leaks", Layer.DIFFERENTIAL, ("D05",), look_at_leaks),
    Probe("gym-steps", Layer.SCRIPTED, ("D06", "D08", "D13"), look_at_steps),
    Probe("gym-outside", Layer.SCRIPTED, ("D08",), look_outside),
)
