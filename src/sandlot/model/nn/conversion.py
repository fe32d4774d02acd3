"""Convert a GGUF file to a Hugging Face folder: config, bf16 weights, tokenizer, chat template, generation settings.

Llama files store the rows of q and k in llama.cpp's order (rotary pairs adjacent); they are reordered. The tokenizer is rebuilt
from vocabulary and merges; `tokenizer.ggml.pre` names its pre-tokenizer.
"""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from sandlot.core.disk import replace_folder
from sandlot.model.nn.folder import MODEL_FILES
from sandlot.model.nn.gguf import Gguf, GgufTensor, open_gguf
from sandlot.model.nn.layout import check_shapes
from sandlot.model.nn.shape import Shape, config_of, shape_of
from sandlot.model.nn.stored import write_tensors

_CONTROL, _USER_DEFINED = 3, 4
_QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SPLITS = {"qwen2": _QWEN, "llama-bpe": _LLAMA3}
_BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OTHER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def convert_gguf(file: Path | str, folder: Path | str) -> None:
    """Write the folder, completely or not at all; `ValueError` says what in the file is not supported."""
    with open_gguf(file) as gguf, replace_folder(Path(folder), MODEL_FILES) as new:
        try:
            _write(gguf, new)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file} cannot be converted: {error}") from error


def _write(gguf: Gguf, new: Path) -> None:
    shape, special = _gguf_shape(gguf), _special_ids(gguf.metadata)
    tensors = {_hugging_face_name(name): tensor for name, tensor in gguf.tensors.items()}
    check_shapes(shape, {name: tensor.shape for name, tensor in tensors.items()})
    weights = {name: _weight(shape, name, tensor) for name, tensor in tensors.items()}
    write_tensors(new / "model.safetensors", weights, torch.bfloat16)
    _write_json(new / "config.json", {**config_of(shape), **special, "dtype": "bfloat16"})
    _write_json(new / "generation_config.json", special)
    _build_tokenizer(gguf.metadata).save(str(new / "tokenizer.json"))
    _write_json(new / "tokenizer_config.json", _tokenizer_config(gguf.metadata, shape))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _gguf_shape(gguf: Gguf) -> Shape:
    """The shape from a file's metadata."""
    meta = gguf.metadata
    family = str(meta.get("general.architecture"))

    def known(key: str, default: Any = None) -> Any:
        return meta.get(f"{family}.{key}", default)

    if known("rope.scaling.type", "none") != "none" or "rope_freqs.weight" in gguf.tensors:
        raise ValueError("rope scaling is not supported in GGUF files; use the Hugging Face folder")
    return shape_of(
        {
            "model_type": family,
            "vocab_size": len(_strings(meta, "tokens")),
            "hidden_size": known("embedding_length"),
            "num_hidden_layers": known("block_count"),
            "num_attention_heads": known("attention.head_count"),
            "num_key_value_heads": known("attention.head_count_kv"),
            "head_dim": known("attention.key_length"),
            "intermediate_size": known("feed_forward_length"),
            "max_position_embeddings": known("context_length"),
            "rms_norm_eps": _rounded(known("attention.layer_norm_rms_epsilon", 1e-6)),
            "rope_theta": _rounded(known("rope.freq_base", 10000.0)),
            "tie_word_embeddings": "output.weight" not in gguf.tensors,
        }
    )


def _rounded(value: float) -> float:
    """The shortest decimal of an fp32 number: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def _hugging_face_name(name: str) -> str:
    """`blk.3.attn_q.weight` is `model.layers.3.self_attn.q_proj.weight`."""
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    match name.split("."):
        case ["blk", layer, part, kind] if part in _BLOCK_NAMES:
            return f"model.layers.{layer}.{_BLOCK_NAMES[part]}.{kind}"
        case _:
            raise ValueError(f"tensor `{name}` is not part of a supported model")


def _weight(shape: Shape, name: str, tensor: GgufTensor) -> Tensor:
    weight = torch.tensor(tensor.read())
    if shape.family == "llama" and (".q_proj." in name or ".k_proj." in name):
        weight = pairs_to_halves(weight, shape.heads if ".q_proj." in name else shape.kv_heads)
    return weight.to(torch.bfloat16)


def pairs_to_halves(rows: Tensor, heads: int) -> Tensor:
    """Reorder each head's rows from adjacent rotary pairs (0, 1) to halves (0, width/2), Hugging Face's order."""
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


def _build_tokenizer(meta: dict[str, Any]) -> Tokenizer:
    """The byte-level BPE tokenizer of a file's vocabulary and merges."""
    if (model := meta.get("tokenizer.ggml.model")) != "gpt2":
        raise ValueError(f"tokenizer model `{model}` is not supported; supported: gpt2")
    tokens = _strings(meta, "tokens")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise ValueError("the vocabulary has a duplicate token")
    built = Tokenizer(models.BPE(vocab=vocabulary, merges=_merges(meta, vocabulary)))
    _set_splits(built, str(meta.get("tokenizer.ggml.pre")))
    built.decoder = decoders.ByteLevel()
    kinds: list[int] = meta["tokenizer.ggml.token_type"]
    added = [
        AddedToken(token, special=kind == _CONTROL, normalized=False)
        for token, kind in zip(tokens, kinds, strict=True)
        if kind in {_CONTROL, _USER_DEFINED}
    ]
    cast("Any", built).add_tokens(added)
    if meta.get("tokenizer.ggml.add_bos_token"):
        begin = _special_ids(meta)["bos_token_id"]
        built.post_processor = processors.TemplateProcessing(
            single=f"{tokens[begin]} $A", special_tokens=[(tokens[begin], begin)]
        )
    return built


def _strings(meta: dict[str, Any], what: str) -> list[str]:
    values = meta.get(f"tokenizer.ggml.{what}")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in cast("list[Any]", values)):
        raise ValueError(f"tokenizer.ggml.{what} is not a list of strings")
    return cast("list[str]", values)


def _merges(meta: dict[str, Any], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    merges: list[tuple[str, str]] = []
    for merge in _strings(meta, "merges"):
        left, _, right = merge.partition(" ")
        if not (left in vocabulary and right in vocabulary and left + right in vocabulary):
            raise ValueError(f"merge `{merge}` uses tokens outside the vocabulary")
        merges.append((left, right))
    return merges


def _set_splits(built: Tokenizer, name: str) -> None:
    if name == "smollm":
        first = pre_tokenizers.Digits(individual_digits=True)
        built.pre_tokenizer = pre_tokenizers.Sequence([first, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    elif name == "gpt-2":
        built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif name in _SPLITS:
        first = pre_tokenizers.Split(Regex(_SPLITS[name]), "isolated")
        last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        built.pre_tokenizer = pre_tokenizers.Sequence([first, last])
    else:
        raise ValueError(f"pre-tokenizer `{name}` is not supported; supported: smollm, gpt-2, {', '.join(_SPLITS)}")
    if name == "qwen2":
        built.normalizer = normalizers.NFC()


def _special_ids(meta: dict[str, Any]) -> dict[str, int]:
    """Ids of the file's special tokens under their names in `config.json`."""
    ids: dict[str, int] = {}
    for theirs, name in {"bos": "bos", "eos": "eos", "padding": "pad"}.items():
        if (index := meta.get(f"tokenizer.ggml.{theirs}_token_id")) is None:
            continue
        if type(index) is not int or not 0 <= index < len(_strings(meta, "tokens")):
            raise ValueError(f"tokenizer.ggml.{theirs}_token_id is {index!r}, which is not a token id")
        ids[f"{name}_token_id"] = index
    return ids


def _tokenizer_config(meta: dict[str, Any], shape: Shape) -> dict[str, Any]:
    tokens = _strings(meta, "tokens")
    special = {name.removesuffix("_id"): tokens[index] for name, index in _special_ids(meta).items()}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
        "model_max_length": shape.context,
        **special,
    }
    if template := meta.get("tokenizer.chat_template"):
        config["chat_template"] = str(template)
    return config
