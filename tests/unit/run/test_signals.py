"""What events say to admission."""

from builders import rows
from sandlot.observe.events import (
    AgentEnded,
    LoopLagged,
    ModelRetried,
    RolloutBegan,
    RolloutEnded,
    RolloutGraded,
    TurnTaken,
    WorldOpened,
)
from sandlot.run.schedule.admission import Opened
from sandlot.run.signals import ContextForecast, SignalCounts, SignalMeter


def of(event, rollout: int = 0, at: float = 0.0, **fields):
    return event(at=at, run="r", task="t", rollout=rollout, **fields)


def turn(rollout: int = 0, at: float = 10.0, seconds: float = 1.0, prompt: int = 100, sampled: int = 20) -> TurnTaken:
    return of(TurnTaken, rollout, at, turn=1, prompt_tokens=prompt, completion_tokens=sampled, seconds=seconds)


def received(*events, fresh_since: float = 0.0) -> SignalMeter:
    meter = SignalMeter(fresh_since=fresh_since)
    for event in events:
        meter.receive(event)
    return meter


def test_everything_is_counted_once():
    meter = received(
        of(RolloutBegan),
        of(WorldOpened, seconds=0.5),
        of(ModelRetried, by="agent", kind="rate_limit", wait_s=1.0),
        turn(seconds=2.0),
        of(AgentEnded, end="done"),
        of(ModelRetried, by="judge", kind="rate_limit", wait_s=1.0),
        of(RolloutGraded, score=1.0, passed=True, seconds=0.1),
        LoopLagged(max_s=0.25),
    )
    assert meter.take() == SignalCounts(
        turns=1,
        refused=1,
        fresh_turns=1,
        fresh_s=2.0,
        fresh_tokens=20,
        graded=1,
        judge_refused=1,
        opened={"r": Opened(1, 0.5)},
        lag_s=0.25,
    )
    assert meter.take() == SignalCounts()


def test_a_turn_that_began_before_the_limit_changed_is_not_fresh():
    counts = received(turn(at=10.0, seconds=1.0), turn(at=10.0, seconds=6.0), fresh_since=5.0).take()
    assert (counts.turns, counts.fresh_turns, counts.fresh_s) == (2, 1, 1.0)


def test_a_rollout_opens_until_its_world_is_open_or_it_has_failed():
    meter = received(*(of(RolloutBegan, number) for number in range(3)))
    assert meter.num_opening == 3
    meter.receive(of(WorldOpened, 0, seconds=0.1))
    meter.receive(of(RolloutEnded, 1, row=rows.scored("t", 1)))
    assert meter.num_opening == 1


def test_contexts_are_expected_to_grow_to_what_most_had_at_their_end():
    meter = received(of(RolloutBegan, 8), of(RolloutBegan, 9), turn(8, prompt=80, sampled=20), turn(9, prompt=900, sampled=100))
    assert meter.forecast({"r"}) == ContextForecast(running=2000, each=1000), "before any has ended, to the longest so far"
    for number in range(4):
        meter.receive(turn(number, prompt=350, sampled=50))
        meter.receive(of(AgentEnded, number, end="done"))
    assert meter.forecast({"r"}) == ContextForecast(running=400 + 1000, each=400)


def test_only_the_rollouts_of_the_runs_that_are_named_are_forecast():
    meter = received(turn(8, prompt=80, sampled=20), turn(9, prompt=900, sampled=100))
    meter.receive(TurnTaken(run="other", task="t", rollout=1, turn=1, prompt_tokens=60_000, completion_tokens=0, seconds=1.0))
    assert meter.forecast({"r"}) == ContextForecast(running=2000, each=1000)
    assert meter.forecast({"r", "other"}) == ContextForecast(running=62_000, each=60_000)
    assert meter.forecast(()) is None


def test_a_model_that_reports_no_tokens_has_no_forecast():
    assert received(of(RolloutBegan), turn(prompt=0, sampled=0)).forecast({"r"}) is None
