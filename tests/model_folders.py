"""Model folders for tests of rendering: tiny byte-level tokenizers with the control tokens and templates of real families."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from sandlot.render.families.rookie import CONTROL_TOKENS, tokenizer_config

TEXT = [
    "The quick brown fox jumps over the lazy dog. What is a sandlot? A field of sand, an empty lot.",
    '{"name": "look_up", "arguments": {"word": "sandlot", "times": 2}}',
    "You are a helpful assistant.\n\n# Tools\n\nYou may call one or more functions to assist with the user query.",
    "system user assistant tool ipython <tool_call> </tool_call> <tool_response> </tool_response> im_start im_end",
]


def write_tokenizer(folder: Path, special: list[str], added: list[str] = (), vocabulary: int = 400) -> Tokenizer:
    """A byte-level BPE over a few sentences, with control tokens behind its ordinary ones."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(TEXT * 3, trainer)
    tokenizer.add_special_tokens(list(special))
    tokenizer.add_tokens(list(added))
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def write_rookie(folder: Path) -> Path:
    tokenizer = write_tokenizer(folder, list(CONTROL_TOKENS))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config(context=512)))
    end = tokenizer.token_to_id("<|end|>")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    return folder
