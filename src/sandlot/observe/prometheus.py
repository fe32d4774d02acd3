"""The events of a run or a training as Prometheus metrics: `RunMetrics` is a sink, and renders the text.

Only what events carry is shown: a metric without an event behind it is absent. Nothing of a prompt, a reply or a tool's output is
in it. Names that an agent invents cannot grow the text without limit, nor displace the names of tools that work.
"""

import threading
from collections import defaultdict

from sandlot.core.types import Side
from sandlot.observe.events import (
    AdmissionChanged,
    AgentEnded,
    AlarmRaised,
    CalibrationWave,
    EvaluationEnded,
    LoopLagged,
    ModelRetried,
    RolledBack,
    RolloutBegan,
    RolloutEnded,
    RolloutGraded,
    RolloutsRequeued,
    RunBegan,
    RunEnded,
    RunEvent,
    RunSteered,
    SinkFailed,
    StepLearned,
    ToolCalled,
    TrainingBegan,
    TurnTaken,
    WorkersCounted,
    WorldOpened,
)
from sandlot.observe.metrics import OTHER, Metric, render_metrics
from sandlot.observe.training_records import Learned

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_SCORES = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999, 1)
_MOST_TOOLS = 64
_MOST_FAILING_TOOLS = 16
"""A tool whose first call fails gets a label of its own only while there are so few: the agent may have invented its name."""

_STEP_GAUGES = {
    "reward": "Mean reward of the scored rollouts of the last step.",
    "outcome": "Mean outcome of the last step, as the recipe defines it.",
    "loss": "Mean loss per trained token in the last step.",
    "kl": "KL divergence from the sampling policy in the last step, in nats per token.",
    "entropy": "Entropy of the policy in the last step, in nats per token.",
    "staleness": "Versions between the oldest trained token of the last step and the weights.",
}
_STEP_COUNTERS = {
    "rollouts": ("rollouts", "Rollouts of the steps."),
    "groups": ("groups", "Groups of the steps."),
    "informative": ("informative_groups", "Groups with a training signal."),
    "tokens": ("tokens", "Trained tokens."),
    "sampled": ("sampled_tokens", "Tokens sampled for the steps."),
}


class RunMetrics:
    """Counts events: `receive` is a sink, `text` renders what was counted. Both may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Metric] = []
        self._open: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        """Rollouts that have begun and are not stored, by run."""
        self._ungraded: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        """Those of them whose agent has ended, by run."""
        self._tools: set[str] = set()
        self._reasons: dict[str, str] = {}
        """Why the limit is not larger, by run."""
        self._make_rollout_metrics()
        self._make_training_metrics()

    def _make_rollout_metrics(self) -> None:
        self._run = self._gauge("run_info", "The runs of this process.", "run", "environment", "model")
        self._started = self._counter("rollouts_started_total", "Rollouts started.")
        self._retried = self._counter("rollout_retries_total", "Attempts after the first, each after an infrastructure failure.")
        self._in_flight = self._gauge("rollouts_in_flight", "Rollouts started and not stored yet.")
        self._in_flight.set(0)
        self._to_grade = self._gauge("rollouts_to_grade", "Rollouts whose agent has ended and that have no score yet.")
        self._to_grade.set(0)
        self._at_once = self._gauge("rollouts_at_once", "Rollouts that may be in flight, by run.", "run")
        self._workers = self._gauge("workers", "Workers that take rollouts elsewhere and are ready, by run.", "run")
        self._queue = self._gauge("rollouts_waiting_for_worker", "Rollouts that wait for a worker with room, by run.", "run")
        self._limit = self._gauge("rollouts_limit", "Rollouts that may be in flight now, of runs that adapt.", "run")
        self._bound = self._gauge("rollouts_bound", "1 at the reason why the limit is not larger.", "run", "reason")
        self._paused = self._gauge("run_paused", "1 while a run is paused: no rollout starts.", "run")
        self._requeued = self._counter("rollouts_requeued_total", "Failed rollouts that were set aside and taken again.")
        self._ended = self._counter("rollouts_ended_total", "Rollouts stored.", "end", "outcome", "split")
        self._ended_at = self._gauge("rollout_last_ended_timestamp_seconds", "When the last rollout was stored.")
        self._failed = self._counter("rollout_failures_total", "Rollouts that failed, by the side that failed.", "side")
        for side in Side:
            self._failed.add(0, side.value)
        self._seconds = self._histogram("rollout_duration_seconds", "Time of a rollout, with failed attempts and waiting.")
        self._phases = self._counter("rollout_phase_seconds_total", "Time of rollouts by phase.", "phase")
        self._score = self._histogram("rollout_score", "Score of rollouts, 0 to 1.", "split", buckets=_SCORES)
        self._passed = self._counter("rollouts_passed_total", "Rollouts with full marks.", "split")
        self._opening = self._histogram("world_open_duration_seconds", "Time of opening a world, waiting included.")
        self._grading = self._histogram("grading_duration_seconds", "Time that grading a rollout took.")
        self._latency = self._histogram("reward_latency_seconds", "Time from the agent's end to the score, waiting included.")
        self._turns = self._counter("turns_total", "Turns of the model, by why sampling stopped.", "stop")
        self._model = self._histogram("model_turn_duration_seconds", "Time of a turn, from the request to the whole reply.")
        self._tokens = self._counter("tokens_total", "Tokens as the endpoint reports them.", "kind")
        self._model_retries = self._counter("model_retries_total", "Attempts at a turn that failed on the model's side.")
        self._judge_retries = self._counter("judge_retries_total", "Requests to the judge that had to be sent again.")
        self._prefixes = self._counter("cached_prompt_tokens_total", "Prompt tokens in the cache of the server.", "how")
        self._replicas = self._counter("replica_turns_total", "Turns by the server that took them.", "replica")
        self._cost = self._counter("cost_usd_total", "Cost of the model's tokens in stored rollouts, by the run's prices.")
        self._tool = self._histogram("tool_call_duration_seconds", "Time of a tool call, waiting included.", "tool")
        self._tool_errors = self._counter("tool_errors_total", "Tool calls that were answered with an error.", "tool")
        self._lag = self._gauge("event_loop_lag_seconds", "Longest wait for the event loop in the last few seconds.")
        self._runs_ended = self._counter("runs_ended_total", "Runs ended: complete, stopped early, or stopped as bad.", "how")
        self._sinks_failed = self._counter("sinks_failed_total", "Sinks and trackers that failed and receive nothing more.")
        self._tasks = self._gauge("calibration_tasks", "Tasks to place.")
        self._placed = self._gauge("calibration_tasks_placed", "Tasks that need no more rollouts.")

    def _make_training_metrics(self) -> None:
        self._planned = self._gauge("training_steps_planned", "Steps of the recipe.")
        self._version = self._gauge("training_version", "Version of the weights.")
        self._steps = self._counter("training_steps_total", "Training steps taken by this process.")
        self._step_seconds = self._histogram("training_step_duration_seconds", "Time of a step.")
        self._update_seconds = self._histogram("training_update_duration_seconds", "Time of a step's update.")
        self._step_gauges = {name: self._gauge(f"training_{name}", what) for name, what in _STEP_GAUGES.items()}
        self._norm = self._gauge("training_gradient_norm", "Norm of the last step's gradient before it was clipped.")
        self._clipped = self._gauge("training_clipped_ratio", "Share of trained tokens of the last step that were clipped.")
        self._shares = self._gauge("training_time_ratio", "Share of the last step's time by phase.", "phase")
        self._step_counters = {
            field: self._counter(f"training_{name}_total", what) for field, (name, what) in _STEP_COUNTERS.items()
        }
        self._evaluations = self._counter("evaluations_total", "Evaluations on held-out tasks.")
        self._heldout = self._gauge("heldout_score", "Mean score of the last evaluation.")
        self._low = self._gauge("heldout_score_low", "Lower end of its 95 % interval.")
        self._high = self._gauge("heldout_score_high", "Upper end of its 95 % interval.")
        self._heldout_passed = self._gauge("heldout_passed_ratio", "Share of the last evaluation's rollouts with full marks.")
        self._rollbacks = self._counter("training_rollbacks_total", "Returns to earlier weights.")
        self._alarms = self._counter("alarms_total", "Alarms of the training.", "kind")
        for kind in ("reward_hacking", "collapse", "idle"):
            self._alarms.add(0, kind)

    def receive(self, event: RunEvent) -> None:
        """Count an event; a sink."""
        with self._lock:
            match event:
                case TurnTaken():
                    self._turns.add(1, event.stop or "")
                    self._model.observe(event.seconds)
                    self._tokens.add(event.prompt_tokens, "prompt")
                    self._tokens.add(event.completion_tokens, "completion")
                    self._prefixes.add(event.cached_tokens, "reported")
                    self._model_retries.add(event.retries)
                    if event.replica is not None:
                        self._replicas.add(1, event.replica.name)
                        self._prefixes.add(event.replica.expected_tokens, "expected")
                case ToolCalled():
                    tool = self._tool_label(event)
                    self._tool.observe(event.seconds, tool)
                    self._tool_errors.add(event.error, tool)
                case RolloutBegan():
                    (self._started if event.attempt == 1 else self._retried).add(1)
                    self._open[event.run].add((event.task, event.rollout))
                    self._ungraded[event.run].discard((event.task, event.rollout))
                case WorldOpened():
                    self._opening.observe(event.seconds)
                case ModelRetried():
                    self._judge_retries.add(event.by == "judge")  # those of turns are counted with the turn
                case AgentEnded():
                    self._ungraded[event.run].add((event.task, event.rollout))
                case RolloutGraded():
                    self._grading.observe(event.seconds)
                    self._latency.observe(event.latency)
                    self._ungraded[event.run].discard((event.task, event.rollout))
                case RolloutEnded():
                    self._count_rollout(event)
                case _:
                    self._count_rare(event)

    def text(self) -> str:
        """Everything as Prometheus text."""
        with self._lock:
            self._in_flight.set(sum(map(len, self._open.values())))
            self._to_grade.set(sum(map(len, self._ungraded.values())))
            return render_metrics(self._all)

    def _count_rollout(self, event: RolloutEnded) -> None:
        row = event.row
        self._open[event.run].discard((event.task, event.rollout))
        self._ungraded[event.run].discard((event.task, event.rollout))  # grading failed
        self._ended.add(1, row.end, row.outcome, row.split)
        self._ended_at.set(event.at)
        self._seconds.observe(row.seconds)
        self._cost.add(row.usd)
        for phase, seconds in row.phases.items():
            self._phases.add(seconds, phase)
        if row.side is not None:
            self._failed.add(1, row.side)
        if row.score is not None:
            self._score.observe(row.score, row.split)
            self._passed.add(bool(row.passed), row.split)

    def _count_rare(self, event: RunEvent) -> None:
        match event:
            case RunBegan():
                self._run.set(1, event.run, event.environment, event.model)
                self._at_once.set(event.at_once, event.run)
                self._paused.set(0, event.run)
            case RunSteered():
                self._at_once.set(event.at_once, event.run)
                self._paused.set(event.paused, event.run)
            case WorkersCounted():
                self._workers.set(event.num_workers, event.run)
                self._queue.set(event.num_waiting, event.run)
            case AdmissionChanged():
                self._limit.set(event.limit, event.run)
                self._end_reason(event.run)
                self._bound.set(1, event.run, event.reason)
                self._reasons[event.run] = event.reason
            case RolloutsRequeued():
                self._requeued.add(event.count)
            case RunEnded():
                self._open.pop(event.run, None)  # what was cancelled never ends
                self._ungraded.pop(event.run, None)
                if self._end_reason(event.run):
                    self._limit.set(0, event.run)
                how = "bad" if event.tripped else "stopped" if event.stopped else "complete"
                self._runs_ended.add(1, how)
            case CalibrationWave():
                self._tasks.set(event.num_tasks)
                self._placed.set(event.num_placed)
            case LoopLagged():
                self._lag.set(event.max_s)
            case SinkFailed():
                self._sinks_failed.add(1)
            case _:
                self._count_training(event)

    def _end_reason(self, run: str) -> bool:
        """Why the limit of a run is not larger is no longer true; False if it had none."""
        reason = self._reasons.pop(run, None)
        if reason is not None:
            self._bound.set(0, run, reason)
        return reason is not None

    def _count_training(self, event: RunEvent) -> None:
        match event:
            case TrainingBegan():
                self._planned.set(event.steps)
                self._version.set(event.version)
            case StepLearned():
                self._count_step(event.step)
            case EvaluationEnded(evaluation=found):
                self._evaluations.add(1)
                self._heldout.set(found.mean)
                self._low.set(found.low)
                self._high.set(found.high)
                self._heldout_passed.set(found.passed)
            case RolledBack():
                self._rollbacks.add(1)
            case AlarmRaised():
                self._alarms.add(1, event.kind)
            case _:
                pass

    def _count_step(self, step: Learned) -> None:
        self._steps.add(1)
        self._version.set(step.version)
        self._step_seconds.observe(step.seconds)
        self._update_seconds.observe(step.update_s)
        self._norm.set(step.norm)
        self._clipped.set(step.clipped)
        for phase, share in step.shares.items():
            self._shares.set(share, phase)
        for name, metric in self._step_counters.items():
            metric.add(getattr(step, name))
        for name, metric in self._step_gauges.items():
            value = getattr(step, name)
            if value is not None:
                metric.set(value)

    def _tool_label(self, event: ToolCalled) -> str:
        if event.name not in self._tools:
            if len(self._tools) >= (_MOST_FAILING_TOOLS if event.error else _MOST_TOOLS):
                return OTHER
            self._tools.add(event.name)
        return event.name

    def _counter(self, name: str, meaning: str, *labels: str) -> Metric:
        return self._keep(Metric("counter", f"sandlot_{name}", meaning, labels))

    def _gauge(self, name: str, meaning: str, *labels: str) -> Metric:
        return self._keep(Metric("gauge", f"sandlot_{name}", meaning, labels))

    def _histogram(self, name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Metric:
        return self._keep(Metric("histogram", f"sandlot_{name}", meaning, labels, buckets))

    def _keep(self, metric: Metric) -> Metric:
        self._all.append(metric)
        return metric
