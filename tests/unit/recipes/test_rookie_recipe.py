import importlib.util
import os
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from drive.forked import forked
from sandlot.model.nn.attention import causal_attend

RECIPE = Path(__file__).parents[3] / "recipes" / "rookie.py"


@pytest.fixture(scope="module")
def recipe():
    spec = importlib.util.spec_from_file_location("rookie_recipe", RECIPE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["rookie_recipe"] = module
    spec.loader.exec_module(module)

    return module


@pytest.fixture
def tokens(tmp_path):
    """A token file of twelve made-up documents, as `--prepare` writes one."""
    rng = Random(1)
    lengths = [rng.randint(5, 40) for _ in range(12)]
    np.savez_compressed(
        tmp_path / "tokens.npz",
        ids=np.array([rng.randrange(50) for _ in range(sum(lengths))], np.int32),
        mask=np.array([rng.randrange(2) for _ in range(sum(lengths))], np.uint8),
        lengths=np.array(lengths, np.int32),
        drill=np.arange(12) % 2 == 0,
        vocabulary=np.array(50, np.int32),
    )
    (tmp_path / "config.json").write_text("{}")
    return tmp_path / "tokens.npz"


def test_an_epoch_has_every_document_once(recipe):
    sizes = [*range(1, 300), *([2000] * 9)]
    documents = [
        recipe.Document(torch.zeros(size, dtype=torch.long), torch.ones(size, dtype=torch.bool), drill=True) for size in sizes
    ]
    made = recipe.batches(documents, Random(3))
    lengths = sorted(len(document.ids) for batch in made for document in batch)
    assert lengths == [*range(1, 300), *([2000] * 9)]
    for batch in made:
        assert len(batch) == 1 or len(batch) * max(len(document.ids) for document in batch) <= recipe.BATCH_TOKENS


def test_the_loss_of_a_padded_batch_is_that_of_its_documents_one_by_one(recipe, tokens):
    documents, vocabulary = recipe.read_documents(tokens, "cpu")
    decoder = recipe.new_decoder(vocabulary)
    losses = []
    for document in documents:
        hidden = decoder(document.ids, torch.arange(len(document.ids)), causal_attend())
        each = F.cross_entropy(decoder.logits(hidden[:-1]), document.ids[1:], reduction="none")
        losses += each[document.mask[1:]].tolist()
    assert recipe.loss_of(decoder, documents).item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)


@pytest.mark.timeout(300)
def test_training_twice_gives_the_same_weights(recipe, tokens, monkeypatch):
    monkeypatch.setattr(recipe, "STEPS", 4)
    monkeypatch.setattr(recipe, "EVERY", 2)

    def trained():
        return [
            [tensor.clone() for tensor in decoder.state_dict().values()] for _, decoder in recipe.train(tokens, "cpu", first=2)
        ]

    first, second = trained(), trained()
    assert len(first) == 2
    assert all(torch.equal(a, b) for one, other in zip(first, second, strict=True) for a, b in zip(one, other, strict=True))


MISSING = ("msgspec", "anyio", "aiohttp", "pyarrow", "mcp", "rich", "typer", "transformers")


@pytest.mark.timeout(300)
def test_training_needs_nothing_but_torch_numpy_and_safetensors(recipe, tokens):
    """The machine with the accelerator has no more."""

    def train_there() -> str:
        for name in [name for name in sys.modules if name.partition(".")[0] in {"sandlot", *MISSING}]:
            del sys.modules[name]
        sys.modules.update(dict.fromkeys(MISSING))
        spec = importlib.util.spec_from_file_location("rookie_there", RECIPE)
        there = sys.modules["rookie_there"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(there)
        assert there.Decoder is not recipe.Decoder
        there.STEPS, there.EVERY = 2, 1
        sys.argv = ["rookie.py", "--tokens", str(tokens), "--first", "1"]
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        there.main()
        return "trained"

    assert forked(train_there) == "trained"
    assert (tokens.parent / "step-2" / "model.safetensors").is_file()
