"""A decoder's shape: the numbers in the `config.json` of a Llama, Qwen2 or Qwen3."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

ORIGIN = "sandlot.json"
"""The file in a model folder that records the setting it was trained in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary position embedding: base and scaling for long contexts."""

    theta: float = 10000.0
    kind: str = "default"
    """`default`, `linear`, `llama3` or `yarn`."""
    factor: float = 1.0
    original_context: int = 0
    """The context length of pretraining; used by `llama3` and `yarn`."""
    low_factor: float = 1.0
    high_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The hyperparameters of a decoder."""

    family: str
    """`llama`, `qwen2` or `qwen3`: the `model_type` of its `config.json`."""
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    """Width of one head."""
    mlp: int
    context: int
    """Maximum context length."""
    norm_eps: float = 1e-6
    rope: Rope = field(default_factory=Rope)
    tied: bool = False
    """The output matrix is the embedding matrix."""
    qkv_bias: bool = False
    output_bias: bool = False
    """The attention's output projection has a bias."""
    mlp_bias: bool = False
    qk_norm: bool = False

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(
                f"{self.heads} heads cannot share {self.kv_heads} KV heads; the first must be a multiple of the second"
            )
        if self.head % 2:
            raise ValueError(f"heads of width {self.head} cannot be rotated; the width must be even")


_FAMILIES = ("llama", "qwen2", "qwen3")
_LARGEST_JSON = 64 << 20
_ROPES = ("default", "linear", "llama3", "yarn")
_ROPE_KEYS = {
    "rope_theta", "rope_type", "type", "factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor",
    "beta_fast", "beta_slow", "attention_factor", "partial_rotary_factor",
}  # fmt: skip


def shape_of(config: dict[str, Any]) -> Shape:
    """The shape of a Hugging Face `config.json`; `ValueError` names what is wrong or not supported."""
    family = str(config.get("model_type"))
    _refuse_unsupported(config, family)
    heads = _count(config, "num_attention_heads")
    hidden = _count(config, "hidden_size")
    bias = _flag(config, "attention_bias", default=family == "qwen2")
    return Shape(
        family=family,
        vocabulary=_count(config, "vocab_size"),
        hidden=hidden,
        layers=_count(config, "num_hidden_layers", most=1024),
        heads=heads,
        kv_heads=_count(config, "num_key_value_heads", heads),
        head=_count(config, "head_dim", hidden // heads),
        mlp=_count(config, "intermediate_size"),
        context=_count(config, "max_position_embeddings", 2048),
        norm_eps=_size(config, "rms_norm_eps", 1e-6),
        rope=_rope_of(config),
        tied=_flag(config, "tie_word_embeddings"),
        qkv_bias=bias or family == "qwen2",
        output_bias=bias and family != "qwen2",
        mlp_bias=_flag(config, "mlp_bias"),
        qk_norm=family == "qwen3",
    )


def _refuse_unsupported(config: dict[str, Any], family: str) -> None:
    if family not in _FAMILIES:
        raise ValueError(f"model_type `{family}` is not supported; supported: {', '.join(_FAMILIES)}")
    if config.get("hidden_act", "silu") != "silu":
        raise ValueError(f"hidden_act `{config['hidden_act']}` is not supported; supported: silu")
    if config.get("use_sliding_window") or set(config.get("layer_types") or ()) - {"full_attention"}:
        raise ValueError("sliding-window attention is not supported")
    if config.get("quantization_config"):
        raise ValueError("quantization_config is set, which is not supported; give a folder with plain floating-point weights")


def _rope_of(config: dict[str, Any]) -> Rope:
    # Newer files have all in `rope_parameters`; older ones have the base outside and the scaling in `rope_scaling`.
    written: dict[str, Any] = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind = str(written.get("rope_type", written.get("type", "default")))
    if kind not in _ROPES:
        raise ValueError(f"rope type `{kind}` is not supported; supported: {', '.join(_ROPES)}")
    unknown = set(written) - _ROPE_KEYS
    if unknown or written.get("partial_rotary_factor", 1) != 1 or config.get("partial_rotary_factor", 1) != 1:
        raise ValueError(f"rope setting `{min(unknown, default='partial_rotary_factor')}` is not supported")
    factor = written.get("attention_factor")
    context = _count(written, "original_max_position_embeddings", _count(config, "max_position_embeddings", 2048))
    return Rope(
        theta=_size(written, "rope_theta", _size(config, "rope_theta", 10000.0)),
        kind=kind,
        factor=_size(written, "factor", 1.0),
        original_context=context if kind in {"llama3", "yarn"} else 0,
        low_factor=_size(written, "low_freq_factor", 1.0),
        high_factor=_size(written, "high_freq_factor", 4.0),
        beta_fast=_size(written, "beta_fast", 32.0),
        beta_slow=_size(written, "beta_slow", 1.0),
        attention_factor=None if factor is None else _size(written, "attention_factor", 1.0),
    )


def _count(config: dict[str, Any], key: str, default: int | None = None, most: int = 2**24) -> int:
    value = config.get(key)
    value = default if value is None else value
    if type(value) is not int or not 0 < value <= most:
        raise ValueError(f"`{key}` is {value!r}; it must be a whole number from 1 to {most}")
    return value


def _size(config: dict[str, Any], key: str, default: float) -> float:
    value = config.get(key)
    value = default if value is None else value
    if type(value) not in {int, float} or not 0 < value < math.inf:
        raise ValueError(f"`{key}` is {value!r}; it must be a number above 0")
    return float(value)


def _flag(config: dict[str, Any], key: str, *, default: bool = False) -> bool:
    value = config.get(key)
    if value is not None and type(value) is not bool:
        raise ValueError(f"`{key}` is {value!r}; it must be true or false")
    return default if value is None else value


def config_of(shape: Shape) -> dict[str, Any]:
    """The `config.json` of a shape for `transformers`."""
    architecture = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}[shape.family]
    config: dict[str, Any] = {
        "architectures": [architecture],
        "model_type": shape.family,
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "intermediate_size": shape.mlp,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_eps,
        "hidden_act": "silu",
        "tie_word_embeddings": shape.tied,
        "attention_bias": shape.qkv_bias if shape.family == "qwen2" else shape.output_bias,
        "mlp_bias": shape.mlp_bias,
        "rope_theta": shape.rope.theta,
    }
    if shape.rope.kind != "default":
        config["rope_scaling"] = _rope_scaling(shape.rope)
    return config


def _rope_scaling(rope: Rope) -> dict[str, Any]:
    """Only the fields of the kind, since `transformers` warns about others."""
    scaling: dict[str, Any] = {"rope_type": rope.kind, "factor": rope.factor}
    if rope.kind in {"llama3", "yarn"}:
        scaling["original_max_position_embeddings"] = rope.original_context
    if rope.kind == "llama3":
        scaling |= {"low_freq_factor": rope.low_factor, "high_freq_factor": rope.high_factor}
    if rope.kind == "yarn":
        scaling |= {"beta_fast": rope.beta_fast, "beta_slow": rope.beta_slow}
        scaling |= {} if rope.attention_factor is None else {"attention_factor": rope.attention_factor}
    return scaling


def read_shape(folder: Path) -> Shape:
    """Read the shape in a folder's `config.json`; `ValueError` names the file."""
    config = read_json(folder / "config.json")
    try:
        return shape_of(config)
    except ValueError as error:
        raise ValueError(f"{folder / 'config.json'}: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of limited size without `NaN` and `Infinity`; `ValueError` says what is wrong."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if (size := path.stat().st_size) > _LARGEST_JSON:
        raise ValueError(f"{path} has {size} bytes; the maximum is {_LARGEST_JSON}")
    return parse_json(path.read_bytes(), path)


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """The JSON object that a file holds, without `NaN` and `Infinity`; `ValueError` says what is wrong."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number")

    try:
        content = json.loads(data.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a JSON object")  # noqa: TRY004 - the file's fault, not a caller's
    return cast("dict[str, Any]", content)
