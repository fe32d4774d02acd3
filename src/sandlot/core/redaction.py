"""Removing secrets from text: keys and passwords that servers, proxies and tools echo.

An echo may be escaped as JSON, HTML or a URL, in whole or in part, or encoded in base64 or hex inside a longer text. `Secrets`
finds all of these. Error messages, names and records go through it.
"""

import base64
import re
from collections.abc import Iterable
from urllib.parse import unquote

REDACTED = "[redacted]"
_MIN_IN_ERRORS = 6
"""Shorter words, such as `EMPTY` for local servers, are not secrets; replacing them would garble messages."""
_MIN_IN_REPLIES = 16
"""In a model's reply only words as long as a real key are replaced: a short password may be an ordinary word."""

_ESCAPES = re.compile(rb"\\u00|\\x|%|&#|\\/")
"""Every text with an escaped secret contains one of these."""


class Secrets:
    """Words that must not be shown. The repr shows none of them."""

    __slots__ = ("_in_errors", "_in_replies")

    def __init__(self, words: Iterable[str], min_chars: int = _MIN_IN_ERRORS) -> None:
        """Words shorter than `min_chars` are not replaced."""
        forms = {form for word in words for form in (word, unquote(word)) if len(form) >= min_chars}
        longest_first = sorted(forms, key=len, reverse=True)  # one word may contain another
        self._in_errors = tuple(map(_Word, longest_first))
        self._in_replies = tuple(word for word in self._in_errors if word.size >= _MIN_IN_REPLIES)

    def redact(self, text: str) -> str:
        """The text with every secret replaced."""
        return self.redact_error(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def redact_error(self, body: bytes) -> bytes:
        """The same for the bytes of an error, before it is shortened: half a key is a secret too."""
        for word in self._in_errors:
            body = word.redact(body)
        return body

    def redact_reply(self, body: bytes) -> bytes:
        """The same for the bytes of a reply, for long secrets only."""
        for word in self._in_replies:
            body = word.redact(body)
        return body

    def __repr__(self) -> str:
        return f"Secrets({len(self._in_errors)} hidden)"


class _Word:
    """One secret and its encoded forms."""

    __slots__ = ("_encoded", "_escaped", "size")

    def __init__(self, word: str) -> None:
        data = word.encode()
        self.size = len(word)
        self._encoded = (data, data.hex().encode(), data.hex().upper().encode(), *_in_base64(data))
        # In a run of backslashes only the first is tried: trying each would take hours for a megabyte.
        first, *rest = (_any_escape(byte) for byte in data)
        self._escaped = re.compile(rb"(?:(?<!\\)|(?!\\))" + first + b"".join(rest))

    def redact(self, body: bytes) -> bytes:
        for form in self._encoded:
            if form in body:
                body = body.replace(form, REDACTED.encode())
        return self._escaped.sub(REDACTED.encode(), body) if _ESCAPES.search(body) else body


def _any_escape(byte: int) -> bytes:
    """A pattern for one byte, plain or escaped as in JSON, C, URLs and HTML."""
    either_case = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{byte:02x}")
    pattern = rf"\\+u00{either_case}|\\+x{either_case}|%(?:25)*{either_case}|&#0*{byte};|&#[xX]0*{either_case};"
    return b"(?:" + re.escape(bytes((byte,))) + rb"|\\+" + re.escape(bytes((byte,))) + b"|" + pattern.encode() + b")"


def _in_base64(data: bytes) -> list[bytes]:
    """The base64 of a word at each of the three alignments in a longer text, without characters that depend on neighbours."""
    forms: list[bytes] = []
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data)
        sure = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        forms += [sure, sure.replace(b"+", b"-").replace(b"/", b"_")]
    return list(dict.fromkeys(forms))
