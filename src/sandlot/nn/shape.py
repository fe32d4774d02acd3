"""A decoder's shape: the numbers that make a Llama, a Qwen2 or a Qwen3, as their `config.json` spells them."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary positions: the base, and how long contexts stretch it."""

    theta: float = 10000.0
    kind: str = "default"
    """`default`, `linear`, `llama3` or `yarn`."""
    factor: float = 1.0
    original_context: int = 0
    """The context the model was first trained with; `llama3` and `yarn` need it."""
    low_factor: float = 1.0
    high_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Everything about a decoder that is not a weight."""

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
    """Positions it was made for."""
    norm_eps: float = 1e-6
    rope: Rope = field(default_factory=Rope)
    tied: bool = False
    """The output matrix is the embedding."""
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


FAMILIES = ("llama", "qwen2", "qwen3")


def shape_of(config: dict[str, Any]) -> Shape:
    """The shape a Hugging Face `config.json` describes; `ValueError` names what is not supported."""
    family = str(config.get("model_type"))
    if family not in FAMILIES:
        raise ValueError(f"model_type `{family}` is not supported; there are: {', '.join(FAMILIES)}")
    if config.get("hidden_act", "silu") != "silu":
        raise ValueError(f"hidden_act `{config['hidden_act']}` is not supported; there is: silu")
    if config.get("use_sliding_window"):
        raise ValueError("use_sliding_window is true, which is not supported; every layer sees all of the past")
    heads = int(config["num_attention_heads"])
    bias = bool(config.get("attention_bias", family == "qwen2"))
    return Shape(
        family=family,
        vocabulary=int(config["vocab_size"]),
        hidden=int(config["hidden_size"]),
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head=int(config.get("head_dim") or config["hidden_size"] // heads),
        mlp=int(config["intermediate_size"]),
        context=int(config.get("max_position_embeddings", 2048)),
        norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        rope=_rope_of(config),
        tied=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=bias or family == "qwen2",
        output_bias=bias and family != "qwen2",
        mlp_bias=bool(config.get("mlp_bias", False)),
        qk_norm=family == "qwen3",
    )


def _rope_of(config: dict[str, Any]) -> Rope:
    # Newer files keep everything in `rope_parameters`; older ones have the base outside and the stretch in `rope_scaling`.
    written: dict[str, Any] = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind = str(written.get("rope_type", written.get("type", "default")))
    if kind not in {"default", "linear", "llama3", "yarn"}:
        raise ValueError(f"rope type `{kind}` is not supported; there are: default, linear, llama3, yarn")
    return Rope(
        theta=float(written.get("rope_theta", config.get("rope_theta", 10000.0))),
        kind=kind,
        factor=float(written.get("factor", 1.0)),
        original_context=int(written.get("original_max_position_embeddings") or config.get("max_position_embeddings", 2048)),
        low_factor=float(written.get("low_freq_factor", 1.0)),
        high_factor=float(written.get("high_freq_factor", 4.0)),
        beta_fast=float(written.get("beta_fast") or 32.0),
        beta_slow=float(written.get("beta_slow") or 1.0),
        attention_factor=written.get("attention_factor"),
    )


def config_of(shape: Shape) -> dict[str, Any]:
    """The `config.json` of a shape, as `transformers` reads it."""
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
        config["rope_scaling"] = {
            "rope_type": shape.rope.kind,
            "factor": shape.rope.factor,
            "original_max_position_embeddings": shape.rope.original_context,
            "low_freq_factor": shape.rope.low_factor,
            "high_freq_factor": shape.rope.high_factor,
            "beta_fast": shape.rope.beta_fast,
            "beta_slow": shape.rope.beta_slow,
            "attention_factor": shape.rope.attention_factor,
        }
    return config
