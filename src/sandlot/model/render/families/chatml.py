"""ChatML with Hermes calls: SmolLM2, Qwen2.5 and derived models; with reasoning, Qwen3.

    <|im_start|>assistant
    <think>
    ...
    </think>

    I look.
    <tool_call>
    {"name": "read_ticket", "arguments": {"ticket": "T-3"}}
    </tool_call><|im_end|>
    <|im_start|>user
    <tool_response>
    ...
    </tool_response><|im_end|>

`<tool_call>` and `<think>` are control tokens in some of these tokenizers and plain text in others. If they are tokens, calls are
parsed by token, and text cannot be mistaken for a call. Reasoning stays in the history. Templates drop it later, so the trainer
would condition on other tokens than the sampler.
"""

import json
from collections.abc import Sequence

from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Part, Reasoning, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.model.render.family import Family, Head, call_text, pieces_text
from sandlot.model.render.template import ChatTemplate, as_function
from sandlot.model.render.tokenizer import ControlToken, Piece, Tokenizer
from sandlot.model.wire.text_calls import block_calls, parse_calls, tool_instructions

START, END = ControlToken("<|im_start|>"), ControlToken("<|im_end|>")
CALL, CALL_END = ControlToken("<tool_call>"), ControlToken("</tool_call>")
RESULT, RESULT_END = ControlToken("<tool_response>"), ControlToken("</tool_response>")
THINK, THINK_END = ControlToken("<think>"), ControlToken("</think>")


def chatml(tokenizer: Tokenizer, template: ChatTemplate | None, *, thinks: bool = False) -> Family:
    """The family for this tokenizer and template."""
    tokens = CALL.text in tokenizer.control and CALL_END.text in tokenizer.control
    default = _default_system(template)
    native = template is not None and template.has_tools

    def head(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Head:
        return _head(messages, tools, default, native=native)

    def read(pieces: Sequence[Piece], prefix: str) -> list[Part]:
        thoughts, rest = _split_thoughts(pieces) if thinks else ([], list(pieces))
        return [*thoughts, *_read(rest, prefix, tokens=tokens)]

    return Family(
        name="qwen3" if thinks else "chatml",
        openings={
            Role.SYSTEM: (START, "system\n"),
            Role.USER: (START, "user\n"),
            Role.ASSISTANT: (START, "assistant\n"),
            Role.TOOL: (START, "user"),
        },
        end=END,
        after_end="\n",
        head=head,
        body=lambda message: _body(message, thinks=thinks),
        read=read,
        joined_results=True,
        marks=(THINK.text, THINK_END.text) if thinks else (),
    )


def _default_system(template: ChatTemplate | None) -> str | None:
    """The template's default system prompt."""
    text = template.render([text_message(Role.USER, "?")]) if template else None
    before, found, _ = (text or "").partition("<|im_start|>user\n?")
    opening, end = "<|im_start|>system\n", "<|im_end|>\n"
    if not found or not before.startswith(opening) or not before.endswith(end):
        return None
    return before[len(opening) : -len(end)]


# -- writing ----------------------------------------------------------------------------------------------------------


def _head(messages: Sequence[Message], tools: Sequence[ToolSpec], default: str | None, *, native: bool) -> Head:
    given = bool(messages) and messages[0].role is Role.SYSTEM
    system = messages[0].text if given else default
    rest = list(messages[1:] if given else messages)
    if system is None and not tools:
        return Head([], rest)
    pieces: list[Piece] = [START, "system\n"]
    pieces += [system] if system is not None else []
    if tools:
        pieces += ["\n\n"] if system is not None else []
        pieces += _tool_section(tools) if native else [tool_instructions(tools)]
    return Head([*pieces, END, "\n"], rest)


def _tool_section(tools: Sequence[ToolSpec]) -> list[Piece]:
    """The tool section that these models were trained with."""
    listed = "".join(f"\n{json.dumps(as_function(tool), ensure_ascii=False)}" for tool in tools)
    words = (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        f"You are provided with function signatures within <tools></tools> XML tags:\n<tools>{listed}\n</tools>\n\n"
        "For each function call, return a json object with function name and arguments within "
    )
    return [
        words,
        CALL,
        CALL_END,
        " XML tags:\n",
        CALL,
        '\n{"name": <function-name>, "arguments": <args-json-object>}\n',
        CALL_END,
    ]


def _body(message: Message, *, thinks: bool) -> list[Piece]:
    pieces: list[Piece] = []
    for part in message.parts:
        match part:
            case Text():
                pieces.append(part.text)
            case Reasoning() if thinks:
                pieces += (THINK, "\n", part.text.strip("\n"), "\n", THINK_END, "\n\n")
            case ToolCall():
                follows = pieces[-1:] == [CALL_END] or pieces_text(pieces[-1:]).strip()
                pieces += ("\n" if follows else "", CALL, f"\n{call_text(part, 'arguments')}\n", CALL_END)
            case ToolResult():
                pieces += ("\n", RESULT, f"\n{part.text}\n", RESULT_END)
            case _:
                pass  # reasoning that the model has no format for; images were refused before
    return pieces


# -- reading -----------------------------------------------------------------------------------------------------------


def _split_thoughts(pieces: Sequence[Piece]) -> tuple[list[Part], list[Piece]]:
    """Split reasoning from the rest. Without `</think>` all is reasoning; `<think>` may already stand in the prompt."""
    marks = [piece for piece in pieces if piece in {THINK, THINK_END}]
    if not marks:
        return [], list(pieces)
    begin = pieces.index(THINK) + 1 if marks[0] == THINK else 0
    end = pieces.index(THINK_END) if THINK_END in marks else len(pieces)
    thought = pieces_text(pieces[begin:end]).strip("\n")
    before, after = list(pieces[: max(0, begin - 1)]), list(pieces[end + 1 :])
    if after and isinstance(after[0], str):
        after[0] = after[0].lstrip("\n")
    return [Reasoning(thought)] if thought else [], [*before, *after]


def _read(pieces: Sequence[Piece], prefix: str, *, tokens: bool) -> list[Part]:
    if not tokens:
        text, calls = parse_calls(pieces_text(pieces), prefix)
        return [*([Text(text)] if text else []), *calls]
    rest: list[Piece] = []
    found: list[Part] = []
    at = 0
    while at < len(pieces):
        if pieces[at] != CALL:
            rest.append(pieces[at])
            at += 1
            continue
        closing = next((i for i in range(at + 1, len(pieces)) if pieces[i] in {CALL, CALL_END}), len(pieces))
        found += block_calls(pieces_text(pieces[at + 1 : closing]), f"{prefix}_{len(found)}")
        at = closing + 1 if pieces[closing : closing + 1] == [CALL_END] else closing
    text = pieces_text(rest)
    text = text.strip() if found else text
    return [*([Text(text)] if text else []), *found]
