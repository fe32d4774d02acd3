"""How an environment of OpenEnv is named: the address of its server, its folder, or its installed package.

A folder has an `openenv.yaml`, whose line `app:` says what is served. A package has a module `server.app`.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from sandlot.core.errors import ConfigError
from sandlot.interop.gyms.source import ScoreRange, read_score_range
from sandlot.interop.openenv.servers import OwnServer, RunningServer
from sandlot.interop.package_process import package_folder_of, package_version_of, python_at
from sandlot.interop.untrusted import NOT_CODE, code_digest, is_environment, path_inside, read_text

_MAX_SEEDS = 100_000
_MAX_STEPS = 10_000
_OPTIONS = ("seeds", "score", "steps", "reward")
_OF_RUNNING = ("token_variable",)
_OF_OWN = ("python", "app", "variables")
_MANIFEST = "openenv.yaml"
_MANIFEST_BYTES = 64 * 2**10
_APP_LINE = re.compile(r"^app:[ \t]*(?P<quote>[\"']?)(?P<app>[^\s\"'#]+)(?P=quote)[ \t]*(?:#.*)?$", re.MULTILINE)
_APP = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_CORE = "openenv-core"
_LATER_CORE = "openenv"


@dataclass(frozen=True, slots=True)
class OpenEnvSource:
    """A server, and how its episodes become tasks and scores."""

    server: RunningServer | OwnServer
    seeds: int
    steps: int
    scale: ScoreRange
    last: bool


def read_source(source: str) -> OpenEnvSource:
    """Read a source's name; `ConfigError` names what is wrong."""
    name, _, query = source.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    is_address = ":/" in name
    known = (*_OPTIONS, *(_OF_RUNNING if is_address else _OF_OWN))
    if unknown := set(options) - set(known):
        raise ConfigError(f"`{source}`: unknown `{min(unknown)}`; there are: {', '.join(known)}")
    scale = read_score_range(options.get("score", "0..1"))
    if scale is None:
        raise ConfigError(f"`score={options['score']}` is no range; write `?score=LOW..HIGH`, such as `?score=-1..1`")
    if options.get("reward", "sum") not in {"sum", "last"}:
        raise ConfigError(f"`reward={options['reward']}`: it is `sum` or `last`")
    seeds, steps = _number(options, "seeds", 20, _MAX_SEEDS), _number(options, "steps", 100, _MAX_STEPS)
    server = _running(name, options) if is_address else _own(name, options)
    return OpenEnvSource(server, seeds, steps, scale, last=options.get("reward") == "last")


def _number(options: dict[str, str], name: str, default: int, most: int) -> int:
    text = options.get(name, str(default))
    if not text.isdecimal() or not 1 <= int(text[:9]) <= most or len(text) > 9:
        raise ConfigError(f"`{name}={text[:40]}` is no number from 1 to {most:,}")
    return int(text)


def _running(url: str, options: dict[str, str]) -> RunningServer:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"`{url}` is no address of an OpenEnv server; write `http://HOST:PORT`, or name its folder")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("the address holds a password, which would be written into the environment; use `?token_variable=NAME`")
    return RunningServer(url=url.rstrip("/"), token_variable=options.get("token_variable", ""))


def _own(name: str, options: dict[str, str]) -> OwnServer:
    python = python_at(options.get("python", sys.executable))
    core = _core(python)
    if "/" in name or Path(name or ".").is_dir():
        folder = Path(name or ".").resolve()
        if not folder.is_dir():
            raise ConfigError(f"there is no folder `{name}`")
        package, app = "", options.get("app") or _app_of(folder)
    else:
        package = name.replace("-", "_")
        if not package.isidentifier():
            raise ConfigError(f"`{name}` is no name of a package; name a folder with a slash, or `http://HOST:PORT`")
        folder, app = package_folder_of(python, package), options.get("app") or f"{package}.server.app:app"
    if not _APP.fullmatch(app):
        raise ConfigError(f"the application `{app[:100]}` is not named as `server.app:app`")
    parts = app.partition(":")[0].split(".")
    if hidden := [part for part in parts if part in NOT_CODE or (part == parts[0] and is_environment(folder / part))]:
        raise ConfigError(f"the application `{app[:100]}` is below `{hidden[0]}`, which is passed over; put it elsewhere")
    return OwnServer(
        folder=str(folder),
        package=package,
        app=app,
        python=python,
        requires=core,
        digest=code_digest(folder),
        variables=tuple(each for each in options.get("variables", "").split(",") if each),
    )


def _core(python: str) -> str:
    """OpenEnv's own package with its version; it has had two names."""
    try:
        return f"{_CORE}=={package_version_of(python, _CORE)}"
    except ConfigError as error:
        try:
            return f"{_LATER_CORE}=={package_version_of(python, _LATER_CORE)}"
        except ConfigError:
            raise error from None


def _app_of(folder: Path) -> str:
    """The application that a folder's `openenv.yaml` names."""
    manifest = path_inside(folder, _MANIFEST)
    if not manifest.exists():
        raise ConfigError(f"`{folder}` has no `{_MANIFEST}`; name what is served with `?app=server.app:app`")
    found = _APP_LINE.search(read_text(manifest, at_most=_MANIFEST_BYTES))
    if found is None:
        raise ConfigError(f"`{manifest}` has no line such as `app: server.app:app`; name it with `?app=`")
    return found["app"]
