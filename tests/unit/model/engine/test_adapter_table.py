"""The kernels that add adapters, interpreted, and their table of addresses, against adapters added one by one."""

import copy
import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.adapters import weights_in, write_adapter
from fakes.engine_twin import sharp
from sandlot.model.engine.adapter_kernels import NONE, add_adapters
from sandlot.model.engine.adapter_table import DECODING, LINEARS, PROMPTS, AdapterTable, placed, tiles_of
from sandlot.model.nn.mixed import AdapterWeights, adapters_applied

BASE = sharp(0)
LAYERS = BASE.shape.layers
CPU = torch.device("cpu")
COUNTS = [1, 3, PROMPTS, PROMPTS + 5]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    base = tmp_path_factory.mktemp("adapters")
    whole = [weights_in(BASE, write_adapter(BASE, base / f"{rank}", seed=rank, rank=rank)) for rank in (1, 5, 20)]
    own = {name: pair for name, pair in whole[0].linears.items() if name == "blocks.0.output"}
    return [placed(each, CPU, torch.float32) for each in (*whole, AdapterWeights(1, own))]


def expected(name, x, chosen, starts):
    """A block's layer with adapters, each added to its own tokens."""
    linear = BASE.get_submodule(name)
    own = {}
    for adapter, begin, end in zip(chosen, starts[:-1], starts[1:], strict=True):
        if adapter is not None:
            own.setdefault(adapter, []).extend(range(begin, end))
    with torch.no_grad(), adapters_applied(BASE, list(own.items())):
        return linear(x)


def inputs(name, count):
    return torch.randn(count, BASE.get_submodule(name).in_features, generator=torch.Generator().manual_seed(0))


@given(
    asked=st.lists(st.tuples(st.sampled_from(COUNTS), st.sampled_from([None, 0, 1, 2, 3])), min_size=1, max_size=4),
    linear=st.sampled_from(LINEARS),
)
@settings(max_examples=settings.default.max_examples // 6)
def test_each_token_gets_its_own_adapter(asked, linear, weights):
    chosen = [None if which is None else weights[which] for _, which in asked]
    if not any(chosen):
        chosen[0] = weights[0]
    starts = np.cumsum([0, *(count for count, _ in asked)]).tolist()
    table = AdapterTable(LAYERS, 4, CPU)
    slots = table.put(chosen)
    for size, counts in ((PROMPTS, starts), (DECODING, list(range(len(chosen) + 1)))):
        tiles = tiles_of(np.repeat(slots, np.diff(counts)), size)
        adapt = table.adapt(torch.tensor(tiles))
        for block in range(LAYERS):
            name = f"blocks.{block}.{linear}"
            x = inputs(name, counts[-1])
            with torch.no_grad():
                out = base = BASE.get_submodule(name)(x)
            out = base.clone()
            adapt(block, linear, x, out)
            torch.testing.assert_close(out, expected(name, x, chosen, counts), rtol=1e-4, atol=1e-4)
            for adapter, begin, end in zip(chosen, counts[:-1], counts[1:], strict=True):
                if adapter is None:
                    assert torch.equal(out[begin:end], base[begin:end])


def test_slots_are_kept_while_they_serve_and_written_anew_for_others(weights):
    table = AdapterTable(LAYERS, 3, CPU)
    assert table.put([weights[0], None, weights[1], weights[0]]).tolist() == [0, NONE, 1, 0]
    assert table.put([weights[1], None]).tolist() == [1, NONE]
    assert table.put([weights[2], weights[1]]).tolist() == [0, 1]
    x = inputs("blocks.0.qkv", 2)
    with torch.no_grad():
        out = BASE.get_submodule("blocks.0.qkv")(x)
    table.adapt(torch.tensor(tiles_of(np.array([0, 1], np.int32), DECODING)))(0, "qkv", x, out)
    torch.testing.assert_close(out, expected("blocks.0.qkv", x, [weights[2], weights[1]], [0, 1, 2]), rtol=1e-4, atol=1e-4)


def test_the_table_keeps_no_adapter_in_memory(weights):
    table = AdapterTable(LAYERS, 3, CPU)
    own = AdapterWeights(1, copy.deepcopy(dict(weights[0].linears)))
    gone = weakref.ref(own)
    table.put([own])
    del own
    gc.collect()
    assert gone() is None
    assert table.put([weights[1]]).tolist() == [0]


def test_rows_are_bounded_by_one_of_few(weights):
    found = []
    for each in ([weights[0]], [weights[1], None], [weights[1], weights[2]], [weights[1]], [weights[3]]):
        table = AdapterTable(LAYERS, 3, CPU)
        table.put(each)
        found.append(table.most)
    assert found == [16, 16, 64, 16, 16]


@pytest.mark.parametrize("size", [DECODING, PROMPTS])
def test_wide_layers_are_computed_in_shares(size):
    draw = torch.Generator().manual_seed(0)
    x, a, b = (torch.randn(shape, generator=draw) for shape in ((3, 1100), (20, 1100), (20, 140)))
    out = torch.zeros(3, 140)
    table = torch.tensor([[a.data_ptr(), b.data_ptr(), 20, 0]])
    add_adapters(x, out, table, 32, torch.tensor(tiles_of(np.array([0, NONE, 0], np.int32), size)))
    expected = (x @ a.T @ b).index_fill_(0, torch.tensor([1]), 0.0)
    torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-2)


@given(slots=st.lists(st.integers(-1, 3), min_size=1, max_size=40), size=st.integers(1, 8))
def test_tiles_have_every_adapted_token_once_and_one_adapter_each(slots, size):
    tiles = tiles_of(np.array(slots, np.int32), size)
    found = {int(token): int(slot) for slot, *own in tiles for token in own if token != NONE}
    assert found == {token: slot for token, slot in enumerate(slots) if slot != NONE}
    assert int((tiles[:, 1:] != NONE).sum()) == len(found)
    assert len(tiles).bit_count() == 1
    assert all((tile[1:] == NONE).all() for tile in tiles if tile[0] == NONE)
