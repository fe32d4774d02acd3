"""Every key is read once for all sequences that share it, and every sequence sees exactly its own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.engine_twin import BLOCK, CONTEXT, decoder, finish, prompt, twin
from sandlot.model.engine.engine import Engine
from sandlot.model.engine.plain import PlainRunner
from sandlot.model.engine.request import Request
from sandlot.model.engine.trunks import cut_trunks

SIZE = 4


@st.composite
def sequences(draw):
    """Tables of sequences that branch off each other, with numbers of other sequences' blocks beyond their ends."""
    tables: list[list[int]] = []
    fresh = iter(range(10_000))
    for _ in range(draw(st.integers(1, 12))):
        shared = draw(st.sampled_from(tables))[: draw(st.integers(0, 6))] if tables else []
        tables.append([*shared, *(next(fresh) for _ in range(draw(st.integers(1, 4))))])
    lengths = [draw(st.integers((len(table) - 1) * SIZE + 1, len(table) * SIZE)) for table in tables]
    widest = max(map(len, tables))
    junk = st.integers(0, 3)
    return np.array([[*table, *(draw(junk) for _ in range(widest - len(table)))] for table in tables], np.int32), np.array(
        lengths
    )


@given(sequences(), st.sampled_from([1, 8, 40]))
def test_every_sequence_sees_its_own_keys_once(given_sequences, worth):
    tables, lengths = given_sequences
    cut = cut_trunks(tables, lengths, SIZE, worth)
    seen: list[list[int]] = [[] for _ in tables]
    for trunk in sorted(cut.trunks, key=lambda trunk: trunk.start):
        assert (len(trunk.rows) - 1) * len(trunk.blocks) * SIZE >= worth
        for row in trunk.rows:
            assert len(seen[row]) == trunk.start
            seen[row] += trunk.blocks.tolist()
    for row, (table, length) in enumerate(zip(tables, lengths, strict=True)):
        assert cut.begins[row] == len(seen[row])
        assert cut.begins[row] * SIZE < length, "its last token is its own"
        assert seen[row] == table[: len(seen[row])].tolist()


@given(sequences())
def test_no_block_is_read_twice_if_sharing_costs_nothing(given_sequences):
    tables, lengths = given_sequences
    cut = cut_trunks(tables, lengths, SIZE, worth=1)
    read = [block for trunk in cut.trunks for block in trunk.blocks.tolist()]
    for row, (table, length) in enumerate(zip(tables, lengths, strict=True)):
        read += table[cut.begins[row] : (length - 1) // SIZE].tolist()
    distinct = {block for table, length in zip(tables, lengths, strict=True) for block in table[: (length - 1) // SIZE].tolist()}
    assert sorted(read) == sorted(distinct)


def test_sequences_with_one_table_keep_their_last_block_to_themselves():
    cut = cut_trunks(np.array([[5, 6, 7], [5, 6, 7]], np.int32), np.array([12, 9]), SIZE, worth=1)
    assert [trunk.blocks.tolist() for trunk in cut.trunks] == [[5, 6]]
    assert cut.begins.tolist() == [2, 2]


@pytest.mark.parametrize("worth", [1, 30, 1_000_000], ids=["all", "some", "none"])
def test_log_probabilities_are_the_twins_in_fp64(worth):
    model = decoder().double()
    runner = PlainRunner(model, blocks=96, block_size=BLOCK, worth=worth)
    engine = Engine(runner, blocks=96, context=CONTEXT, max_batch=12, chunk=64)
    system = prompt(0, 14)
    requests = [
        Request(ids=[*system, *prompt(1 + group, 5 + 4 * group)], max_tokens=6 + member, seed=10 * group + member)
        for group in range(3)
        for member in range(4)
    ]
    numbers = [engine.submit(request) for request in requests]
    finished = finish(engine)
    for number, request in zip(numbers, requests, strict=True):
        ids, logprobs = twin(model, request)
        assert finished[number].ids.tolist() == ids
        np.testing.assert_allclose(finished[number].logprobs, logprobs, atol=1e-9)
