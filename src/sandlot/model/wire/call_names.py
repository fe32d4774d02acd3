"""Names of tools in what is sent to an endpoint.

OpenAI and Anthropic refuse a whole conversation in which a call has another name than `^[a-zA-Z0-9_-]{1,64}$`. A model may have
invented such a tool and got an error. If the next request were refused for it, that would be a failure of the model's side, which
is not graded.
"""

import re
from collections.abc import Sequence

import msgspec

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, ToolCall

_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_NAMELESS = "unknown"


def with_legal_names(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Message]:
    """The messages; calls of tools that are not declared have names that endpoints accept."""
    declared = {tool.name for tool in tools}
    return [_renamed(message, declared) for message in messages]


def _renamed(message: Message, declared: set[str]) -> Message:
    if all(call.name in declared or _LEGAL.fullmatch(call.name) for call in message.calls):
        return message
    return msgspec.structs.replace(message, parts=tuple(_legal(part, declared) for part in message.parts))


def _legal(part: Part, declared: set[str]) -> Part:
    if not isinstance(part, ToolCall) or part.name in declared:
        return part
    return msgspec.structs.replace(part, name=_ILLEGAL.sub("_", part.name)[:64] or _NAMELESS)
