"""A plain Python grader as a subject: called with a task's fields and an answer, it returns a number or a bool.

Its tasks are lines of a file with the prompt, the golden answer, and what else it needs. The last message of a script is the
answer that is graded, by a worker in the sandbox. A number outside the grader's range is kept in the score's points, and its
value is clipped. Anything that is not a finite number is no score.
"""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from sandlot.audit.subject import PLAIN, Conditions, Description, NamedPlay, Regrade, Request, Say, Take, Trial
from sandlot.audit.subjects.foreign.mapping import DEFAULT, fill_arguments, read_mapping
from sandlot.audit.subjects.foreign.python import find_interpreter, sources_from
from sandlot.audit.subjects.foreign.worker import Answer, ForeignConfig, ForeignWorkers, open_foreign_workers, read_foreign_config
from sandlot.core.errors import ConfigError
from sandlot.core.rubric import RubricScore
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord, Failed, Node, Outcome, Scored, Trace, text_message
from sandlot.core.types import End, Json, Role, Side, digest

_PROMPTS = ("prompt", "question", "problem", "input")
_GOLDENS = ("golden", "answer", "expected", "solution", "target")
_RUN = "audit"


class GraderConfig(ForeignConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which grader, on which tasks, and how it is called; `grader.toml` has the same fields."""

    grader: str
    """`module:function`."""
    tasks: str
    """A JSON Lines file."""
    map: str = DEFAULT
    """How a task and an answer become arguments; see `mapping.py`."""
    prompt: str | None = None
    """The field with the prompt. Default: the first that exists of `prompt`, `question`, `problem`, `input`."""
    golden: str | None = None
    """The field with the golden answer. Default: the first of `golden`, `answer`, `expected`, `solution`, `target`."""
    range: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest value that the grader should return."""


def read_config(path: Path) -> GraderConfig:
    """Read a `grader.toml`; its paths are relative to its folder."""
    config = read_foreign_config(path, GraderConfig)
    return msgspec.structs.replace(config, tasks=str(path.parent / config.tasks))


class GraderSubject:
    """A grader and its tasks (port `Subject`). Get one from `open_grader`."""

    def __init__(self, config: GraderConfig, tasks: "_TaskFile", workers: ForeignWorkers) -> None:
        self._config = config
        self._tasks = tasks
        self._mapping = read_mapping(config.map)
        self._workers = workers

    async def describe(self) -> Description:
        """Its tasks with golden answers, and its source; `ConfigError` if it cannot be loaded."""
        await self._workers.facts(PLAIN)
        own, libraries = [*map(Path, self._config.path)], find_interpreter(self._config.python).libraries
        sources = sources_from(self._config.grader.partition(":")[0], own, libraries)
        bound = [self._config.grader, self._config.map, self._tasks.digest, sources]
        return Description(
            name=self._config.grader,
            kind="grader",
            fingerprint=digest(msgspec.json.encode(bound)),
            tasks=tuple(self._tasks.tasks.values()),
            has_golden=any("golden" in task.key for task in self._tasks.tasks.values()),
            sources=sources,
            declared=self._config.declared,
        )

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        """Grade the answer of each request. A task without a golden answer gives a trial without a score."""
        order = list(range(len(requests)))
        if conditions.shuffled is not None:
            Random(conditions.shuffled).shuffle(order)  # noqa: S311 - an order, not a secret
        asked = [(index, self._answer(requests[index])) for index in order]
        calls = [(index, text) for index, text in asked if text is not None]
        times = [_times(requests[index]) for index, _ in calls]
        wanted = [self._call(requests[index], text) for index, text in calls]
        answers = await self._workers.call(wanted, conditions, times)
        trials = {index: Trial(trace=self._trace(requests[index], "", None)) for index in order}
        for (index, text), answer in zip(calls, answers, strict=True):
            trials[index] = self._trial(requests[index], text, answer)
        return [trials[index] for index in range(len(requests))]

    def _answer(self, request: Request) -> str | None:
        if isinstance(request, Regrade):
            return request.trace.evidence.answer if request.trace.evidence else request.trace.answer
        if isinstance(request.play, NamedPlay):
            if request.play.name != "golden":
                raise ConfigError(f"unknown agent `{request.play.name}` for a plain grader; known: `golden`")
            return self._tasks.answer(request.task)
        spoken = [act.text for turn in request.play.turns for act in turn if isinstance(act, Say)]
        return spoken[-1] if spoken else ""

    def _call(self, request: Request, answer: str) -> Json:
        task = request.task if isinstance(request, Take) else request.trace.task
        line, golden, prompt = self._tasks.line(task)
        args, kwargs = fill_arguments(self._mapping, line, golden, prompt, answer)
        return {"args": args, "kwargs": kwargs, "times": _times(request)}

    def _trial(self, request: Request, text: str, answer: Answer) -> Trial:
        if answer.lost is not None:
            return Trial(lost=answer.lost, seconds=answer.seconds, did=answer.did)
        scores = tuple(self._score(result) for result in answer.results)
        trace = self._trace(request, text, scores[0])
        return Trial(trace=trace, scores=scores, seconds=answer.seconds, did=answer.did)

    def _trace(self, request: Request, text: str, outcome: Outcome | None) -> Trace:
        if isinstance(request, Regrade):
            return msgspec.structs.replace(request.trace, outcome=outcome)
        prompt = self._tasks.tasks[request.task].prompt
        nodes = [
            Node(message=text_message(Role.USER, prompt)),
            Node(message=text_message(Role.ASSISTANT, text), parent=0, sampled=True),
        ]
        evidence = EvidenceRecord(answer=text)
        return Trace(
            run=_RUN,
            task=request.task,
            rollout=0,
            seed=request.seed,
            nodes=nodes,
            end=End.DONE,
            outcome=outcome,
            evidence=evidence,
        )

    def _score(self, result: dict[str, str]) -> Scored | Failed:
        if "error" in result:
            return Failed(side=Side.GRADER, kind="crash", message=result["error"])
        if "bad" in result:
            return Failed(side=Side.GRADER, kind="bad_value", message=f"returned a {result['bad']}, which is not a number")
        value = float(result["value"])
        if not math.isfinite(value):
            return Failed(side=Side.GRADER, kind="bad_value", message=f"returned {value}, which is not finite")
        low, high = self._config.range
        points = (value - low) / (high - low)
        return Scored(RubricScore(points=points, possible=1.0, value=min(1.0, max(0.0, points))))


class _TaskFile:
    """The tasks of a file, each with its prompt and golden answer."""

    def __init__(self, lines: list[Json], prompt: str | None, golden: str | None, stamp: str) -> None:
        self.digest = stamp
        self._lines: dict[str, tuple[Json, Any, str]] = {}
        self.tasks: dict[str, Task] = {}
        for number, line in enumerate(lines, 1):
            asked = _named(line, prompt, _PROMPTS, f"line {number}: the prompt")
            wanted = _named(line, golden, _GOLDENS, f"line {number}: the golden answer")
            name = str(line.get("id", f"line-{number}"))
            if name in self.tasks:
                raise ConfigError(f"line {number}: the id `{name}` is used before; ids must be unique")
            rest = {field: value for field, value in line.items() if field not in {asked, wanted, "id"}}
            right = line[wanted] if wanted else None
            key = {} if right is None else {"golden": right}
            self._lines[name] = line, right, _text(line[asked]) if asked else ""
            self.tasks[name] = Task(name, prompt=self._lines[name][2], data=rest, key=key)
        if not self.tasks:
            raise ConfigError("the task file is empty")

    def line(self, task: str) -> tuple[Json, Any, str]:
        """The line, its golden answer as written, and its prompt."""
        if task not in self._lines:
            raise ConfigError(f"no task `{task}` in the file")
        return self._lines[task]

    def answer(self, task: str) -> str | None:
        """The golden answer as text; None if there is none."""
        golden = self.line(task)[1]
        return None if golden is None else _text(golden)


def _read_tasks(config: GraderConfig) -> _TaskFile:
    """Read the task file of a grader."""
    try:
        data = Path(config.tasks).read_bytes()
        lines = msgspec.json.Decoder(Json).decode_lines(data)
        return _TaskFile(lines, config.prompt, config.golden, digest(data))
    except (OSError, msgspec.MsgspecError, ConfigError) as error:
        raise ConfigError(f"tasks `{config.tasks}`: {error}") from error


@asynccontextmanager
async def open_grader(config: GraderConfig, *, without_sandbox: bool = False) -> AsyncGenerator[GraderSubject]:
    """A grader, ready to be audited for as long as the context lasts."""
    module, mark, function = config.grader.partition(":")
    if not mark or not module or not function:
        raise ConfigError(f"grader `{config.grader}`: write `module:function`")
    if not config.range[0] < config.range[1]:
        raise ConfigError(f"range {config.range}: write the lowest value first, then a higher one")
    tasks = _read_tasks(config)
    spec: Json = {"grader": config.grader}
    async with open_foreign_workers(config, "sandlot_grading", spec, unconfined=without_sandbox) as workers:
        yield GraderSubject(config, tasks, workers)


def _times(request: Request) -> int:
    return request.times if isinstance(request, Regrade) else 1


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _named(line: Json, named: str | None, usual: tuple[str, ...], what: str) -> str | None:
    if named is None:
        return next((name for name in usual if name in line), None)
    if named not in line:
        raise ConfigError(f"{what} should be field `{named}`; there are: {', '.join(f'`{name}`' for name in line)}")
    return named
