"""A model folder's chat template, run in a Jinja sandbox.

It is used only for comparison, never for a prompt: a template turns control tokens written in content into real ones, and many
templates rewrite history.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

import jinja2
import jinja2.sandbox

from sandlot.core.errors import ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Reasoning
from sandlot.core.types import Json, Role


class ChatTemplate:
    """A template with its special tokens."""

    def __init__(self, source: str, tokens: Json) -> None:
        self.source = source
        sandbox = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        sandbox.filters["tojson"] = _to_json
        cast("Json", sandbox.globals)["raise_exception"] = _refuse
        try:
            self._template = sandbox.from_string(source)
        except jinja2.TemplateError as error:
            raise ConfigError(f"the chat template is invalid: {error}") from error
        self._tokens = tokens

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> str | None:
        """The prompt up to the assistant's turn; None if the template does not support the conversation.

        The template gets no clock, so that templates with a date fall back to a fixed one.
        """
        try:
            return self._template.render(
                **self._tokens,
                messages=[entry for message in messages for entry in as_entries(message)],
                tools=[as_function(tool) for tool in tools] or None,
                add_generation_prompt=True,
            )
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
            return None  # the template does not support this conversation

    @property
    def has_tools(self) -> bool:
        """True if the template supports tools."""
        return "tools" in self.source


def as_function(tool: ToolSpec) -> Json:
    """A tool as templates expect it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def as_entries(message: Message) -> list[Json]:
    """A message as templates expect it; each tool result is a message of its own."""
    if message.role is Role.TOOL:
        return [
            {"role": "tool", "content": result.text, "tool_call_id": result.call, "error": result.error}
            for result in message.results
        ]
    entry: Json = {"role": message.role.value, "content": message.text}
    thoughts = "".join(part.text for part in message.parts if isinstance(part, Reasoning))
    if thoughts:
        entry["reasoning_content"] = thoughts
    if message.calls:
        entry["tool_calls"] = [
            {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return [entry]


def _to_json(value: Any, indent: int | None = None, separators: tuple[str, str] | None = None, **_: Any) -> str:
    """JSON as templates expect it: without HTML escapes, keys in their order."""
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
