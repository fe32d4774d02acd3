"""Guesses change tokens and log-probabilities by rounding only, and are made where they pay."""

import itertools
from functools import cache

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from fakes.engine_twin import BLOCK, VOCABULARY, check_blocks, engine, finish, load, prompt, redrawn, sharp, spoken, twin
from sandlot.model.engine import speculation
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Request
from sandlot.model.engine.siblings import MOST_VOTES, NUM_KINDS
from sandlot.model.engine.speculation import AcceptanceRates, PassTime, best_lengths


def group(*, members: int = 8, tokens: int = 24, temperature: float = 0.7, **rest) -> list[Request]:
    return [Request(ids=prompt(3, 11), max_tokens=tokens, seed=seed, temperature=temperature, **rest) for seed in range(members)]


def both(model, requests: list[Request], **rest):
    """The completions of two engines, with guesses and without, and the metrics of the first."""
    answers, metrics = [], []
    for speculate in ("siblings", "off"):
        it = engine(model, speculate=speculate, **rest)
        numbers = [it.submit(request) for request in requests]
        done = finish(it)
        answers.append([done[number] for number in numbers])
        metrics.append(it.metrics())
    return *answers, metrics[0]


@pytest.mark.parametrize(("max_batch", "temperature"), [(1, 0.0), (1, 1.0), (3, 0.7), (8, 0.0), (8, 1.0)])
def test_tokens_are_those_without_guesses(max_batch, temperature):
    model = sharp()
    requests = group(members=6, temperature=temperature, top_p=0.95)
    guessed, plain, metrics = both(model, requests, max_batch=max_batch, chunk=48)
    for one, other, request in zip(guessed, plain, requests, strict=True):
        assert one.ids.tolist() == other.ids.tolist() == redrawn(model, request, one)[0]
        # In fp32 the order of a sum follows the size of the pass and the processor; the next test holds this to 1e-9 in fp64.
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)
        assert (one.stop, one.versions.tolist()) == (other.stop, other.versions.tolist())
    assert metrics["sampled_tokens"] == len(requests) * 24
    if max_batch < len(requests):
        assert 0 < metrics["accepted_tokens"] <= metrics["guessed_tokens"]
        assert metrics["tokens_per_pass"] > 1


@pytest.mark.parametrize("max_batch", [1, 3])
def test_passes_are_launched_ahead_while_guesses_rest(max_batch, monkeypatch):
    monkeypatch.setattr(PlainRunner, "ahead", True)
    monkeypatch.setattr(speculation, "_PATIENCE", 2)
    monkeypatch.setattr(speculation, "_REST", 5)
    model, requests = sharp(), group()
    it = engine(model, speculate="siblings", max_batch=max_batch, chunk=48)
    numbers = [it.submit(request) for request in requests]
    done, ahead, guessed = {}, [], []
    while not it.is_idle:
        before = it.metrics()["guessed_tokens"]
        done |= {each.id: each for each in it.step()}
        ahead.append(it._ahead is not None)
        guessed.append(it.metrics()["guessed_tokens"] > before)
    for number, request in zip(numbers, requests, strict=True):
        assert len(done[number].ids) == request.max_tokens
        assert done[number].ids.tolist() == redrawn(model, request, done[number])[0]
    assert any(ahead)
    assert any(guessed)
    assert it.metrics()["accepted_tokens"] > 0
    assert not any(one and other for one, other in zip(ahead, guessed, strict=True)), "a pass with guesses knows the last tokens"
    runs = [len(list(run)) for is_ahead, run in itertools.groupby(ahead) if is_ahead]
    assert max(runs) <= 5


def test_log_probabilities_are_exact_in_fp64():
    model = sharp().double()
    requests = group(top_p=0.9)
    it = engine(model, speculate="siblings", max_batch=2)
    numbers = [it.submit(request) for request in requests]
    done = finish(it)
    assert it.metrics()["accepted_tokens"] > 0
    for number, request in zip(numbers, requests, strict=True):
        answer = done[number]
        ids, logprobs = redrawn(model, request, answer)
        assert answer.ids.tolist() == ids
        assert len(ids) == request.max_tokens
        np.testing.assert_allclose(answer.logprobs, logprobs, atol=1e-9)


def test_greedy_siblings_need_few_passes():
    it = engine(sharp(), speculate="siblings", max_batch=1, chunk=64)
    for request in group(temperature=0.0, tokens=40):
        it.submit(request)
    finish(it)
    metrics = it.metrics()
    assert metrics["steps"] < 8 * 40 / 3
    assert metrics["accepted_tokens"] > 0.8 * metrics["guessed_tokens"]


@cache
def greedy() -> list[int]:
    """What the twin writes for a group at temperature zero."""
    return twin(sharp(), group(temperature=0.0)[0])[0]


@pytest.mark.parametrize("stop_after", range(1, 24, 3))
def test_nothing_follows_a_stop_token_inside_guesses(stop_after):
    model, everything = sharp(), greedy()
    token = everything[stop_after - 1]
    requests = [*group(temperature=0.0, members=2), *group(temperature=0.0, members=2, stop_ids=(token,))]
    it = engine(model, speculate="siblings", max_batch=1)
    numbers = [it.submit(request) for request in requests]
    done = finish(it)
    assert it.metrics()["accepted_tokens"] > 0
    for number in numbers[2:]:
        assert done[number].stop == "stop"
        assert done[number].ids.tolist() == everything[: everything.index(token) + 1]


@given(st.integers(0, 20), st.integers(1, 4))
@settings(max_examples=settings.default.max_examples // 5)
def test_nothing_follows_a_stop_text_inside_guesses(begin, length):
    everything = spoken(greedy())
    text = everything[begin : begin + length]
    plain, (stopping,) = group(temperature=0.0, members=2), group(temperature=0.0, members=1, stop=(text,))
    it = engine(sharp(), speculate="siblings", max_batch=1, decode=spoken)
    numbers = [it.submit(request) for request in [*plain, stopping]]
    assert spoken(finish(it)[numbers[-1]].ids.tolist()) == everything[: everything.index(text) + len(text)]


def test_the_prefix_tree_never_holds_what_was_guessed_wrong():
    model = sharp()
    it = engine(model, speculate="siblings", max_batch=2, chunk=48, blocks=128)
    requests = group(temperature=1.0, members=12)
    numbers = [it.submit(request) for request in requests]
    done = finish(it)
    metrics = it.metrics()
    assert metrics["guessed_tokens"] > metrics["accepted_tokens"] > 0
    written = {spelled([*request.ids, *done[number].ids.tolist()]) for number, request in zip(numbers, requests, strict=True)}
    for node in it._scheduler.tree._owners.values():
        path = b"".join(reversed([each.tokens for each in node.path()]))
        assert any(text.startswith(path) for text in written)
    # And the KV in it is that of these tokens: what goes on from there is the twin's.
    for number, request in zip(numbers[:4], requests, strict=False):
        follow = Request(ids=[*request.ids, *done[number].ids.tolist(), 7], max_tokens=6, seed=1)
        it.submit(follow)
        (answer,) = finish(it).values()
        assert answer.cached > len(request.ids)
        assert answer.ids.tolist() == redrawn(model, follow, answer)[0]


def spelled(ids: list[int]) -> bytes:
    return np.asarray(ids, np.int32).tobytes()


def test_blocks_of_wrong_guesses_are_given_back():
    it = engine(sharp(), speculate="siblings", max_batch=4, blocks=24, chunk=48)
    for request in group(temperature=1.0, members=16, tokens=30):
        it.submit(request)
    seats = it._seats
    while not it.is_idle:
        it.step()
        check_blocks(it._scheduler.blocks)
        for sequence in seats:
            if seats.totals[sequence.seat] - seats.lengths[sequence.seat] == 1:
                assert len(seats.blocks_of(sequence.seat)) <= -(-int(seats.totals[sequence.seat]) // seats.block_size)
    assert it.metrics()["guessed_tokens"] > it.metrics()["accepted_tokens"] > 0


def test_guesses_take_a_bounded_number_of_logits():
    it = engine(sharp(), speculate="siblings", max_batch=8, blocks=256, chunk=512)
    for request in group(temperature=0.0, members=2, tokens=60):  # so that the others find all of it
        it.submit(request)
        finish(it)
    for request in group(temperature=0.0, members=8, tokens=60):
        it.submit(request)
    most = 0
    while not it.is_idle:
        before = it.metrics()["guessed_tokens"]
        it.step()
        most = max(most, it.metrics()["guessed_tokens"] - before)
    assert most == 4 * 8


def test_guesses_evict_no_cached_prefix():
    it = engine(sharp(), speculate="siblings", max_batch=4, blocks=36, chunk=48)
    for number in range(4):
        it.submit(Request(ids=prompt(100 + number, 20), max_tokens=2, seed=1, session=str(number)))
    finish(it)
    for request in group(members=12, tokens=10):
        it.submit(request)
    finish(it)
    assert it.metrics()["evictions"] > 0 < it.metrics()["accepted_tokens"]
    for number in range(4):  # without guesses there is room for these too
        it.submit(Request(ids=[*prompt(100 + number, 20), 5], max_tokens=1, session=str(number)))
        (answer,) = finish(it).values()
        assert answer.cached == 20


def test_blocks_are_reserved_only_while_some_are_free():
    it = engine(sharp(), max_batch=1, blocks=8)
    it.submit(Request(ids=prompt(1, 9), max_tokens=1, seed=1))
    finish(it)
    it.submit(Request(ids=prompt(2, 9), max_tokens=20, seed=1))
    it.step()
    blocks, scheduler = it._scheduler.blocks, it._scheduler
    (row,) = np.flatnonzero(it._seats.taken).tolist()
    assert (it._seats.totals[row], blocks.num_free, blocks.num_idle) == (10, 2, 3)
    assert scheduler.reserve(row, 20) == 5 * BLOCK - 10
    assert (blocks.num_free, blocks.num_idle) == (0, 3)
    assert it.metrics()["evictions"] == 0


def test_groups_of_unfinished_requests_are_not_forgotten():
    it = engine(sharp(), speculate="siblings", max_batch=4, blocks=24, chunk=48)
    siblings = it._speculation._siblings
    siblings._max_runs = 150
    for seed in range(12):
        it.submit(Request(ids=prompt(seed % 6, 11), max_tokens=30, seed=seed, temperature=1.0))
    met: set[bytes] = set()
    while not it.is_idle:
        it.step()
        kept = {sequence.group for sequence in (*it._seats, *it._scheduler.waiting) if sequence.group}
        assert kept <= siblings._groups.keys()
        assert siblings.num_runs <= 150
        met |= kept
    assert it.metrics()["preemptions"] > 0
    assert len(met) == 6 > len(siblings._groups)


def test_a_turn_without_a_session_goes_on_in_its_group():
    model = sharp()
    it = engine(model, speculate="siblings", max_batch=2, chunk=48)
    siblings = it._speculation._siblings
    ids = prompt(3, 11)
    for turn in range(3):
        number = it.submit(Request(ids=ids, max_tokens=8, seed=turn))
        ids = [*ids, *finish(it)[number].ids.tolist(), 7, turn]
    assert len(siblings._groups) == 1
    assert siblings.num_runs <= 3 * len(ids)


def test_new_weights_in_the_middle_of_guesses():
    models = {version: sharp(version) for version in range(3)}
    model = sharp(0)
    it = engine(model, speculate="siblings", max_batch=3, chunk=48)
    asked = {it.submit(request): request for request in group(members=9, tokens=30)}
    done = {}
    for step in itertools.count():
        if it.is_idle:
            break
        if step in (12, 25):
            version = it.version + 1
            it.update(version, lambda version=version: load(model, models[version]))
        done |= {answer.id: answer for answer in it.step()}
    assert it.metrics()["accepted_tokens"] > 0
    assert {version for answer in done.values() for version in answer.versions.tolist()} == {0, 1, 2}
    for number, request in asked.items():
        ids, logprobs = redrawn(models, request, done[number])
        assert done[number].ids.tolist() == ids
        np.testing.assert_allclose(done[number].logprobs, logprobs, atol=1e-4)


def test_in_bf16_the_distribution_is_that_without_guesses():
    """Rounding may differ with the number of tokens in a pass, so tokens of other seeds are compared as frequencies."""
    model = sharp().bfloat16()
    answers = {}
    for speculate, seeds in (("siblings", range(200)), ("off", range(200, 400))):
        it = engine(model, speculate=speculate, max_batch=8, chunk=64, blocks=256)
        for seed in seeds:
            it.submit(Request(ids=prompt(3, 11), max_tokens=3, seed=seed))
        answers[speculate] = [answer.ids.tolist() for answer in finish(it).values()]
        assert (it.metrics()["accepted_tokens"] > 50) is (speculate == "siblings")
    for place in range(3):
        one, other = (np.bincount([ids[place] for ids in each], minlength=VOCABULARY) for each in answers.values())
        rare = one + other < 10
        one, other = (np.append(counts[~rare], counts[rare].sum()) for counts in (one, other))
        # As many in both, so this is chi-square's statistic of two samples.
        statistic = ((one - other) ** 2 / np.maximum(one + other, 1)).sum()
        degrees = len(one) - 1
        assert statistic < degrees + 5 * np.sqrt(2 * degrees), f"chi-square {statistic:.1f} of {degrees} at {place}"


def test_a_model_that_breaks_while_guesses_are_checked_fails_the_request():
    model = sharp()
    it = engine(model, speculate="siblings", max_batch=1)
    requests = group(temperature=0.0, members=3)
    numbers = [it.submit(request) for request in requests]
    done = {}
    while not it.metrics()["accepted_tokens"]:
        done |= {answer.id: answer for answer in it.step()}
    model.norm.weight.fill_(torch.nan)
    done |= finish(it)
    assert done[numbers[-1]].stop == "failed"
    assert it.metrics()["kv_blocks_running"] == 0


chances = st.lists(st.floats(0.3, 1.0), max_size=3).map(lambda rates: np.cumprod(rates).tolist())


@given(st.lists(chances, min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 12), st.floats(0, 0.5))
def test_lengths_give_most_tokens_per_second_of_all_lengths(rows, prompt_tokens, room, each):
    time = PassTime()
    time.each = each
    num_tokens = len(rows) + prompt_tokens

    def rate(lengths) -> float:
        gained = sum(sum(row[:length]) for row, length in zip(rows, lengths, strict=True))
        return (len(rows) + gained) / float(time.of(np.array(num_tokens + sum(lengths))))

    lengths = best_lengths(rows, num_tokens, room, time)
    assert sum(lengths) <= room
    every = itertools.product(*(range(len(row) + 1) for row in rows))
    assert rate(lengths) == pytest.approx(max(rate(each) for each in every if sum(each) <= room))


@pytest.mark.parametrize(("fixed", "each", "least", "most"), [(1.0, 0.0, 0.5, 9.0), (0.0, 1.0, 0.0, 0.1)])
def test_guesses_are_made_only_where_a_pass_costs_little_more_with_them(fixed, each, least, most):
    now = 0.0
    it = engine(sharp(), speculate="siblings", max_batch=3, chunk=48, clock=lambda: now)
    forward = it._runner.forward

    def timed(batch, ids=None):
        nonlocal now
        now += fixed + each * len(batch.ids)
        return forward(batch, ids)

    it._runner.forward = timed
    for request in group(members=12, tokens=30):
        it.submit(request)
    finish(it)
    assert least <= it.metrics()["guessed_tokens"] / it.metrics()["sampled_tokens"] <= most


def test_the_time_of_a_pass_is_found_and_forgotten():
    time = PassTime()
    for tokens in range(200):
        time.note(1 + tokens % 7, 3.0 + 0.5 * (1 + tokens % 7))
    assert (time.fixed, time.each) == pytest.approx((3.0, 0.5), rel=0.1)
    for _ in range(3000):
        time.note(4, 5.0)
    assert time.fixed + 4 * time.each == pytest.approx(5.0, rel=0.01)
    assert time.each / time.fixed == pytest.approx(PassTime._BEGIN, rel=0.1)


def test_rates_follow_what_was_accepted_and_return_when_not_tried():
    rates = AcceptanceRates()
    begin = rates.current()[0]
    for _ in range(400):
        rates.note([0, 0, MOST_VOTES], 2, has_ended=False)
        rates.age()
    assert rates.current()[0] > 0.95
    assert rates.current()[MOST_VOTES] < 0.05
    assert rates.current()[NUM_KINDS - 1] == begin
    for _ in range(3000):
        rates.age()
    assert rates.current()[0] == pytest.approx(begin, abs=0.01)
