"""Tiny models of `transformers`, and our decoder on the same weights."""

from typing import Any

import torch
from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM  # here, so that no test's timeout pays for it
from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

from sandlot.model.nn.attention import causal_attend
from sandlot.model.nn.decoder import Decoder

PEERS = {"llama": LlamaForCausalLM, "qwen2": Qwen2ForCausalLM, "qwen3": Qwen3ForCausalLM}
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


def peer(variant: dict[str, Any], seed: int = 0) -> Any:
    """A model with every number drawn at random, norms and biases too."""
    torch.manual_seed(seed)
    settings = TINY | variant
    family = settings.pop("model_type")
    model = PEERS[family](AutoConfig.for_model(family, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.15 + (1.0 if parameter.dim() == 1 else 0.0))
    return model.eval()


def logits(decoder: Decoder, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return decoder.logits(decoder(ids, torch.arange(len(ids)), causal_attend()))


def peer_logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(ids[None]).logits[0]
