"""Imports tasks of Inspect AI: every sample is a task, and Inspect's own runner, tools and scorers run it.

    inspect:inspect_evals/NAME          a task of an installed package
    inspect:FILE.py@TASK                a task in a file; its code runs on this machine
    ...?NAME=VALUE                      an argument of the task; `score=LOW..HIGH` is the scale of its scorers
    ...?roles=NAME,NAME                 roles that only tools or later turns ask, which an import does not see
    ...?solution=FILE.py                your golden solution; each sample's metadata is then in its task's key

Where the solver, a tool or a scorer asks a model in a role, such as tau2's customer, the run's `--user` model plays it. A task
that asks another model of its own is refused, and samples that want a sandbox are left out.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from sandlot.core.errors import AuthorError, ConfigError, GradeError
from sandlot.core.persona import ROLE_BEGINS
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.types import Json, Split
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, task_id, write_environment
from sandlot.interop.gyms.source import read_score_range
from sandlot.interop.inspect_ai.records import LogScore
from sandlot.interop.inspect_ai.scores import rubric_score
from sandlot.interop.inspect_ai.server import ANSWER_S, PYTHON, InspectJob, InspectServer, question_of, server_of
from sandlot.interop.inspect_ai.world import opening_of

_LIMITS = {"turns": 100} | dict.fromkeys(("tool_s", "setup_s", "provision_s"), ANSWER_S + 30)
_MAX_ASKED = 50
"""Answers in roles until the agent is asked."""
_WORLD = '''\
"""A sample of an Inspect task."""

from sandlot import Task, World
from sandlot.interop.inspect_ai.world import InspectWorld, end_sample

SOURCES = [InspectWorld({source!r}, {arguments!r}, {requires!r}, roles={roles!r})]


async def finish(world: World, task: Task) -> None:
    await end_sample(world)
'''
_USER = '''\
"""What the solver says to a message without calls, and what models in roles say (`--user MODEL`)."""

from sandlot.interop.inspect_ai.world import InspectUser

USER = InspectUser
'''
_CHECKS = '''\
"""The scores of Inspect's own scorers."""

from sandlot import Evidence, Task
from sandlot.interop.inspect_ai.world import share_of_scores


def scores(evidence: Evidence, task: Task) -> tuple[float, str]:
    return share_of_scores(evidence, {scale!r})
'''
_SOLUTION = '''\
"""The target as the answer."""

from sandlot import Agent, Task


async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["target"])
'''


class InspectImporter:
    """`inspect:TASK` (port `Importer`)."""

    kind = "inspect"

    def digest(self, source: str) -> str:
        """Changes with the packages, and with the file."""
        named = _read_source(source)
        about = _listed(server_of(named.name, named.arguments))
        file = Path(named.name.partition("@")[0])
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        solution = hashlib.sha256(named.solution.encode()).hexdigest() if named.solution else ""
        return f"{about['version']}:{about['package_version']}:{content}{solution}"

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment. Every sample is begun once, to see how its conversation begins."""
        named = _read_source(source)
        name, arguments, scale = named.name, named.arguments, named.scale
        server = server_of(name, arguments)
        about = _listed(server, metadata=bool(named.solution))
        tasks: list[Task] = []
        left_out: list[LeftOut] = []
        roles = list(named.roles)
        golden: float | None = None
        for sample in about["samples"]:
            if limit is not None and len(tasks) >= limit:
                break
            try:
                job, task = _begin(server, sample, roles)
            except (ConfigError, AuthorError) as error:
                left_out.append(LeftOut(what=str(sample["id"]), why=str(error)[:500]))
                continue
            if not tasks:
                golden = _score_of_answer(job, task.key["target"], scale, roles)
                # A scorer may ask a judge only about answers that are wrong.
                _score_of_answer(server.job(_play(sample)), "no answer", scale, roles)
            else:
                job.close()
            tasks.append(task)
        tasks, system = _with_system(tasks, left_out)
        requires = (about["version"], about["package_version"])
        draft = EnvironmentDraft(
            name=environment_name(about["name"].rpartition("/")[2]),
            settings={
                "description": f"{name} of Inspect AI.",
                "system": system or None,
                "on_crash": "lose",  # the sample and its scores are in the other process
                "limits": _LIMITS,
            },
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="scores", ref="checks:scores"),))},
            code={
                "world.py": _WORLD.format(source=name, arguments=arguments, requires=requires, roles=tuple(roles)),
                "user.py": _USER,
                "checks.py": _CHECKS.format(scale=scale),
            }
            | ({"solution.py": named.solution or _SOLUTION} if named.solution or golden == 1.0 else {}),
        )
        write_environment(folder, draft)
        return ImportReport(
            kind=self.kind,
            source=source,
            package=about["package"] or "inspect-ai",
            version=about["package_version"] or about["version"],
            tasks=tuple(ImportedTask(id=task.id, origin=str(task.data["sample"])) for task in tasks),
            left_out=tuple(left_out),
            notes=(
                f"scored by {', '.join(about['scorers'])}; the reward is the mean of their values",
                _golden_note(named, golden, roles),
                *_role_notes(roles),
                "several calls of one message are handed to Inspect one after the other, without the text beside them",
                "Inspect's own limits (messages, tokens, time) hold as well; a sample that reaches one is scored",
            ),
        )


@dataclass(frozen=True, slots=True)
class _Source:
    """A task, as it is named."""

    name: str
    arguments: Json
    scale: str
    roles: tuple[str, ...]
    solution: str
    """The code of a golden solution; empty if none is named."""


def _read_source(source: str) -> _Source:
    name, _, query = source.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    scale = options.pop("score", "")
    roles = tuple(filter(None, options.pop("roles", "").split(",")))
    solution = _solution_of(options.pop("solution", ""))
    if scale and read_score_range(scale) is None:
        raise ConfigError(f"`score={scale}` is no range; write `score=LOW..HIGH`, such as `score=0..10`")
    file, mark, task = name.rpartition("@")
    if mark:
        if not Path(file).is_file() or not task:
            raise ConfigError(f"there is no file `{file}`; write `FILE.py@TASK`, or `PACKAGE/TASK`")
        name = f"{Path(file).resolve()}@{task}"
    elif name.count("/") != 1 or not all(name.split("/")):
        raise ConfigError(f"`{source}` names no task; write `inspect_evals/NAME`, or `FILE.py@TASK`")
    return _Source(name, {key: _value(value) for key, value in options.items()}, scale, roles, solution)


def _solution_of(file: str) -> str:
    if not file:
        return ""
    try:
        code = Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"`solution={file}` cannot be read: {error}") from error
    if "async def solve(" not in code:
        raise ConfigError(f"`{file}` has no `async def solve(agent: Agent, task: Task) -> None`")
    return code


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _listed(server: InspectServer, *, metadata: bool = False) -> Json:
    try:
        job = server.job({"job": "list", "metadata": metadata})
    except AuthorError as error:
        missing = "No module named 'inspect_ai'" in str(error)
        how = f"; `pip install inspect-ai`, or name a Python that has it: `export {PYTHON}=...`" if missing else ""
        raise ConfigError(f"{error}{how}") from error
    job.close()
    return job.seen


def _golden_note(named: _Source, golden: float | None, roles: list[str]) -> str:
    if named.solution:
        return "the golden solution is that of your file; a sample's metadata is `task.key['metadata']`"
    if golden == 1.0:
        return "the golden solution says the target, which gets full marks on the first sample"
    if roles:
        return "no golden solution: Inspect's tasks have none, and a role decides how the conversation ends"
    return f"no golden solution: the target as the answer gets {golden} on the first sample"


def _role_notes(roles: list[str]) -> list[str]:
    if not roles:
        return []
    return [
        f"it asks a model in the role {', '.join(roles)}: `--user MODEL` plays it, with the instructions of the task",
        "the user's model is sampled as `--user` says, and not with the settings of the task",
    ]


def _play(sample: Json) -> Json:
    return {"job": "play", "sample": sample["id"], "roles": True}


def _begin(server: InspectServer, sample: Json, roles: list[str]) -> tuple[InspectJob, Task]:
    """A sample, begun up to the agent's first turn, and its task."""
    if sample["sandbox"]:
        raise ConfigError(f"it wants a sandbox of kind `{sample['sandbox']}`, which is not offered here")
    job = server.job(_play(sample))
    try:
        _answer_roles(job, roles)
        system, prompt = opening_of(job.seen)
    except (ConfigError, AuthorError):
        job.close()
        raise
    target = sample["target"] if isinstance(sample["target"], str) else (sample["target"] or [""])[0]
    data = {"sample": sample["id"], "system": system}
    key = {"target": target} | ({"metadata": sample["metadata"]} if "metadata" in sample else {})
    return job, Task(task_id(str(sample["id"])), prompt=prompt, data=data, key=key, split=Split.HELDOUT)


def _answer_roles(job: InspectJob, roles: list[str]) -> bool:
    """Let roles say something until the agent is asked or the sample is over, and note their names. True if one was asked."""
    for number in range(_MAX_ASKED):
        if "role" not in job.seen:
            return number > 0
        role = question_of(job.seen).role
        if role not in roles:
            roles.append(role)
        job.ask({"text": ROLE_BEGINS, "calls": []})
    raise ConfigError(f"it asked a model in the role `{roles[-1]}` {_MAX_ASKED} times, and not the agent")


def _score_of_answer(job: InspectJob, answer: str, scale: str, roles: list[str]) -> float | None:
    """What an answer gets; None if the sample goes on or a role has a say. `ConfigError` if it cannot be played or scored."""
    try:
        _answer_roles(job, roles)
        if not roles:
            job.ask({"text": answer, "calls": []})
        elif not job.done:
            job.ask({"stop": True})  # what roles say here means nothing; a scorer is run only to see whom it asks
        if _answer_roles(job, roles) or roles or not job.done:
            return None
        if job.seen["error"]:
            raise GradeError(job.seen["error"])  # noqa: TRY301 - one sentence for both
        return rubric_score(msgspec.convert(job.seen["scores"], dict[str, LogScore]), read_score_range(scale)).value
    except (AuthorError, GradeError) as error:
        raise ConfigError(f"its first sample cannot be scored with the answer {answer[:80]!r}: {error}") from error
    finally:
        job.close()


def _with_system(tasks: list[Task], left_out: list[LeftOut]) -> tuple[list[Task], str]:
    """The tasks that begin with the same system message: an environment has one."""
    if not tasks:
        return [], ""
    system = tasks[0].data["system"]
    why = "its system message is another one than that of the first sample"
    left_out += [LeftOut(what=task.id, why=why) for task in tasks if task.data["system"] != system]
    return [task for task in tasks if task.data["system"] == system], system
