import json
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from fakes.peer_models import VARIANTS, load_peer, logits, peer, peer_logits
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder, save_folder
from sandlot.model.nn.layout import pieces, put_weights, weights_of
from sandlot.model.nn.shape import Shape

IDS = torch.tensor([5, 17, 99, 3, 0, 42, 42, 7] * 20)
SHAPE = Shape(family="llama", vocabulary=20, hidden=8, layers=2, heads=2, kv_heads=1, head=4, mlp=12, context=64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    save_folder(Decoder(SHAPE), tmp_path / "model")
    return tmp_path / "model"


def changed(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_agree_with_the_model_written_out(name: str, tmp_path: Path):
    model = peer(VARIANTS[name])
    model.save_pretrained(tmp_path)
    ours, theirs = logits(load_folder(tmp_path), IDS), peer_logits(model, IDS)
    assert (ours - theirs).abs().max() < 1e-5 * theirs.abs().max().clamp(min=1)


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_saved_has_the_names_and_the_settings_of_transformers(name: str, tmp_path: Path):
    model = peer(VARIANTS[name])
    model.save_pretrained(tmp_path / "theirs")
    save_folder(load_folder(tmp_path / "theirs"), tmp_path / "ours")
    again = load_peer(tmp_path / "ours")
    tensors = again.state_dict()
    assert tensors.keys() == model.state_dict().keys()
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(peer_logits(again, IDS), peer_logits(model, IDS))


def test_a_folder_in_shards_is_one_model(tmp_path: Path):
    model = peer(VARIANTS["qwen3"])
    model.save_pretrained(tmp_path / "whole")
    model.save_pretrained(tmp_path / "shards", shards=3)
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    assert torch.equal(logits(load_folder(tmp_path / "shards"), IDS), logits(load_folder(tmp_path / "whole"), IDS))


@given(
    st.sampled_from(["llama", "qwen2", "qwen3"]), st.booleans(), st.booleans(), st.integers(1, 3), st.integers(1, 3),
    st.sampled_from([torch.float32, torch.bfloat16]),
)  # fmt: skip
def test_saving_and_loading_is_the_identity(tmp_path_factory, family, tied, bias, kv_heads, group, dtype):
    shape = Shape(
        family=family, vocabulary=11, hidden=6, layers=2, heads=kv_heads * group, kv_heads=kv_heads, head=4, mlp=5, context=32,
        tied=tied, qkv_bias=bias or family == "qwen2", output_bias=bias and family != "qwen2", mlp_bias=bias,
        qk_norm=family == "qwen3",
    )  # fmt: skip
    decoder = Decoder(shape).to(dtype)
    path = tmp_path_factory.mktemp("model") / "folder"
    save_folder(decoder, path)
    again = load_folder(path)
    assert again.shape == shape
    assert (again.head.weight is again.embedding.weight) == tied
    mine, theirs = decoder.state_dict(), again.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) and theirs[name].dtype == dtype for name in mine)


def test_the_pieces_cover_every_parameter_once():
    shape = Shape(
        family="qwen3", vocabulary=11, hidden=6, layers=2, heads=4, kv_heads=2, head=4, mlp=5, context=32,
        qkv_bias=True, output_bias=True, mlp_bias=True, qk_norm=True,
    )  # fmt: skip
    counts = {name: torch.zeros_like(parameter) for name, parameter in Decoder(shape).named_parameters()}
    for piece in pieces(shape):
        piece.of(counts[piece.parameter]).add_(1)
    assert all((count == 1).all() for count in counts.values())


def test_weights_come_in_the_asked_type_or_the_stored_one(folder: Path):
    save_folder(load_folder(folder), folder, dtype=torch.bfloat16)
    assert load_folder(folder).embedding.weight.dtype == torch.bfloat16
    assert load_folder(folder, dtype=torch.float32).blocks[0].before_mlp.weight.dtype == torch.float32


def test_a_tied_model_may_store_its_head_twice_but_not_differently(tmp_path: Path):
    model = peer(VARIANTS["llama tied"])
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, tmp_path / "model.safetensors")
    load_folder(tmp_path)
    tensors["lm_head.weight"][0, 0] += 1
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="differs from the embedding"):
        load_folder(tmp_path)


def test_weights_are_put_in_place():
    decoder, other = Decoder(SHAPE), Decoder(SHAPE)
    before = decoder.blocks[0].qkv.weight
    put_weights(decoder, {name: tensor.double() for name, tensor in weights_of(other).items()})
    assert decoder.blocks[0].qkv.weight is before
    assert torch.equal(logits(decoder, IDS % 20), logits(other, IDS % 20))


@pytest.mark.parametrize("fault", ["missing", "unknown", "shape"])
def test_wrong_weights_change_nothing(fault: str):
    decoder = Decoder(SHAPE)
    before = {name: tensor.clone() for name, tensor in decoder.state_dict().items()}
    weights = weights_of(Decoder(SHAPE))
    name = "model.layers.1.mlp.up_proj.weight"
    if fault == "missing":
        del weights[name]
    elif fault == "unknown":
        name = "model.layers.2.mlp.up_proj.weight"
        weights[name] = torch.zeros(12, 8)
    else:
        weights[name] = torch.zeros(8, 12)
    with pytest.raises(ValueError, match=name):
        put_weights(decoder, weights)
    assert all(torch.equal(before[name], tensor) for name, tensor in decoder.state_dict().items())


def test_a_failed_save_leaves_the_old_model(folder: Path, monkeypatch: pytest.MonkeyPatch):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match="no space"):
        save_folder(Decoder(SHAPE), folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_saving_replaces_the_model_and_takes_the_tokenizer_along(folder: Path):
    (folder / "tokenizer.json").write_text("{}")
    changed(folder, eos_token_id=7)
    other = Decoder(SHAPE)
    save_folder(other, folder, like=folder)
    assert torch.equal(load_folder(folder).embedding.weight, other.embedding.weight)
    assert (folder / "tokenizer.json").read_text() == "{}"
    assert json.loads((folder / "config.json").read_text())["eos_token_id"] == 7
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_saving_does_not_delete_what_is_not_a_model(folder: Path):
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"notes\.txt"):
        save_folder(Decoder(SHAPE), folder)
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hidden_size": -8}, "hidden_size"),
        ({"hidden_size": 8.5}, "hidden_size"),
        ({"hidden_size": None}, "hidden_size"),
        ({"vocab_size": 10**12}, "vocab_size"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers"),
        ({"vocab_size": 21}, "embed_tokens"),
        ({"num_hidden_layers": 3}, r"layers\.2"),
        ({"num_hidden_layers": 1}, r"layers\.1.* unknown"),
        ({"rms_norm_eps": "1e-5"}, "rms_norm_eps"),
        ({"rope_theta": 0}, "rope_theta"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings"),
        ({"model_type": "mamba"}, "mamba"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"num_key_value_heads": 3}, "heads"),
        ({"layer_types": ["sliding_attention"]}, "sliding"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"rope_scaling": {"rope_type": "yarn", "mscale": 1.0}}, "mscale"),
        ({"rope_scaling": {"rope_type": "dynamic"}}, "dynamic"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_by_name(folder: Path, change: dict[str, object], told: str):
    changed(folder, **change)
    with pytest.raises(ValueError, match=told):
        load_folder(folder)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"hidden_size": NaN}', "[" * 100_000, "\x00"])
def test_a_config_that_is_no_json_object_is_refused(folder: Path, text: str):
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config\.json"):
        load_folder(folder)


def header(folder: Path) -> tuple[dict[str, dict[str, object]], bytes]:
    data = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def with_header(folder: Path, entries: dict[str, dict[str, object]], data: bytes) -> None:
    text = json.dumps(entries).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize("keep", [0, 4, 8, 100, -1])
def test_a_truncated_file_is_refused(folder: Path, keep: int):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        load_folder(folder)


def test_a_header_of_absurd_length_is_refused(folder: Path):
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2**63) + b"{}")
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        load_folder(folder)


@pytest.mark.parametrize("offsets", [[0, 2**40], [-8, 0], [64, 0], [4, 644]])
def test_offsets_that_lie_are_refused(folder: Path, offsets: list[int]):
    entries, data = header(folder)
    entries["model.embed_tokens.weight"]["data_offsets"] = offsets
    with_header(folder, entries, data)
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        load_folder(folder)


def test_a_tensor_of_whole_numbers_is_refused_by_name(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"].to(torch.int8)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"model\.norm\.weight.*I8"):
        load_folder(folder)


@pytest.mark.parametrize("name", ["../other.safetensors", "/etc/passwd", "..", "", "sub/model.safetensors", "weights.bin", 7])
def test_an_index_cannot_leave_the_folder(folder: Path, name: object):
    (folder / "model.safetensors").rename(folder.parent / "other.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"model.norm.weight": name}}))
    with pytest.raises(ValueError, match="is not the name of a safetensors file"):
        load_folder(folder)


def test_an_index_that_disagrees_with_its_files_is_refused(folder: Path):
    names = {piece.name: "a.safetensors" for piece in pieces(SHAPE)}
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    load_folder(folder)
    index.write_text(json.dumps({"weight_map": names | {"extra": "a.safetensors"}}))
    with pytest.raises(ValueError, match="disagree about `extra`"):
        load_folder(folder)
    del names["model.norm.weight"]
    index.write_text(json.dumps({"weight_map": names}))
    with pytest.raises(ValueError, match=r"disagree about `model\.norm\.weight`"):
        load_folder(folder)


def test_pickled_weights_are_never_read(folder: Path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="only safetensors are supported"):
        load_folder(folder)
