"""Reads Inspect's logs, `.eval` and `.json`, without Inspect. `sandlot import inspect-log FILE` makes a run of one.

    FILE.eval?scorer=NAME          only the scores of this scorer; without it the reward is the mean of all
    FILE.eval?score=LOW..HIGH      what a scorer gives for nothing and for full marks; without it, 0 and 1

A sample is a task, and an epoch of it is a rollout. The tasks are held out: they are for evaluation.
"""

import itertools
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from sandlot.core.errors import ConfigError
from sandlot.core.ports.log import LoggedRollout, LoggedRun
from sandlot.core.ports.world import ToolSpec
from sandlot.core.text import one_line
from sandlot.core.types import Json
from sandlot.interop.folder_writer import environment_name
from sandlot.interop.gyms.source import ScoreRange, read_score_range
from sandlot.interop.inspect_ai.archive import LogArchive, open_archive
from sandlot.interop.inspect_ai.records import LOG_VERSION, LogHeader, LogSample, WholeLog
from sandlot.interop.inspect_ai.trace import ReadSettings, SampleTrace, read_sample
from sandlot.interop.log_values import LoggedTaskNames, decode_record, seconds_of
from sandlot.interop.untrusted import read_bytes

_MAX_ROLLOUTS = 100_000_000
_NAME_CHARS = 200
_WHOLE = re.compile(r"samples/.+_epoch_[^/]*\.json", re.DOTALL)
_CHUNKED = re.compile(r"samples/.+_epoch_[0-9]+/sample\.json", re.DOTALL)
_LIMITS = ("message_limit", "token_limit", "turn_limit", "time_limit", "working_limit", "cost_limit")


@dataclass(frozen=True, slots=True)
class _Source:
    path: Path
    scale: ScoreRange | None
    scorers: tuple[str, ...]


class InspectLogReader:
    """`inspect-log` (port `LogReader`)."""

    kind = "inspect-log"

    @contextmanager
    def open(self, source: str) -> Generator[LoggedRun]:
        """Open an `.eval` or `.json` log."""
        named = _read_source(source)
        if named.path.suffix == ".json":
            whole = decode_record(read_bytes(named.path), WholeLog, f"`{named.path}`")
            yield _logged(whole, iter(whole.samples or ()), named)
            return
        with open_archive(named.path) as archive:
            yield _logged(_header(archive, named.path), _samples(archive, named.path), named)


def _read_source(source: str) -> _Source:
    name, _, query = source.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    scale: ScoreRange | None = None
    scorers: list[str] = []
    for key, value in options:
        if key == "scorer":
            scorers.append(value)
        elif key == "score":
            scale = read_score_range(value)
            if scale is None:
                raise ConfigError(f"`score={value}` is no range; write `?score=LOW..HIGH`, such as `?score=0..10`")
        else:
            raise ConfigError(f"`{source}`: unknown `{key}`; there are: score, scorer")
    return _Source(Path(name), scale, tuple(scorers))


def _header(archive: LogArchive, path: Path) -> LogHeader:
    """The header; of an eval that did not end, what was written when it began."""
    names = set(archive.names)
    for name in ("header.json", "_journal/start.json"):
        if name in names:
            return decode_record(archive.read(name), LogHeader, f"`{path}`: `{name}`")
    raise ConfigError(f"`{path}` has neither `header.json` nor `_journal/start.json`: it is no log of Inspect")


def _samples(archive: LogArchive, path: Path) -> Iterator[LogSample]:
    for name in archive.names:
        if _WHOLE.fullmatch(name):
            yield decode_record(archive.read(name), LogSample, f"`{path}`: {name[:_NAME_CHARS]!r}")
        elif _CHUNKED.fullmatch(name):
            raise ConfigError(f"`{path}` has chunked samples, which are not read here; use the log from before its conversion")


def _logged(header: LogHeader, samples: Iterator[LogSample], named: _Source) -> LoggedRun:
    if header.version != LOG_VERSION:
        raise ConfigError(
            f"`{named.path}` is a log of version {header.version}, and {LOG_VERSION} is read; `inspect log convert` renews it"
        )
    spec = header.eval
    rollouts = _rollouts(samples, ReadSettings(header.status, named.scale, named.scorers), str(named.path))
    first = next(rollouts, None)
    began, ended = seconds_of(header.stats.started_at), seconds_of(header.stats.completed_at)
    return LoggedRun(
        environment=environment_name(spec.task),
        model=one_line(spec.model, _NAME_CHARS),
        version={"task": spec.task, "version": spec.task_version, "arguments": spec.task_args, "data": spec.dataset.name},
        setting={
            "solver": spec.solver,
            "steps": header.plan.get("steps"),
            "limits": {name: spec.config.get(name) for name in _LIMITS},
            "scorers": list(named.scorers),
            "score": repr(named.scale),
        },
        num_rollouts=_planned(header),
        created=seconds_of(spec.created) or began,
        machine={"inspect": {one_line(name, 100): one_line(each, 100) for name, each in spec.packages.items()}},
        rollouts=(
            LoggedRollout(trace=each.trace, blobs=each.blobs) for each in itertools.chain([first] if first else [], rollouts)
        ),
        tools=_tools(first) if first else (),
        notes=_notes(header, named),
        seconds=max(0.0, ended - began) if began and ended else 0.0,
    )


def _planned(header: LogHeader) -> int:
    data = header.eval.dataset
    epochs = header.eval.config.get("epochs")
    samples = len(data.sample_ids) if data.sample_ids is not None else data.samples or 0
    return min(max(samples, 0) * (epochs if isinstance(epochs, int) and epochs > 0 else 1), _MAX_ROLLOUTS)


def _notes(header: LogHeader, named: _Source) -> tuple[str, ...]:
    notes = [
        "the conversation is the one at the end of a sample; calls of sub-agents and scorers are not in it, nor their tokens"
    ]
    if header.status != "success":
        notes.append(f"the status of the log is `{one_line(header.status, 40)}`")
    if not named.scorers:
        notes.append("the reward is the mean of all scorers; `?scorer=NAME` takes one")
    return tuple(notes)


def _rollouts(samples: Iterator[LogSample], settings: ReadSettings, what: str) -> Iterator[SampleTrace]:
    names = LoggedTaskNames()
    done: set[tuple[str, int]] = set()
    for sample in samples:
        which = f"`{what}`: sample {repr(sample.id)[:100]}"
        try:
            read = read_sample(sample, names.name_of((type(sample.id), sample.id), str(sample.id)), settings)
        except ConfigError as error:
            raise ConfigError(f"{which}: {error}") from error
        if read.trace.key in done:
            raise ConfigError(f"{which} has epoch {sample.epoch} twice")
        done.add(read.trace.key)
        yield read


def _tools(first: SampleTrace) -> tuple[ToolSpec, ...]:
    parameters: Json
    found: dict[str, ToolSpec] = {}
    for tool in first.tools:
        parameters = tool.parameters or {"type": "object", "properties": {}}
        found[tool.name] = ToolSpec(name=tool.name, description=tool.description, parameters=parameters)
    return tuple(found.values())
