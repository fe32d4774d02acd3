"""A Gymnasium environment as a subject: each seed is a task, and what the environment returned is recorded as data.

Sandlot does not depend on Gymnasium: the user's own Python makes and plays the environment, in the sandbox. Rewards come with its
steps, so there is no grader and no score. The golden solution is a policy, if one is named. The probes are in
`probes/gymnasium/`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from sandlot.audit.finding import Layer
from sandlot.audit.subject import PLAIN, Call, Conditions, Description, Lost, NamedPlay, Regrade, Request, Take, Trial
from sandlot.audit.subjects.foreign.gym_record import GymFacts, GymRecord
from sandlot.audit.subjects.foreign.python import find_interpreter, sources_of
from sandlot.audit.subjects.foreign.worker import Answer, ForeignConfig, ForeignWorkers, open_foreign_workers, read_foreign_config
from sandlot.core.errors import ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord, Trace
from sandlot.core.types import End, Json, digest

_PLAYS = ("random", "outside", "dirty", "beside", "golden")
"""`random`: random actions. `outside`: an action that is not in the space. `dirty`: random actions, then another reset.
`beside`: random actions while a second environment runs in the same process. `golden`: the solution. `constant-N`: always the
same action."""
_NO_GRADER = "a Gymnasium environment gives rewards in its steps: it has no grader"


class GymConfig(ForeignConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which environment, and how it is played; `gym.toml` has the same fields."""

    env: str
    """`module:make`, or its registered id."""
    arguments: Json = {}  # noqa: RUF012 - msgspec copies it
    """Arguments for making it."""
    solution: str | None = None
    """`module:function`: called with a new environment, it returns a function from observation to action that solves it."""
    seeds: int = 8
    """Number of seeds; each is a task."""
    steps: int = 200
    """Maximum steps per rollout."""

    def __post_init__(self) -> None:
        for name in ("seeds", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is {getattr(self, name)}; give 1 or more")


def read_gym(path: Path) -> GymConfig:
    """Read a `gym.toml`; its paths are relative to its folder."""
    return read_foreign_config(path, GymConfig)


class GymSubject:
    """An environment and its seeds (port `Subject`). Get one from `open_gym`."""

    def __init__(self, config: GymConfig, workers: ForeignWorkers) -> None:
        self._config = config
        self._workers = workers

    async def describe(self) -> Description:
        """Its spaces and its source; `ConfigError` if it cannot be made."""
        said = await self._workers.facts(PLAIN)
        try:
            facts = msgspec.convert(said, GymFacts)
        except msgspec.ValidationError as error:
            raise ConfigError(f"`{self._config.env}` gave an invalid description of itself: {error}") from error
        sources = self._sources(facts)
        shown = msgspec.to_builtins(facts, str_keys=True)
        tasks = tuple(Task(f"seed-{seed}", data={"seed": seed, **shown}) for seed in range(self._config.seeds))
        act = ToolSpec(
            name="act",
            description=f"One step with an action of {facts.actions}.",
            parameters={"type": "object", "properties": {"action": {}}},
        )
        bound = [self._config.env, self._config.arguments, self._config.solution, facts, sources]
        return Description(
            name=self._config.env,
            kind="gymnasium",
            fingerprint=digest(msgspec.json.encode(bound)),
            tasks=tasks,
            tools=(act,),
            has_golden=self._config.solution is not None,
            sources=sources,
            declared=self._config.declared,
            inapplicable={Layer.GRADER: _NO_GRADER},
        )

    def _sources(self, facts: GymFacts) -> dict[str, str]:
        """The author's modules that are loaded; of an installed package only the module of its class."""
        own = tuple(Path(folder) for folder in self._config.path)
        named = self._config.env.partition(":")[0]
        return {
            **sources_of((named, facts.made_in), find_interpreter(self._config.python).libraries),
            **sources_of((named, facts.made_in, *facts.modules), own),
        }

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        """Play each request; what the environment returned is the final state of the evidence. There is no score."""
        answers = await self._workers.call([self._call(request) for request in requests], conditions)
        return [_trial(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def _call(self, request: Request) -> Json:
        if isinstance(request, Regrade):
            raise ConfigError("a Gymnasium environment has no grader, so nothing can be graded again")
        named = request.play.name if isinstance(request.play, NamedPlay) else ""
        if isinstance(request.play, NamedPlay) and named not in _PLAYS and not named.startswith("constant-"):
            raise ConfigError(f"unknown agent `{named}` for a Gymnasium environment; known: {', '.join(_PLAYS)}, constant-N")
        turns = () if isinstance(request.play, NamedPlay) else request.play.turns
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
    try:
        msgspec.convert(answer.results, GymRecord)
    except msgspec.ValidationError as error:
        return Trial(lost=Lost(kind="died", message=f"its process wrote garbage ({error})"))
    evidence = EvidenceRecord(state=answer.results)
    trace = Trace(run="audit", task=request.task, rollout=0, seed=request.seed, end=End.DONE, evidence=evidence)
    return Trial(trace=trace, seconds=answer.seconds)


@asynccontextmanager
async def open_gym(config: GymConfig, *, without_sandbox: bool = False) -> AsyncGenerator[GymSubject]:
    """An environment, ready to be audited for as long as the context lasts."""
    spec: Json = {"env": config.env, "arguments": config.arguments, "solution": config.solution}
    async with open_foreign_workers(config, "sandlot_gym", spec, unconfined=without_sandbox) as workers:
        yield GymSubject(config, workers)
