"""What a run does now, counted from its events."""

from builders import rows
from sandlot.observe.events import (
    AdmissionChanged,
    AgentEnded,
    EvaluationBegan,
    EvaluationEnded,
    LoopLagged,
    RolloutBegan,
    RolloutEnded,
    RolloutGraded,
    RunBegan,
    RunEnded,
    ToolCalled,
    TurnTaken,
    WorldOpened,
)
from sandlot.observe.live import EvaluationNow, LiveRun
from sandlot.observe.training_records import Measured

MEASURED = Measured(
    version=4,
    mean=1.0,
    low=1.0,
    high=1.0,
    passed=1.0,
    passed_low=1.0,
    passed_high=1.0,
    rollouts=8,
    failed=0,
    run="evaluations/000004",
)


def began(at: float = 0.0, planned: int = 100) -> RunBegan:
    return RunBegan(at=at, run="r", path="runs/r", environment="e", model="m", num_tasks=10, num_planned=planned, num_done=0)


def of(kind, at: float, task: str = "t", rollout: int = 0, **fields):
    return kind(at=at, run="r", task=task, rollout=rollout, **fields)


def turn(at: float, number: int = 1, tokens: int = 10, rollout: int = 0) -> TurnTaken:
    return of(TurnTaken, at, rollout=rollout, turn=number, prompt_tokens=1, completion_tokens=tokens, seconds=1.0)


def call(at: float, name: str = "look", seconds: float = 1.0, *, error: bool = False) -> ToolCalled:
    return of(ToolCalled, at, turn=1, name=name, seconds=seconds, error=error)


def received(*events) -> LiveRun:
    run = LiveRun()
    for event in events:
        run.receive(event)
    return run


def test_a_rollout_whose_world_is_open_waits_for_the_model():
    run = received(began(), of(RolloutBegan, 1.0), of(WorldOpened, 2.0, seconds=1.0))
    assert run.look(3.0).waits == {"model": 1}


def test_the_limit_of_a_run_that_adapts_is_shown_with_its_reason():
    run = received(began(), AdmissionChanged(at=1.0, run="r", limit=12, at_once=64, reason="model", in_flight=9))
    assert (run.look(2.0).limit, run.look(2.0).bound) == (12, "model")
    run.receive(began())
    assert run.look(3.0).limit is None


def test_the_last_event_of_a_rollout_says_what_it_waits_for():
    run = received(
        began(),
        *(of(RolloutBegan, 1.0, rollout=number) for number in range(5)),
        turn(2.0, 1, rollout=1),
        turn(2.0, 1, rollout=2),
        of(ToolCalled, 3.0, rollout=2, turn=1, name="look", seconds=1.0, error=False),
        of(RolloutGraded, 4.0, rollout=3, score=1.0, passed=True, seconds=0.1),
        of(RolloutEnded, 5.0, rollout=4, row=rows.scored("t", 4)),
    )
    now = run.look(11.0)
    assert now.num_in_flight == 4
    doing = {each.rollout: (each.doing, each.seconds, each.since_s, each.turns) for each in now.in_flight}
    assert doing[0] == ("starts: sandbox, setup", 10.0, 10.0, 0)
    assert doing[1] == ("tools or evidence", 10.0, 9.0, 1)
    assert doing[2] == ("model", 10.0, 8.0, 1)
    assert doing[3] == ("is stored", 10.0, 7.0, 0)
    assert sum(now.waits.values()) == 4


def test_the_rate_is_that_of_the_last_rollouts_and_falls_while_nothing_ends():
    run = received(began(), *(of(RolloutEnded, float(at), rollout=at, row=rows.scored("t", at)) for at in range(11)))
    assert run.look(10.0).per_second == 1.0
    assert run.look(100.0).per_second == 0.1
    assert received(began(), of(RolloutEnded, 1.0, row=rows.scored())).look(2.0).per_second is None


def test_tokens_of_the_last_minute_are_counted():
    run = received(began(), turn(1.0, tokens=1000), turn(90.0, tokens=60), turn(100.0, tokens=60))
    assert run.look(120.0).tokens_per_s == 4.0
    assert run.look(500.0).tokens_per_s is None


def test_tools_are_listed_by_the_time_they_took_and_any_name_may_be_written():
    hostile = "\x1b[31mrm\n" + "x" * 5000
    run = received(
        began(), call(1.0, "quick", 0.1), call(1.0, "slow", 3.0), call(1.0, "slow", 4.0, error=True), call(1.0, hostile, 0.5)
    )
    slow, odd, quick = run.look(2.0).tools
    assert (slow.name, slow.calls, slow.errors, slow.seconds, slow.longest) == ("slow", 2, 1, 7.0, 4.0)
    assert quick.name == "quick"
    assert odd.name.startswith("\\x1b[31mrm x")
    assert len(odd.name) <= 200
    many = received(*(call(1.0, f"tool-{number}", 0.001) for number in range(5000)))
    assert many.look(1.0).tools[0].name == "(other)"


def test_rollouts_of_a_killed_sitting_are_not_in_flight():
    run = received(began(), of(RolloutBegan, 1.0), began(50.0, planned=7), of(RolloutBegan, 51.0, rollout=1))
    assert [each.rollout for each in run.look(52.0).in_flight] == [1]
    assert run.planned == 7
    run.receive(RunEnded(at=60.0, run="r"))
    assert run.look(61.0).num_in_flight == 0


def test_phases_are_shares_of_the_last_rollouts_and_lag_is_the_last():
    run = received(
        began(), LoopLagged(at=1.0, max_s=0.5), LoopLagged(at=2.0, max_s=0.25), of(RolloutEnded, 1.0, row=rows.scored())
    )
    now = run.look(3.0)
    assert now.lag_s == 0.25
    assert now.phases == {"model": 2 / 3, "tools": 1 / 3}


def test_an_evaluation_of_a_training_is_counted_while_it_is_taken():
    run = received(
        EvaluationBegan(at=1.0, version=4, run="r/evaluation", num_rollouts=8),
        RolloutEnded(at=2.0, run="r/evaluation", task="held", rollout=0, row=rows.scored("held")),
        of(RolloutEnded, 3.0, row=rows.scored()),
    )
    assert run.look(4.0).evaluation == EvaluationNow(version=4, planned=8, done=1)
    run.receive(EvaluationEnded(at=5.0, evaluation=MEASURED))
    assert run.look(6.0).evaluation is None


def test_a_rollout_whose_agent_has_ended_is_graded_and_the_median_latency_is_shown():
    run = received(
        began(),
        of(AgentEnded, 2.0, rollout=0, end="done"),
        *(
            of(RolloutGraded, 3.0, rollout=1 + n, score=1.0, passed=True, seconds=0.1, latency=each)
            for n, each in enumerate((1, 2, 9))
        ),
    )
    now = run.look(4.0)
    assert now.waits == {"is stored": 3, "grading": 1}
    assert now.reward_latency_s == 2.0
    assert received(began()).look(1.0).reward_latency_s is None
