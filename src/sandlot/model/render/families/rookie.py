"""The chat format of `rookie`, our own small model: one control token per meaning, and no syntax to get wrong.

    <|tools|>read_ticket(ticket: string)<|end|>
    <|system|>...<|end|><|user|>...<|end|>
    <|assistant|>I look.<|call|>read_ticket<|arg|>ticket<|text|>T-3<|end|>
    <|result|>T-3 [open] ...<|end|><|result|><|error|>no ticket `T-9`<|end|>
    <|assistant|><|think|>...<|say|>done<|end|>

(without the line breaks). A string argument is written as raw characters without quotes or escapes, so that a model of a few
million parameters can copy it; other values are compact JSON. Content cannot produce control tokens, so every written message is
parsed back exactly.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, Reasoning, Text, ToolCall, ToolResult
from sandlot.core.types import Json, Role
from sandlot.model.render.family import Family, Head, pieces_text
from sandlot.model.render.tokenizer import ControlToken, Piece
from sandlot.model.wire.arguments import is_storable, malformed_call, short_name

SYSTEM, USER, ASSISTANT, RESULT = (
    ControlToken("<|system|>"),
    ControlToken("<|user|>"),
    ControlToken("<|assistant|>"),
    ControlToken("<|result|>"),
)
TOOLS, ERROR, THINK, SAY, END = (
    ControlToken("<|tools|>"),
    ControlToken("<|error|>"),
    ControlToken("<|think|>"),
    ControlToken("<|say|>"),
    ControlToken("<|end|>"),
)
CALL, ARGUMENT, TEXT, JSON = ControlToken("<|call|>"), ControlToken("<|arg|>"), ControlToken("<|text|>"), ControlToken("<|json|>")

CONTROL_TOKENS = tuple(
    mark.text for mark in (END, TOOLS, SYSTEM, USER, ASSISTANT, RESULT, ERROR, CALL, ARGUMENT, TEXT, JSON, THINK, SAY)
)
"""The special tokens of a rookie tokenizer. The first ends a turn and is the model's `eos_token`."""


def rookie() -> Family:
    """The family of `rookie`."""
    return Family(
        name="rookie",
        openings={Role.SYSTEM: (SYSTEM,), Role.USER: (USER,), Role.ASSISTANT: (ASSISTANT,), Role.TOOL: (RESULT,)},
        end=END,
        head=_head,
        body=_body,
        read=_read,
        marks=CONTROL_TOKENS,
    )


def tokenizer_config(context: int) -> Json:
    """The `tokenizer_config.json` of a rookie, with a chat template for other programs."""
    return {
        "sandlot_family": "rookie",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "eos_token": END.text,
        "pad_token": END.text,
        "clean_up_tokenization_spaces": False,
        "chat_template": _CHAT_TEMPLATE,
    }


# -- writing ----------------------------------------------------------------------------------------------------------


def _head(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Head:
    section: list[Piece] = [TOOLS, "\n".join(map(_signature, tools)), END] if tools else []
    return Head(section, list(messages))


def _signature(tool: ToolSpec) -> str:
    """`name(argument: type, optional?: type)`, without the description: a model this small learns the purpose by use."""
    properties: dict[str, Any] = tool.parameters.get("properties") or {}
    required = tool.parameters.get("required") or ()
    shown = (f"{key}{'' if key in required else '?'}: {_type(schema)}" for key, schema in properties.items())
    return f"{tool.name}({', '.join(shown)})"


def _type(schema: Any) -> str:
    kind = cast("Json", schema).get("type") if isinstance(schema, dict) else None
    return kind if isinstance(kind, str) else "any"


def _body(message: Message) -> list[Piece]:
    pieces: list[Piece] = []
    for part in message.parts:
        match part:
            case Text():
                pieces += [SAY, part.text] if pieces else [part.text]
            case Reasoning():
                pieces += (THINK, part.text)
            case ToolCall():
                pieces += _call(part)
            case ToolResult():
                pieces += [ERROR, part.text] if part.error else [part.text]
            case _:
                pass  # images were refused before
    return pieces


def _call(call: ToolCall) -> list[Piece]:
    pieces: list[Piece] = [CALL, call.name]
    if call.malformed is not None:
        return [*pieces, ARGUMENT, call.malformed]  # an argument without a value, which is parsed as malformed again
    for key, value in call.arguments.items():
        pieces += (ARGUMENT, key)
        pieces += (TEXT, value) if isinstance(value, str) else (JSON, _compact(value))
    return pieces


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# -- reading -----------------------------------------------------------------------------------------------------------


def _read(pieces: Sequence[Piece], prefix: str) -> list[Part]:
    segments = _segments(pieces)
    parts: list[Part] = []
    num_calls = at = 0
    while at < len(segments):
        mark, text = segments[at]
        at += 1
        if mark == CALL:
            begin = at
            while at < len(segments) and segments[at][0] in {ARGUMENT, TEXT, JSON}:
                at += 1
            parts.append(_parse_call(f"{prefix}_{num_calls}", text, segments[begin:at]))
            num_calls += 1
        elif mark == THINK:
            parts.append(Reasoning(text))
        elif mark != SAY:  # part of a call that was never opened: kept as text
            parts.append(Text(f"{mark.text}{text}"))
        elif text:
            parts.append(Text(text))
    return parts


def _segments(pieces: Sequence[Piece]) -> list[tuple[ControlToken, str]]:
    """The text after each control token; a control token without a meaning in a turn is text."""
    segments: list[tuple[ControlToken, str]] = [(SAY, "")]
    for piece in pieces:
        if isinstance(piece, ControlToken) and piece in {SAY, THINK, CALL, ARGUMENT, TEXT, JSON}:
            segments.append((piece, ""))
        else:
            mark, text = segments[-1]
            segments[-1] = (mark, text + pieces_text([piece]))
    return segments


def _parse_call(call_id: str, name: str, values: list[tuple[ControlToken, str]]) -> ToolCall:
    arguments: Json = {}
    for (mark, key), (kind, value) in zip(values[::2], values[1::2], strict=False):
        decoded = value if kind == TEXT else _decode_json(value) if kind == JSON else msgspec.UNSET
        if mark != ARGUMENT or decoded is msgspec.UNSET or key in arguments:
            return malformed_call(call_id, name, _call_text(values))
        arguments[key] = decoded
    if len(values) % 2 or not is_storable(arguments):
        return malformed_call(call_id, name, _call_text(values))
    return ToolCall(call_id, short_name(name), arguments)


def _decode_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, OverflowError, RecursionError):
        return msgspec.UNSET


def _call_text(values: list[tuple[ControlToken, str]]) -> str:
    if len(values) == 1 and values[0][0] == ARGUMENT:
        return values[0][1]
    return "".join(f"{mark.text}{text}" for mark, text in values)


_CHAT_TEMPLATE = """\
{%- if tools -%}
<|tools|>
{%- for tool in tools -%}
{%- set schema = tool.function.parameters -%}
{{ '' if loop.first else '\\n' }}{{ tool.function.name }}(
{%- for key, value in (schema.properties or {}).items() -%}
{{ '' if loop.first else ', ' }}{{ key }}{{ '' if key in (schema.required or []) else '?' }}:
{{- ' ' }}{{ value.type if value.type is string else 'any' }}
{%- endfor -%}
)
{%- endfor -%}
<|end|>
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
<|result|>{{ '<|error|>' if message.error else '' }}{{ message.content }}
{%- else -%}
<|{{ message.role }}|>
{%- if message.reasoning_content -%}
<|think|>{{ message.reasoning_content }}{{ '<|say|>' if message.content else '' }}
{%- endif -%}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] -%}
<|call|>{{ call.function.name }}
{%- for key, value in call.function.arguments.items() -%}
<|arg|>{{ key }}
{%- if value is string -%}<|text|>{{ value }}{%- else -%}<|json|>{{ value | tojson(separators=(',', ':')) }}{%- endif -%}
{%- endfor -%}
{%- endfor -%}
{%- endif -%}
<|end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}
"""
"""The same format, for programs that render with the folder's chat template."""
