"""Tokenizers of strangers: a damaged or hostile `tokenizer.json` is an error of ours, and so is a text that it cannot encode."""

import copy
import itertools
import json

import pytest

from sandlot.core.errors import ConfigError, ModelError
from sandlot.model.render.tokenizer import ControlToken, Tokenizer

CONTROL = {
    "id": 4,
    "content": "<|im_end|>",
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}
TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [CONTROL],
    "normalizer": None,
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": False},
    "post_processor": None,
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "model": {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
        "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
        "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "<|im_end|>": 4}, "merges": [["a", "b"]],
    },
}  # fmt: skip
VALUES = [
    None, -1, 2**31, 2**32 - 1, 2**63, 2**64, 1.5, 1e300, "", "a", "x" * 10_000, "\ud800", [], {}, [[]], True, {"a": -1},
    {"type": "Sequence", "pretokenizers": []}, {"type": "Replace", "pattern": {"Regex": "("}, "content": ""},
    {"type": "Metaspace", "replacement": "", "add_prefix_space": True}, {"type": "Unigram", "vocab": [], "unk_id": 5},
    {"type": "WordPiece", "vocab": {}, "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 2**63},
    {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "q"},
]  # fmt: skip


def paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


def changed(value, path, new):
    if not path:
        return new
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return value


def opened(tmp_path, tokenizer) -> Tokenizer:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer if isinstance(tokenizer, str) else json.dumps(tokenizer))
    return Tokenizer(path)


def test_a_file_with_any_value_changed_is_refused_or_works(tmp_path):
    assert opened(tmp_path, TOKENIZER).encode(["ab", ControlToken("<|im_end|>")]) == [0, 1, 4]
    ends = {"refused": 0, "worked": 0}
    every_second = itertools.islice(itertools.product(paths(TOKENIZER), VALUES), 0, None, 2)
    for path, value in [*every_second, (("model", "continuing_subword_prefix"), "x" * 10_000)]:
        try:
            it = opened(tmp_path, json.dumps(changed(TOKENIZER, path, value)))
            it.encode(["abc a\u1234 b", ControlToken("<|im_end|>"), "x"])
            it.decode([0, 1, 2, 3, 4, 10**6])
            assert len(it) >= 0
            ends["worked"] += 1
        except (ConfigError, ModelError):
            ends["refused"] += 1
    assert min(ends.values()) > 1, ends


@pytest.mark.parametrize("written", ["", "{", "[" * 100_000, '{"model": ' * 50_000, "null", "[]", '"a"', '{"added_tokens": 1}'])
def test_what_is_no_tokenizer_is_refused_by_name(tmp_path, written):
    with pytest.raises(ConfigError, match=r"tokenizer\.json` is not a tokenizer"):
        opened(tmp_path, written)


def test_a_pattern_that_takes_too_long_for_a_text_fails_the_turn_and_not_the_program(tmp_path):
    slow = opened(tmp_path, changed(TOKENIZER, ("pre_tokenizer", "pattern"), {"Regex": "(a+)+$"}))
    assert slow.encode(["ab"])
    with pytest.raises(ModelError, match=r"cannot encode the text.*retry-limit"):
        slow.encode(["a" * 40 + "b"])
