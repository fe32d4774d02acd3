"""Small GGUF files, as llama.cpp's converter would write them."""

from functools import reduce
from pathlib import Path
from typing import Any

import gguf
import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENS = ["<|end|>", "<|start|>", "Ġ", *"0123456789", *LETTERS, "ĠĠ", "12", "ab", "abc"]
TOKENS += [f"<{number}>" for number in range(101 - len(TOKENS))]
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "model.layers": "blk",
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
}  # fmt: skip


def pairs(rows: np.ndarray, heads: int) -> np.ndarray:
    """How llama.cpp's converter reorders q and k of a Llama."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def as_gguf(model: Any, path: Path, **overrides: Any) -> Path:
    """What llama.cpp would make of a small model, in fp32."""
    config = model.config
    family = config.model_type
    writer = gguf.GGUFWriter(path, family)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim if family != "qwen2" else config.hidden_size // config.num_attention_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(overrides.get("pre", "smollm"))
    writer.add_token_list(overrides.get("tokens", TOKENS))
    writer.add_token_types([3 if token.startswith("<") else 1 for token in TOKENS])
    writer.add_token_merges(overrides.get("merges", ["Ġ Ġ", "1 2", "a b", "ab c"]))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(overrides.get("eos", 0))
    writer.add_add_bos_token(overrides.get("add_bos", False))
    writer.add_chat_template("{{ messages }}")
    tied = config.tie_word_embeddings
    for name, tensor in model.state_dict().items():
        if tied and name == "lm_head.weight":
            continue
        values = tensor.numpy()
        if family == "llama" and (".q_proj" in name or ".k_proj" in name):
            values = pairs(values, config.num_attention_heads if ".q_proj" in name else config.num_key_value_heads)
        writer.add_tensor(reduce(lambda so_far, pair: so_far.replace(*pair), NAMES.items(), name), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
