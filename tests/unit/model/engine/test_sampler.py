"""What is drawn, and what is said about it."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from fakes.engine_twin import drawn, uniform
from sandlot.model.engine.request import Request
from sandlot.model.engine.sampler import Settings, draw, pick_by_inverse

BINS = 12


def settings_of(count: int, *, temperature=1.0, top_p=1.0, top_k=0, seed=0) -> Settings:
    settings = Settings.empty(count)
    for row in range(count):
        settings.put(row, temperature, top_p, top_k, seed)
    return settings.of(np.arange(count), np.arange(count))


def draws(logits: list[float], count: int = 20_000, **rest) -> tuple[np.ndarray, np.ndarray]:
    return draw(torch.tensor([logits]).expand(count, -1), settings_of(count, **rest), pick_by_inverse).result()


@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 3.0},
        {"top_k": 4},
        {"top_p": 0.7},
        {"top_k": 6, "top_p": 0.8, "temperature": 1.5},
    ],
)
def test_draws_follow_the_distribution_they_report(rest):
    logits = torch.randn(BINS, generator=torch.Generator().manual_seed(3)).tolist()
    ids, logprobs = draws(logits, **rest)
    counts = np.bincount(ids, minlength=BINS)
    expected = np.zeros(BINS)
    expected[ids] = np.exp(logprobs) * len(ids)
    assert expected.sum() == pytest.approx(len(ids), rel=1e-5)
    kept = expected > 0
    statistic = ((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    assert statistic < 40, "chi-square over at most 11 degrees of freedom; 40 is past one in 25,000"


@given(
    st.lists(st.floats(-6, 6, width=32), min_size=2, max_size=9, unique=True),
    st.floats(0.1, 3),
    st.floats(0.05, 1),
    st.integers(0, 9),
    st.integers(0, 2**64 - 1),
    st.integers(0, 10_000),
)
def test_a_draw_is_the_twins(logits, temperature, top_p, top_k, seed, position):
    settings = Settings.empty(1)
    settings.put(0, temperature, top_p, top_k, seed)
    ids, logprobs = draw(
        torch.tensor([logits], dtype=torch.float64), settings.of(np.array([0]), np.array([position])), pick_by_inverse
    ).result()
    request = Request(ids=[0], max_tokens=1, temperature=float(np.float32(temperature)), top_p=top_p, top_k=top_k, seed=seed)
    token, logprob = drawn(torch.tensor(logits, dtype=torch.float64), request, position)
    assert ids[0] == token
    assert logprobs[0] == pytest.approx(logprob, abs=1e-9)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**31))
def test_the_number_is_the_twins(seed, position):
    settings = Settings.empty(1)
    settings.put(0, 1.0, 1.0, 0, seed)
    assert settings.of(np.array([0]), np.array([position])).uniform()[0] == uniform(seed, position)


def test_temperature_0_takes_the_likeliest_for_certain():
    ids, logprobs = draw(
        torch.tensor([[0.0, 3.0, 1.0], [9.0, 3.0, 1.0]]), settings_of(2, temperature=0.0, top_k=1), pick_by_inverse
    ).result()
    assert ids.tolist() == [1, 0]
    assert logprobs.tolist() == [0.0, 0.0]


def test_greedy_and_sampled_rows_share_a_batch():
    settings = Settings.empty(2)
    settings.put(0, 0.0, 1.0, 0, 1)
    settings.put(1, 1.0, 1.0, 2, 1)
    ids, logprobs = draw(torch.tensor([[0.0, 3.0, 1.0]] * 2), settings.of(np.arange(2), np.arange(2)), pick_by_inverse).result()
    assert ids[0] == 1
    assert logprobs[0] == 0.0
    assert logprobs[1] < 0.0


def test_an_impossible_token_is_never_drawn():
    ids, logprobs = draws([-torch.inf, 0.0, -torch.inf, -30.0, -torch.inf], 50_000)
    assert set(ids.tolist()) <= {1, 3}
    assert np.isfinite(logprobs).all()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_scores_that_are_not_numbers_are_seen(temperature, broken):
    _, logprobs = draw(torch.tensor([[0.0, broken, 1.0]]), settings_of(1, temperature=temperature), pick_by_inverse).result()
    assert not np.isfinite(logprobs).any()


@pytest.mark.parametrize("seed", range(8))
def test_a_token_that_is_next_to_impossible_does_not_get_what_sums_differ_by(seed):
    logits = torch.randn(1, 256, generator=torch.Generator().manual_seed(seed)) * 3
    logits[0, 255] = logits.max() - 30  # a probability below 1e-13, at the end of its chunk
    uniform = torch.linspace(1 - 2e-7, 1 - 1e-9, 500, dtype=torch.float64)
    ids, logprobs = pick_by_inverse(logits.expand(500, -1), torch.ones(500), uniform)
    assert not (ids == 255).any()
    assert logprobs.min() > -30
