import json
from pathlib import Path

import pytest

from builders.model_folders import CALLS, CHATML_SPECIAL, FAMILIES, QWEN2, QWEN3, SMOLLM2, write_rookie, write_tokenizer
from sandlot.core.errors import ConfigError
from sandlot.model.render.open import open_renderer
from sandlot.model.render.selftest import probes
from sandlot.model.render.template import ChatTemplate


def folder_with(path, template, special=CHATML_SPECIAL, added=CALLS, stops=("<|im_end|>",)):
    tokenizer = write_tokenizer(path, list(special), list(added))
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, "bos_token": special[0]}))
    stop_ids = [tokenizer.token_to_id(stop) for stop in stops]
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": stop_ids}))
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sound_pairing_is_opened(family, tmp_path):
    assert open_renderer(FAMILIES[family](tmp_path)).name


@pytest.mark.parametrize(
    ("broken", "probe"),
    [
        (SMOLLM2.replace("<|im_end|>\\n'", "<|im_end|>'"), "chat template"),  # a separator dropped after the end of a turn
        (SMOLLM2.replace("'<|im_start|>assistant\\n'", "'<|im_start|>assistant\\n\\n'"), "chat template"),
        (QWEN2.replace("# Tools", "# Functions"), "chat template"),
        (QWEN2.replace("tojson) + '}", "tojson) + ' }"), "chat template"),
        (QWEN2.replace("<tool_response>\\n'", "<tool_response>'"), "chat template"),
    ],
)
def test_a_template_that_spells_otherwise_is_refused_with_both_sides(broken, probe, tmp_path):
    assert broken not in {SMOLLM2, QWEN2}
    with pytest.raises(
        ConfigError, match=rf"(?s)does not match the model in .*: probe `{probe}`.*differ at token \d+.*renderer \[.*template \["
    ):
        open_renderer(folder_with(tmp_path, broken))


def test_a_model_that_stops_at_another_token_is_refused(tmp_path):
    folder = FAMILIES["qwen2"](tmp_path)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 400}))
    with pytest.raises(ConfigError, match=r"probe `stop tokens`: a turn ends with 402 `<\|im_end\|>`.*400 `<\|endoftext\|>`"):
        open_renderer(folder)


def test_a_stop_token_that_does_not_exist_is_refused(tmp_path):
    folder = write_rookie(tmp_path)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [400, 99999]}))
    with pytest.raises(ConfigError, match="stops at 99999, which is not in"):
        open_renderer(folder)


def test_missing_control_tokens_are_named(tmp_path):
    write_tokenizer(tmp_path, ["<|end|>"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"sandlot_family": "rookie"}))
    with pytest.raises(ConfigError, match=r"lacks: .*<\|call\|>"):
        open_renderer(tmp_path)


def test_an_unknown_family_is_refused_with_the_known_ones(tmp_path):
    write_tokenizer(tmp_path, ["<s>", "</s>"])
    with pytest.raises(ConfigError, match="known: rookie, chatml, qwen3, llama3"):
        open_renderer(tmp_path)


@pytest.mark.parametrize("written", ["", "{}", "[]", '{"model": {"type": "BPE"}}', '{"added_tokens": 3}'])
def test_a_broken_tokenizer_is_a_sentence(written, tmp_path):
    (tmp_path / "tokenizer.json").write_text(written)
    with pytest.raises(ConfigError, match=r"tokenizer\.json` is not a tokenizer"):
        open_renderer(tmp_path)


def test_a_folder_without_a_tokenizer_is_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"has no tokenizer\.json"):
        open_renderer(tmp_path)


@pytest.mark.parametrize("template", ["{% for %}", "{{ messages[0].__class__.__mro__ }}", "{{ 1 / 0 }}"])
def test_a_broken_or_hostile_template_does_no_harm(template, tmp_path):
    folder = FAMILIES["rookie"](tmp_path)
    config = json.loads((folder / "tokenizer_config.json").read_text()) | {"chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if template.startswith("{%"):
        with pytest.raises(ConfigError, match="template is invalid"):
            open_renderer(folder)
    else:
        open_renderer(folder)  # it has no opinion on any conversation


def test_the_default_system_prompt_is_the_templates(tmp_path):
    from sandlot.core.trace import text_message
    from sandlot.core.types import Role

    user = text_message(Role.USER, "?")
    for family, words in {"smollm2": "You are small.", "qwen2": "You are Q.", "llama3": "Today Date: 26 Jul 2024"}.items():
        renderer = open_renderer(FAMILIES[family](tmp_path / family))
        assert words in renderer.tokenizer.decode(renderer.render([user], []))
    qwen3 = open_renderer(FAMILIES["qwen3"](tmp_path / "qwen3"))
    assert "system" not in qwen3.tokenizer.decode(qwen3.render([user], []))


@pytest.mark.parametrize(("name", "template"), [("smollm2", SMOLLM2), ("qwen2", QWEN2), ("qwen3", QWEN3)])
def test_the_templates_here_agree_with_transformers(name, template):
    """Our sandbox runs templates as the library everyone else uses does. The texts are its own: `tests/system` compares them."""
    texts = json.loads(Path(__file__).with_name("rendered_by_transformers.json").read_text())[name]
    ours = ChatTemplate(template, {"bos_token": "<|endoftext|>"})
    assert {probe.what: ours.render(probe.messages, probe.tools) for probe in probes()} == texts
