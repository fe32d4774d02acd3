"""Checks what works on this machine. `sandlot doctor` prints it."""

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio
import msgspec

from sandlot.core.errors import SandlotError
from sandlot.wiring.parts import open_backend


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One check of this machine."""

    what: str
    ok: bool
    detail: str
    needed: bool = True
    """False if only some environments or commands need it."""


def examine_machine() -> list[DoctorFinding]:
    """Check everything; changes nothing."""
    return [
        DoctorFinding(what="python", ok=sys.version_info >= (3, 11), detail=platform.python_version()),
        _optional("system", f"{platform.system()} {platform.release()}", ok=platform.system() == "Linux"),
        _writable(Path.cwd()),
        _open_files(),
        *_sandboxes(),
        _docker(),
        _package("torch", "models on this machine (`smollm2`, `rookie`, `hf:FOLDER`)"),
        *_number_type(),
        _package("duckdb", "SQL over runs", extra="sql"),
        _optional(
            "model key",
            "SANDLOT_API_KEY or OPENAI_API_KEY; only for endpoints that need a key",
            ok=any(name in os.environ for name in ("SANDLOT_API_KEY", "OPENAI_API_KEY")),
        ),
        _optional("node", "for MCP servers from npm", ok=shutil.which("node") is not None),
    ]


def _sandboxes() -> list[DoctorFinding]:
    """What a native sandbox isolates here, one finding per capability."""
    try:
        capabilities = anyio.run(_probe_native)
    except SandlotError as error:
        return [_optional("native sandboxes", f"{error}; environments with an `image` cannot run", ok=False)]
    return [_optional(f"sandbox: {name}", said, ok=not said.startswith("no")) for name, said in capabilities.items()]


async def _probe_native() -> Mapping[str, str]:
    async with open_backend() as backend:
        return await backend.probe()


def _docker() -> DoctorFinding:
    """What a sandbox of the Docker engine here would isolate; only asks the engine."""
    try:
        capabilities = anyio.run(_probe_docker)
    except SandlotError as error:
        return _optional("docker sandboxes", f"{error}; only `--sandbox docker` needs one", ok=False)
    lacking = ", ".join(name for name, said in capabilities.items() if said.startswith("no"))
    return _optional("docker sandboxes", f"{capabilities['engine'][5:]}; not isolated: {lacking or 'nothing'}", ok=True)


async def _probe_docker() -> Mapping[str, str]:
    from sandlot.sandbox.docker.api import find_socket, open_docker_api  # noqa: PLC0415 - as above
    from sandlot.sandbox.docker.probe import docker_capabilities  # noqa: PLC0415 - loads aiohttp

    async with open_docker_api(find_socket()) as docker:
        return docker_capabilities(await docker.info(), docker.version)


def _writable(folder: Path) -> DoctorFinding:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return DoctorFinding(what="run directory", ok=False, detail=f"{folder} is not writable: {error}")
    free_gib = shutil.disk_usage(folder).free / 2**30
    return DoctorFinding(what="run directory", ok=free_gib > 1, detail=f"{folder}, {free_gib:.0f} GiB free")


def _open_files() -> DoctorFinding:
    import resource  # noqa: PLC0415 - not everywhere

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _optional("open files", f"{soft} now, {hard} at most; each rollout in flight needs one", ok=hard >= 4096)


def _number_type() -> list[DoctorFinding]:
    """The number type used here for models stored in bfloat16."""
    if importlib.util.find_spec("torch") is None:
        return []
    from sandlot.model.engine.precision import choose_precision, processor_name  # noqa: PLC0415 - as above

    chosen = choose_precision("bfloat16")
    detail = f"{chosen.dtype} for models stored in bfloat16: {chosen.why} ({processor_name()}); choose another with `--dtype`"
    return [_optional("number type", detail, ok=True)]


def _package(name: str, why: str, extra: str = "torch") -> DoctorFinding:
    there = importlib.util.find_spec(name) is not None
    return _optional(name, why if there else f"{why}; install Sandlot with its extra `{extra}`", ok=there)


def _optional(what: str, detail: str, *, ok: bool) -> DoctorFinding:
    """A finding that only some environments or commands need."""
    return DoctorFinding(what=what, ok=ok, detail=detail, needed=False)
