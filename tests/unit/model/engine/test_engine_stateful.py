"""Anything in any order: every request that is answered got the twin's tokens, and no block is ever lost."""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fakes.engine_twin import check_blocks, engine, load, redrawn, sharp
from sandlot.model.engine.eviction import ByCost
from sandlot.model.engine.request import Request

MODELS = {version: sharp(version) for version in range(3)}
ROOTS = [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [1, 2, 3, 4, 5, 6, 60], [20] * 9]
"""Prompts begin alike, so that the tree is used."""


class Requests(RuleBasedStateMachine):
    @initialize(
        blocks=st.integers(7, 24), max_batch=st.integers(1, 5), chunk=st.integers(6, 20), attention=st.sampled_from([0.0, 0.1]),
        mode=st.sampled_from(["in_turn", "ahead", "guessing"]),
    )  # fmt: skip
    def begin(self, blocks, max_batch, chunk, attention, mode):
        self.model = sharp(0)
        eviction, speculate = ByCost(attention=attention), "siblings" if mode == "guessing" else "off"
        self.engine = engine(self.model, blocks=blocks, max_batch=max_batch, chunk=chunk, eviction=eviction, speculate=speculate)
        self.engine._is_ahead = mode == "ahead"
        self.asked: dict[int, Request] = {}
        self.histories = list(ROOTS)

    @rule(
        history=st.integers(0, 5),
        more=st.sampled_from([[], [7], [7, 30, 8, 7, 9]]),  # few, so that some are siblings
        count=st.integers(1, 12),
        seed=st.integers(0, 3),
        temperature=st.sampled_from([0.0, 1.0]),
        forks=st.integers(1, 3),
        session=st.sampled_from(["", "a", "b"]),
    )
    def submit(self, history, more, count, seed, temperature, forks, session):
        ids = (self.histories[history % len(self.histories)] + more)[: self.engine.context - count]
        for fork in range(forks):
            request = Request(ids=ids, max_tokens=count, seed=seed + fork, temperature=temperature, session=session)
            self.asked[self.engine.submit(request)] = request

    @rule(which=st.integers(0, 9))
    def cancel(self, which):
        if self.asked:
            number = sorted(self.asked)[which % len(self.asked)]
            del self.asked[number]
            assert self.engine.cancel(number)
            assert not self.engine.cancel(number)

    @rule(session=st.sampled_from(["a", "b"]))
    def release(self, session):
        self.engine.release(session)

    @rule()
    def update(self):
        version = self.engine.version + 1
        if version in MODELS:
            self.engine.update(version, lambda: load(self.model, MODELS[version]))

    @rule(count=st.integers(1, 12))
    def step(self, count):
        for _ in range(count):
            self.answer(self.engine.step())

    def answer(self, finished):
        for each in finished:
            request = self.asked.pop(each.id)
            assert len(each.ids) == request.max_tokens
            assert each.ids.tolist() == redrawn(MODELS, request, each)[0]
            assert each.versions.tolist() == sorted(each.versions.tolist())
            self.histories.append([*request.ids, *each.ids.tolist()])

    @invariant()
    def books_balance(self):
        if hasattr(self, "engine"):
            scheduler = self.engine._scheduler
            check_blocks(scheduler.blocks)
            held = {block for sequence in scheduler.seats for block in scheduler.seats.blocks_of(sequence.seat)}
            assert scheduler.blocks.num_running == len(held)
            assert len(scheduler.tree) == len({node.block for node in scheduler.tree._owners.values()})

    @invariant()
    def the_log_tells_what_the_tree_holds(self):
        if hasattr(self, "engine"):
            nodes = self.engine._scheduler.tree._owners.values()
            held = sorted(b"".join(reversed([each.tokens for each in node.path()])) for node in nodes)
            told: dict[int, bytes] = {}
            for stored in self.engine.prefix_log.read("", 0).changes:
                told[stored.name] = (b"" if stored.parent is None else told[stored.parent]) + stored.tokens
            assert sorted(told.values()) == held

    def teardown(self):
        if hasattr(self, "engine"):
            for _ in range(2000):
                if self.engine.is_idle:
                    break
                self.answer(self.engine.step())
            assert not self.asked, "a request was lost"
            metrics = self.engine.metrics()
            assert metrics["kv_blocks_free"] + metrics["kv_blocks_cached"] == metrics["kv_blocks"]


TestRequests = Requests.TestCase
TestRequests.settings = settings(
    max_examples=settings.default.max_examples // 3, stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestRequests = pytest.mark.timeout(300)(TestRequests)
