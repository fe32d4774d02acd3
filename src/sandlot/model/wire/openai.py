"""OpenAI's records, defined once: chat messages, requests and replies.

- `Chat...`: the conversation. Our client and our server write it. Our server also reads it, strictly: agents send it.
- `Reply...`: answers of other servers, read tolerantly. Fields that servers are known to leave out or to fill differently are
  optional; a field that is present must have the right type.
- `SamplingRequest` and `ChatRequest`: what our server accepts.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType

from sandlot.core.trace import ImagePart, Message, Reasoning, Text, ToolCall
from sandlot.core.types import Json

TokenLimit = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Role = Literal["system", "developer", "user", "assistant", "tool"]

# -- the conversation --------------------------------------------------------------------------------------------------


class _ChatFunction(msgspec.Struct):
    """A call's tool and its arguments as JSON text."""

    name: str
    arguments: Any = ""


class _ChatCall(msgspec.Struct, kw_only=True):
    """A tool call of the assistant."""

    id: str = ""
    function: _ChatFunction
    type: Any = "function"


class ChatImage(msgspec.Struct):
    """The address of an image; ours are data URIs, which hold the image."""

    url: str


class ChatPart(msgspec.Struct):
    """One entry of a content list."""

    type: str
    text: str | UnsetType | None = UNSET
    image_url: ChatImage | str | UnsetType | None = UNSET


class ChatMessage(msgspec.Struct, kw_only=True):
    """One message of a conversation."""

    role: _Role
    content: str | list[ChatPart] | None = None
    reasoning_content: str | UnsetType | None = UNSET
    tool_calls: list[_ChatCall] | UnsetType | None = UNSET
    tool_call_id: str | UnsetType | None = UNSET


class _ChatToolFunction(msgspec.Struct):
    """The definition of a tool."""

    name: str
    description: str | None = None
    parameters: Json | None = None


class ChatTool(msgspec.Struct):
    """A tool of a request."""

    function: _ChatToolFunction
    type: str = "function"


def chat_message(message: Message, arguments_text: Callable[[ToolCall], str], images: Mapping[str, bytes] = {}) -> ChatMessage:
    """A trace message without its tool results. `images` holds the bytes of its images, by hash."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[_ChatCall] = []
    has_image = False
    for part in message.parts:  # one pass: a history is written anew in every turn
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, ToolCall):
            calls.append(_ChatCall(id=part.id, function=_ChatFunction(part.name, arguments_text(part))))
        elif isinstance(part, Reasoning):
            thoughts.append(part.text)
        elif isinstance(part, ImagePart):
            has_image = True
    content = content_of(message, images) if has_image else "".join(texts)
    return ChatMessage(
        role=cast("_Role", message.role.value),
        content=content or (None if calls else ""),
        reasoning_content="".join(thoughts) or UNSET,
        tool_calls=calls or UNSET,
    )


def content_of(message: Message, images: Mapping[str, bytes]) -> str | list[ChatPart]:
    """The text; with images, a list of texts and images in their order."""
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return message.text
    content: list[ChatPart] = []
    for part in message.parts:
        if isinstance(part, Text) and part.text:
            content.append(ChatPart("text", part.text))
        elif isinstance(part, ImagePart):
            content.append(image_part(part, images))
    return content


def image_part(image: ImagePart, images: Mapping[str, bytes]) -> ChatPart:
    """An image as a data URI."""
    data = base64.b64encode(images[image.artifact]).decode()
    return ChatPart("image_url", image_url=ChatImage(f"data:{image.media_type};base64,{data}"))


# -- requests ----------------------------------------------------------------------------------------------------------


class _StreamOptions(msgspec.Struct):
    """Options of a streamed reply."""

    include_usage: bool | None = None


class SamplingRequest(msgspec.Struct):
    """The sampling fields that chat and plain completions share."""

    model: str = ""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] | None = None
    max_tokens: TokenLimit | None = None
    stop: str | list[str] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    return_token_ids: bool | None = None
    session: str = ""
    logit_bias: Json | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    min_p: float | None = None

    @property
    def with_usage(self) -> bool:
        """True if a stream ends with the token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatRequest(SamplingRequest):
    """`POST /v1/chat/completions`."""

    messages: list[ChatMessage] = []
    tools: list[ChatTool] | None = None
    tool_choice: Any = None
    max_completion_tokens: TokenLimit | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: Json | None = None


# -- replies of other servers ------------------------------------------------------------------------------------------


class _ReplyFunction(msgspec.Struct):
    """A call; arguments are JSON text, or with some servers the object itself."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class _ReplyCall(msgspec.Struct):
    """A tool call in a reply."""

    function: _ReplyFunction
    id: str | None = None


class _ReplyPart(msgspec.Struct):
    """One entry of a content list."""

    text: str | None = None


class ReplyMessage(msgspec.Struct):
    """The assistant's message."""

    content: str | list[_ReplyPart] | None = None
    tool_calls: list[_ReplyCall] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None


class ReplyChoice(msgspec.Struct):
    """One chat completion."""

    message: ReplyMessage
    finish_reason: str | None = None


class _ReplyPromptDetails(msgspec.Struct):
    """How many prompt tokens came from the server's cache."""

    cached_tokens: Count | None = None


class ReplyPromptUsage(msgspec.Struct):
    """Token counts of the prompt."""

    prompt_tokens: Count | None = None
    prompt_tokens_details: _ReplyPromptDetails | None = None

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens from the server's cache; 0 if it does not say."""
        return (self.prompt_tokens_details.cached_tokens or 0) if self.prompt_tokens_details else 0


class ReplyUsage(ReplyPromptUsage):
    """Token counts of a chat completion."""

    completion_tokens: Count | None = None


class ChatReply(msgspec.Struct):
    """A reply of `/v1/chat/completions`."""

    choices: list[ReplyChoice] | None = None
    usage: ReplyUsage | None = None
    error: Any = None


class _ReplyLogprobs(msgspec.Struct):
    """Log-probabilities of the sampled tokens, in order."""

    token_logprobs: list[float | None] | None = None


class _CompletionChoice(msgspec.Struct):
    """One plain completion with its token ids, as vLLM and our own server send them."""

    token_ids: list[TokenId] | None = None
    prompt_token_ids: list[TokenId] | None = None
    logprobs: _ReplyLogprobs | None = None
    finish_reason: str | None = None
    weight_versions: list[tuple[Count, Count]] | None = None


class CompletionReply(msgspec.Struct):
    """A reply of `/v1/completions`."""

    model: str | None = None
    choices: list[_CompletionChoice] | None = None
    usage: ReplyPromptUsage | None = None
    error: Any = None
