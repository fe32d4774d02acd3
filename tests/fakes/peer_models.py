"""Tiny models as `transformers` has them (its names, its `config.json`, its folders), written out in torch, and our decoder.

To import `transformers` costs five CPU-seconds in every process; `tests/system/test_transformers.py` holds these to it.
"""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows
from safetensors.torch import load_file, save_file
from torch import nn
from torch.overrides import TorchFunctionMode

from sandlot.model.nn.attention import causal_attend
from sandlot.model.nn.decoder import Decoder

TINY: dict[str, Any] = {
    "vocab_size": 101,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 256,
    "head_dim": 8,
    "tie_word_embeddings": False,
}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64, "rope_theta": 10000.0,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 10000.0}
LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "llama tied": {"model_type": "llama", "tie_word_embeddings": True},
    "llama biased": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "llama wide heads": {"model_type": "llama", "head_dim": 16},
    "llama of llama3 rope": {"model_type": "llama", "rope_parameters": LLAMA3},
    "llama of linear rope": {"model_type": "llama", "rope_parameters": LINEAR},
    "llama of yarn rope": {"model_type": "llama", "rope_parameters": YARN},
    "llama of one kv head": {"model_type": "llama", "num_key_value_heads": 1},
    "qwen2": {"model_type": "qwen2"},
    "qwen2 tied": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen2 of yarn rope": {"model_type": "qwen2", "rope_parameters": YARN | {"attention_factor": 1.3, "beta_fast": 16.0}},
    "qwen3": {"model_type": "qwen3"},
    "qwen3 tied": {"model_type": "qwen3", "tie_word_embeddings": True},
    "qwen3 wide heads": {"model_type": "qwen3", "head_dim": 32},
    "qwen3 biased": {"model_type": "qwen3", "attention_bias": True},
}
DEFAULTS: dict[str, Any] = {
    "attention_dropout": 0.0, "bos_token_id": None, "dtype": "float32", "eos_token_id": None, "hidden_act": "silu",
    "initializer_range": 0.02, "pad_token_id": None, "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "use_cache": True,
}  # fmt: skip
WHOLE = {
    "layer_types": ["full_attention"] * 2, "max_window_layers": 28, "sliding_window": None, "use_sliding_window": False,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "mlp_bias": False, "pretraining_tp": 1,
        "bos_token_id": 1, "eos_token_id": 2,
    },
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], **WHOLE},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "attention_bias": False, **WHOLE},
}  # fmt: skip


class Norm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.weight


class Peer(nn.Module):
    """A decoder that does one sequence, all of it at once, and one head after another."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = SimpleNamespace(**(FAMILIES[config["model_type"]] | config))
        embedding = nn.Embedding(self.config.vocab_size, self.config.hidden_size)
        layers = nn.ModuleList(layer_of(self.config) for _ in range(self.config.num_hidden_layers))
        norm = Norm(self.config.hidden_size, self.config.rms_norm_eps)
        self.model = nn.ModuleDict({"embed_tokens": embedding, "layers": layers, "norm": norm})
        self.lm_head = nn.Linear(self.config.hidden_size, self.config.vocab_size, bias=False)
        if self.config.tie_word_embeddings:
            self.lm_head.weight = embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden, angles = self.model["embed_tokens"](ids), angles_of(self.config, len(ids))
        for layer in self.model["layers"]:
            hidden = hidden + attended(layer["self_attn"], layer["input_layernorm"](hidden), angles, self.config)
            mlp, x = layer["mlp"], layer["post_attention_layernorm"](hidden)
            hidden = hidden + mlp["down_proj"](F.silu(mlp["gate_proj"](x)) * mlp["up_proj"](x))
        return self.lm_head(self.model["norm"](hidden))

    def save_pretrained(self, folder: Path, *, shards: int = 1) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(vars(self.config)))
        tensors = {name: tensor.contiguous() for name, tensor in self.state_dict().items()}
        if self.config.tie_word_embeddings:
            del tensors["lm_head.weight"]
        if shards == 1:
            save_file(tensors, folder / "model.safetensors")
            return
        files = {name: f"model-{number % shards + 1:05}-of-{shards:05}.safetensors" for number, name in enumerate(tensors)}
        for file in set(files.values()):
            save_file({name: tensor for name, tensor in tensors.items() if files[name] == file}, folder / file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))


def layer_of(config: SimpleNamespace) -> nn.ModuleDict:
    hidden, head = config.hidden_size, config.head_dim
    heads, kv_heads = config.num_attention_heads * head, config.num_key_value_heads * head
    into = config.model_type == "qwen2" or config.attention_bias
    out = config.model_type != "qwen2" and config.attention_bias
    mlp = getattr(config, "mlp_bias", False)
    attention = {
        "q_proj": nn.Linear(hidden, heads, bias=into),
        "k_proj": nn.Linear(hidden, kv_heads, bias=into),
        "v_proj": nn.Linear(hidden, kv_heads, bias=into),
        "o_proj": nn.Linear(heads, hidden, bias=out),
    }
    if config.model_type == "qwen3":
        attention |= {name: Norm(head, config.rms_norm_eps) for name in ("q_norm", "k_norm")}
    return nn.ModuleDict(
        {
            "self_attn": nn.ModuleDict(attention),
            "mlp": nn.ModuleDict(
                {
                    "gate_proj": nn.Linear(hidden, config.intermediate_size, bias=mlp),
                    "up_proj": nn.Linear(hidden, config.intermediate_size, bias=mlp),
                    "down_proj": nn.Linear(config.intermediate_size, hidden, bias=mlp),
                }
            ),
            "input_layernorm": Norm(hidden, config.rms_norm_eps),
            "post_attention_layernorm": Norm(hidden, config.rms_norm_eps),
        }
    )


def attended(own: Any, x: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor], config: SimpleNamespace) -> torch.Tensor:
    def heads_of(name: str) -> list[torch.Tensor]:
        heads = own[f"{name}_proj"](x).split(config.head_dim, -1)
        heads = [own[f"{name}_norm"](head) for head in heads] if f"{name}_norm" in own else heads
        return [rotated(head, *angles) for head in heads] if name != "v" else list(heads)

    queries, keys, values = (heads_of(name) for name in "qkv")
    future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    found = []
    for number, query in enumerate(queries):
        of = number * len(keys) // len(queries)
        scores = (query @ keys[of].T) / math.sqrt(config.head_dim)
        found.append(scores.masked_fill(future, float("-inf")).softmax(-1) @ values[of])
    return own["o_proj"](torch.cat(found, -1))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Number `i` of the first half and number `i` of the second are a point that is turned."""
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def angles_of(config: SimpleNamespace, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    rope, width, factor = config.rope_parameters, config.head_dim, 1.0
    if rope["rope_type"] == "yarn":
        factor = rope.get("attention_factor") or 0.1 * math.log(rope["factor"]) + 1.0
    turns = torch.tensor([frequency(pair, width, rope) for pair in range(width // 2)])
    angles = torch.arange(count)[:, None] * turns
    return angles.cos() * factor, angles.sin() * factor


def frequency(pair: int, width: int, rope: dict[str, Any]) -> float:
    """How far a pair of numbers is turned from one token to the next."""
    plain = rope["rope_theta"] ** (-2 * pair / width)
    kind, factor = rope["rope_type"], rope.get("factor", 1.0)
    if kind == "llama3":
        context, low, high = (
            rope[f"{name}"] for name in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
        )
        length = 2 * math.pi / plain
        if length < context / high:
            return plain
        if length > context / low:
            return plain / factor
        smooth = (context / length - low) / (high - low)
        return (1 - smooth) * plain / factor + smooth * plain
    if kind == "yarn":
        first, last = (pair_that_turns(rope.get(name, default), width, rope) for name, default in BETAS)
        first, last = max(math.floor(first), 0), min(math.ceil(last), width - 1)
        stretched = min(max((pair - first) / max(last - first, 0.001), 0), 1)
        return plain / factor * stretched + plain * (1 - stretched)
    return plain / factor


BETAS = (("beta_fast", 32.0), ("beta_slow", 1.0))


def pair_that_turns(times: float, width: int, rope: dict[str, Any]) -> float:
    """The pair, as a fraction, that is turned so many times in the original context."""
    context = rope["original_max_position_embeddings"]
    return width * math.log(context / (times * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))


def config_of(variant: dict[str, Any]) -> dict[str, Any]:
    """The `config.json` that `transformers` writes, but for its version."""
    return DEFAULTS | TINY | FAMILIES[variant["model_type"]] | variant


def draw(model: nn.Module, seed: int = 0) -> Any:
    """Every number at random, norms and biases too; equal for models with the same names."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            parameter.copy_(torch.randn_like(parameter) * 0.15 + (1.0 if parameter.dim() == 1 else 0.0))
    return model.eval()


def peer(variant: dict[str, Any], seed: int = 0) -> Any:
    return draw(Peer(config_of(variant)), seed)


class Undrawn(TorchFunctionMode):
    """Modules whose numbers come later: to draw them for nothing takes seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def load_peer(folder: Path) -> Any:
    """The model in a folder, of which every tensor is wanted and none more. Older folders name the rope otherwise."""
    config = DEFAULTS | json.loads((folder / "config.json").read_text())
    if "rope_theta" in config:
        scaling = config.get("rope_scaling") or {"rope_type": "default"}
        config["rope_parameters"] = {"rope_theta": config["rope_theta"], **scaling}
    with Undrawn():
        model = Peer(config)
    tensors = load_file(folder / "model.safetensors")
    if model.config.tie_word_embeddings:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    model.load_state_dict(tensors, assign=True)
    return model.eval()


def logits(decoder: Decoder, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return decoder.logits(decoder(ids, torch.arange(len(ids)), causal_attend()))


def peer_logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(ids)
