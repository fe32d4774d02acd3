import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from builders.gguf import TOKENS, as_gguf, pairs
from fakes.peer_models import VARIANTS, logits, peer, peer_logits
from sandlot.model.nn.conversion import convert_gguf, pairs_to_halves
from sandlot.model.nn.folder import load_folder

IDS = torch.tensor([5, 17, 99, 3, 0, 42, 42, 7])


@pytest.mark.parametrize("name", ["llama", "llama tied", "llama wide heads", "qwen2", "qwen3 tied"])
def test_a_converted_model_speaks_as_the_original(name: str, tmp_path: Path):
    model = peer(VARIANTS[name])
    convert_gguf(as_gguf(model, tmp_path / "model.gguf"), tmp_path / "folder")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    ours, theirs = logits(load_folder(tmp_path / "folder", dtype=torch.float32), IDS), peer_logits(model, IDS)
    assert (ours - theirs).abs().max() < 1e-5 * theirs.abs().max()


def test_biases_a_family_does_not_have_in_gguf_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"_proj\.bias"):
        convert_gguf(as_gguf(peer(VARIANTS["llama biased"]), tmp_path / "model.gguf"), tmp_path / "folder")


def test_pairs_become_halves():
    rows = torch.randn(12, 5)
    assert torch.equal(pairs_to_halves(torch.tensor(pairs(rows.numpy(), 3)), 3), rows)


@pytest.fixture
def model() -> Any:
    return peer(VARIANTS["llama"])


def converted(model: Any, folder: Path, **overrides: Any) -> Path:
    convert_gguf(as_gguf(model, folder / "model.gguf", **overrides), folder / "folder")
    return folder / "folder"


def test_the_folder_has_everything_a_reader_of_folders_wants(model: Any, tmp_path: Path):
    folder = converted(model, tmp_path)
    assert {file.name for file in folder.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    assert json.loads((folder / "generation_config.json").read_text()) == {"bos_token_id": 1, "eos_token_id": 0}
    written = json.loads((folder / "tokenizer_config.json").read_text())
    assert (written["bos_token"], written["eos_token"], written["chat_template"]) == ("<|start|>", "<|end|>", "{{ messages }}")
    assert json.loads((folder / "config.json").read_text())["rms_norm_eps"] == 1e-6


@pytest.mark.parametrize(
    ("pre", "text", "tokens"),
    [
        ("smollm", "abc  12<|end|>", ["abc", "ĠĠ", "1", "2", "<|end|>"]),
        ("gpt-2", "abc  12<|end|>", ["abc", "Ġ", "Ġ", "12", "<|end|>"]),
        ("qwen2", "abc  12<|end|>", ["abc", "Ġ", "Ġ", "1", "2", "<|end|>"]),
        ("llama-bpe", "abc  12<|end|>", ["abc", "Ġ", "Ġ", "12", "<|end|>"]),
    ],
)
def test_text_is_split_as_the_file_says(pre: str, text: str, tokens: list[str], model: Any, tmp_path: Path):
    built = Tokenizer.from_file(str(converted(model, tmp_path, pre=pre) / "tokenizer.json"))
    assert built.encode(text).tokens == tokens
    assert built.decode(built.encode(text).ids, skip_special_tokens=False) == text


def test_a_file_that_wants_a_first_token_gets_it(model: Any, tmp_path: Path):
    built = Tokenizer.from_file(str(converted(model, tmp_path, add_bos=True) / "tokenizer.json"))
    assert built.encode("ab").tokens == ["<|start|>", "ab"]
    assert built.encode("ab", add_special_tokens=False).tokens == ["ab"]


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ({"pre": "mystery"}, "mystery"),
        ({"eos": 101}, "eos_token_id is 101"),
        ({"merges": ["a z"]}, "merge `a z`"),
        ({"merges": ["ab"]}, "merge `ab`"),
        ({"tokens": [*TOKENS[:-1], "a"]}, "duplicate token"),
        ({"tokens": TOKENS[:-1]}, "embed_tokens"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused_and_leaves_no_folder(overrides: Any, told: str, model: Any, tmp_path: Path):
    with pytest.raises(ValueError, match=told):
        converted(model, tmp_path, **overrides)
    assert [file.name for file in tmp_path.iterdir()] == ["model.gguf"]
