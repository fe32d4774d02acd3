"""Imports environments of the package `verifiers`: what `load_environment` returns, its rows as tasks, its rubric as the check.

    verifiers:reverse-text?dataset_name=data/texts     an installed package; the argument goes to its `load_environment`
    verifiers:environments/tool_test                   a folder with `tool_test.py`
    verifiers:NAME?python=/venvs/vf/bin/python         run by another Python, which has `verifiers`

Every row's rollout is begun once, to see what the model is shown first. A row that cannot be begun is left out with the reason.
If the row has an `answer`, common ways to write it are scored by the environment's own rubric; one with full marks becomes the
golden answer.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sandlot.core.errors import AuthorError, ConfigError
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.types import Json, Split
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, write_environment
from sandlot.interop.package_process import PackageProcess, package_version_of
from sandlot.interop.untrusted import source_digest
from sandlot.interop.verifiers.source import SPLITS, VerifiersSource, read_source
from sandlot.interop.verifiers.world import LOAD_S, PACKAGE, RolloutOpening, start_environment

_ROW_S = 300.0
"""Maximum time to begin a row's rollout and to try its answers."""
_TURNS = 100
"""Turns of a rollout whose environment has no limit of its own."""
_WORLD = '''\
"""An environment of verifiers, run by its own package in a process of its own."""

from pathlib import Path

from sandlot import Task, World
from sandlot.interop.verifiers.world import VerifiersWorld, record_reward

SOURCES = [
    VerifiersWorld(
        source={source},
        requires={requires!r},
        rows=str(Path(__file__).parent / "data" / "rows.jsonl"),
    )
]


async def finish(world: World, task: Task) -> None:
    await record_reward(world)
'''
_USER = '''\
"""The environment's replies."""

from sandlot import World
from sandlot.interop.verifiers.world import next_message


async def reply(world: World, text: str) -> str | None:
    return await next_message(world)
'''
_CHECKS = '''\
"""The reward of the environment's own rubric: LOW is worth 0, HIGH is full marks. Nothing is clipped."""

from sandlot import Evidence, Task
from sandlot.interop.verifiers.world import score_of_rubric

LOW = {low!r}
HIGH = {high!r}


def reward(evidence: Evidence, task: Task) -> tuple[float, str]:
    return score_of_rubric(evidence, LOW, HIGH)
'''
_SOLUTION = '''\
"""An answer that the environment's own rubric gives full marks."""

from sandlot import Agent, Task


async def solve(agent: Agent, task: Task) -> None:
    if "golden" not in task.key:
        raise LookupError("no known form of this row's answer gets full marks")
    while True:
        await agent.say(task.key["golden"])
'''


class _Facts(msgspec.Struct, frozen=True):
    """What a loaded environment says about itself."""

    environment: str
    weights: dict[str, float]
    alike: bool
    bounds: tuple[float, float]
    scores_groups: bool
    scores: bool
    max_turns: int


class _Rows(msgspec.Struct, frozen=True):
    rows: list[Json | None] | None
    reasons: list[str]


class _Survey(msgspec.Struct, frozen=True):
    opening: RolloutOpening
    golden: str | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that can be taken."""

    split: str
    index: int
    content: Json
    survey: _Survey


class VerifiersImporter:
    """`verifiers:NAME` (port `Importer`)."""

    kind = "verifiers"

    def digest(self, source: str) -> str:
        """Changes with the package's version, and with the files of a folder that is named."""
        named = read_source(source)
        return package_version_of(named.python, PACKAGE) + (source_digest(named.path) if named.path else "")

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment. The code of the environment runs, in a process of its own."""
        named = read_source(source)
        version = package_version_of(named.python, PACKAGE)  # says how to install it
        try:
            process, answer = start_environment(named)
        except AuthorError as error:
            raise ConfigError(f"`{named.module}` cannot be loaded: {error}") from error
        try:
            facts = msgspec.convert(answer, _Facts)
            scale = _scale(named, facts)
            rows, left_out = _surveyed(process, named, scale[1], limit)
        finally:
            process.close()
        system, kept, more = _with_one_system(rows)
        tasks = [_task(number, row, _num_splits(kept)) for number, row in enumerate(kept)]
        requires = f"{PACKAGE}=={version}"
        num_golden = sum("golden" in task.key for task in tasks)
        code = {
            "world.py": _WORLD.format(requires=requires, source=repr(msgspec.to_builtins(named))),
            "user.py": _USER,
            "checks.py": _CHECKS.format(low=scale[0], high=scale[1]),
        } | ({"solution.py": _SOLUTION} if num_golden else {})
        draft = EnvironmentDraft(
            name=environment_name(f"verifiers-{named.module}"),
            settings={
                "description": f"{named.module}, a {facts.environment} of {requires}.",
                "system": system or None,
                "on_crash": "lose",  # the state and the rubric are in the other process
                "limits": {"turns": facts.max_turns if facts.max_turns > 0 else _TURNS},
            },
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="reward", ref="checks:reward"),))},
            code=code,
        )
        write_environment(folder, draft)
        (folder / "data").mkdir()
        (folder / "data" / "rows.jsonl").write_bytes(b"".join(msgspec.json.encode(row.content) + b"\n" for row in kept))
        return ImportReport(
            kind=self.kind,
            source=source,
            package=PACKAGE,
            version=version,
            tasks=tuple(
                ImportedTask(id=task.id, origin=f"{row.split} row {row.index}") for task, row in zip(tasks, kept, strict=True)
            ),
            left_out=(*left_out, *more),
            notes=_notes(facts, scale, num_golden, len(tasks)),
        )


def _scale(named: VerifiersSource, facts: _Facts) -> tuple[float, float]:
    """The rewards that are worth 0 and full marks; `ConfigError` for an environment whose rollouts cannot be scored alone."""
    if facts.scores_groups:
        raise ConfigError(f"`{named.module}` has a reward function for whole groups of rollouts; here each is scored alone")
    if not facts.scores:
        raise ConfigError(f"`{named.module}` scores no rollouts (`score_rollouts=False`)")
    if named.score is not None:
        return named.score
    if not facts.alike or not facts.bounds[0] < facts.bounds[1]:
        raise ConfigError(f"`{named.module}` does not say its highest reward; declare it with `score=LOW..HIGH`")
    return facts.bounds


def _surveyed(
    process: PackageProcess, named: VerifiersSource, full: float, limit: int | None
) -> tuple[list[_Row], list[LeftOut]]:
    """Begin the rollout of every row once."""
    taken: list[_Row] = []
    left_out: list[LeftOut] = []
    for split in SPLITS if named.split == "all" else (named.split,):
        try:
            found = msgspec.convert(process.ask("rows", within_s=LOAD_S, split=split, limit=limit), _Rows)
        except AuthorError as error:
            left_out.append(LeftOut(what=f"{split} rows", why=str(error)[:500]))
            continue
        for index, (content, reason) in enumerate(zip(found.rows or [], found.reasons, strict=True)):
            if limit is not None and len(taken) >= limit:
                break
            try:
                taken.append(_Row(split, index, content or {}, _survey(process, content, reason, full)))
            except (AuthorError, ConfigError, msgspec.ValidationError) as error:
                left_out.append(LeftOut(what=f"{split} row {index}", why=str(error)[:500]))
                if not process.alive:
                    raise ConfigError(f"`{named.module}` ended at {split} row {index}: {error}") from error
    return taken, left_out


def _survey(process: PackageProcess, content: Json | None, reason: str, full: float) -> _Survey:
    """What a row's rollout begins with; `ConfigError` if it cannot be taken."""
    if content is None:
        raise ConfigError(reason)
    survey = msgspec.convert(process.ask("survey", within_s=_ROW_S, row=content, full=full), _Survey)
    _require_simple(survey.opening)
    return survey


def _require_simple(opening: RolloutOpening) -> None:
    roles = [message.role for message in opening.messages]
    if roles not in (["user"], ["system", "user"]):
        raise ConfigError(f"it begins with messages of {', '.join(roles)}; a task here has a system prompt and one user message")


def _with_one_system(rows: list[_Row]) -> tuple[str, list[_Row], list[LeftOut]]:
    """The most common system prompt, and the rows that have it: an environment here has one for all tasks."""
    counts = Counter(_system(row) for row in rows)
    system = counts.most_common(1)[0][0] if counts else ""
    other = [row for row in rows if _system(row) != system]
    why = f"it has another system prompt than the {counts[system]} tasks that were taken"
    return (
        system,
        [row for row in rows if _system(row) == system],
        [LeftOut(what=f"{row.split} row {row.index}", why=why) for row in other],
    )


def _system(row: _Row) -> str:
    first = row.survey.opening.messages[0]
    return first.text if first.role == "system" else ""


def _num_splits(rows: list[_Row]) -> int:
    return len({row.split for row in rows})


def _task(number: int, row: _Row, num_splits: int) -> Task:
    """The task of the row with this number in the file of rows. Rows for evaluation are held out."""
    opening = row.survey.opening
    split = {"train": Split.TRAIN, "eval": Split.HELDOUT}[row.split] if num_splits > 1 else None
    return Task(
        f"{row.split}-{row.index}",
        prompt=opening.messages[-1].text,
        data={"row": number, "opening": opening.stamp},
        key={} if row.survey.golden is None else {"golden": row.survey.golden},
        split=split,
    )


def _notes(facts: _Facts, scale: tuple[float, float], num_golden: int, num_tasks: int) -> tuple[str, ...]:
    weights = ", ".join(f"{name} x {weight:g}" for name, weight in sorted(facts.weights.items()) if weight)
    return (
        f"the reward is {weights or 'its own'}; {scale[0]:g} is worth 0, {scale[1]:g} is full marks",
        (
            "verifiers gives 0 if a reward function raises or a verification runs out of time, and scores rollouts that ended "
            "with an error or at `timeout_seconds`; here these are failures without a reward"
        ),
        f"{num_golden} of {num_tasks} tasks have a golden answer: a form of the row's `answer` with full marks",
        *(() if facts.max_turns > 0 else (f"the environment has no limit of turns; here {_TURNS}",)),
        "the environment's code runs on this machine, in a process of its own, without network for Hugging Face's data",
    )
