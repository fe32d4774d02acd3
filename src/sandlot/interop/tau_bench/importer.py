"""Tasks of tau-bench, from the folder of its repository: customers of a shop and of an airline.

    tau-bench:FOLDER                            the 115 tasks of `retail`
    tau-bench:FOLDER?domain=airline             the 50 tasks of `airline`
    tau-bench:FOLDER?split=train                other tasks of `retail`: `train`, `dev`
    tau-bench:FOLDER?python=PATH                run by another Python, which has `pydantic`

The actions and outputs that tau-bench expects are the golden solution. At import, its own code scores a conversation without any
call for every task: the report says how many that passes.
"""

from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.errors import AuthorError, ConfigError
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.ports.world import ToolSpec
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.types import Json, Split
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, write_environment
from sandlot.interop.package_process import PackageProcess
from sandlot.interop.tau_bench.source import TauBenchSource, read_source
from sandlot.interop.tau_bench.world import CALL_S, CLOSING, LOAD_S, start_domain
from sandlot.interop.untrusted import read_text, source_digest

_TURNS = 30
"""The steps of tau-bench's own agents."""
_PROMPT = "Hello! I need some help."
_PASSED_BY_NOTHING = "passed-by-nothing"
_WORLD = '''\
"""The tools and the database of tau-bench's {domain}, run by its own code in a process of its own."""

from pathlib import Path

from sandlot import Task, World
from sandlot.interop.tau_bench.world import TauBenchWorld, record_reward

TOOLS = Path(__file__).with_name("tools.json")
SOURCES = [TauBenchWorld(source={source}, digest="{digest}", tools=TOOLS)]


async def finish(world: World, task: Task) -> None:
    await record_reward(world)
'''
_USER = '''\
"""The customer: a model plays it with the task's instruction (`--user MODEL`)."""

from sandlot import Persona, Task
from sandlot.interop.tau_bench.world import CLOSING


def persona(task: Task) -> Persona:
    return Persona(
        who=task.data["instruction"],
        done="what the instruction wants has been done, or you were transferred to another person",
        solved=(CLOSING,),
    )
'''
_CHECKS = '''\
"""tau-bench's own reward: the database is as after the expected actions, and the expected outputs were said."""

from sandlot import Evidence, Task
from sandlot.interop.tau_bench.world import score_of_task


def reward(evidence: Evidence, task: Task) -> tuple[float, str]:
    return score_of_task(evidence)
'''
_SOLUTION = '''\
"""The actions and outputs that tau-bench expects."""

from sandlot import Agent, Task
from sandlot.interop.tau_bench.world import CLOSING


async def solve(agent: Agent, task: Task) -> None:
    for action in task.key["actions"]:
        await agent.call(action["name"], **action["kwargs"])
    if task.key["outputs"]:
        await agent.say(". ".join(task.key["outputs"]))
    await agent.say(CLOSING)
'''


class _Action(msgspec.Struct, frozen=True):
    name: str
    kwargs: Json


class _TauTask(msgspec.Struct, frozen=True):
    instruction: str
    actions: list[_Action]
    outputs: list[str]


class _Function(msgspec.Struct, frozen=True):
    function: ToolSpec


class _Facts(msgspec.Struct, frozen=True):
    """What a domain says about itself."""

    tools: list[_Function]
    wiki: str
    ending: list[str]
    tasks: list[Any]


class _Survey(msgspec.Struct, frozen=True):
    nothing: float


class TauBenchImporter:
    """`tau-bench:FOLDER` (port `Importer`)."""

    kind = "tau-bench"

    def digest(self, source: str) -> str:
        """Changes with the files of the package."""
        return source_digest(Path(read_source(source).folder) / "tau_bench")

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment. The code of tau-bench runs, in a process of its own."""
        named = read_source(source)
        digest = self.digest(source)
        try:
            process, answer = start_domain(named)
        except AuthorError as error:
            raise ConfigError(f"`{named.folder}` cannot be loaded: {error}; does `{named.python}` have `pydantic`?") from error
        try:
            facts = msgspec.convert(answer, _Facts)
            tasks, left_out = _surveyed(process, facts, named, limit)
        except msgspec.ValidationError as error:
            raise ConfigError(f"`{named.folder}` is not a tau-bench that can be read: {error}") from error
        finally:
            process.close()
        tools = [each.function for each in facts.tools]
        draft = EnvironmentDraft(
            name=environment_name(f"tau-bench-{named.domain}"),
            settings={
                "description": f"Customers of tau-bench's {named.domain}, {named.split} tasks.",
                "system": facts.wiki,
                "on_crash": "lose",  # the database and the reward are in the other process
                "limits": {"turns": _TURNS, "tool_s": CALL_S + 30, "setup_s": CALL_S + 30, "provision_s": LOAD_S + CALL_S + 30},
            },
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="reward", ref="checks:reward"),))},
            code={
                "world.py": _WORLD.format(domain=named.domain, source=repr(msgspec.to_builtins(named)), digest=digest),
                "tools.json": msgspec.json.format(msgspec.json.encode(tools), indent=1).decode() + "\n",
                "user.py": _USER,
                "checks.py": _CHECKS,
                "solution.py": _SOLUTION,
            },
        )
        write_environment(folder, draft)
        licence = _licence(Path(named.folder))
        return ImportReport(
            kind=self.kind,
            source=source,
            package="tau-bench",
            version=digest[:19],
            tasks=tuple(
                ImportedTask(id=task.id, origin=f"{named.domain} {named.split} {task.data['index']}", licence=licence)
                for task in tasks
            ),
            left_out=tuple(left_out),
            notes=_notes(tasks),
        )


def _surveyed(
    process: PackageProcess, facts: _Facts, named: TauBenchSource, limit: int | None
) -> tuple[list[Task], list[LeftOut]]:
    tasks: list[Task] = []
    left_out: list[LeftOut] = []
    for index, content in enumerate(facts.tasks):
        if limit is not None and len(tasks) >= limit:
            break
        try:
            task = msgspec.convert(content, _TauTask)
            name = f"survey-{index}"
            found = msgspec.convert(process.ask("survey", within_s=CALL_S, rollout=name, index=index), _Survey)
            process.ask("drop", within_s=CALL_S, rollout=name)
            tasks.append(_task(named, index, task, passed_by_nothing=found.nothing == 1.0))
        except (AuthorError, ConfigError, msgspec.ValidationError) as error:
            left_out.append(LeftOut(what=f"{named.split} task {index}", why=str(error)[:500]))
            if not process.alive:
                raise ConfigError(f"tau-bench ended at task {index}: {error}") from error
    return tasks, left_out


def _task(named: TauBenchSource, index: int, task: _TauTask, *, passed_by_nothing: bool) -> Task:
    return Task(
        f"{named.domain}-{named.split}-{index}",
        prompt=_PROMPT,
        data={"index": index, "instruction": task.instruction},
        key={"actions": msgspec.to_builtins(task.actions), "outputs": task.outputs},
        split=Split.TRAIN if named.split == "train" else Split.HELDOUT,
        tags=(named.domain, *((_PASSED_BY_NOTHING,) if passed_by_nothing else ())),
    )


def _licence(folder: Path) -> str:
    file = folder / "LICENSE"
    return "MIT" if file.is_file() and read_text(file).startswith("MIT License") else "unknown"


def _notes(tasks: list[Task]) -> tuple[str, ...]:
    passed = [task.id for task in tasks if _PASSED_BY_NOTHING in task.tags]
    return (
        f"{len(passed)} of {len(tasks)} tasks are passed by a conversation without any call (tag `{_PASSED_BY_NOTHING}`)",
        f"the user begins with {_PROMPT!r}; in tau-bench, the model that plays the user writes the first message too",
        "the model that plays the user gets Sandlot's rules for personas, and not tau-bench's prompt",
        "the tasks `test` and `dev` are held out",
        "several calls in one message are all made; tau-bench's agent makes the first and drops the others",
        "a conversation that did not end within 30 turns scores 0, as there",
        "tau-bench's code runs on this machine, in a process of its own for every rollout",
        f"for a golden solution without a model: `--user scripted:persona` ends the conversation at {CLOSING!r}",
    )
