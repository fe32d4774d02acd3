"""Imports tasks of Inspect AI: every sample is a task, and Inspect's own runner, tools and scorers run it.

    inspect:inspect_evals/NAME          a task of an installed package
    inspect:FILE.py@TASK                a task in a file; its code runs on this machine
    ...?NAME=VALUE                      an argument of the task; `score=LOW..HIGH` is the scale of its scorers

A task whose scorer or solver asks a model of its own (a judge, a user) is refused, and samples that want a sandbox are left out.
"""

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from sandlot.core.errors import AuthorError, ConfigError, GradeError
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.types import Json, Split
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, task_id, write_environment
from sandlot.interop.gyms.source import read_score_range
from sandlot.interop.inspect_ai.records import LogScore
from sandlot.interop.inspect_ai.scores import rubric_score
from sandlot.interop.inspect_ai.world import PYTHON, InspectJob, InspectServer, opening_of, server_of

_TURNS = 100
_ROLE = "role"
_ALIKE = 3
"""Samples that ask for a model in a role, after which a task is refused: to begin each of hundreds takes long."""
_WORLD = '''\
"""A sample of an Inspect task."""

from sandlot import Task, World
from sandlot.interop.inspect_ai.world import InspectWorld, end_sample

SOURCES = [InspectWorld({source!r}, {arguments!r}, {requires!r})]


async def finish(world: World, task: Task) -> None:
    await end_sample(world)
'''
_USER = '''\
"""What the solver says to a message without calls."""

from sandlot import World
from sandlot.interop.inspect_ai.world import next_words


async def reply(world: World, text: str) -> str | None:
    return await next_words(world, text)
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
        name, arguments, _ = _read_source(source)
        about = _listed(server_of(name, arguments))
        file = Path(name.partition("@")[0])
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        return f"{about['version']}:{about['package_version']}:{content}"

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment. Every sample is begun once, to see how its conversation begins."""
        name, arguments, scale = _read_source(source)
        server = server_of(name, arguments)
        about = _listed(server)
        tasks: list[Task] = []
        left_out: list[LeftOut] = []
        golden: float | None = None
        for sample in about["samples"]:
            if limit is not None and len(tasks) >= limit:
                break
            try:
                job, task = _begin(server, sample)
            except (ConfigError, AuthorError) as error:
                left_out.append(LeftOut(what=str(sample["id"]), why=str(error)[:500]))
                if not tasks and error.kind == _ROLE and len(left_out) == _ALIKE:
                    raise ConfigError(f"`{name}`: none of its first {_ALIKE} samples can be played: {error}") from error
                continue
            if not tasks:
                golden = _score_of_answer(job, task.key["target"], scale)
                # A scorer may ask a judge only about answers that are wrong.
                _score_of_answer(server.job({"job": "play", "sample": sample["id"]}), "no answer", scale)
            else:
                job.close()
            tasks.append(task)
        tasks, system = _with_system(tasks, left_out)
        requires = (about["version"], about["package_version"])
        draft = EnvironmentDraft(
            name=environment_name(about["name"].rpartition("/")[2]),
            settings={"description": f"{name} of Inspect AI.", "system": system or None, "limits": {"turns": _TURNS}},
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="scores", ref="checks:scores"),))},
            code={
                "world.py": _WORLD.format(source=name, arguments=arguments, requires=requires),
                "user.py": _USER,
                "checks.py": _CHECKS.format(scale=scale),
            }
            | ({"solution.py": _SOLUTION} if golden == 1.0 else {}),
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
                "the golden solution says the target, which gets full marks on the first sample"
                if golden == 1.0
                else f"no golden solution: the target as the answer gets {golden} on the first sample",
                "several calls of one message are handed to Inspect one after the other, without the text beside them",
                "Inspect's own limits (messages, tokens, time) hold as well; a sample that reaches one is scored",
            ),
        )


def _read_source(source: str) -> tuple[str, Json, str]:
    name, _, query = source.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    scale = options.pop("score", "")
    if scale and read_score_range(scale) is None:
        raise ConfigError(f"`score={scale}` is no range; write `score=LOW..HIGH`, such as `score=0..10`")
    file, mark, task = name.rpartition("@")
    if mark:
        if not Path(file).is_file() or not task:
            raise ConfigError(f"there is no file `{file}`; write `FILE.py@TASK`, or `PACKAGE/TASK`")
        name = f"{Path(file).resolve()}@{task}"
    elif name.count("/") != 1 or not all(name.split("/")):
        raise ConfigError(f"`{source}` names no task; write `inspect_evals/NAME`, or `FILE.py@TASK`")
    return name, {key: _value(value) for key, value in options.items()}, scale


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _listed(server: InspectServer) -> Json:
    try:
        job = server.job({"job": "list"})
    except AuthorError as error:
        missing = "No module named 'inspect_ai'" in str(error)
        how = f"; `pip install inspect-ai`, or name a Python that has it: `export {PYTHON}=...`" if missing else ""
        raise ConfigError(f"{error}{how}") from error
    job.close()
    return job.seen


def _begin(server: InspectServer, sample: Json) -> tuple[InspectJob, Task]:
    """A sample, begun up to the agent's first turn, and its task."""
    if sample["sandbox"]:
        raise ConfigError(f"it wants a sandbox of kind `{sample['sandbox']}`, which is not offered here")
    job = server.job({"job": "play", "sample": sample["id"]})
    try:
        _require_no_role(job.seen)
        system, prompt = opening_of(job.seen)
    except ConfigError:
        job.close()
        raise
    target = sample["target"] if isinstance(sample["target"], str) else (sample["target"] or [""])[0]
    data = {"sample": sample["id"], "system": system}
    return job, Task(task_id(str(sample["id"])), prompt=prompt, data=data, key={"target": target}, split=Split.HELDOUT)


def _score_of_answer(job: InspectJob, answer: str, scale: str) -> float | None:
    """What an answer gets; None if the sample goes on. `ConfigError` if it cannot be played or scored here."""
    try:
        seen = job.ask({"text": answer, "calls": []})
        _require_no_role(seen)
        if not seen.get("done"):
            return None
        if seen["error"]:
            raise GradeError(seen["error"])  # noqa: TRY301 - one sentence for both
        return rubric_score(msgspec.convert(seen["scores"], dict[str, LogScore]), read_score_range(scale)).value
    except (AuthorError, GradeError) as error:
        raise ConfigError(f"its first sample cannot be scored with the answer {answer[:80]!r}: {error}") from error
    finally:
        job.close()


def _require_no_role(seen: Json) -> None:
    if seen.get("roles"):
        raise ConfigError(f"it asks a model in the role `{seen['roles'][0]}`, and there is none", kind=_ROLE)


def _with_system(tasks: list[Task], left_out: list[LeftOut]) -> tuple[list[Task], str]:
    """The tasks that begin with the same system message: an environment has one."""
    if not tasks:
        return [], ""
    system = tasks[0].data["system"]
    why = "its system message is another one than that of the first sample"
    left_out += [LeftOut(what=task.id, why=why) for task in tasks if task.data["system"] != system]
    return [task for task in tasks if task.data["system"] == system], system
