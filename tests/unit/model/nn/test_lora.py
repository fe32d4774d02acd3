import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fakes.peer_models import VARIANTS, logits, peer, peer_logits
from sandlot.model.nn.adapter import adapted_linears
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder, save_folder
from sandlot.model.nn.layout import projections, put_weights, weights_of
from sandlot.model.nn.lora import (
    adapter_weights,
    add_adapters,
    load_adapter,
    merged_state,
    put_adapter,
    save_adapter,
)

IDS = torch.tensor([5, 17, 99, 3, 0, 42, 42, 7])
ALPHA, RANK = 12.0, 3


def learning(decoder: Decoder) -> list[torch.nn.Parameter]:
    return [parameter for parameter in decoder.parameters() if parameter.requires_grad]


def drawn(decoder: Decoder, seed: int = 1) -> Decoder:
    """Adapters that add something."""
    torch.manual_seed(seed)
    add_adapters(decoder, RANK, ALPHA)
    with torch.no_grad():
        for parameter in learning(decoder):
            parameter.copy_(torch.randn_like(parameter) * 0.2)
    return decoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    peer(VARIANTS["qwen2 tied"]).save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.mark.parametrize("name", ["llama biased", "qwen2 tied", "qwen3 wide heads"])
def test_adapters_add_what_the_formula_says(name: str, tmp_path: Path):
    model = peer(VARIANTS[name])
    model.save_pretrained(tmp_path)
    decoder = drawn(load_folder(tmp_path))
    weights = adapter_weights(decoder)
    with torch.no_grad():
        for projection in projections(decoder.shape):
            a, b = (weights[f"base_model.model.{projection.name}.lora_{letter}.weight"] for letter in "AB")
            model.get_submodule(projection.name).weight += ALPHA / RANK * (b @ a)
    ours, theirs = logits(decoder, IDS), peer_logits(model, IDS)
    assert (ours - theirs).abs().max() < 2e-5 * theirs.abs().max()


def test_new_adapters_add_nothing_and_only_they_learn(folder: Path):
    decoder = load_folder(folder)
    before = logits(decoder, IDS)
    add_adapters(decoder, rank=2)
    assert torch.equal(logits(decoder, IDS), before)
    assert {id(each) for each in learning(decoder)} == {id(each) for name, each in decoder.named_parameters() if ".lora_" in name}
    linears = [name for name, _ in adapted_linears(decoder)]
    assert linears == [f"blocks.{layer}.{part}" for layer in range(2) for part in ("qkv", "output", "gate_up", "down")]


def test_a_step_moves_only_the_adapters(folder: Path):
    decoder = drawn(load_folder(folder))
    base = decoder.blocks[0].qkv.weight.clone()
    hidden = decoder(IDS, torch.arange(len(IDS)), lambda _layer, q, k, v: q + (k + v).repeat_interleave(2, dim=1))
    decoder.logits(hidden).logsumexp(-1).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in learning(decoder))
    assert decoder.blocks[0].qkv.weight.grad is None
    assert torch.equal(decoder.blocks[0].qkv.weight, base)


def test_saved_weights_are_the_sums(folder: Path, tmp_path: Path):
    decoder, bare = drawn(load_folder(folder)), load_folder(folder)
    sums = weights_of(decoder)
    save_folder(decoder, tmp_path / "saved")
    bare.load_state_dict(merged_state(decoder))
    assert all(torch.equal(tensor, sums[name]) for name, tensor in weights_of(bare).items())
    assert torch.equal(logits(load_folder(tmp_path / "saved"), IDS), logits(bare, IDS))
    with pytest.raises(ValueError, match="adapters"):
        put_weights(decoder, sums)


def test_an_adapter_comes_back_from_its_folder(folder: Path, tmp_path: Path):
    decoder = drawn(load_folder(folder))
    save_adapter(decoder, tmp_path / "adapter", base=str(folder))
    again = load_adapter(load_folder(folder), tmp_path / "adapter")
    assert torch.equal(logits(again, IDS), logits(decoder, IDS))
    written = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (written["r"], written["lora_alpha"], written["base_model_name_or_path"]) == (RANK, ALPHA, str(folder))
    assert "q_proj" in written["target_modules"]
    assert len(written["target_modules"]) == 7


def test_projections_an_adapter_leaves_out_add_nothing(folder: Path, tmp_path: Path):
    decoder = drawn(load_folder(folder))
    save_adapter(decoder, adapter := tmp_path / "adapter")
    tensors = load_file(adapter / "adapter_model.safetensors")
    save_file({name: tensor for name, tensor in tensors.items() if "q_proj" in name}, adapter / "adapter_model.safetensors")
    some = weights_of(load_adapter(load_folder(folder), adapter))
    base, whole = weights_of(load_folder(folder)), weights_of(decoder)
    assert all(torch.equal(some[name], (whole if "q_proj.weight" in name else base)[name]) for name in some)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"peft_type": "IA3"}, "IA3"),
        ({"use_dora": True}, "use_dora"),
        ({"use_rslora": True}, "use_rslora"),
        ({"bias": "all"}, "bias"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"rank_pattern": {"q_proj": 4}}, "rank_pattern"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights"),
        ({"init_lora_weights": "pissa_niter_16"}, "init_lora_weights"),
        ({"init_lora_weights": "olora"}, "init_lora_weights"),
        ({"init_lora_weights": "loftq"}, "init_lora_weights"),
        ({"init_lora_weights": "corda"}, "init_lora_weights"),
        ({"alora_invocation_tokens": [1, 2]}, "alora_invocation_tokens"),
        ({"use_qalora": True}, "use_qalora"),
        ({"use_bdlora": {"nblocks": 2}}, "use_bdlora"),
        ({"arrow_config": {"top_k": 1}}, "arrow_config"),
        ({"layer_replication": [[0, 1]]}, "layer_replication"),
        ({"target_parameters": ["x"]}, "target_parameters"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices"),
        ({"of_a_later_release": 0.5}, "of_a_later_release"),
        ({"r": 0}, "r is 0"),
        ({"r": 4}, "lora_A"),
        ({"lora_alpha": "x"}, "lora_alpha"),
        ({"lora_alpha": 1e400}, "not a number"),
    ],
)
def test_an_adapter_that_does_not_fit_changes_nothing(change: dict[str, object], told: str, folder: Path, tmp_path: Path):
    save_adapter(drawn(load_folder(folder)), tmp_path / "adapter")
    config = tmp_path / "adapter" / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    decoder = load_folder(folder)
    with pytest.raises(ValueError, match=told):
        load_adapter(decoder, tmp_path / "adapter")
    assert not list(adapted_linears(decoder))


def test_a_config_that_only_says_more_is_read(folder: Path, tmp_path: Path):
    save_adapter(drawn(load_folder(folder)), tmp_path / "adapter")
    config = tmp_path / "adapter" / "adapter_config.json"
    more = {
        "init_lora_weights": True, "peft_version": "0.18.0", "revision": None, "use_qalora": False,
        "alora_invocation_tokens": None,
        "qalora_group_size": 16, "lora_dropout": 0.1, "loftq_config": {}, "eva_config": None, "of_a_later_release": None,
        "megatron_core": "megatron.core", "megatron_config": None, "auto_mapping": {"base_model_class": "Qwen2ForCausalLM"},
    }  # fmt: skip
    config.write_text(json.dumps(json.loads(config.read_text()) | more))
    load_adapter(load_folder(folder), tmp_path / "adapter")


def test_an_unknown_projection_is_refused_by_name(folder: Path, tmp_path: Path):
    save_adapter(drawn(load_folder(folder)), tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    save_file(load_file(file) | {"base_model.model.lm_head.lora_A.weight": torch.zeros(3, 32)}, file)
    with pytest.raises(ValueError, match=r"lm_head\.lora_A"):
        load_adapter(load_folder(folder), tmp_path / "adapter")


def test_saving_an_adapter_does_not_delete_what_is_none(folder: Path):
    with pytest.raises(ValueError, match=r"holds `config\.json`"):
        save_adapter(drawn(load_folder(folder)), folder)
    load_folder(folder)


def test_adapters_are_added_once(folder: Path):
    decoder = drawn(load_folder(folder))
    with pytest.raises(ValueError, match="already"):
        add_adapters(decoder, rank=2)
    with pytest.raises(ValueError, match="rank is 0"):
        add_adapters(load_folder(folder), rank=0)
    with pytest.raises(ValueError, match="no adapters"):
        save_adapter(load_folder(folder), "unused")


def test_the_same_seed_starts_from_the_same_adapters(folder: Path):
    first, again, other = (adapter_weights(add_adapters(load_folder(folder), 2, seed=seed)) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_the_summed_state_is_that_of_a_decoder_without_adapters(folder: Path):
    decoder, bare = drawn(load_folder(folder)), load_folder(folder)
    state = merged_state(decoder)
    assert state.keys() == bare.state_dict().keys()
    bare.load_state_dict(state)
    assert (logits(bare, IDS) - logits(decoder, IDS)).abs().max() < 1e-4
    assert merged_state(bare).keys() == state.keys()


@pytest.mark.parametrize("rank", [1, 3, 7])
def test_adapters_are_put_into_a_decoder_that_has_some(rank: int, folder: Path, tmp_path: Path):
    first = add_adapters(load_folder(folder), rank, seed=1)
    save_adapter(first, tmp_path / "adapter")
    second = add_adapters(load_folder(folder), rank, seed=2)
    put_adapter(second, tmp_path / "adapter")
    theirs = adapter_weights(second)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in adapter_weights(first).items())


def test_adapters_that_do_not_fit_those_there_are_refused(folder: Path, tmp_path: Path):
    save_adapter(add_adapters(load_folder(folder), 2), tmp_path / "adapter")
    with pytest.raises(ValueError, match="rank 2 and alpha 32; the decoder has rank 3 and alpha 32"):
        put_adapter(add_adapters(load_folder(folder), 3), tmp_path / "adapter")
    with pytest.raises(ValueError, match="the decoder has no adapters"):
        put_adapter(load_folder(folder), tmp_path / "adapter")
