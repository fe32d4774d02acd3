"""Each loss against its formula, a token at a time in plain Python."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.errors import ConfigError
from sandlot.train.algorithms.losses import (
    Cispo,
    Clip,
    Columns,
    Correction,
    Dppo,
    Gspo,
    OffPolicyMask,
    Reinforce,
    Sapo,
    corrects_staleness,
)
from sandlot.train.algorithms.preferences import Dpo, Ipo, SimPo

LOGPROB = st.floats(-4, -0.01)
TOKENS = st.lists(st.tuples(LOGPROB, LOGPROB, LOGPROB, LOGPROB, st.floats(-2, 2)), min_size=2, max_size=10)


def columns(tokens, cut) -> Columns:
    """Two rows, the first of `cut` tokens."""
    now, old, behaviour, reference, signal = (torch.tensor(column, dtype=torch.float64) for column in zip(*tokens, strict=True))
    row = torch.tensor([0 if number < cut else 1 for number in range(len(tokens))])
    return Columns(
        logprobs=now,
        old=old,
        behaviour=behaviour,
        signal=signal,
        row=row,
        rows=2,
        partner=torch.tensor([1, 0]),
        reference=reference,
    )


def same(found, expected):
    assert found.tolist() == pytest.approx(expected, abs=1e-9, rel=1e-9)


@given(TOKENS)
def test_sapo(tokens):
    def loss(now, old, _behaviour, _reference, signal):
        steep = 1.0 if signal > 0 else 1.05
        return -4 / steep / (1 + math.exp(-steep * (math.exp(now - old) - 1))) * signal

    same(Sapo()(columns(tokens, 1)), [loss(*token) for token in tokens])


@given(TOKENS)
def test_a_clip_against_the_behaviour_policy_bounds_the_ratio_to_what_sampled(tokens):
    def loss(now, _old, behaviour, _reference, signal):
        ratio = math.exp(now - behaviour)
        return -min(ratio * signal, min(max(ratio, 0.8), 1.28) * signal)

    clip = Clip(0.2, 0.28, against="behaviour")
    same(clip(columns(tokens, 1)), [loss(*token) for token in tokens])
    held = [
        (signal > 0 and math.exp(now - behaviour) > 1.28) or (signal < 0 and math.exp(now - behaviour) < 0.8)
        for now, _, behaviour, _, signal in tokens
    ]
    assert clip.held_back(columns(tokens, 1)).tolist() == held


@pytest.mark.parametrize(("versions", "updates"), [(3, 2), (8, 3), (15, 4)])
def test_the_bounds_for_stale_tokens_are_those_of_the_root_of_as_many_updates_in_turn(versions, updates):
    clip, low, high = Clip(0.2, 0.28).for_staleness(versions), 1.0, 1.0
    for _ in range(updates):
        low, high = 0.8 * low, 1.28 * high
    assert clip.against == "behaviour"
    assert (1 - clip.low, 1 + clip.high) == (pytest.approx(low), pytest.approx(high))


def test_without_a_lower_bound_there_is_none_for_stale_tokens_either():
    assert Clip(low=1.5).for_staleness(4).low == 1.0


def test_a_negative_staleness_is_refused():
    with pytest.raises(ConfigError, match="staleness is -2 versions"):
        Clip().for_staleness(-2)


def test_without_staleness_a_clip_stays_as_it_is():
    assert Clip(0.2, 0.28, dual=3.0).for_staleness(0) == Clip(0.2, 0.28, dual=3.0)


def test_losses_that_do_not_know_who_sampled_are_told_apart():
    truncated = Correction("truncate")
    assert not any(map(corrects_staleness, [Clip(), Gspo(), Cispo(), Reinforce(), Sapo()]))
    safe = [Clip(against="behaviour"), Clip(correction=truncated), Gspo(correction=truncated), Dppo(), OffPolicyMask(Clip())]
    assert all(map(corrects_staleness, safe))


@given(TOKENS)
def test_dppo(tokens):
    def loss(now, _old, behaviour, _reference, signal):
        moved = math.exp(now) - math.exp(behaviour)
        out = (signal > 0 and moved > 0.1) or (signal < 0 and moved < -0.2)
        return -(0 if out else signal) * math.exp(now - behaviour) + 0.01 * (now - behaviour) ** 2

    same(Dppo(low=0.2, high=0.1, pull=0.01)(columns(tokens, 1)), [loss(*token) for token in tokens])


@given(TOKENS, st.data())
def test_bad_rows_that_were_left_behind_are_masked(tokens, data):
    cut = data.draw(st.integers(1, len(tokens) - 1))
    plain = Clip()(columns(tokens, cut)).tolist()
    expected = []
    for rows in (tokens[:cut], tokens[cut:]):
        behind = math.fsum(behaviour - now for now, _, behaviour, _, _ in rows) / len(rows)
        expected += [0.0 if token[4] < 0 and behind > 0.5 else plain[len(expected) + at] for at, token in enumerate(rows)]
    same(OffPolicyMask(Clip(), 0.5)(columns(tokens, cut)), expected)


@given(TOKENS, st.data())
def test_pairs(tokens, data):
    cut = data.draw(st.integers(1, len(tokens) - 1))
    tokens = [(*token[:4], 1.0 if at < cut else -1.0) for at, token in enumerate(tokens)]
    better, worse = tokens[:cut], tokens[cut:]
    lead = math.fsum(now - ref for now, _, _, ref, _ in better) - math.fsum(now - ref for now, _, _, ref, _ in worse)
    ahead = math.fsum(token[0] for token in better) / len(better) - math.fsum(token[0] for token in worse) / len(worse)
    losses = {
        Dpo(0.3): math.log1p(math.exp(-0.3 * lead)),
        Ipo(0.3): (lead - 1 / 0.6) ** 2,
        SimPo(1.5, 0.4): math.log1p(math.exp(-(1.5 * ahead - 0.4))),
    }
    for loss, expected in losses.items():
        same(loss(columns(tokens, cut)), [expected] * cut + [0.0] * (len(tokens) - cut))
