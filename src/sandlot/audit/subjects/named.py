"""Finds what an audit is about: a Sandlot environment, a plain Python grader, or a Gymnasium environment."""

import shlex
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from sandlot.audit.reports.folder import place_of
from sandlot.audit.subject import Subject
from sandlot.audit.subjects.environment.describe import declarations_of
from sandlot.audit.subjects.environment.subject import EnvironmentSubject
from sandlot.audit.subjects.foreign.grader import GraderConfig, open_grader, read_config
from sandlot.audit.subjects.foreign.gym import GymConfig, open_gym, read_gym
from sandlot.core.errors import ConfigError
from sandlot.core.types import Json
from sandlot.env.environment import Environment
from sandlot.env.importing import imported_folder
from sandlot.wiring.config import judge_config, user_config

_FOREIGN = ("--python", "--without-sandbox")
_GRADER = ("--tasks", "--map", *_FOREIGN)
_GYM = ("--gym-argument", "--solution", "--seeds", "--steps", *_FOREIGN)


@dataclass(frozen=True, slots=True)
class SubjectOptions:
    """What to audit, as the options of `sandlot audit` name it. Give exactly one of `env`, `grader` and `gym`."""

    env: str | None = None
    """Path or installed name of a Sandlot environment."""
    grader: str | None = None
    """`module:function` or `folder/file.py:function` of a plain Python grader, or a `grader.toml`."""
    tasks: str | None = None
    """The grader's tasks: a JSON Lines file."""
    mapping: str | None = None
    """How a task and an answer become the grader's arguments."""
    gym: str | None = None
    """A Gymnasium environment: `module:make`, its registered id, or a `gym.toml`."""
    gym_arguments: Json = field(default_factory=dict[str, Any])
    """Arguments for making it."""
    solution: str | None = None
    """`module:function` of a policy that solves the Gymnasium environment."""
    seeds: int | None = None
    """Seeds to play it with; each is a task."""
    steps: int | None = None
    """Maximum steps per rollout."""
    python: str | None = None
    """The Python that has what the grader or Gymnasium environment imports."""
    without_sandbox: bool = False
    """Run foreign code in a plain process, with your own rights."""

    @property
    def given(self) -> dict[str, tuple[str, ...]]:
        """Each option that was given, with its values; a flag has none."""
        values = {
            "--tasks": self.tasks,
            "--map": self.mapping,
            "--solution": self.solution,
            "--seeds": self.seeds,
            "--steps": self.steps,
            "--python": self.python,
        }
        found: dict[str, tuple[str, ...]] = {name: (str(value),) for name, value in values.items() if value is not None}
        if self.gym_arguments:
            found["--gym-argument"] = tuple(f"{name}={_argument_text(value)}" for name, value in self.gym_arguments.items())
        return found | ({"--without-sandbox": ()} if self.without_sandbox else {})

    def words(self, name: str, what: str) -> str:
        """The same options as words of a command line."""
        words = [name, what]
        for option, values in self.given.items():
            words += [word for value in values for word in (option, value)] if values else [option]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class NamedSubject:
    """A subject with what reports say about it."""

    words: str
    """The words of a command line that name it, for the command that reproduces a finding."""
    place: str
    """Where it is: audits are kept by name and place."""
    open: Callable[[], AbstractAsyncContextManager[Subject]]
    """The subject, ready for trials."""
    env: str | None = None
    """Path or name of a Sandlot environment; None for anything else: no model plays there."""
    declarations: Path | None = None
    """The file with its waivers, if it can have one."""


def find_subject(
    subject: "str | Path | Environment | SubjectOptions | NamedSubject | Subject",
    *,
    judge: str | None = None,
    user: str | None = None,
    sandbox: str = "native",
    patience_s: float = 60.0,
) -> NamedSubject:
    """What to audit. Options that belong to another kind of subject are refused."""
    if isinstance(subject, NamedSubject):
        return subject
    if isinstance(subject, Environment) and subject.source is None:
        raise ConfigError(f"environment `{subject.name}` is in no file, and an audit loads it in another process; save it in one")
    if isinstance(subject, str | Path | Environment):
        subject = SubjectOptions(env=str(subject.source if isinstance(subject, Environment) else subject))
    if not isinstance(subject, SubjectOptions):
        return _name_foreign(type(subject).__name__, partial(nullcontext, subject))
    if sum(what is not None for what in (subject.env, subject.grader, subject.gym)) != 1:
        raise ConfigError(
            "name one thing to audit: an environment, a grader with `--grader MODULE:FUNCTION --tasks FILE`, or a Gymnasium "
            "environment with `--gym MODULE:MAKE`"
        )
    if subject.env is not None:
        _only((), subject, f"`{subject.env}` is an environment")
        imported_folder(subject.env)  # here, where it may take minutes: the process that loads it is ended if it says nothing
        words = _environment_words(subject.env, judge, user, sandbox)
        make = partial(EnvironmentSubject, subject.env, judge=judge, user=user, sandbox=sandbox, patience_s=patience_s)
        declarations = _find_declarations(Path(subject.env))
        return NamedSubject(words, place_of(subject.env), lambda: nullcontext(make()), subject.env, declarations)
    trusted = subject.without_sandbox
    if subject.grader is not None:
        _only(_GRADER, subject, f"`{subject.grader}` is a grader")
        grader = grader_config(subject)
        return _name_foreign(subject.words("--grader", subject.grader), partial(open_grader, grader, without_sandbox=trusted))
    assert subject.gym is not None
    _only(_GYM, subject, f"`{subject.gym}` is a Gymnasium environment")
    gym = _gym(subject.gym, subject)
    return _name_foreign(subject.words("--gym", subject.gym), partial(open_gym, gym, without_sandbox=trusted))


def _name_foreign(words: str, start: Callable[[], AbstractAsyncContextManager[Subject]]) -> NamedSubject:
    """Anything but a Sandlot environment: its place is the folder it was named in, and the words that name it there."""
    return NamedSubject(words, f"{Path.cwd()}: {words}", start)


def _environment_words(env: str, judge: str | None, user: str | None, sandbox: str) -> str:
    """The path or name, and the models without the secrets in their addresses."""
    models = {"--judge": judge_config(judge), "--user": user_config(user)}
    options = [word for option, model in models.items() if model for word in (option, model.shown)]
    return shlex.join([env, *options, *(["--sandbox", sandbox] if sandbox != "native" else [])])


def _find_declarations(path: Path) -> Path | None:
    """`audit.toml` beside an environment; None for an installed one."""
    for source in (path / "environment.py", path.parent / f"{path.name}.py", path):
        if source.exists() and (source.is_file() or source == path):
            return declarations_of(source)
    return None


def _only(allowed: tuple[str, ...], words: SubjectOptions, what: str) -> None:
    extra = [name for name in words.given if name not in allowed]
    if extra:
        kinds = [kind for kind, options in (("graders", _GRADER), ("Gymnasium environments", _GYM)) if extra[0] in options]
        raise ConfigError(f"{extra[0]} is only for {' and '.join(kinds)}, and {what}")


def grader_config(words: SubjectOptions) -> GraderConfig:
    """The grader that the options name, from its `grader.toml` if it has one."""
    grader = words.grader or ""
    given = _without_none(tasks=words.tasks, map=words.mapping, python=words.python)
    if grader.endswith(".toml"):
        return msgspec.structs.replace(read_config(Path(grader)), **given)
    if words.tasks is None:
        raise ConfigError(f"grader `{grader}` needs its tasks; give `--tasks FILE` (JSON Lines)")
    file, mark, function = grader.partition(".py:")
    if mark:  # a file by its path: its own folder holds what it imports
        given |= {"path": (str(Path(file).parent),)}
        grader = f"{Path(file).name}:{function}"
    return msgspec.structs.replace(GraderConfig(grader=grader, tasks=words.tasks), **given)


def _gym(gym: str, words: SubjectOptions) -> GymConfig:
    given = _without_none(solution=words.solution, seeds=words.seeds, steps=words.steps, python=words.python)
    own = (".",) if ":" in gym or words.solution else ()  # an id alone names what is installed: the sandbox sees no more
    config = read_gym(Path(gym)) if gym.endswith(".toml") else GymConfig(env=gym, path=own)
    try:
        return msgspec.structs.replace(config, arguments=config.arguments | words.gym_arguments, **given)
    except ValueError as error:
        raise ConfigError(f"--gym: {error}") from error


def _without_none(**options: Any) -> Json:
    return {name: value for name, value in options.items() if value is not None}


def read_argument(text: str) -> tuple[str, Any]:
    """`size=8` as a name and a value: JSON where it is JSON, else the text as it stands."""
    name, mark, value = text.partition("=")
    if not mark or not name.isidentifier():
        raise ConfigError(f"--gym-argument `{text}`: write `name=value`, such as `size=8` or `map_name=4x4`")
    return name, _value(value)


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        return text


def _argument_text(value: Any) -> str:
    """The text that `read_argument` reads as this value."""
    return value if isinstance(value, str) and _value(value) == value else msgspec.json.encode(value).decode()
