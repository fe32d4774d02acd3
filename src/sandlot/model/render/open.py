"""Open the renderer of a model folder and test it against the folder.

The family is named in `tokenizer_config.json` (`sandlot_family`) or detected from the tokenizer's control tokens and chat
template. What varies within a family, such as a default system prompt, is taken from the folder's template.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.types import Json, digest
from sandlot.model.render.families.chatml import chatml
from sandlot.model.render.families.llama3 import llama3
from sandlot.model.render.families.rookie import rookie
from sandlot.model.render.family import Family
from sandlot.model.render.renderer import TokenRenderer
from sandlot.model.render.selftest import require_compatible
from sandlot.model.render.template import ChatTemplate
from sandlot.model.render.tokenizer import Tokenizer


def open_renderer(folder: Path) -> TokenRenderer:
    """The renderer of a model folder; `ConfigError` says why if the renderer does not match the model."""
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(f"`{folder}` has no tokenizer.json, so its model cannot be rendered for; save the tokenizer there")
    tokenizer = Tokenizer(folder / "tokenizer.json")
    config = _read_json(folder / "tokenizer_config.json")
    template = _chat_template(folder, config)
    family = _family_of(tokenizer, template, config, str(folder))
    missing = sorted(family.required - tokenizer.control.keys())
    if missing:
        raise ConfigError(f"`{folder}`: family `{family.name}` needs control tokens the tokenizer lacks: {', '.join(missing)}")
    stops = _stop_tokens(folder)
    end = tokenizer.control[family.end.text]
    source = template.source if template else ""
    renderer = TokenRenderer(
        family=family,
        tokenizer=tokenizer,
        stop_ids=tuple(dict.fromkeys((end, *stops))),
        name=f"{family.name}-{digest(f'{tokenizer.digest}{source}'.encode())[:12]}",
    )
    require_compatible(renderer, template, stops, str(folder))
    return renderer


def _family_of(tokenizer: Tokenizer, template: ChatTemplate | None, config: Json, where: str) -> Family:
    """The family of a tokenizer; the error lists the supported ones."""
    named: object = config.get("sandlot_family") or _detect_family(tokenizer, template)
    families: dict[object, Callable[[], Family]] = {
        "rookie": rookie,
        "chatml": lambda: chatml(tokenizer, template),
        "qwen3": lambda: chatml(tokenizer, template, thinks=True),
        "llama3": lambda: llama3(template),
    }
    if named not in families:
        raise ConfigError(
            f"`{where}`: no known family has these control tokens: {', '.join(sorted(tokenizer.control)[:20]) or 'none'}; "
            f"known: {', '.join(map(str, families))} (name one as `sandlot_family` in tokenizer_config.json)"
        )
    return families[named]()


def _detect_family(tokenizer: Tokenizer, template: ChatTemplate | None) -> str | None:
    if {"<|start_header_id|>", "<|eot_id|>"} <= tokenizer.control.keys():
        return "llama3"
    if {"<|im_start|>", "<|im_end|>"} <= tokenizer.control.keys():
        thinks = "<think>" in tokenizer.control and template is not None and "<think>" in template.source
        return "qwen3" if thinks else "chatml"
    return None


def _chat_template(folder: Path, config: Json) -> ChatTemplate | None:
    """The folder's chat template, from its own file or `tokenizer_config.json`; of several, the default."""
    own = folder / "chat_template.jinja"
    source: Any = own.read_text() if own.is_file() else config.get("chat_template")
    if isinstance(source, list):
        named = {entry.get("name"): entry.get("template") for entry in cast("list[Json]", source)}
        source = named.get("default")
    if not isinstance(source, str):
        return None
    tokens = {key: _token_text(config[key]) for key in ("bos_token", "eos_token", "pad_token", "unk_token") if config.get(key)}
    return ChatTemplate(source, tokens)


def _stop_tokens(folder: Path) -> tuple[int, ...]:
    """The stop tokens in the folder's generation config."""
    for name in ("generation_config.json", "config.json"):
        stops = _read_json(folder / name).get("eos_token_id")
        if isinstance(stops, int):
            return (stops,)
        if isinstance(stops, list) and stops:
            return tuple(token for token in cast("list[Any]", stops) if isinstance(token, int))
    return ()


def _token_text(value: Any) -> str:
    return str(cast("Json", value).get("content", "")) if isinstance(value, dict) else str(value)


def _read_json(path: Path) -> Json:
    if not path.is_file():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{path}`: {error}") from error
