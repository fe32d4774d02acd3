"""What happens while something runs, as typed events that go to sinks.

A sink is any function that takes a `RunEvent`. The progress lines, the event log of a run directory and the trackers are sinks,
and a Python caller may pass one more. Events are emitted in the order in which things happen, in the thread of the event loop, so
a sink must return quickly and must not block. An event is never needed to continue or to grade a run: the stored traces are the
record, and events only say how they came about.

A sink that raises is left out from then on, and the run goes on: `fan_out` logs it and sends `SinkFailed` to the other sinks.
"""

import logging
import time
from collections.abc import Callable
from typing import Literal

import msgspec

from sandlot.core.trace import TurnReplica
from sandlot.core.trace_row import TraceRow
from sandlot.observe.training_records import Learned, Measured

_log = logging.getLogger(__name__)


class RunEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="event"):
    """Something that happened. The field `event` of its JSON names the kind."""

    at: float = msgspec.field(default_factory=time.time)
    """When, in seconds since the epoch."""


class RunBegan(RunEvent, frozen=True, kw_only=True, tag="run_began"):
    """A run is about to start, or to continue: its directory is open, and no rollout has begun in this sitting."""

    run: str
    """Name of the run, as in its rollout events."""
    path: str
    """The run directory."""
    environment: str
    """Name of the environment."""
    model: str
    """The model as the user wrote it, without secrets."""
    num_tasks: int
    """Tasks of the plan."""
    num_planned: int
    """Rollouts of the plan, finished ones included."""
    num_done: int
    """Rollouts that earlier sittings finished."""
    at_once: int = 0
    """Rollouts that may be in flight; 0 if it is not known."""


class RolloutEvent(RunEvent, frozen=True, kw_only=True, tag="rollout"):
    """Something that happened in one rollout."""

    run: str
    """Name of the run that the rollout belongs to."""
    task: str
    """Id of the task."""
    rollout: int
    """Number of the rollout within its task, from 0."""


class RolloutBegan(RolloutEvent, frozen=True, kw_only=True, tag="rollout_began"):
    """A rollout starts."""

    attempt: int = 1
    """1 for the first try; more after an infrastructure failure."""


class WorldOpened(RolloutEvent, frozen=True, kw_only=True, tag="world_opened"):
    """The world of a rollout is open, with its sandbox and its tools: the agent acts next."""

    seconds: float
    """Time that opening took, waiting included."""


class ModelRetried(RolloutEvent, frozen=True, kw_only=True, tag="model_retry"):
    """A request of this rollout was refused, failed or was late; it is sent again after a wait."""

    by: Literal["agent", "judge"]
    """Whose request: that of the agent or its user, or that of the judge."""
    kind: str
    """`rate_limit`, `server`, `timeout`, `connect`, ..."""
    wait_s: float
    """Seconds until it is sent again."""


class TurnTaken(RolloutEvent, frozen=True, kw_only=True, tag="turn"):
    """The model has taken a turn."""

    turn: int
    """Number of the turn within the rollout, from 1."""
    prompt_tokens: int
    """Tokens of the prompt; 0 if the endpoint does not report them."""
    completion_tokens: int
    """Tokens of the reply; 0 if the endpoint does not report them."""
    seconds: float
    """From the request to the whole reply."""
    stop: str | None = None
    """Why sampling stopped: `stop`, `length`, `calls`, `refusal`."""
    cached_tokens: int = 0
    """Tokens of the prompt that the endpoint found in its cache; 0 if it does not report them."""
    retries: int = 0
    """Attempts that failed on the model's side before this turn was taken, at another server included."""
    replica: TurnReplica | None = None
    """The server that took it, if the model has several."""


class ToolCalled(RolloutEvent, frozen=True, kw_only=True, tag="tool_call"):
    """A tool call of the agent was answered. Calls that an agent makes inside its own sandbox are not seen."""

    turn: int
    """The turn that made the call, from 1."""
    name: str
    """Name of the tool, as the agent wrote it."""
    seconds: float
    """From the call to its result, waiting included."""
    error: bool
    """True if the agent was given an error."""


class AgentEnded(RolloutEvent, frozen=True, kw_only=True, tag="agent_ended"):
    """The agent has ended, its evidence is stored and its world is closed: the rollout is graded next."""

    end: str
    """Why the agent stopped."""


class RolloutGraded(RolloutEvent, frozen=True, kw_only=True, tag="graded"):
    """The evidence of a rollout was graded."""

    score: float
    """The reward, 0 to 1."""
    passed: bool
    """True for full marks."""
    seconds: float
    """Time that grading took."""
    latency: float = 0.0
    """From the agent's end to the score: gathering evidence, closing the world, waiting to be graded, grading."""


class RolloutEnded(RolloutEvent, frozen=True, kw_only=True, tag="rollout_ended"):
    """A rollout is stored: from now on it counts."""

    row: TraceRow
    """The rollout in numbers: end, outcome, score, tokens, cost and seconds."""


class RunEnded(RunEvent, frozen=True, kw_only=True, tag="run_ended"):
    """A sitting of a run is over: no rollout is in flight."""

    run: str
    """Name of the run."""
    stopped: str | None = None
    """Why it ended before everything planned was done, such as the error that ended it; None if nothing is missing."""
    tripped: bool = False
    """True if the run was judged bad and stopped, false if it was interrupted."""
    num_cancelled: int = 0
    """Rollouts in flight when it stopped; the next sitting takes them again."""


class RunSteered(RunEvent, frozen=True, kw_only=True, tag="steered"):
    """A person changed a run from outside: paused or resumed it, changed how many rollouts may be in flight, or stopped it."""

    run: str
    """Name of the run."""
    order: str
    """`pause`, `resume`, `set`, `stop` or `requeue`; of a held turn `approve`, `change` or `refuse`."""
    paused: bool
    """True if no rollout starts from now on."""
    at_once: int
    """Rollouts that may be in flight from now on."""


class AdmissionChanged(RunEvent, frozen=True, kw_only=True, tag="admission"):
    """Another number of rollouts may be in flight, or for another reason; of runs that find it out (`--adapt`)."""

    run: str
    """Name of the run."""
    limit: int
    """Rollouts that may be in flight from now on."""
    at_once: int
    """The most that a person allows."""
    reason: str
    """Why it is not more: `limit`, `pace`, `model`, `queue`, `throughput`, `cache`, `judge`, `sandbox`, `cpu`, `memory` or
    `loop`."""
    in_flight: int
    """Rollouts in flight."""


class RolloutsRequeued(RunEvent, frozen=True, kw_only=True, tag="requeued"):
    """Failed rollouts were set aside, and are taken again now."""

    run: str
    """Name of the run."""
    count: int
    """Their number."""


class TrainingBegan(RunEvent, frozen=True, kw_only=True, tag="training_began"):
    """A training is about to start, or to continue: models and sandboxes are open."""

    path: str
    """The run directory."""
    environment: str
    """Name of the environment."""
    sandboxed: bool
    """True if rollouts run in sandboxes."""
    model: str
    """The model to train, as the recipe names it."""
    steps: int
    """Steps of the recipe."""
    tasks: int
    """Tasks per step."""
    group: int
    """Rollouts per task."""
    version: int
    """Version of the weights to continue from; 0 at the start."""
    heldout: float | None
    """Mean score of the last evaluation; None before the first."""
    alarmed: bool
    """True if an earlier sitting raised an alarm."""
    differences: tuple[str, ...]
    """How the setting differs from the one the model was trained in before."""
    settings: dict[str, str | int | float]
    """The recipe's main settings, without addresses and folders."""
    pairs: int = 0
    """Pairs of the recipe's file that are learned from; 0 if it learns from rollouts."""
    left_out: str = ""
    """Which pairs of the file are left out and why; empty if none is."""


class StepLearned(RunEvent, frozen=True, kw_only=True, tag="step"):
    """The weights were updated."""

    step: Learned
    """The figures of the step."""
    alarmed: bool
    """True if this step raised an alarm; `AlarmRaised` follows."""


class EvaluationBegan(RunEvent, frozen=True, kw_only=True, tag="evaluation_began"):
    """An evaluation on held-out tasks starts."""

    version: int
    """Version of the weights."""
    run: str
    """Name of its run, as in its rollout events."""
    others: tuple[str, ...] = ()
    """Names of the runs of the training's other environments."""
    num_rollouts: int
    """Rollouts to take, in all of them."""


class EvaluationEnded(RunEvent, frozen=True, kw_only=True, tag="evaluation_ended"):
    """An evaluation on held-out tasks has ended."""

    evaluation: Measured
    """Its figures."""


class RolledBack(RunEvent, frozen=True, kw_only=True, tag="rolled_back"):
    """The held-out score had fallen too far, or the guard saw a collapse: training continues from earlier weights."""

    version: int
    """The version that was given up."""
    best: int
    """The version whose weights are in place again."""
    policy: str = ""
    """The policy that went back, if several learn; empty for the shared model, or the only one."""


class CalibrationWave(RunEvent, frozen=True, kw_only=True, tag="calibration_wave"):
    """A calibration has looked at its rollouts and decided which tasks need more."""

    num_tasks: int
    """Tasks to place."""
    num_placed: int
    """Tasks that need no more rollouts."""
    num_taken: int
    """Rollouts so far."""
    num_more: int
    """Rollouts of the next wave; 0 at the end."""


class ProbeBegan(RunEvent, frozen=True, kw_only=True, tag="probe_began"):
    """A probe of an audit starts."""

    layer: str
    """The layer of the probe."""
    probe: str
    """Name of the probe."""


class ProbeEnded(RunEvent, frozen=True, kw_only=True, tag="probe_ended"):
    """A probe of an audit has ended, in this sitting or in an earlier one."""

    layer: str
    """The layer of the probe."""
    probe: str
    """Name of the probe."""
    state: str
    """`ran`, `could not run` or `does not apply`."""
    why: str
    """Why it could not run, or does not apply."""
    num_findings: int
    """Findings, leads included."""
    seconds: float
    """Time it took."""
    earlier: bool
    """True if an earlier sitting ran it."""


class AlarmRaised(RunEvent, frozen=True, kw_only=True, tag="alarm"):
    """Something looks wrong, and a person should look."""

    kind: str
    """`reward_hacking`: the reward rises and the outcome does not; `collapse`: the figures leave their own history for the worse;
    `idle`: nothing is learned. Of a rule of `--watch`: what the rule is on, such as `failure_rate` or `stall`."""
    sentence: str
    """What was seen, and what to do."""


class WorkersCounted(RunEvent, frozen=True, kw_only=True, tag="workers"):
    """How many workers a run has, and whether more would help; sent when that changes, every few seconds at most."""

    run: str
    """Name of the run."""
    num_workers: int
    """Workers that are ready."""
    num_waiting: int
    """Rollouts that could start if there were a worker with room."""


class LoopLagged(RunEvent, frozen=True, kw_only=True, tag="loop_lag"):
    """How long ready work waited for the event loop; sent every few seconds."""

    max_s: float
    """The longest wait since the last such event."""


class SinkFailed(RunEvent, frozen=True, kw_only=True, tag="sink_failed"):
    """A sink or a tracker raised an error and receives nothing more; everything else goes on."""

    sink: str
    """Its name."""
    reason: str
    """What it raised."""


AnyEvent = (
    RunBegan
    | RolloutBegan
    | WorldOpened
    | ModelRetried
    | TurnTaken
    | ToolCalled
    | AgentEnded
    | RolloutGraded
    | RolloutEnded
    | RunEnded
    | RunSteered
    | AdmissionChanged
    | RolloutsRequeued
    | TrainingBegan
    | StepLearned
    | EvaluationBegan
    | EvaluationEnded
    | RolledBack
    | CalibrationWave
    | ProbeBegan
    | ProbeEnded
    | AlarmRaised
    | WorkersCounted
    | LoopLagged
    | SinkFailed
)
"""Every event there is, for decoding."""

Sink = Callable[[RunEvent], None]
"""Receives events: `def sink(event: RunEvent) -> None`."""


def ignore_event(event: RunEvent) -> None:
    """The sink that does nothing."""


def fan_out(*sinks: Sink) -> Sink:
    """One sink that passes every event to each of `sinks`, in this order.

    A sink that raises is left out from then on, with a warning in the log; the others are given `SinkFailed`.
    """
    live = tuple(sinks)

    def emit(event: RunEvent) -> None:
        nonlocal live
        before = live
        for sink in before:
            if live is not before and sink not in live:
                continue  # it failed on the `SinkFailed` of one before it
            try:
                sink(event)
            except Exception as error:  # noqa: BLE001 - a sink only looks on: whatever it raises, the run goes on
                live = tuple(other for other in live if other != sink)
                name = getattr(sink, "__qualname__", type(sink).__qualname__)
                report_failure(name, f"{type(error).__name__}: {error}", emit)

    return emit


def report_failure(name: str, reason: str, others: Sink) -> None:
    """Log that a sink failed, and send `SinkFailed` to the others."""
    _log.warning("sink failed", extra={"sink": name, "error": reason})
    others(SinkFailed(sink=name, reason=reason))
