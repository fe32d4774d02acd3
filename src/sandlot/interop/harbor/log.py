"""Reads what Harbor writes about its jobs, without Harbor. `sandlot import harbor-log FOLDER` makes a run of one.

    FOLDER                         a job (a folder of trials), or one trial
    trajectory.json                one trajectory (ATIF), of any program; it has no reward
    FOLDER?agent=NAME&model=NAME   only these trials of a job with several agents or models
    FOLDER?reward=NAME             which reward counts, if there are several and none is called `reward`
    FOLDER?score=LOW..HIGH         what is worth nothing and what is full marks; without it, 0 and 1

The trials of a task are its rollouts. The tasks are held out: they are for evaluation.
"""

import itertools
import os
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.log import LoggedRollout, LoggedRun
from sandlot.core.ports.world import ToolSpec
from sandlot.core.text import encodable, one_line
from sandlot.core.trace import EvidenceRecord, Failed, Message, Node, Scored, Text, Trace
from sandlot.core.types import End, Json, Role, Side
from sandlot.interop.folder_writer import environment_name, task_id
from sandlot.interop.gyms.source import read_score_range
from sandlot.interop.harbor.outcomes import RewardChoice, broken_by, end_of, outcome_of, raised
from sandlot.interop.harbor.records import AtifTool, HarborJob, HarborTiming, HarborTrial, HarborTrialConfig
from sandlot.interop.harbor.trajectory import TrajectoryReading, read_trajectory
from sandlot.interop.log_values import (
    LoggedTaskNames,
    UnreadableRecordError,
    bounded_count,
    bounded_seconds,
    bounded_value,
    decode_record,
    seconds_of,
)
from sandlot.interop.untrusted import path_inside, read_bytes, read_end

_MAX_TRIALS = 1_000_000
_MAX_STEPS = 10_000
_MAX_ROLLOUTS = 100_000_000
_MAX_RESULT_BYTES = 8 * 2**20
_SAID_BYTES = 8_000
_NAME_CHARS = 200
_TOLD_CHARS = 1_000
_STEP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class _Source:
    path: Path
    choice: RewardChoice
    agent: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class _Trial:
    folder: Path
    result: HarborTrial

    @property
    def trajectories(self) -> list[Path]:
        """Its files of that kind: one, or one for each step of a task with several. Not all agents write one."""
        steps = [f"steps/{step.step_name}/" for step in self.result.step_results or ()]
        paths = [path_inside(self.folder, f"{place}agent/trajectory.json") for place in steps or [""]]
        return [path for path in paths if os.path.lexists(path)]


@dataclass(slots=True)
class _Job:
    """A job, or one trial without its job."""

    trials: list[_Trial]
    result: HarborJob | None = None
    unfinished: int = 0
    """Trials without a result."""


class HarborLogReader:
    """`harbor-log` (port `LogReader`)."""

    kind = "harbor-log"

    @contextmanager
    def open(self, source: str) -> Generator[LoggedRun]:
        """Open the folder of a job or of a trial, or a trajectory."""
        named = _read_source(source)
        if named.path.is_file() and not named.path.is_symlink():
            yield _lone_trajectory(named.path)
            return
        job = _read_job(named.path)
        job.trials = _selected(job.trials, named)
        yield _logged(job, named)


def _read_source(source: str) -> _Source:
    name, _, query = source.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := set(options) - {"agent", "model", "reward", "score"}:
        raise ConfigError(f"`{source}`: unknown `{min(unknown)}`; there are: agent, model, reward, score")
    scale = read_score_range(options["score"]) if "score" in options else None
    if "score" in options and scale is None:
        raise ConfigError(f"`score={options['score']}` is no range; write `?score=LOW..HIGH`, such as `?score=0..10`")
    return _Source(Path(name), RewardChoice(options.get("reward"), scale), options.get("agent"), options.get("model"))


# -- the trials --------------------------------------------------------------------------------------------------------


def _read_job(folder: Path) -> _Job:
    """The trials of a job with the job's result, or one trial."""
    _refuse_link(folder)
    if not folder.is_dir():
        raise ConfigError(f"there is no file or folder `{folder}`")
    own = folder / "result.json"
    job = _Job([])
    if os.path.lexists(own):
        data = read_bytes(own, at_most=_MAX_RESULT_BYTES)
        if "trial_name" in decode_record(data, dict[str, msgspec.Raw], f"`{own}`"):
            return _Job([_Trial(folder, _decode_trial(data, own))])
        job.result = decode_record(data, HarborJob, f"`{own}`")
    for each in _folders(folder):
        _refuse_link(each)
        path = each / "result.json"
        if os.path.lexists(path):
            job.trials.append(_Trial(each, _decode_trial(read_bytes(path, at_most=_MAX_RESULT_BYTES), path)))
        else:
            job.unfinished += os.path.lexists(each / "config.json")
    if job.result is None and not job.trials:
        raise ConfigError(f"`{folder}` is neither a job nor a trial of Harbor: it has no `result.json`, nor has a folder in it")
    job.trials.sort(key=lambda trial: (seconds_of(trial.result.started_at), trial.result.trial_name))
    return job


def _decode_trial(data: bytes, path: Path) -> HarborTrial:
    trial = decode_record(data, HarborTrial, f"`{path}`")
    steps = trial.step_results or []
    if len(steps) > _MAX_STEPS or not all(_STEP_NAME.fullmatch(step.step_name) for step in steps):
        raise ConfigError(f"`{path}`: it has more than {_MAX_STEPS:,} steps, or one whose name is no name of a folder")
    return trial


def _folders(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= _MAX_TRIALS:
                raise ConfigError(f"`{folder}` has more than {_MAX_TRIALS:,} entries")
            if entry.is_dir():  # or a link to one, which is refused; links to files are none of the trials
                yield folder / entry.name


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink():
        raise ConfigError(f"`{folder}` is a link; name the folder that it leads to")


def _selected(trials: list[_Trial], named: _Source) -> list[_Trial]:
    """The trials of one agent with one model: a run has one policy."""
    found = [
        trial
        for trial in trials
        if (named.agent is None or trial.result.agent_info.name == named.agent)
        and (named.model is None or named.model in _model_names(trial))
    ]
    kinds = {(trial.result.agent_info.name, trial.result.agent_info.model) for trial in found or trials}
    if len(kinds) > 1 or (trials and not found):
        shown = "; ".join(f"`?agent={one_line(agent, 80)}&model={one_line(model, 80)}`" for agent, model in sorted(kinds)[:20])
        what = "has trials of several agents or models: choose one" if found else "has no such trials; there are"
        raise ConfigError(f"`{named.path}` {what}: {shown}")
    return found


def _model_names(trial: _Trial) -> set[str]:
    info = trial.result.agent_info
    return {info.model, info.model_info.name if info.model_info else ""}


# -- the run -----------------------------------------------------------------------------------------------------------


def _logged(job: _Job, named: _Source) -> LoggedRun:
    first = job.trials[0].result if job.trials else None
    agent = first.agent_info if first else None
    sources = sorted({trial.result.source or "" for trial in job.trials})
    notes = _notes(job)
    rollouts = _rollouts(job.trials, named, notes)
    begun = next(rollouts, None)  # its tools are those of the run
    whole = job.result if job.result is not None and named.agent is None and named.model is None else None
    span = job.result or first
    return LoggedRun(
        environment=environment_name("-".join(filter(None, sources)) or named.path.name),
        model=one_line(agent.model or agent.name, _NAME_CHARS) if agent else "",
        version={
            "tasks": sorted({(each.result.source or "", each.result.task_name, each.result.task_checksum) for each in job.trials})
        },
        setting=_setting(first, named),
        num_rollouts=max(len(job.trials), min(bounded_count(whole.n_total_trials), _MAX_ROLLOUTS) if whole else 0),
        created=seconds_of(span.started_at) if span else 0.0,
        machine={"harbor": {"agent": one_line(f"{agent.name} {agent.version}", _NAME_CHARS)}} if agent else {},
        rollouts=(each.rollout for each in itertools.chain([begun] if begun else [], rollouts)),
        tools=_tools(begun.reading.tools) if begun else (),
        notes=notes,
        seconds=_seconds(HarborTiming(started_at=span.started_at, finished_at=span.finished_at)) if span else 0.0,
    )


def _setting(first: HarborTrial | None, named: _Source) -> Json:
    config = first.config if first else HarborTrialConfig()
    return {
        "agent": [first.agent_info.name, first.agent_info.version] if first else None,
        "options": bounded_value(config.agent.get("kwargs")),
        "timeouts": bounded_value(
            [config.timeout_multiplier, config.agent_timeout_multiplier, config.verifier_timeout_multiplier]
        ),
        "reward": named.choice.name,
        "score": repr(named.choice.scale),
    }


def _notes(job: _Job) -> list[str]:
    notes = ["the conversation is the agent's own; those of sub-agents are not in it, nor their tokens"]
    results = [trial.result for trial in job.trials]
    graded = [bool(each.verifier_result and each.verifier_result.rewards) for each in results]
    if absent := graded.count(False):
        notes.append(f"trials without a reward: {absent}. Harbor's mean counts each as 0; here they failed, and have none")
    if spoiled := sum(has and broken_by(each) is not None for each, has in zip(results, graded, strict=True)):
        notes.append(f"trials that broke and were graded nevertheless: {spoiled}. Here they failed, and have no reward")
    if kinds := Counter(each.exception_type for result in results for each in raised(result)):
        shown = ", ".join(f"{one_line(name, 80)} {count}" for name, count in kinds.most_common(20))
        notes.append(f"exceptions that Harbor recorded: {shown}")
    if silent := sum(not trial.trajectories for trial in job.trials):
        notes.append(f"trials without a trajectory, so without messages: {silent}")
    if job.unfinished:
        notes.append(f"trials that had not ended, and have no `result.json`: {job.unfinished}")
    if job.result and job.result.stats.n_retries > 0:
        notes.append(f"attempts that Harbor repeated and did not keep: {bounded_count(job.result.stats.n_retries)}")
    return notes


# -- the rollouts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Read:
    rollout: LoggedRollout
    reading: TrajectoryReading


def _rollouts(trials: list[_Trial], named: _Source, notes: list[str]) -> Iterator[_Read]:
    """The rollouts. At the end, a note tells what could not be read."""
    names = LoggedTaskNames()
    unreadable = 0
    counts: Counter[str] = Counter()
    for trial in trials:
        result = trial.result
        task = names.name_of((result.source, result.task_name, result.task_checksum), result.task_name)
        try:
            read = _read_rollout(trial, task, counts[task], named.choice)
        except ConfigError as error:
            raise ConfigError(f"trial `{trial.folder}`: {error}") from error
        counts[task] += 1
        unreadable += read.reading.unreadable
        yield read
    if unreadable:
        notes.append(f"trajectories that cannot be read: {unreadable}. Their messages are left out, and a message says why")


def _read_rollout(trial: _Trial, task: str, number: int, choice: RewardChoice) -> _Read:
    result = trial.result
    reading = TrajectoryReading(started=seconds_of((result.agent_execution or HarborTiming()).started_at))
    trace = Trace(run="", task=task, rollout=number, seed=0, started=seconds_of(result.started_at))
    for path in trial.trajectories:
        _append(trace, _readable_nodes(path, reading))
    trace.outcome = outcome_of(result, choice, _verifier_said(trial.folder))
    trace.end = end_of(result) if isinstance(trace.outcome, Scored) else End.CUT
    trace.phases = {
        "open": _seconds(result.environment_setup) + _seconds(result.agent_setup),
        "agent": _seconds(result.agent_execution),  # ATIF does not say how much of it the model took
        "grade": _seconds(result.verifier),
    }
    rewards = result.verifier_result.rewards if result.verifier_result else None
    trace.evidence = EvidenceRecord(
        answer=trace.answer,
        state={
            "trial": encodable(result.trial_name),
            "rewards": bounded_value(rewards),
            "exceptions": [encodable(each.exception_type) for each in raised(result)],
            "usage": bounded_value(msgspec.to_builtins(result.agent_result)),
            "sub_agents": reading.sub_agents,
        },
    )
    return _Read(LoggedRollout(trace=trace, blobs=tuple(reading.blobs.values())), reading)


def _readable_nodes(path: Path, reading: TrajectoryReading) -> list[Node]:
    """The messages of a trajectory; one that says why if it is damaged or too large: the reward does not depend on it."""
    try:
        return list(read_trajectory(path, reading))
    except UnreadableRecordError as error:
        reading.unreadable += 1
        reading.exact = False
        return [Node(message=Message(role=Role.USER, parts=(Text(f"[{one_line(str(error), _TOLD_CHARS)}]"),)))]


def _append(trace: Trace, nodes: Iterable[Node]) -> None:
    for node in nodes:
        trace.append(msgspec.structs.replace(node, parent=len(trace.nodes) - 1 if trace.nodes else None))


def _verifier_said(folder: Path) -> str:
    """The end of what the tests printed; nothing if they left no such file."""
    path = path_inside(folder, "verifier/test-stdout.txt")
    if not os.path.lexists(path):
        return ""
    return read_end(path, at_most=_SAID_BYTES).decode(errors="replace")


def _seconds(timing: HarborTiming | None) -> float:
    began, ended = (seconds_of(timing.started_at), seconds_of(timing.finished_at)) if timing else (0.0, 0.0)
    return bounded_seconds(ended - began) if began and ended else 0.0


def _tools(definitions: tuple[AtifTool, ...]) -> tuple[ToolSpec, ...]:
    found: dict[str, ToolSpec] = {}
    for tool in definitions:
        if tool.function is not None:
            parameters: Json = bounded_value(tool.function.parameters) or {"type": "object", "properties": {}}
            name = encodable(tool.function.name)
            found[name] = ToolSpec(name=name, description=encodable(tool.function.description or ""), parameters=parameters)
    return tuple(found.values())


def _lone_trajectory(path: Path) -> LoggedRun:
    """A trajectory without its trial: nothing says what it was worth."""
    reading = TrajectoryReading()
    trace = Trace(run="", task=task_id(path.resolve().parent.name), rollout=0, seed=0)
    _append(trace, read_trajectory(path, reading))
    trace.started = reading.started
    trace.end = End.CUT
    trace.outcome = Failed(Side.GRADER, "no_score", "a trajectory has no reward; import the folder of its trial or job")
    trace.evidence = EvidenceRecord(answer=trace.answer, state={"sub_agents": reading.sub_agents})
    model = next((node.model for node in trace.turns() if node.model), None)
    return LoggedRun(
        environment=environment_name(path.stem),
        model=one_line(model or "", _NAME_CHARS),
        version={"trajectory": path.name},
        setting={},
        num_rollouts=1,
        created=reading.started,
        machine={},
        rollouts=iter([LoggedRollout(trace=trace, blobs=tuple(reading.blobs.values()))]),
        tools=_tools(reading.tools),
        notes=("a trajectory has no reward; the folder of its trial or job has",),
    )
