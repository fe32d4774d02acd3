import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.core.errors import ConfigError
from sandlot.run.schedule.policies import Fifo, LeastAttained
from sandlot.run.simulate.bound import lower_bound_s
from sandlot.run.simulate.fleet import Fleet, Instance, Served
from sandlot.run.simulate.rules import Rules, named_rules
from sandlot.run.simulate.simulation import compare_rules, simulate
from sandlot.run.simulate.workload import (
    SEER,
    LengthModel,
    PlannedRollout,
    PlannedTurn,
    Workload,
    describe_workload,
    make_workload,
)

SMALL = LengthModel(groups=12, group_size=4, mean=3000, longest=9000, prompt=100, between=0.6, within=0.4)
FLEET = Fleet(instances=2, cache_tokens=40_000, max_batch=16)
RULES = list(named_rules(make_workload("names", SMALL)))


def workload(*lengths: int, prompt: int = 0) -> Workload:
    rollouts = [PlannedRollout(index, prompt, (PlannedTurn(tokens),)) for index, tokens in enumerate(lengths)]
    return Workload("made", tuple(rollouts), 1)


def test_one_rollout_alone_takes_the_time_of_its_steps():
    fleet = Fleet(instances=1, cache_tokens=10_000, step_s=0.01, sequence_s=0.001, token_s=1e-6, prefill_s=1e-3)
    steps = sum(0.01 + 0.001 + 1e-6 * (100 + done + 0.5) for done in range(500))
    run = simulate(workload(500, prompt=100), fleet, Rules(policy=Fifo()))
    assert run.makespan_s == pytest.approx(100 * 1e-3 + steps, rel=1e-9)
    assert run.prefilled_tokens == 100


def test_an_instance_advances_as_if_step_by_step():
    """Against a loop over single steps, with a batch whose cache grows."""
    fleet = Fleet(instances=1, cache_tokens=100_000, step_s=0.01, sequence_s=0.001, token_s=1e-6)
    instance = Instance(0, fleet)
    for job, context in enumerate((100, 2000, 7)):
        instance.put(Served(400.0, job, 400, context), context, job)
    time, kv = 0.0, 2107.0
    for _ in range(400):
        time += 0.01 + 0.003 + 1e-6 * (kv + 1.5)
        kv += 3
    assert instance.next_event() == pytest.approx(time, rel=1e-9)
    instance.advance(time / 3)
    instance.advance(time)
    assert (instance.steps, instance.kv) == (pytest.approx(400), pytest.approx(kv))


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(RULES), st.integers(0, 1000), st.integers(1, 4), st.floats(0, 30), st.sampled_from([0.0, 20.0]))
def test_every_rollout_ends_once_and_no_schedule_is_faster_than_the_bound(name, seed, turns, tool_s, failures):
    made = make_workload("any", replace(SMALL, turns=turns, tool_s=tool_s, observation=20), seed)
    fleet = replace(FLEET, failures_per_hour=failures, restart_s=5.0)
    run = simulate(made, fleet, named_rules(made)[name], seed=seed)
    assert run.rollouts == len(made.rollouts)
    assert run.ratio >= 1.0 - 1e-9
    assert 0.0 <= run.utilisation <= 1.0 + 1e-9
    assert run.prefilled_tokens >= len({rollout.group for rollout in made.rollouts}) * 100


def test_the_same_seed_gives_the_same_figures():
    made = make_workload("again", SMALL, 3)
    fleet = replace(FLEET, failures_per_hour=30.0, restart_s=2.0)
    runs = [simulate(made, fleet, named_rules(made)["adaptive"], seed=7) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0].deaths > 0


def test_a_full_cache_sends_a_job_away_and_it_still_ends():
    fleet = Fleet(instances=1, cache_tokens=3000, max_batch=8)
    run = simulate(workload(*[900] * 6), fleet, Rules(policy=LeastAttained(chunk=500)))
    assert run.rollouts == 6
    assert run.sent_away > 0
    kept = simulate(workload(*[900] * 6), fleet, Rules(policy=LeastAttained(chunk=500), reserve=1.0))
    assert kept.sent_away == 0


def test_a_sent_away_job_without_a_shared_pool_is_prefilled_again():
    fleet = Fleet(instances=1, cache_tokens=3000, max_batch=8)
    pool = simulate(workload(*[900] * 6, prompt=10), fleet, Rules(policy=Fifo(), reserve=0.0))
    none = simulate(workload(*[900] * 6, prompt=10), fleet, Rules(policy=Fifo(), reserve=0.0, keeps_cache=False))
    assert pool.prefilled_tokens == 60
    assert none.prefilled_tokens > 60


def test_the_baselines_that_prefill_again_are_those_without_a_shared_pool():
    made = named_rules(make_workload("names", SMALL))
    assert {name for name, rules in made.items() if not rules.keeps_cache} == {"verl", "least-loaded", "admitted"}
    assert {name for name, rules in made.items() if rules.pinned} == {"verl"}


def test_divided_rollouts_beat_pinned_groups_where_lengths_differ():
    made = make_workload("tail", replace(SEER["moonlight"], groups=50), 1)
    found = compare_rules(made, Fleet(instances=4, cache_tokens=700_000), ["adaptive", "chunked-fifo", "verl"])
    assert found["adaptive"].makespan_s < found["chunked-fifo"].makespan_s < found["verl"].makespan_s


def test_admission_keeps_a_cache_from_filling_up():
    made = make_workload("turns", replace(SMALL, groups=60, turns=20, tool_s=1.0))
    found = compare_rules(made, FLEET, ["admitted", "least-loaded"])
    assert found["admitted"].rollouts == found["least-loaded"].rollouts == 240
    assert found["admitted"].sent_away < found["least-loaded"].sent_away
    assert found["admitted"].prefilled_tokens < found["least-loaded"].prefilled_tokens


def test_no_more_are_in_flight_than_the_ceiling_says():
    one_by_one = Rules(policy=Fifo(), reserve=0.0, adapt=1)
    run = simulate(workload(100, 200, 300), replace(FLEET, instances=1), one_by_one)
    alone = [simulate(workload(each), replace(FLEET, instances=1), one_by_one).makespan_s for each in (100, 200, 300)]
    assert run.makespan_s == pytest.approx(sum(alone))


def test_the_bound_of_one_rollout_is_its_own_decoding_and_its_tools():
    turns = (PlannedTurn(100, 50, 2.0), PlannedTurn(200))
    one = Workload("one", (PlannedRollout(0, 10, turns),), 1)
    fleet = Fleet(instances=4, cache_tokens=10_000, step_s=0.01, sequence_s=0.0, token_s=0.0, prefill_s=0.0)
    assert lower_bound_s(one, fleet) == pytest.approx(300 * 0.01 + 2.0)
    assert simulate(one, fleet, Rules(policy=Fifo())).makespan_s == pytest.approx(5.0)


def test_lengths_have_the_mean_and_stay_below_the_longest():
    made = make_workload("moonlight", SEER["moonlight"])
    lengths = [rollout.tokens for rollout in made.rollouts]
    assert math.isclose(sum(lengths) / len(lengths), 22_400, rel_tol=0.01)
    assert max(lengths) <= 65_536


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: describe_workload("sun"), "no workload named `sun`; known: moonlight"),
        (lambda: describe_workload("custom", groups=0), "groups=0; give 1 or more"),
        (lambda: describe_workload("custom", mean=0.5), "mean=0.5; give a number from 1"),
        (lambda: Fleet(instances=0, cache_tokens=1), "instances=0; give 1 or more"),
        (lambda: Fleet(instances=1, cache_tokens=1, step_s=0.0), "a decode step takes time"),
        (lambda: simulate(workload(500), Fleet(instances=1, cache_tokens=100), Rules(policy=Fifo())), "could never end"),
        (lambda: compare_rules(workload(5), FLEET, ["fast"]), "no rules named `fast`; known: adaptive"),
    ],
)
def test_wrong_use_is_one_sentence_with_the_fix(call, words):
    with pytest.raises(ConfigError, match=words):
        call()
