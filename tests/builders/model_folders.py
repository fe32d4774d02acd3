"""Model folders for tests of rendering: tiny byte-level tokenizers with the control tokens and templates of real families."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from sandlot.model.render.families.rookie import CONTROL_TOKENS, tokenizer_config

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


def _write(folder: Path, special: list[str], added: list[str], template: str, stops: list[str]) -> Path:
    tokenizer = write_tokenizer(folder, special, added)
    config = {"chat_template": template, "bos_token": special[0]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [tokenizer.token_to_id(stop) for stop in stops]}))
    return folder


SMOLLM2 = """\
{% for m in messages %}\
{% if loop.first and m.role != 'system' %}{{ '<|im_start|>system\\nYou are small.<|im_end|>\\n' }}{% endif %}\
{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

_TOLD = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>{% for t in tools %}{{ '\\n' + (t | tojson) }}{% endfor %}{{ '\\n' -}}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""

_TURNS = """\
{%- for m in rest %}
{%- if m.role == 'tool' %}
{{- '' if not loop.first and rest[loop.index0 - 1].role == 'tool' else '<|im_start|>user' }}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{{- '' if not loop.last and rest[loop.index0 + 1].role == 'tool' else '<|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + m.role + '\\n' }}THOUGHTS{{- m.content }}
{%- for c in m.tool_calls or [] %}
{{- ('\\n' if m.content or not loop.first else '') + '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}
{{- (c.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

QWEN2 = (
    """\
{%- set system = messages[0].content if messages[0].role == 'system' else 'You are Q.' %}
{%- set rest = messages[1:] if messages[0].role == 'system' else messages %}
{{- '<|im_start|>system\\n' + system }}{% if tools %}{{ '\\n\\n' }}"""
    + _TOLD
    + """{% endif %}{{ '<|im_end|>\\n' }}
"""
    + _TURNS.replace("THOUGHTS", "")
)

# It shows thoughts since the last question and drops all earlier ones, as the real one does.
_THOUGHTS = """\
{%- if m.reasoning_content and loop.index0 > last.at %}
{{- '<think>\\n' + m.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
{%- endif %}"""
QWEN3 = (
    """\
{%- set given = messages[0].role == 'system' %}
{%- set rest = messages[1:] if given else messages %}
{%- set last = namespace(at=0) %}
{%- for m in rest %}{% if m.role == 'user' %}{% set last.at = loop.index0 %}{% endif %}{% endfor %}
{%- if given or tools %}{{ '<|im_start|>system\\n' }}
{%- if given %}{{ messages[0].content }}{% endif %}
{%- if given and tools %}{{ '\\n\\n' }}{% endif %}
{%- if tools %}"""
    + _TOLD
    + """{% endif %}{{ '<|im_end|>\\n' }}{% endif %}
"""
    + _TURNS.replace("THOUGHTS", _THOUGHTS)
)

LLAMA3 = """\
{{- bos_token }}
{%- set given = messages[0].role == 'system' %}
{%- set rest = messages[1:] if given else messages %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
{%- if tools %}{{ 'Environment: ipython\\n' }}{% endif %}
{{- 'Cutting Knowledge Date: December 2023\\nToday Date: ' }}
{{- (strftime_now('%d %b %Y') if strftime_now is defined else '26 Jul 2024') + '\\n\\n' }}
{{- (messages[0].content | trim if given else '') + '<|eot_id|>' }}
{%- for m in rest %}
{%- if m.role == 'tool' %}
{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + (m.content | tojson) }}
{%- elif m.tool_calls %}
{%- if m.tool_calls | length != 1 %}{{ raise_exception('one call at a time') }}{% endif %}
{%- set f = m.tool_calls[0].function %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{{- '{"name": "' + f.name + '", "parameters": ' + (f.arguments | tojson) + '}' }}
{%- else %}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}
{%- if tools and loop.first %}
{{- 'Given the following functions, please respond with a JSON for a function call with its proper arguments ' }}
{{- 'that best answers the given prompt.\\n\\nRespond in the format {"name": function name, "parameters": dictionary ' }}
{{- 'of argument name and its value}.Do not use variables.\\n\\n' }}
{%- for t in tools %}{{ t | tojson(indent=4) }}{{ '\\n\\n' }}{% endfor %}
{%- endif %}
{{- m.content | trim }}
{%- endif %}
{{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

CHATML_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LLAMA3_SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"]
CALLS = ["<tool_call>", "</tool_call>"]
THINKS = ["<tool_response>", "</tool_response>", "<think>", "</think>"]

FAMILIES = {
    "rookie": write_rookie,
    "smollm2": lambda folder: _write(folder, CHATML_SPECIAL, [], SMOLLM2, ["<|im_end|>"]),
    "qwen2": lambda folder: _write(folder, CHATML_SPECIAL, CALLS, QWEN2, ["<|im_end|>", "<|endoftext|>"]),
    "qwen3": lambda folder: _write(folder, CHATML_SPECIAL, CALLS + THINKS, QWEN3, ["<|im_end|>", "<|endoftext|>"]),
    "llama3": lambda folder: _write(folder, LLAMA3_SPECIAL, [], LLAMA3, ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"]),
}
