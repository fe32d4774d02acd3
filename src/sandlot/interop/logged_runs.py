"""Runs that other frameworks recorded, stored as ours: `show`, `view`, `health`, `triage`, `compare` and `export` read them.

Log readers are found by entry point. A run is written whole or not at all. There is no environment behind it, so it cannot be
graded again or replayed.
"""

import difflib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import anyio
import msgspec

from sandlot.core.disk import replace_folder, write_file
from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.log import LoggedRun, LogReader
from sandlot.core.trace_row import row_of
from sandlot.core.types import Split, digest
from sandlot.run.config import RunConfig
from sandlot.run.manifest import Fingerprints, Manifest, machine_facts
from sandlot.run.results import Run, Sitting, note_sitting
from sandlot.store.directory import RunDirectory, open_run
from sandlot.wiring.config import ModelConfig

NOTES = "import.json"
_GROUP = "sandlot.log_readers"


def log_readers() -> dict[str, EntryPoint]:
    """The installed readers of logs by kind."""
    return {entry.name: entry for entry in entry_points(group=_GROUP)}


def import_run(kind: str, source: str, folder: str | Path) -> Run:
    """Store the rollouts of a log as a run in `folder`, which must not exist or be empty.

    - `kind`: the format, such as `inspect-log`. Packages add kinds by the entry point group `sandlot.log_readers`.
    - `source`: the log; each kind says what it reads.

    `ConfigError` if the log cannot be read, or has no rollouts.
    """
    reader = _find(kind)
    place = Path(folder)
    try:
        with replace_folder(place, known=()) as draft, boundary(ConfigError, f"import of `{kind}:{source}`"):
            with reader.open(source) as logged:
                anyio.run(_write, draft, place.name, f"{kind}:{source}", logged)
            notes = {"format": 1, "kind": kind, "source": source, "notes": logged.notes}
            write_file(draft / NOTES, msgspec.json.format(msgspec.json.encode(notes), indent=2) + b"\n")
    except ValueError as error:
        raise ConfigError(f"{error} (`--out FOLDER`)") from error
    return Run(place)


def _find(kind: str) -> LogReader:
    installed = log_readers()
    if kind not in installed:
        near = difflib.get_close_matches(kind, installed, n=1)
        meant = f" (did you mean `{near[0]}`?)" if near else ""
        raise ConfigError(f"no log reader `{kind}`{meant}; there are: {', '.join(sorted(installed)) or 'none'}")
    with boundary(ConfigError, f"log reader `{kind}` = {installed[kind].value}"):
        value: Any = installed[kind].load()
        return value() if isinstance(value, type) else value


async def _write(folder: Path, name: str, source: str, logged: LoggedRun) -> None:
    manifest = _manifest(name, source, logged)
    async with open_run(folder, manifest=msgspec.json.encode(manifest)) as run:
        for rollout in logged.rollouts:
            for blob in rollout.blobs:
                await run.blobs.put(blob)
            rollout.trace.run = name
            await run.add(rollout.trace, row_of(rollout.trace, split=Split.HELDOUT))
        _finish(run, folder, logged)


def _finish(run: RunDirectory, folder: Path, logged: LoggedRun) -> None:
    if not len(run):
        raise ConfigError("the log has no rollouts: none had ended, or they were not kept")
    note_sitting(folder, Sitting(wall_s=logged.seconds, cpu_s=0.0))


def _manifest(name: str, source: str, logged: LoggedRun) -> Manifest:
    tasks = digest(msgspec.json.encode(logged.version, order="deterministic"))
    config = RunConfig(env=logged.environment, model=ModelConfig(spec=logged.model or "unknown"))
    setting = digest(msgspec.json.encode([logged.version, logged.setting], order="deterministic"))
    return Manifest(
        run=name,
        config=config,
        digest=digest(msgspec.json.encode([source, setting])),
        environment=logged.environment,
        seed=0,
        source=source,  # it names no environment: grading again and replaying are refused
        fingerprints=Fingerprints(environment=tasks, setting=setting, tasks=tasks),
        num_rollouts=logged.num_rollouts,
        created=logged.created,
        machine=machine_facts() | logged.machine,
        tools=logged.tools,
    )
