"""Several adapters in one batch: each request is what a decoder with its adapter merged would say, and the base is untouched."""

import copy
import dataclasses
import gc
import weakref

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from builders.adapters import merged, weights_in, write_adapter
from fakes import engine_twin
from fakes.engine_twin import check_blocks, engine, finish, prompt, redrawn, sharp
from sandlot.model.engine.adapters import AdapterError
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Request
from sandlot.model.nn.packed import PackedLinear

BASE = sharp(0)
NAMES = ["a", "b", "c"]


@pytest.fixture(autouse=True, scope="module", params=["in_turn", "ahead", "guessing"])
def mode(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainRunner, "ahead", request.param == "ahead")
        patch.setattr(engine_twin, "speculate", "siblings" if request.param == "guessing" else "off")
        yield request.param


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("adapters")
    return [write_adapter(BASE, base / f"{rank}", seed=rank, rank=rank) for rank in (1, 2, 3, 5)]


@pytest.fixture(scope="module")
def weights(folders):
    return [weights_in(BASE, folder) for folder in folders]


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """Finite weights whose keys, values and scores are not."""
    return weights_in(BASE, write_adapter(BASE, tmp_path_factory.mktemp("huge") / "huge", seed=9, size=1e10))


@pytest.fixture(scope="module")
def wholes(folders):
    """The twins: decoders with the sums as their weights. The base is the first."""
    return [BASE, *(merged(BASE, folder) for folder in folders)]


def loaded(weights, **rest):
    it = engine(copy.deepcopy(BASE), **rest)
    for name, each in zip(NAMES, weights, strict=False):
        it.load_adapter(name, each)
    return it


requests = st.lists(
    st.builds(
        lambda seed, count, most, heat, name: Request(
            ids=prompt(seed % 2, count), max_tokens=most, seed=seed, temperature=heat, adapter=name
        ),
        st.integers(0, 5),
        st.sampled_from([1, 9, 20]),
        st.integers(1, 10),
        st.sampled_from([0.0, 1.0]),
        st.sampled_from(["", *NAMES]),
    ),
    min_size=1,
    max_size=8,
)


@given(asked=requests, blocks=st.integers(9, 30))
@settings(max_examples=settings.default.max_examples // 3)
def test_each_request_has_the_tokens_of_its_own_merged_decoder(asked, blocks, weights, wholes):
    it = loaded(weights, blocks=blocks, max_batch=4, chunk=14)
    numbered = {it.submit(request): request for request in asked}
    finished = finish(it)
    for number, request in numbered.items():
        which = NAMES.index(request.adapter) + 1 if request.adapter else 0
        ids, logprobs = redrawn(wholes[which], request, finished[number])
        assert finished[number].ids.tolist() == ids
        np.testing.assert_allclose(finished[number].logprobs, logprobs, atol=1e-4)
        assert set(finished[number].versions.tolist()) == {which}
        assert finished[number].stale == 0


@pytest.mark.parametrize("mode", ["in_turn", "ahead"], indirect=True)
def test_base_requests_are_bit_equal_to_those_of_an_engine_without_adapters(weights):
    asked = [Request(ids=prompt(seed, 9 + seed), max_tokens=12, seed=seed, adapter=["", *NAMES][seed % 4]) for seed in range(8)]
    mixed, plain = loaded(weights, max_batch=8, chunk=40), engine(copy.deepcopy(BASE), max_batch=8, chunk=40)
    numbers = [(mixed.submit(each), plain.submit(Request(ids=each.ids, max_tokens=12, seed=each.seed))) for each in asked]
    ours, theirs = finish(mixed), finish(plain)
    for request, (own, other) in zip(asked, numbers, strict=True):
        same = np.array_equal(ours[own].logprobs, theirs[other].logprobs)
        assert same == (request.adapter == "")
        if not request.adapter:
            assert ours[own].ids.tolist() == theirs[other].ids.tolist()


@pytest.mark.parametrize("mode", ["in_turn"], indirect=True)
def test_a_prompt_is_found_again_by_the_same_adapter_only(weights):
    it = loaded(weights)
    found = {}
    for name in ("", "a", "b", "", "a", "b"):
        number = it.submit(Request(ids=prompt(0, 20), max_tokens=2, temperature=0.0, adapter=name))
        found.setdefault(name, []).append(finish(it)[number].cached)
    assert found == {"": [0, 19], "a": [0, 19], "b": [0, 19]}


@pytest.mark.parametrize("mode", ["guessing"], indirect=True)
def test_siblings_are_those_of_the_same_adapter(weights):
    """Written again, a text is guessed whole: nothing that another adapter wrote after the same prompt is in the way."""
    it = loaded(weights, max_batch=1)
    guessed, accepted = [], []
    for adapter in ("", "a", "", "a"):
        before = it.metrics()
        it.submit(Request(ids=prompt(0, 9), max_tokens=12, session="s", adapter=adapter, temperature=0.0))
        finish(it)
        after = it.metrics()
        guessed.append(after["guessed_tokens"] - before["guessed_tokens"])
        accepted.append(after["accepted_tokens"] - before["accepted_tokens"])
    assert guessed[2:] == accepted[2:]
    assert min(accepted[2:]) > 8


def test_a_session_that_changes_its_adapter_keeps_no_pins(weights):
    it = loaded(weights)
    for name in ("a", "b", "", "a"):
        it.submit(Request(ids=prompt(0, 20), max_tokens=2, session="s", adapter=name))
        finish(it)
    it.remove_adapter("a")
    assert it.metrics()["kv_blocks_pinned"] == 0
    it.release("s")
    check_blocks(it._scheduler.blocks)


def test_running_requests_finish_on_the_version_they_began_with(weights, wholes):
    it = loaded(weights, max_batch=2)
    first = Request(ids=prompt(1, 9), max_tokens=12, seed=1, adapter="a")
    waiting = Request(ids=prompt(2, 9), max_tokens=3, seed=2, adapter="a")
    numbers = [it.submit(each) for each in (first, first, waiting)]
    for _ in range(3):
        it.step()
    assert it.load_adapter("a", weights[3], replace=True) == 4
    it.load_adapter("b", weights[3], replace=True)
    new = it.submit(first)
    it.remove_adapter("a")
    with pytest.raises(AdapterError, match="no adapter `a`; loaded: b, c"):
        it.submit(first)
    finished = finish(it)
    for number, request in zip(numbers, (first, first, waiting), strict=True):
        assert set(finished[number].versions.tolist()) == {1}
        assert finished[number].ids.tolist() == redrawn(wholes[1], request, finished[number])[0]
    assert set(finished[new].versions.tolist()) == {4}
    assert finished[new].ids.tolist() == redrawn(wholes[4], first, finished[new])[0]
    assert it.adapters == {"b": 5, "c": 3}
    assert it.metrics()["adapters"] == 2


def test_an_adapter_leaves_memory_with_its_last_request(folders):
    it = engine(copy.deepcopy(BASE))
    own = weights_in(BASE, folders[0])
    it.load_adapter("a", own)
    gone, number = weakref.ref(own.linears["blocks.0.qkv"][0]), it.submit(Request(ids=prompt(0, 9), max_tokens=20, adapter="a"))
    del own
    it.step()
    it.remove_adapter("a")
    gc.collect()
    assert gone() is not None
    assert it.cancel(number)
    it.step()
    gc.collect()
    assert gone() is None
    assert it.metrics()["kv_blocks_free"] == it.metrics()["kv_blocks"]
    assert it._scheduler.tree._roots.keys() <= {0}


def test_the_number_of_adapters_is_bounded_and_old_versions_count(weights):
    it = loaded(weights[:2], max_adapters=2)
    with pytest.raises(AdapterError, match="`c` would be one more than the maximum of 2 adapters in memory; remove one"):
        it.load_adapter("c", weights[2])
    it.load_adapter("a", weights[2], replace=True)  # nobody uses the old one
    number = it.submit(Request(ids=prompt(0, 9), max_tokens=20, adapter="a"))
    with pytest.raises(AdapterError, match="maximum of 2"):
        it.load_adapter("a", weights[0], replace=True)
    it.remove_adapter("a")
    with pytest.raises(AdapterError, match="1 of them old versions that requests still use"):
        it.load_adapter("a", weights[0])
    it.cancel(number)
    assert it.load_adapter("a", weights[0]) == 4
    assert it.adapters == {"b": 2, "a": 4}


def test_what_cannot_be_is_refused_and_changes_nothing(weights):
    it = loaded(weights)
    with pytest.raises(AdapterError, match="`a` has already been loaded"):
        it.load_adapter("a", weights[0])
    with pytest.raises(AdapterError, match="no adapter `d`"):
        it.remove_adapter("d")
    with pytest.raises(AdapterError, match="needs a name"):
        it.load_adapter("", weights[0])
    assert it.adapters == {"a": 1, "b": 2, "c": 3}

    def never():
        raise AssertionError("the weights were written")

    with pytest.raises(AdapterError, match="weights of version 1 cannot be taken while 3 adapters"):
        it.update(1, never)
    for name in NAMES:
        it.remove_adapter(name)
    it.update(1, lambda: None)
    assert it.version == 1


def test_a_request_that_is_refused_takes_no_adapter(weights):
    it = loaded(weights[:1])
    with pytest.raises(OverflowError):
        it.submit(Request(ids=[2**40], max_tokens=1, adapter="a"))
    it.remove_adapter("a")
    assert it.metrics()["adapters"] == 0


def test_an_adapter_that_does_not_fit_is_refused_and_changes_nothing(weights, monkeypatch):
    it = loaded(weights[:1])

    def full(_runner, _weights):
        raise MemoryError("CUDA out of memory")

    monkeypatch.setattr(PlainRunner, "place", full)
    with pytest.raises(AdapterError, match=r"`b` does not fit into memory \(CUDA out of memory\); remove another"):
        it.load_adapter("b", weights[1])
    assert it.adapters == {"a": 1}


@pytest.mark.parametrize("mode", ["in_turn"], indirect=True)
def test_packed_layers_are_adapted_too(weights, wholes):
    model = copy.deepcopy(BASE)
    runs = engine(model)
    for name, module in list(model.named_modules()):
        if type(module).__name__ == "Linear":
            packed = PackedLinear(module)
            packed.forward = module.forward  # oneDNN's own kernel is for bf16
            model.set_submodule(name, packed)
    runs.load_adapter("a", weights[0])
    request = Request(ids=prompt(0, 9), max_tokens=5, seed=1, adapter="a")
    number = runs.submit(request)
    answer = finish(runs)[number]
    assert answer.ids.tolist() == redrawn(wholes[1], request, answer)[0]


@pytest.mark.parametrize("mode", ["in_turn"], indirect=True)
def test_in_bf16_adapters_differ_from_merged_weights_by_its_rounding(folders, wholes):
    half = copy.deepcopy(BASE).bfloat16()
    it = engine(half)
    for name, folder in zip(NAMES, folders, strict=False):
        it.load_adapter(name, weights_in(half, folder))
    asked = [Request(ids=prompt(seed, 12), max_tokens=12, seed=seed, adapter=name) for seed in range(3) for name in ["", *NAMES]]
    numbers = {it.submit(request): request for request in asked}
    off: dict[str, list[float]] = {"": [], **{name: [] for name in NAMES}}
    for number, answer in finish(it).items():
        request = numbers[number]
        whole = wholes[["", *NAMES].index(request.adapter)]
        for place, (token, logprob) in enumerate(zip(answer.ids.tolist(), answer.logprobs.tolist(), strict=True)):
            exact = torch.log_softmax(engine_twin.scores(whole, [*request.ids, *answer.ids[:place].tolist()]), -1)[token]
            off[request.adapter].append(abs(float(exact) - logprob))
    assert max(np.mean(off[name]) for name in NAMES) < 2 * np.mean(off[""]), off


@pytest.mark.parametrize(("qk_norm", "size"), [(True, 1e18), (False, 1e5), (False, 1e10)])
def test_an_adapter_with_huge_weights_harms_only_itself(qk_norm, size, tmp_path):
    """What it leaves in the cache is read beyond the end of other requests: 0 * NaN, and -inf + inf, are NaN."""
    base = engine_twin.decoder(0, dataclasses.replace(engine_twin.SHAPE, qk_norm=qk_norm))
    it = engine(copy.deepcopy(base), blocks=24, max_batch=4)
    it.load_adapter("huge", weights_in(base, write_adapter(base, tmp_path / "huge", seed=1, rank=2, size=size)))

    def check(running):
        asked = [Request(ids=prompt(seed, 5 + 4 * seed), max_tokens=12, seed=seed) for seed in range(4 - running)]
        numbers = [it.submit(request) for request in asked]
        finished = finish(it)
        for number, request in zip(numbers, asked, strict=True):
            assert finished[number].stop == "length", finished[number].error
            assert finished[number].ids.tolist() == redrawn(base, request, finished[number])[0]

    it.submit(Request(ids=prompt(3, 60), max_tokens=4, seed=1, adapter="huge"))
    check(1)
    it.submit(Request(ids=prompt(4, 60), max_tokens=4, seed=1, adapter="huge"))
    finish(it)
    it.remove_adapter("huge")
    for _ in range(2):
        check(0)


class Adapting(RuleBasedStateMachine):
    """Anything in any order: KV is never of another adapter, or the twin's tokens would differ."""

    base, weights, wholes = BASE, [], []
    """Of the last weights, which are huge, nothing is expected but that nobody else notices."""

    @initialize(blocks=st.integers(9, 24), chunk=st.integers(6, 20))
    def begin(self, blocks, chunk):
        self.engine = engine(copy.deepcopy(BASE), blocks=blocks, chunk=chunk, max_adapters=4)
        self.asked: dict[int, tuple[Request, int, int]] = {}
        self.named: dict[str, tuple[int, int]] = {}
        """What each name means: a version and its weights."""

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 3))
    def load(self, name, which):
        old = {version for _, version, _ in self.asked.values()} - {0} - {version for version, _ in self.named.values()}
        used = {version for _, version, _ in self.asked.values()}
        frees = name in self.named and self.named[name][0] not in used
        if len(self.named) + len(old) - frees >= 4:
            with pytest.raises(AdapterError, match="maximum"):
                self.engine.load_adapter(name, self.weights[which], replace=True)
        else:
            self.named[name] = self.engine.load_adapter(name, self.weights[which], replace=True), which + 1

    @rule(name=st.sampled_from(NAMES), count=st.sampled_from([9, 14, 30]), steps=st.integers(0, 6))
    def load_huge(self, name, count, steps):
        self.load(name, 4)
        if self.named.get(name, (0, 0))[1] == 5:
            self.submit(name, count, 2, 0, "")
            self.step(steps)

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name):
        if self.named.pop(name, None):
            self.engine.remove_adapter(name)

    @rule(
        name=st.sampled_from(["", *NAMES]), count=st.sampled_from([5, 9, 14]), most=st.integers(1, 8), seed=st.integers(0, 3),
        session=st.sampled_from(["", "s"]),
    )  # fmt: skip
    def submit(self, name, count, most, seed, session):
        request = Request(ids=prompt(0, count), max_tokens=most, seed=seed, adapter=name, session=session)
        if name and name not in self.named:
            with pytest.raises(AdapterError):
                self.engine.submit(request)
        else:
            version, which = self.named[name] if name else (0, 0)
            self.asked[self.engine.submit(request)] = request, version, which

    @rule(which=st.integers(0, 9))
    def cancel(self, which):
        if self.asked:
            number = sorted(self.asked)[which % len(self.asked)]
            del self.asked[number]
            assert self.engine.cancel(number)

    @rule(count=st.integers(1, 8))
    def step(self, count):
        for _ in range(count):
            self.answer(self.engine.step())

    def answer(self, finished):
        for each in finished:
            request, version, which = self.asked.pop(each.id)
            if which < len(self.wholes):
                assert each.stop == "length", each.error
                assert each.ids.tolist() == redrawn(self.wholes[which], request, each)[0]
            assert set(each.versions.tolist()) == {version}

    @invariant()
    def books_balance(self):
        if hasattr(self, "engine"):
            scheduler = self.engine._scheduler
            check_blocks(scheduler.blocks)
            assert scheduler.tree.num_pinned == sum(node.pins > 0 for node in scheduler.tree._owners.values())
            alive = {version for _, version, _ in self.asked.values()} | {version for version, _ in self.named.values()} | {0}
            assert scheduler.tree._roots.keys() <= alive
            assert self.engine.metrics()["adapters"] == len(alive) - 1

    def teardown(self):
        if hasattr(self, "engine"):
            for _ in range(1000):
                if self.engine.is_idle:
                    break
                self.answer(self.engine.step())
            assert not self.asked
            metrics = self.engine.metrics()
            assert metrics["kv_blocks_free"] + metrics["kv_blocks_cached"] == metrics["kv_blocks"]


def test_anything_in_any_order(weights, huge, wholes):
    Adapting.weights, Adapting.wholes = [*weights, huge], wholes
    run_state_machine_as_test(
        Adapting,
        settings=settings(
            max_examples=settings.default.max_examples // 3, stateful_step_count=25, suppress_health_check=list(HealthCheck)
        ),
    )
