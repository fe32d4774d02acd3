"""Tasks of a resources server of NeMo Gym: the rows of a file, its tools, and its verification.

    nemo-gym:FOLDER?python=/venvs/gym/bin/python     the folder `resources_servers/NAME`; rows of its `data/example.jsonl`
    nemo-gym:FOLDER?data=FILE&config=FILE.yaml       other rows, and settings of its folder `configs` where it has several
    nemo-gym:FOLDER?score=0..10                      the reward that is worth 0, and the one that is full marks

The server's code runs in a process of that Python. There are no golden solutions: the rows have none that all servers share.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from sandlot.core.errors import AuthorError, ConfigError
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.types import Json
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, write_environment
from sandlot.interop.gyms.source import ScoreRange, read_score_range
from sandlot.interop.nemo_gym.world import CALL_S, LOAD_S, PACKAGE, ResourcesSource, start_server, tools_of
from sandlot.interop.package_process import PackageProcess, package_version_of, python_at
from sandlot.interop.untrusted import read_bytes, source_digest

_OPTIONS = ("python", "data", "config", "score")
_TURNS = 40
_WORLD = '''\
"""A resources server of NeMo Gym, run by its own package in a process of its own."""

from pathlib import Path

from sandlot import Task, World
from sandlot.interop.nemo_gym.world import ResourcesWorld, record_reward

ROWS = Path(__file__).parent / "data" / "rows.jsonl"
SOURCES = [ResourcesWorld(source={source}, requires={requires!r}, digest={digest!r}, rows=ROWS)]


async def finish(world: World, task: Task) -> None:
    await record_reward(world)
'''
_CHECKS = '''\
"""The reward of the server's own `/verify`: LOW is worth 0, HIGH is full marks. Nothing is clipped."""

from sandlot import Evidence, Task
from sandlot.interop.nemo_gym.world import score_of_verify

LOW = {low!r}
HIGH = {high!r}


def reward(evidence: Evidence, task: Task) -> tuple[float, str]:
    return score_of_verify(evidence, LOW, HIGH)
'''


@dataclass(frozen=True, slots=True)
class _Named:
    server: ResourcesSource
    data: Path
    scale: ScoreRange


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    content: Json
    system: str
    prompt: str


class NemoGymImporter:
    """`nemo-gym:FOLDER` (port `Importer`)."""

    kind = "nemo-gym"

    def digest(self, source: str) -> str:
        """Changes with the package's version, the server's files and the rows."""
        named = _read_source(source)
        return package_version_of(named.server.python, PACKAGE) + source_digest(named.server.folder) + source_digest(named.data)

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment. The server's code runs, in a process of its own."""
        named = _read_source(source)
        version = package_version_of(named.server.python, PACKAGE)  # says how to install it
        digest = source_digest(named.server.folder)
        try:
            process, facts = start_server(named.server)
        except AuthorError as error:
            raise ConfigError(f"`{named.server.folder}` cannot be loaded: {error}") from error
        try:
            rows, left_out = _begun(process, named.data, limit)
        finally:
            process.close()
        counts = Counter(row.system for row in rows)
        system = counts.most_common(1)[0][0] if counts else ""
        why = f"it has another system prompt than the {counts[system]} tasks that were taken"
        left_out += [LeftOut(what=f"row {row.number}", why=why) for row in rows if row.system != system]
        kept = [row for row in rows if row.system == system]
        if not kept:
            raise ConfigError(f"no row of `{named.data}` can be taken: {left_out[0].why if left_out else 'it has none'}")
        name = Path(named.server.folder).name
        tasks = [Task(f"{name}-{row.number}", prompt=row.prompt, data={"row": at}) for at, row in enumerate(kept)]
        requires = f"{PACKAGE}=={version}"
        draft = EnvironmentDraft(
            name=environment_name(f"nemo-gym-{name}"),
            settings={
                "description": f"{name}, a resources server of {requires}.",
                "system": system or None,
                "on_crash": "lose",  # the session and its reward are the server's
                "limits": {"turns": _TURNS, "tool_s": CALL_S + 30, "setup_s": CALL_S + 30, "provision_s": LOAD_S + CALL_S + 30},
            },
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="reward", ref="checks:reward"),))},
            code={
                "world.py": _WORLD.format(requires=requires, digest=digest, source=repr(msgspec.to_builtins(named.server))),
                "checks.py": _CHECKS.format(low=named.scale.low, high=named.scale.high),
            },
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
                ImportedTask(id=task.id, origin=f"{named.data.name} row {row.number}")
                for task, row in zip(tasks, kept, strict=True)
            ),
            left_out=tuple(left_out),
            notes=(
                f"the reward is that of {facts.get('name')}: {named.scale.low:g} is worth 0, {named.scale.high:g} is full marks",
                "there are no golden solutions",
                "an endpoint that crashes is shown to the model by NeMo Gym's agent; here that is a failure without a reward",
                "the server's code runs on this machine, in a process of its own; model servers and Ray are not started",
            ),
        )


def _read_source(source: str) -> _Named:
    name, _, query = source.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := set(options) - set(_OPTIONS):
        raise ConfigError(f"`{source}`: unknown `{min(unknown)}`; there are: {', '.join(_OPTIONS)}")
    folder = Path(name or ".").resolve()
    if not (folder / "app.py").is_file():
        raise ConfigError(f"`{folder}` has no `app.py`; name a folder such as `resources_servers/mcqa` of NeMo Gym")
    data = Path(options["data"]).resolve() if "data" in options else folder / "data" / "example.jsonl"
    if not data.is_file():
        raise ConfigError(f"there is no file of rows `{data}`; name one with `?data=FILE`")
    config = options.get("config", "")
    if config and (Path(config).name != config or not (folder / "configs" / config).is_file()):
        raise ConfigError(f"`config={config}`: there is no such file in `{folder / 'configs'}`")
    known = sorted(each.name for each in (folder / "configs").glob("*.yaml"))
    if not config and len(known) > 1:
        names = ", ".join(f"`{each}`" for each in known)
        raise ConfigError(f"`{folder / 'configs'}` has several settings: {names}; name one with `?config=FILE`")
    config = config or next(iter(known), "")
    scale = read_score_range(options.get("score", "0..1"))
    if scale is None:
        raise ConfigError(f"`score={options['score']}` is no range; write `?score=LOW..HIGH`, such as `?score=0..10`")
    return _Named(
        ResourcesSource(folder=str(folder), python=python_at(options.get("python", sys.executable)), config=config), data, scale
    )


def _begun(process: PackageProcess, data: Path, limit: int | None) -> tuple[list[_Row], list[LeftOut]]:
    """The rows that can be taken: each is begun once at the server."""
    rows: list[_Row] = []
    left_out: list[LeftOut] = []
    for number, line in enumerate(line for line in read_bytes(data).split(b"\n") if line.strip()):
        if limit is not None and len(rows) >= limit:
            break
        try:
            row = _read_row(number, msgspec.json.decode(line, type=dict[str, Any]))
            process.ask("begin", within_s=CALL_S, rollout=str(number), row=row.content)
            process.ask("drop", within_s=CALL_S, rollout=str(number))
            rows.append(row)
        except (
            AuthorError,
            ConfigError,
            msgspec.MsgspecError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            left_out.append(LeftOut(what=f"row {number}", why=str(error)[:500]))
            if not process.alive:
                raise ConfigError(f"the server ended at row {number}: {error}") from error
    return rows, left_out


def _read_row(number: int, row: Json) -> _Row:
    """A row with a system message or none, and one of the user; `ConfigError` if it begins with anything else."""
    given = row["responses_create_params"]["input"]
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    roles = ["system" if each.get("role") == "developer" else each.get("role") for each in messages]
    if roles not in (["user"], ["system", "user"]):
        raise ConfigError(
            f"it begins with messages of {', '.join(map(str, roles))}; a task here has a system prompt and one user message"
        )
    tools_of(row)
    texts = [_text(each["content"]) for each in messages]
    return _Row(number, row, texts[0] if len(texts) == 2 else "", texts[-1])


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    other = [part.get("type") for part in content if part.get("type") not in {"input_text", "output_text", "text"}]
    if other:
        raise ConfigError(f"a message has a part of type `{other[0]}`; only text can be taken")
    return "".join(part["text"] for part in content)
