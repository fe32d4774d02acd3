"""Servers of OpenEnv: one that runs somewhere, or the environment's own, which we start in a process of its own.

A server that we start is served from a copy of its folder, so that it may write there, and listens at a Unix socket in a folder
of ours. It ends with us, and one that does not answer in time is ended: rollouts that it has then fail, and the next one starts
it again.
"""

import errno
import os
import shutil
import socket
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, ConfigError, boundary
from sandlot.interop.openenv.client import OpenEnvAddress
from sandlot.interop.package_process import PackageProcess, RunningPrograms, package_version_of
from sandlot.interop.untrusted import code_digest, copy_code

LOAD_S = 300.0
"""Maximum time to import an environment and to start its server."""
_PROGRAM = Path(__file__).parents[1] / "inside" / "serve_openenv.py"
_MAX_SOCKET_BYTES = 100
"""Longest path of a socket on Linux and macOS, with some to spare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server that was started by somebody else."""

    url: str
    token_variable: str = ""
    """The environment variable with its token."""

    async def address(self) -> OpenEnvAddress:
        """Where it is."""
        return OpenEnvAddress(url=self.url, token_variable=self.token_variable)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnServer:
    """The server of an environment's folder or package."""

    folder: str
    package: str
    """The package's name; empty for a folder, whose modules are imported from the folder itself."""
    app: str
    """What is served, such as `server.app:app`."""
    python: str
    """The interpreter that has OpenEnv and what the environment needs."""
    requires: str
    """OpenEnv's own package, with its version."""
    digest: str
    """A hash of the environment's files."""
    variables: tuple[str, ...] = ()
    """Environment variables that it gets."""

    async def address(self) -> OpenEnvAddress:
        """Where it is. It is started if it does not run."""
        with boundary(AuthorError, "starting the OpenEnv server"):
            server: OwnServerProcess = await author.call(_programs.running, self, self._start)
        return server.address

    def _start(self) -> "OwnServerProcess":
        package, _, wanted = self.requires.partition("==")
        found = package_version_of(self.python, package)
        if found != wanted:
            raise ConfigError(
                f"this environment was imported with {self.requires}, and `{self.python}` has {found}; import it again"
            )
        return OwnServerProcess(self)


def _copy_imported(server: OwnServer, target: Path) -> None:
    """Copy the files that were imported. The copy is compared, which nobody changes afterwards."""
    copy_code(Path(server.folder), target)
    if code_digest(target) != server.digest:
        raise ConfigError(f"the files in `{server.folder}` have changed since they were imported; import them again")


class OwnServerProcess:
    """A server that we have started."""

    def __init__(self, server: OwnServer) -> None:
        self._place = tempfile.mkdtemp(prefix="sandlot-openenv-")
        self._clean = weakref.finalize(self, shutil.rmtree, self._place, ignore_errors=True)
        self._socket = str(Path(self._place) / "socket")
        if len(os.fsencode(self._socket)) > _MAX_SOCKET_BYTES:
            raise ConfigError(f"`{self._socket}` is too long for a socket; set TMPDIR to a shorter path")
        code = Path(self._place) / "code"
        try:
            _copy_imported(server, code / server.package)
            self._process = PackageProcess(server.python, _PROGRAM, cwd=code, variables=server.variables)
        except ConfigError:
            self._clean()
            raise
        try:
            self._process.ask("load", within_s=LOAD_S, folder=str(code), app=server.app, socket=self._socket)
        except AuthorError as error:
            self.close()
            raise AuthorError(f"{error}; does `{server.python}` have what `{server.folder}` needs?", kind=error.kind) from error

    @property
    def alive(self) -> bool:
        """True while it runs and listens."""
        return self.listens() and self._process.alive

    def listens(self) -> bool:
        """Whether it listens, at once. A process that is about to end listens no more."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(0)  # it may be busy, with others waiting
            return asking.connect_ex(self._socket) in {0, errno.EAGAIN}

    @property
    def address(self) -> OpenEnvAddress:
        """Where it is."""
        return OpenEnvAddress(
            url="http://openenv",
            socket=self._socket,
            last_words=self._process.last_words,
            end=self.close,
            listens=self.listens,
        )

    def close(self) -> None:
        """End it."""
        if self._clean.alive:
            self._clean()
            self._process.close()


_programs = RunningPrograms[OwnServerProcess]()
