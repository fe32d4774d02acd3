"""What `sandlot audit` is to judge: an environment, a plain grader, or a Gymnasium environment, as the command line names it."""

import shlex
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from sandlot.audit.reports.folder import place_of
from sandlot.audit.subject import Subject
from sandlot.audit.subjects.environment.describe import declarations_of
from sandlot.audit.subjects.environment.subject import EnvironmentSubject
from sandlot.audit.subjects.foreign.grader import GraderConfig, open_grader, read_config
from sandlot.audit.subjects.foreign.gym import GymConfig, open_gym, read_gym
from sandlot.core.errors import ConfigError
from sandlot.core.types import Json
from sandlot.wiring.config import judge_config, user_config

_FOREIGN = ("--python", "--without-sandbox")
_GRADER = ("--tasks", "--map", *_FOREIGN)
_GYM = ("--gym-argument", "--solution", "--seeds", "--steps", *_FOREIGN)


@dataclass(frozen=True, slots=True)
class SubjectOptions:
    """The options that say what to audit; None or nothing for those that were not given."""

    env: str | None = None
    grader: str | None = None
    tasks: str | None = None
    mapping: str | None = None
    gym: str | None = None
    gym_arguments: tuple[str, ...] = ()
    solution: str | None = None
    seeds: int | None = None
    steps: int | None = None
    python: str | None = None
    without_sandbox: bool = False

    @property
    def given(self) -> dict[str, tuple[str, ...]]:
        """Each option that was given, with its words; a flag has none."""
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
            found["--gym-argument"] = self.gym_arguments
        return found | ({"--without-sandbox": ()} if self.without_sandbox else {})

    def spoken(self, name: str, what: str) -> str:
        """Everything a shell needs to name it again."""
        words = [name, what]
        for option, values in self.given.items():
            words += [word for value in values for word in (option, value)] if values else [option]
        return shlex.join(words)


class NamedSubject(Protocol):
    """An environment, or what others wrote."""

    @property
    def spoken(self) -> str:
        """The words that name it, for the command that shows a finding again."""
        ...

    @property
    def place(self) -> str:
        """Where it lies: audits are kept by name and place."""
        ...

    @property
    def declarations(self) -> Path | None:
        """The file with its waivers, where it has one."""
        ...

    def opened(self) -> AbstractAsyncContextManager[Subject]:
        """It, ready to be audited."""
        ...


@dataclass(frozen=True, slots=True)
class _NamedEnvironment:
    """A Sandlot environment."""

    env: str
    judge: str | None
    user: str | None
    sandbox: str
    patience_s: float

    @property
    def spoken(self) -> str:
        """The path or name, with the models that graded and answered; what is secret in their addresses is left out."""
        models = {"--judge": judge_config(self.judge), "--user": user_config(self.user)}
        options = [word for option, model in models.items() if model for word in (option, model.shown)]
        return shlex.join([self.env, *options, *(["--sandbox", self.sandbox] if self.sandbox != "native" else [])])

    @property
    def place(self) -> str:
        """Its absolute path, or `installed:NAME`."""
        return place_of(self.env)

    @property
    def declarations(self) -> Path | None:
        """Beside what was named; an installed environment has none."""
        path = Path(self.env)
        for source in (path / "environment.py", path.parent / f"{path.name}.py", path):
            if source.exists() and (source.is_file() or source == path):
                return declarations_of(source)
        return None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Subject]:
        """It starts a process for every batch of trials, and holds nothing meanwhile."""
        yield EnvironmentSubject(self.env, judge=self.judge, user=self.user, sandbox=self.sandbox, patience_s=self.patience_s)


@dataclass(frozen=True, slots=True)
class _NamedForeign:
    """What others wrote, a plain grader or a Gymnasium environment, in its sandbox."""

    spoken: str
    opened: Callable[[], AbstractAsyncContextManager[Subject]]
    declarations: Path | None = None

    @property
    def place(self) -> str:
        """The folder it was named in, and the words that name it there."""
        return f"{Path.cwd()}: {self.spoken}"


def named(
    words: SubjectOptions, *, judge: str | None = None, user: str | None = None, sandbox: str = "native", patience_s: float = 60.0
) -> NamedSubject:
    """What is meant; an option that is about something else is refused."""
    if sum(what is not None for what in (words.env, words.grader, words.gym)) != 1:
        raise ConfigError(
            "name one thing to audit: an environment, a grader with `--grader MODULE:FUNCTION --tasks FILE`, or a Gymnasium "
            "environment with `--gym MODULE:MAKE`"
        )
    if words.env is not None:
        _only((), words, f"`{words.env}` is an environment")
        return _NamedEnvironment(words.env, judge, user, sandbox, patience_s)
    trusted = words.without_sandbox
    if words.grader is not None:
        _only(_GRADER, words, f"`{words.grader}` is a grader")
        grader = _grader(words.grader, words)
        return _NamedForeign(words.spoken("--grader", words.grader), partial(open_grader, grader, without_sandbox=trusted))
    assert words.gym is not None
    _only(_GYM, words, f"`{words.gym}` is a Gymnasium environment")
    gym = _gym(words.gym, words)
    return _NamedForeign(words.spoken("--gym", words.gym), partial(open_gym, gym, without_sandbox=trusted))


def _only(allowed: tuple[str, ...], words: SubjectOptions, what: str) -> None:
    extra = [name for name in words.given if name not in allowed]
    if extra:
        about = "a Gymnasium environment" if extra[0] in _GYM else "a grader"
        raise ConfigError(f"{extra[0]} is about {'what others wrote' if extra[0] in _FOREIGN else about}, and {what}")


def _grader(grader: str, words: SubjectOptions) -> GraderConfig:
    given = _said(tasks=words.tasks, map=words.mapping, python=words.python)
    if grader.endswith(".toml"):
        return msgspec.structs.replace(read_config(Path(grader)), **given)
    if words.tasks is None:
        raise ConfigError(f"grader `{grader}` needs its tasks; give `--tasks FILE` (JSON Lines)")
    return msgspec.structs.replace(GraderConfig(grader=grader, tasks=words.tasks), **given)


def _gym(gym: str, words: SubjectOptions) -> GymConfig:
    given = _said(solution=words.solution, seeds=words.seeds, steps=words.steps, python=words.python)
    own = (".",) if ":" in gym or words.solution else ()  # an id alone names what is installed: the sandbox sees no more
    config = read_gym(Path(gym)) if gym.endswith(".toml") else GymConfig(env=gym, path=own)
    arguments = config.arguments | dict(_argument(text) for text in words.gym_arguments)
    try:
        return msgspec.structs.replace(config, arguments=arguments, **given)
    except ValueError as error:
        raise ConfigError(f"--gym: {error}") from error


def _said(**options: Any) -> Json:
    return {name: value for name, value in options.items() if value is not None}


def _argument(text: str) -> tuple[str, Any]:
    """`size=8` as a name and a value: JSON where it is JSON, else the text as it stands."""
    name, mark, value = text.partition("=")
    if not mark or not name.isidentifier():
        raise ConfigError(f"--gym-argument `{text}`: write `name=value`, such as `size=8` or `map_name=4x4`")
    try:
        return name, msgspec.json.decode(value.encode())
    except msgspec.DecodeError:
        return name, value
