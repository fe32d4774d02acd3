"""What a run's events become as metrics; figures that no event carried are absent."""

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

import sandlot
from drive.command_line import NOTES
from sandlot.core.trace import TurnReplica
from sandlot.core.trace_row import TraceRow
from sandlot.observe.events import (
    AdmissionChanged,
    AlarmRaised,
    CalibrationWave,
    EvaluationEnded,
    LoopLagged,
    ModelRetried,
    RolledBack,
    RolloutBegan,
    RolloutEnded,
    RunBegan,
    RunEnded,
    SinkFailed,
    StepLearned,
    ToolCalled,
    TrainingBegan,
    TurnTaken,
    WorkersCounted,
    WorldOpened,
)
from sandlot.observe.prometheus import RunMetrics
from sandlot.observe.training_records import Learned, Measured

MONITORING = Path(__file__).parents[3] / "docs" / "monitoring"
AT = {"run": "r", "task": "t", "rollout": 0}
ROW = TraceRow(
    task="t", rollout=0, split="train", tags=(), end="done", outcome="scored", side=None, kind=None, message="a secret",
    score=0.25, points=1, possible=4, passed=False, turns=2, calls=1, tool_errors=0, prompt_tokens=9, completion_tokens=4,
    usd=0.5, seconds=3.0, phases={"open": 1.0, "grade": 0.5}, attempts=1, started=0.0,
)  # fmt: skip
STEP = Learned(
    version=3, reward=0.5, passed=0.25, outcome=0.25, rollouts=16, failed=1, groups=4, informative=3, loss=0.1, norm=2.0,
    tokens=100, shared=1.5, kl=0.01, entropy=1.25, clipped=0.05, staleness=1, sampled=200, seconds=10.0, update_s=2.0,
    phases={"model": 6.0, "grade": 2.0},
)  # fmt: skip
FOUND = Measured(
    version=3, mean=0.6, low=0.5, high=0.7, passed=0.4, passed_low=0.3, passed_high=0.5, rollouts=8, failed=0, run="e"
)


def values_of(metrics: RunMetrics) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in metrics.text().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_the_limit_and_its_reason_worlds_and_retries_of_the_judge_are_counted() -> None:
    metrics = RunMetrics()
    changed = AdmissionChanged(run="r", limit=8, at_once=64, reason="pace", in_flight=4)
    for event in (
        changed,
        msgspec.structs.replace(changed, limit=21, reason="model"),
        WorldOpened(**AT, seconds=0.2),
        ModelRetried(**AT, by="judge", kind="rate_limit", wait_s=1.0),
        ModelRetried(**AT, by="agent", kind="rate_limit", wait_s=1.0),
    ):
        metrics.receive(event)
    got = values_of(metrics)
    assert got['sandlot_rollouts_limit{run="r"}'] == 21
    assert (got['sandlot_rollouts_bound{run="r",reason="pace"}'], got['sandlot_rollouts_bound{run="r",reason="model"}']) == (0, 1)
    assert (got["sandlot_world_open_duration_seconds_count"], got["sandlot_judge_retries_total"]) == (1, 1)


def test_a_run_that_has_ended_is_bound_by_nothing() -> None:
    metrics = RunMetrics()
    metrics.receive(AdmissionChanged(run="r", limit=8, at_once=64, reason="model", in_flight=4))
    metrics.receive(RunEnded(run="r"))
    got = values_of(metrics)
    assert (got['sandlot_rollouts_limit{run="r"}'], got['sandlot_rollouts_bound{run="r",reason="model"}']) == (0, 0)


def test_a_real_run_is_counted(tmp_path: Path) -> None:
    metrics = RunMetrics()
    run = sandlot.run(NOTES, "scripted:golden", rollouts=16, runs=tmp_path, sink=metrics.receive)
    rows = list(run.rows)
    got = values_of(metrics)
    assert got["sandlot_rollouts_started_total"] == 16
    assert sum(value for name, value in got.items() if name.startswith("sandlot_rollouts_ended_total{")) == 16
    assert got["sandlot_rollouts_in_flight"] == got["sandlot_rollouts_to_grade"] == 0
    assert got["sandlot_reward_latency_seconds_count"] == 16
    assert got["sandlot_reward_latency_seconds_sum"] >= got["sandlot_grading_duration_seconds_sum"]
    assert got["sandlot_rollout_duration_seconds_count"] == got["sandlot_grading_duration_seconds_count"] == 16
    assert got["sandlot_rollout_duration_seconds_sum"] == pytest.approx(sum(row.seconds for row in rows))
    assert got["sandlot_model_turn_duration_seconds_count"] == sum(row.turns for row in rows)
    assert got['sandlot_tool_call_duration_seconds_count{tool="write_note"}'] == 16
    assert got['sandlot_tool_errors_total{tool="write_note"}'] == 0
    assert got['sandlot_rollout_phase_seconds_total{phase="grade"}'] == pytest.approx(sum(row.phases["grade"] for row in rows))
    assert got['sandlot_runs_ended_total{how="complete"}'] == 1
    assert got['sandlot_rollout_failures_total{side="grader"}'] == 0
    assert not [name for name in got if "training_reward" in name or "heldout_score" in name or "loop_lag" in name]


def test_failures_have_their_side_and_cancelled_rollouts_leave_the_flight() -> None:
    metrics = RunMetrics()
    metrics.receive(RunBegan(run="r", path="p", environment="e", model="m", num_tasks=2, num_planned=2, num_done=0))
    for rollout, attempt in ((0, 1), (0, 2), (1, 1), (2, 1)):
        metrics.receive(RolloutBegan(run="r", task="t", rollout=rollout, attempt=attempt))
    failed = msgspec.structs.replace(ROW, outcome="failed", side="model", kind="rate_limit", end="cut", score=None, passed=None)
    metrics.receive(RolloutEnded(**AT, row=failed, at=77.0))
    got = values_of(metrics)
    assert got['sandlot_run_info{run="r",environment="e",model="m"}'] == 1
    assert (got["sandlot_rollouts_started_total"], got["sandlot_rollout_retries_total"]) == (3, 1)
    assert got["sandlot_rollouts_in_flight"] == 2
    assert got['sandlot_rollout_failures_total{side="model"}'] == 1
    assert got['sandlot_rollouts_ended_total{end="cut",outcome="failed",split="train"}'] == 1
    assert got["sandlot_rollout_last_ended_timestamp_seconds"] == 77
    assert not [name for name in got if name.startswith("sandlot_rollout_score")]
    metrics.receive(RunEnded(run="r", stopped="Ctrl-C"))
    assert values_of(metrics)["sandlot_rollouts_in_flight"] == 0
    assert "a secret" not in metrics.text()


def test_scores_tokens_and_cost() -> None:
    metrics = RunMetrics()
    metrics.receive(TurnTaken(**AT, turn=1, prompt_tokens=9, completion_tokens=4, seconds=0.2, stop="calls"))
    metrics.receive(RolloutEnded(**AT, row=ROW))
    got = values_of(metrics)
    assert got['sandlot_rollout_score_bucket{split="train",le="0.2"}'] == 0
    assert got['sandlot_rollout_score_bucket{split="train",le="0.3"}'] == 1
    assert (got['sandlot_tokens_total{kind="prompt"}'], got['sandlot_tokens_total{kind="completion"}']) == (9, 4)
    assert got["sandlot_cost_usd_total"] == 0.5
    assert got['sandlot_model_turn_duration_seconds_bucket{le="0.1"}'] == 0
    assert got['sandlot_turns_total{stop="calls"}'] == 1


def test_turns_are_counted_by_server_if_the_model_has_several() -> None:
    metrics = RunMetrics()
    for name, expected in (("http://one", 0), ("http://one", 8), ("http://two", 0)):
        replica = TurnReplica(name=name, expected_tokens=expected)
        metrics.receive(
            TurnTaken(
                **AT, turn=1, prompt_tokens=9, completion_tokens=4, seconds=0.2, cached_tokens=7, retries=1, replica=replica
            )
        )
    got = values_of(metrics)
    assert got['sandlot_replica_turns_total{replica="http://one"}'] == 2
    assert got['sandlot_replica_turns_total{replica="http://two"}'] == 1
    reported, expected = (f'sandlot_cached_prompt_tokens_total{{how="{how}"}}' for how in ("reported", "expected"))
    assert (got[reported], got[expected]) == (21, 8)
    assert got["sandlot_model_retries_total"] == 3


def test_names_that_an_agent_invents_do_not_displace_tools_that_work() -> None:
    metrics = RunMetrics()
    for number in range(10_000):
        metrics.receive(ToolCalled(**AT, turn=1, name=f'"}} evil {number}\n', seconds=0.0, error=True))
    metrics.receive(ToolCalled(**AT, turn=1, name="bash", seconds=2.0, error=False))
    got = values_of(metrics)
    assert got['sandlot_tool_call_duration_seconds_count{tool="bash"}'] == 1
    assert got['sandlot_tool_errors_total{tool="(other)"}'] == 10_000 - 16
    assert len(metrics.text()) < 100_000


def every_event() -> RunMetrics:
    metrics = RunMetrics()
    for event in (
        RunBegan(run="r", path="p", environment="e", model="m", num_tasks=2, num_planned=2, num_done=0),
        TrainingBegan(
            path="p", environment="e", sandboxed=False, model="m", steps=9, tasks=4, group=4, version=2, heldout=None,
            alarmed=False, differences=(), settings={},
        ),
        RolloutBegan(**AT),
        ToolCalled(**AT, turn=1, name="bash", seconds=2.0, error=False),
        TurnTaken(**AT, turn=1, prompt_tokens=9, completion_tokens=4, seconds=0.2, stop=None),
        RolloutEnded(**AT, row=ROW),
        StepLearned(step=STEP, alarmed=True),
        AlarmRaised(kind="idle", sentence="s"),
        EvaluationEnded(evaluation=FOUND),
        RolledBack(version=3, best=2),
        CalibrationWave(num_tasks=8, num_placed=5, num_taken=9, num_more=1),
        WorkersCounted(run="r", num_workers=3, num_waiting=40),
        LoopLagged(max_s=0.75),
        SinkFailed(sink="s", reason="r"),
        RunEnded(run="r", stopped="bad", tripped=True),
    ):  # fmt: skip
        metrics.receive(event)
    return metrics


def test_a_training_is_shown() -> None:
    got = values_of(every_event())
    expected = {
        "training_steps_planned": 9, "training_version": 3, "training_steps_total": 1, "training_reward": 0.5,
        "training_outcome": 0.25, "training_kl": 0.01, "training_entropy": 1.25, "training_staleness": 1,
        "training_clipped_ratio": 0.05, "training_gradient_norm": 2, "training_tokens_total": 100,
        "training_informative_groups_total": 3,
        "training_update_duration_seconds_sum": 2, "training_step_duration_seconds_sum": 10,
        'training_time_ratio{phase="update"}': 0.2, 'training_time_ratio{phase="grading"}': 0.2, "evaluations_total": 1,
        "heldout_score": 0.6, "heldout_score_low": 0.5, "heldout_score_high": 0.7, "heldout_passed_ratio": 0.4,
        "training_rollbacks_total": 1, 'alarms_total{kind="idle"}': 1, 'alarms_total{kind="reward_hacking"}': 0,
        "calibration_tasks": 8, "calibration_tasks_placed": 5, "event_loop_lag_seconds": 0.75, "sinks_failed_total": 1,
        'runs_ended_total{how="bad"}': 1, 'workers{run="r"}': 3, 'rollouts_waiting_for_worker{run="r"}': 40,
    }  # fmt: skip
    assert {name: got[f"sandlot_{name}"] for name in expected} == pytest.approx(expected)


def test_a_figure_that_the_step_does_not_have_is_absent() -> None:
    metrics = RunMetrics()
    metrics.receive(StepLearned(step=msgspec.structs.replace(STEP, kl=None), alarmed=False))
    got = values_of(metrics)
    assert "sandlot_training_kl" not in got
    assert got["sandlot_training_entropy"] == 1.25


def test_rules_and_dashboard_name_only_metrics_that_exist() -> None:
    kinds = dict(line.split()[2:] for line in every_event().text().splitlines() if line.startswith("# TYPE"))
    parts = {f"{name}_{part}" for name, kind in kinds.items() if kind == "histogram" for part in ("bucket", "sum", "count")}
    there = {name for name, kind in kinds.items() if kind != "histogram"} | parts
    for file in ("rules.yml", "rules_test.yml", "dashboard.json"):
        used = set(re.findall(r"\bsandlot_\w+", (MONITORING / file).read_text()))
        assert used
        assert used <= there, file


@pytest.mark.system
def test_promtool_accepts_every_metric() -> None:
    done = subprocess.run(["promtool", "check", "metrics"], input=every_event().text().encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
