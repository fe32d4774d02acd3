"""What is served, what a page is asked for, and the addresses of pages."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams

from sandlot.core.errors import ConfigError
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.folder import MANIFEST
from sandlot.env.load import load
from sandlot.run.follow import Followers
from sandlot.run.results import Run
from sandlot.web.memory import Memory

EVALUATIONS = "evaluations"
"""The folder of a training's held-out evaluations, which are runs of their own."""


@dataclass(frozen=True)
class ServedEnvironment:
    """The environment that the command named, loaded once: no request can load another."""

    what: str
    """As it was named."""
    env: Environment
    fingerprint: str
    """When it was loaded."""
    rubrics: Mapping[str, Path]
    """The rubric files of a folder environment, by name."""


def serve_environment(what: str) -> ServedEnvironment:
    """Load an environment to show it. This runs its code."""
    env = load(what)
    files = sorted(env.source.glob("rubrics/*.json")) if env.source is not None and (env.source / MANIFEST).is_file() else []
    return ServedEnvironment(what, env, environment_fingerprint(env, build=False), {path.stem: path for path in files})


@dataclass(frozen=True)
class Site:
    """A folder of runs, and what a visitor of its pages may do beside reading."""

    folder: Path
    control: bool = False
    """Whether the pages may pause, resume, change and stop runs."""
    reader: str | None = None
    """The name under which labels and notes are kept; without one, none can be written."""
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)
    """What pages have computed."""
    followers: Followers = field(default_factory=Followers, compare=False, repr=False)
    """The live runs that are looked at."""
    environment: ServedEnvironment | None = None
    """The environment that the command named; None if it named none."""
    judge: str | None = None
    """The grader model that the command named, for trials of rubrics with judge checks."""


@dataclass(frozen=True)
class Asked:
    """What a page, or an action, is asked for."""

    site: Site
    name: str | None
    """The name of the run."""
    query: QueryParams

    @property
    def run(self) -> Path:
        """The directory of the run; `TRAINING@000010` is an evaluation of a training."""
        return self.find_run(self.name or "")

    def find_run(self, name: str) -> Path:
        """The directory of a run. Its name may be anything: only names that are in the folder are used as paths."""
        folder, (training, _, evaluation) = self.site.folder, name.rpartition("@")
        if _has_run(folder, name):
            return folder / name
        if _has_run(folder, training) and _has_run(folder / training / EVALUATIONS, evaluation):
            return folder / training / EVALUATIONS / evaluation
        raise ConfigError(f"no run `{name[:200]}` in `{folder}`")

    @property
    def opened(self) -> Run:
        """The run, opened for reading as it is now."""
        return Run(self.run)

    def number(self, name: str) -> int:
        """A whole number of the query; 0 if there is none."""
        text = self.query.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def run_name(path: Path) -> str:
    """The name of a run in addresses; that of an evaluation has its training's."""
    return f"{path.parent.parent.name}@{path.name}" if path.parent.name == EVALUATIONS else path.name


def _has_run(folder: Path, name: str) -> bool:
    known = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    return name in known and (folder / name / "manifest.json").is_file()


_ROOT: ContextVar[str] = ContextVar("root", default="")


@contextmanager
def rooted(root: str) -> Generator[None]:
    """Let the addresses of pages that are made in this block begin with `root`."""
    token = _ROOT.set(root)
    try:
        yield
    finally:
        _ROOT.reset(token)


def root() -> str:
    """What the addresses of the pages begin with."""
    return _ROOT.get()


def compare_link(runs: Sequence[str], **query: str | int) -> str:
    """The path of the page that compares runs."""
    return f"{root()}/compare?{urlencode([*(('run', run) for run in runs), *query.items()])}"


def link(run: str, page: str = "", **query: str | int) -> str:
    """The path of a run's page. A task is in the query: it may be named `..` or hold a slash, which browsers change in paths."""
    path = f"{root()}/run/{quote(run, safe='')}" + (f"/{page}" if page else "")
    return f"{path}?{urlencode(query)}" if query else path
