"""From a model folder to a renderer that was tested against it.

The family is named by `tokenizer_config.json` (`sandlot_family`), or else known by the control tokens its tokenizer has and the
template that goes with them. What varies inside a family, such as a default system prompt, is read off the folder's template.
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
    """The renderer of a model folder; `ConfigError` that says why if the two do not belong together."""
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(f"`{folder}` has no tokenizer.json, so nothing can be rendered for its model")
    tokenizer = Tokenizer(folder / "tokenizer.json")
    config = _read_json(folder / "tokenizer_config.json")
    template = _chat_template(folder, config)
    family = _family_of(tokenizer, template, config, str(folder))
    missing = sorted(family.required - tokenizer.control.keys())
    if missing:
        raise ConfigError(f"`{folder}`: family `{family.name}` needs control tokens the tokenizer lacks: {', '.join(missing)}")
    told = _stop_tokens(folder)
    end = tokenizer.control[family.end.text]
    source = template.source if template else ""
    renderer = TokenRenderer(
        family=family,
        tokenizer=tokenizer,
        stop_ids=tuple(dict.fromkeys((end, *told))),
        name=f"{family.name}-{digest(f'{tokenizer.digest}{source}'.encode())[:12]}",
    )
    require_compatible(renderer, template, told, str(folder))
    return renderer


def _family_of(tokenizer: Tokenizer, template: ChatTemplate | None, config: Json, where: str) -> Family:
    """The family a tokenizer speaks; the error lists those there are."""
    named: object = config.get("sandlot_family") or _detect_family(tokenizer, template)
    families: dict[object, Callable[[], Family]] = {
        "rookie": rookie,
        "chatml": lambda: chatml(tokenizer, template),
        "qwen3": lambda: chatml(tokenizer, template, thinks=True),
        "llama3": lambda: llama3(template),
    }
    if named not in families:
        raise ConfigError(
            f"`{where}`: no family for these control tokens: {', '.join(sorted(tokenizer.control)[:20]) or 'none'}; "
            f"there are: {', '.join(map(str, families))} (name one as `sandlot_family` in tokenizer_config.json)"
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
    """The folder's template: in a file of its own, or in `tokenizer_config.json`; of several, the default one."""
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
    """The ids at which the folder says generation stops."""
    for name in ("generation_config.json", "config.json"):
        told = _read_json(folder / name).get("eos_token_id")
        if isinstance(told, int):
            return (told,)
        if isinstance(told, list) and told:
            return tuple(token for token in cast("list[Any]", told) if isinstance(token, int))
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
