"""Every algorithm against the sum a person would write down from its paper, in plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.train.algorithms.advantages import centred, generalised, leave_one_out, relative, standardised
from sandlot.train.algorithms.algorithms import Imitate, PolicyGradient, Ppo, Prefer, needs_reference, teaches
from sandlot.train.algorithms.losses import Clip
from sandlot.train.algorithms.preferences import Ipo, SimPo
from sandlot.train.algorithms.shaping import Overlong, Shaped, Shorter
from sandlot.train.algorithms.token_weights import token_weights
from sandlot.train.algorithms.turn_credit import observations
from sandlot.train.rows import Group, Member, Row

REWARDS = st.lists(st.floats(0, 1, width=32), min_size=2, max_size=8)


def row(rollout=0, trained=3, context=2, turns=1):
    count = context + trained
    speaking = np.arange(count) >= context
    return Row(
        rollout=("t", rollout),
        ids=np.arange(count, dtype=np.int32),
        trained=speaking,
        logprobs=np.full(count, -1.0, np.float32),
        versions=np.where(speaking, 0, -1).astype(np.int32),
        turns=np.where(speaking, (np.arange(count) - context) * turns // max(1, trained), -1).astype(np.int32),
    )


def group(rewards, lengths=None):
    lengths = lengths or [3] * len(rewards)
    members = [
        Member(float(reward), (row(number, length),))
        for number, (reward, length) in enumerate(zip(rewards, lengths, strict=True))
    ]
    return Group("t", tuple(members))


@given(REWARDS)
def test_baselines_are_those_of_the_papers(rewards):
    array = np.array(rewards, np.float32)
    mean = math.fsum(rewards) / len(rewards)
    deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    others = [(math.fsum(rewards) - reward) / (len(rewards) - 1) for reward in rewards]
    assert centred(array).tolist() == pytest.approx([reward - mean for reward in rewards], abs=1e-5)
    assert leave_one_out(array).tolist() == pytest.approx([r - o for r, o in zip(rewards, others, strict=True)], abs=1e-4)
    if deviation > 1e-2:
        assert standardised(array).tolist() == pytest.approx([(reward - mean) / deviation for reward in rewards], abs=1e-2)


@given(
    st.lists(st.tuples(st.floats(-1, 1, width=32), st.floats(-1, 1, width=32)), min_size=1, max_size=7),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_gae_is_the_discounted_sum_of_surprises(steps, discount, smoothing):
    rewards, values = (np.array(column, np.float32) for column in zip(*steps, strict=True))
    later = [*values.tolist()[1:], 0.0]
    surprises = [r + discount * after - v for r, v, after in zip(rewards.tolist(), values.tolist(), later, strict=True)]
    expected = [
        math.fsum((discount * smoothing) ** (n - t) * surprises[n] for n in range(t, len(surprises)))
        for t in range(len(surprises))
    ]
    advantages, returns = generalised(rewards, values, discount, smoothing)
    assert advantages.tolist() == pytest.approx(expected, abs=1e-4)
    assert returns.tolist() == pytest.approx([a + v for a, v in zip(expected, values.tolist(), strict=True)], abs=1e-4)


def test_a_token_counts_as_its_aggregation_says():
    rows = [row(0, 2), row(0, 4), row(1, 6)]  # the first rollout forked
    per_row = {
        name: [float(weights.sum()) for weights in token_weights(rows, name, length=12)]
        for name in ("token", "sequence", "constant", "rollout")
    }
    assert per_row["token"] == pytest.approx([2 / 12, 4 / 12, 6 / 12])
    assert per_row["sequence"] == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert per_row["constant"] == pytest.approx([2 / 36, 4 / 36, 6 / 36])
    assert per_row["rollout"] == pytest.approx([2 / 12, 4 / 12, 1 / 2])


def test_a_group_without_variance_teaches_nothing_and_takes_no_weight():
    batch = PolicyGradient()([group([0.5, 0.5]), group([0.0, 1.0])])
    assert len(batch) == 1
    assert math.fsum(float(example.streams[0].weight.sum()) for example in batch[0]) == pytest.approx(1)


def test_policy_gradients_say_the_same_of_every_token_of_a_row():
    [examples] = PolicyGradient(baseline="dr_grpo", loss=Clip(0.2, 0.28), kl=0.1, entropy=0.01)([group([0.0, 1.0])])
    assert [example.streams[0].signal.tolist() for example in examples] == [[-0.5] * 5, [0.5] * 5]
    assert [float(stream.weight.sum()) for stream in examples[0].streams] == pytest.approx([0.5, 0.05, 0.005])


def test_turn_level_credit_compares_like_turns():
    members = tuple(Member(float(n), (row(n, 4, turns=2),)) for n in range(2))
    credit = {0.0: np.array([0.0, 0.0], np.float32), 1.0: np.array([1.0, 0.0], np.float32)}
    algorithm = PolicyGradient(baseline="dr_grpo", credit=lambda member: credit[member.reward])
    [examples] = algorithm([Group("t", members)])
    assert examples[1].streams[0].signal.tolist() == [0, 0, 0.5, 0.5, 0, 0]


def test_ppo_puts_the_reward_on_the_last_token_and_asks_for_a_critic():
    algorithm = Ppo(smoothing=1.0, whiten=False)
    with pytest.raises(ValueError, match="critic"):
        algorithm([group([1.0, 0.0])])
    [examples] = algorithm([group([1.0, 0.0])], lambda row: np.full(len(row), 0.25, np.float32))
    assert examples[0].streams[0].signal.tolist() == pytest.approx([0, 0, 0.75, 0.75, 0.75])
    assert examples[0].streams[1].signal.tolist() == pytest.approx([0, 0, 1, 1, 1])


def test_imitation_takes_what_scored_enough():
    assert Imitate(least=0.9)([group([0.2, 0.5])]) == []
    [examples] = Imitate(least=0.5)([group([0.2, 0.5])])
    assert [example.row.rollout for example in examples] == [("t", 1)]


def test_preference_pairs_the_best_with_the_worst():
    [better, worse] = Prefer()([group([0.2, 0.9, 0.5])])[0]
    assert (better.row.rollout, worse.row.rollout) == (("t", 1), ("t", 0))
    assert (better.partner, worse.partner) == (1, 0)
    assert (better.streams[0].signal[0], worse.streams[0].signal[0]) == (1.0, -1.0)


def test_a_pair_needs_a_reference_where_its_loss_does():
    assert [needs_reference(Prefer(loss=loss)) for loss in (Ipo(), SimPo())] == [True, False]
    assert needs_reference(Prefer())


@given(REWARDS)
def test_max_rl_divides_by_the_share_that_was_solved(rewards):
    mean = math.fsum(rewards) / len(rewards)
    if mean > 1e-2:
        expected = [(reward - mean) / mean for reward in rewards]
        assert relative(np.array(rewards, np.float32)).tolist() == pytest.approx(expected, abs=1e-3)
    assert relative(np.zeros(3, np.float32)).tolist() == [0, 0, 0]


@given(st.lists(REWARDS, min_size=1, max_size=4))
def test_reinforce_plus_plus_compares_within_the_batch(batch):
    flat = [reward for rewards in batch for reward in rewards]
    mean = math.fsum(flat) / len(flat)
    deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in flat) / len(flat))
    made = PolicyGradient(baseline="none", whiten=True)([group(rewards) for rewards in batch])
    found = [float(example.streams[0].signal[0]) for examples in made for example in examples]
    assert len(found) == len(flat), "groups whose members score alike teach too"
    if deviation > 1e-2:
        assert found == pytest.approx([(reward - mean) / deviation for reward in flat], abs=1e-2)


def turned(number, *pieces):
    """A row of (observation, words) pieces."""
    ids, turns = [], []
    for turn, (seen, said) in enumerate(pieces):
        ids += [*seen, *said]
        turns += [-1] * len(seen) + [turn] * len(said)
    speaking = np.array(turns) >= 0
    return Row(
        rollout=("t", number),
        ids=np.array(ids, np.int32),
        trained=speaking,
        logprobs=np.zeros(len(ids), np.float32),
        versions=np.where(speaking, 0, -1).astype(np.int32),
        turns=np.array(turns, np.int32),
    )


def test_gigpo_compares_turns_that_answered_the_same_observation():
    start, left, right = (1, 2), (3,), (4,)
    members = (
        Member(1.0, (turned(0, (start, (7,)), (left, (8, 8)), (right, (9,))),)),
        Member(0.0, (turned(1, (start, (6,)), (left, (5,))),)),
        Member(0.5, (turned(2, (start, (7,)), (right, (9,))),)),
    )
    assert observations(members[0]) == [np.array(seen, np.int32).tobytes() for seen in (start, left, right)]
    discount, omega = 0.5, 0.25
    [examples] = PolicyGradient(baseline="dr_grpo", steps=omega, discount=discount)([Group("t", members)])
    returns = {0: [0.25, 0.5, 1.0], 1: [0.0, 0.0], 2: [0.25, 0.5]}
    alike = [[(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 1)], [(0, 2), (2, 1)]]
    for together in alike:
        mean = math.fsum(returns[member][turn] for member, turn in together) / len(together)
        for member, turn in together:
            expected = (members[member].reward - 0.5) + omega * (returns[member][turn] - mean)
            example = examples[member]
            assert example.streams[0].signal[example.row.turns == turn].tolist() == pytest.approx(
                [expected] * int((example.row.turns == turn).sum())
            )


@pytest.mark.parametrize(("length", "penalty"), [(1, 0.0), (6, 0.0), (8, -0.5), (10, -1.0), (30, -1.0)])
def test_overlong_answers_are_punished_step_by_step(length, penalty):
    assert Overlong(most=10, buffer=4)(group([1.0], [length])).tolist() == pytest.approx([penalty])


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.integers(1, 9)), min_size=1, max_size=6), st.floats(0, 2))
def test_shorter_is_better_among_right_answers_and_longer_is_worse_among_wrong_ones(members, weight):
    rewards, long = (list(column) for column in zip(*members, strict=True))
    expected = []
    for reward, length in members:
        bonus = 0.0 if max(long) == min(long) else 0.5 - (length - min(long)) / (max(long) - min(long))
        expected.append(weight * (bonus if reward == 1.0 else min(0.0, bonus)))
    assert Shorter(weight=weight)(group(rewards, long)).tolist() == pytest.approx(expected, abs=1e-5)


def test_a_shaped_algorithm_sees_changed_rewards_and_says_which_groups_teach_then():
    alike = group([1.0, 1.0], [2, 6])
    shaped = Shaped(algorithm=PolicyGradient(baseline="dr_grpo"), shape=Shorter(weight=0.5))
    assert not teaches(PolicyGradient(), alike)
    assert teaches(shaped, alike)
    [examples] = shaped([alike])
    assert [float(example.streams[0].signal[0]) for example in examples] == pytest.approx([0.25, -0.25])
    assert alike.rewards.tolist() == [1.0, 1.0]
