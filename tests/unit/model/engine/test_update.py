"""Weights that change under load: nobody is lost, and every token is what its version would have sampled."""

import copy

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from fakes import engine_twin
from fakes.engine_twin import check_blocks, engine, load, prompt, redrawn, sharp
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Completion, Request

VERSIONS = {version: sharp(version) for version in range(4)}


@pytest.fixture(autouse=True, scope="module", params=["in_turn", "ahead"])
def mode(request):
    """Also as on a device, which launches a step before the tokens of the last one are known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainRunner, "ahead", request.param == "ahead")
        patch.setattr(engine_twin, "speculate", "siblings" if request.param == "guessing" else "off")
        yield request.param


all_modes = pytest.mark.parametrize("mode", ["in_turn", "ahead", "guessing"], indirect=True)
"""With guesses too."""


def loaded(model, version: int):
    return lambda: load(model, VERSIONS[version])


def run(it, model, requests: list[Request], at: list[int]) -> tuple[dict[int, Completion], dict[int, Request]]:
    """Everything submitted, with an update after each of these steps."""
    asked = {it.submit(request): request for request in requests}
    finished: dict[int, Completion] = {}
    for step in range(1000):
        if it.is_idle:
            break
        if step in at:
            version = it.version + 1
            it.update(version, loaded(model, version))
            check_blocks(it._scheduler.blocks)
        finished |= {answer.id: answer for answer in it.step()}
    return finished, asked


requests = st.lists(
    st.builds(
        lambda seed, count, most, heat: Request(ids=prompt(seed % 3, count), max_tokens=most, seed=seed, temperature=heat),
        st.integers(0, 9),
        st.sampled_from([1, 9, 20]),  # so that some are siblings
        st.integers(1, 12),
        st.sampled_from([0.0, 1.0]),
    ),
    min_size=1,
    max_size=8,
)


@all_modes
@given(asked=requests, at=st.lists(st.integers(0, 14), max_size=3, unique=True), blocks=st.integers(9, 30))
@settings(max_examples=settings.default.max_examples // 3)
def test_every_token_is_what_its_version_would_have_sampled(asked, at, blocks):
    model = copy.deepcopy(VERSIONS[0])
    it = engine(model, blocks=blocks, max_batch=4, chunk=14)
    finished, by_number = run(it, model, asked, at)
    assert finished.keys() == by_number.keys()
    for number, request in by_number.items():
        answer = finished[number]
        ids, logprobs = redrawn(VERSIONS, request, answer)
        assert len(ids) == request.max_tokens
        assert answer.ids.tolist() == ids
        np.testing.assert_allclose(answer.logprobs, logprobs, atol=1e-4)
        assert answer.versions.tolist() == sorted(answer.versions.tolist())
        assert answer.stale == 0
    metrics = it.metrics()
    assert metrics["kv_blocks_free"] + metrics["kv_blocks_cached"] == blocks


@all_modes
@given(asked=requests, at=st.lists(st.integers(0, 14), max_size=3, unique=True), blocks=st.integers(9, 30))
@settings(max_examples=settings.default.max_examples // 3)
def test_kept_kv_loses_nobody_and_is_told(asked, at, blocks):
    model = copy.deepcopy(VERSIONS[0])
    it = engine(model, blocks=blocks, max_batch=4, chunk=14, old_kv="keep")
    finished, by_number = run(it, model, asked, at)
    assert finished.keys() == by_number.keys()
    for number, request in by_number.items():
        answer = finished[number]
        assert len(answer.ids) == request.max_tokens
        if len(set(answer.versions.tolist())) == 1:
            assert answer.stale == 0
            assert answer.ids.tolist() == redrawn(VERSIONS, request, answer)[0]


def test_kept_kv_counts_the_tokens_it_touched():
    model = copy.deepcopy(VERSIONS[0])
    it = engine(model, old_kv="keep")
    finished, _ = run(it, model, [Request(ids=[1, 2, 3], max_tokens=9)], [4])
    (answer,) = finished.values()
    before = 4 + it._runner.ahead  # the token in flight is the old weights'
    assert answer.versions.tolist() == [0] * before + [1] * (9 - before)
    assert answer.stale == 9 - before


@pytest.mark.parametrize("old_kv", ["recompute", "keep"])
def test_old_kv_is_never_found_in_the_tree(old_kv):
    model = copy.deepcopy(VERSIONS[0])
    it = engine(model, old_kv=old_kv)
    request = Request(ids=prompt(0, 20), max_tokens=6, seed=1)
    run(it, model, [request, request], [3])
    it.update(2, loaded(model, 2))
    finished, _ = run(it, model, [request], [])
    (answer,) = finished.values()
    assert answer.cached == 0
    assert answer.versions.tolist() == [2] * 6
    assert answer.ids.tolist() == redrawn(VERSIONS, request, answer)[0]


def test_a_prompt_with_one_token_left_begins_again_too():
    model = copy.deepcopy(VERSIONS[0])
    it = engine(model, old_kv="keep", max_batch=2, chunk=14)
    finished, asked = run(it, model, [Request(ids=prompt(0, 15), max_tokens=3, seed=1)], [1])
    (answer,) = finished.values()
    assert answer.stale == 0
    assert answer.versions.tolist() == [1, 1, 1]
    assert answer.ids.tolist() == redrawn(VERSIONS, *asked.values(), answer)[0]
