"""An endpoint's error reply as a `ModelError`: a kind, whether a retry may help, and what the user should do.

Kinds: `timeout`, `connect`, `rate_limit`, `server` (retried); `auth`, `not_found`, `bad_request`, `context`, `malformed`, `spend`
(not retried). No status stands for context overflow, so it is recognised by the error's code or by `_CONTEXT_PHRASES`.
"""

from typing import Any, cast

import msgspec

from sandlot.core.errors import ModelError
from sandlot.core.text import one_line

_RETRYABLE = frozenset({408, 409, 425, 429})
"""Statuses that are retried, besides every 5xx."""

_CONTEXT_CODES = frozenset(
    {"context_length_exceeded", "context_window_exceeded", "string_above_max_length", "exceed_context_size_error"}
)
_CONTEXT_PHRASES = (
    "context length",  # OpenAI, vLLM, SGLang, Together
    "context_length",
    "context window",  # Anthropic-compatible gateways, Groq
    "context size",  # llama.cpp
    "prompt is too long",  # Anthropic-compatible gateways
    "input is too long",  # Bedrock gateways
    "input is longer than",  # SGLang
    "maximum model length",  # vLLM, older
    "max_model_len",
    "reduce the length of the messages",  # OpenAI
    "maximum allowed number of input tokens",
    "inputs tokens + max_new_tokens",  # TGI, spelled as it is there
    "exceeds the maximum number of tokens",  # Gemini gateways
)
"""Phrases of endpoints for a history that no longer fits, in lower case."""
_CONTEXT_STATUSES = frozenset({400, 413, 422, 500})

_SHOWN_CHARS = 500
"""Maximum characters quoted of an endpoint's message."""


class _ErrorInfo(msgspec.Struct, frozen=True):
    """Message and code of an error reply."""

    message: str
    code: str = ""

    @property
    def is_context(self) -> bool:
        """True if the history no longer fits."""
        lowered = self.message.lower()
        return self.code in _CONTEXT_CODES or any(phrase in lowered for phrase in _CONTEXT_PHRASES)


def failure_of(status: int, body: bytes, where: str, *, retry_after_s: float | None = None) -> ModelError:
    """The error for a reply whose status is not 200. `where` names model and endpoint, without secrets."""
    info = _error_in_body(body)
    text = f"{where} answered {status}: {info.message or 'no message'}"
    out_of_quota = info.code == "insufficient_quota"
    if (status in _RETRYABLE or status >= 500) and not out_of_quota and not (status == 500 and info.is_context):
        kind = {408: "timeout", 504: "timeout", 429: "rate_limit"}.get(status, "server")
        return ModelError(text, kind=kind, retryable=True, retry_after_s=retry_after_s, status=status)
    if status in _CONTEXT_STATUSES and info.is_context:
        return ModelError(f"{text}. The conversation is longer than the model's context", kind="context", status=status)
    kind, advice = ("rate_limit", "The account is out of quota: waiting does not help") if out_of_quota else _advice(status)
    return ModelError(f"{text}. {advice}", kind=kind, status=status)


def is_unavailable(error: ModelError) -> bool:
    """True if the server was not reached, did not answer in time, or cannot answer now; it has not refused the request."""
    return error.kind in {"connect", "timeout"} or error.status in {502, 503}


def _advice(status: int) -> tuple[str, str]:
    """Kind and advice for statuses that a retry does not fix."""
    if status in {401, 403}:
        return "auth", "Is the right key in $SANDLOT_API_KEY or $OPENAI_API_KEY?"
    if status == 404:
        return "not_found", "Is the model's name right, and does the base URL end as the server wants it (/v1)?"
    if 300 <= status < 400:
        return "bad_request", "Redirects are not followed, so that the key goes to no other host; give the final URL"
    return "bad_request", "The endpoint does not accept this request; check tools and sampling settings"


def error_in_reply(error: Any) -> ModelError:
    """The error for a reply of status 200 that carries an error object."""
    info = _error_in(error)
    if info.is_context:
        return ModelError(f"the endpoint answered 200 with an error: {info.message}", kind="context")
    return ModelError(f"the endpoint answered 200 with an error instead of a completion: {info.message}", kind="malformed")


def _error_in_body(body: bytes) -> _ErrorInfo:
    """Message and code of an error body in any shape that servers use; otherwise the beginning of the body."""
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return _ErrorInfo(short_line(body[: 4 * _SHOWN_CHARS].decode("utf-8", "replace")))
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for name in ("error", "detail"):
            if fields.get(name):
                return _error_in(fields[name])
    return _error_in(value)


def _error_in(error: Any) -> _ErrorInfo:
    if not isinstance(error, dict):
        return _ErrorInfo(short_line(error if isinstance(error, str) else repr(error)))
    fields = cast("dict[str, Any]", error)
    message = fields.get("message")
    code = fields.get("code") or fields.get("type")
    return _ErrorInfo(short_line(message if isinstance(message, str) else repr(fields)), code if isinstance(code, str) else "")


def short_line(text: str) -> str:
    """Untrusted text as one printable line, shortened for an error message."""
    line = one_line(text[: 2 * _SHOWN_CHARS])
    return line if len(line) <= _SHOWN_CHARS else line[:_SHOWN_CHARS] + "..."
