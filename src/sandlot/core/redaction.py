"""Removing secrets from text: keys and passwords that servers, proxies and tools echo.

An echo may be escaped as JSON, HTML or a URL, in whole or in part, or encoded in base64 or hex inside a longer text. `Secrets`
finds all of these. Error messages, names and records go through it.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from sandlot.core.errors import ConfigError

REDACTED = "[redacted]"
_MIN_IN_ERRORS = 6
"""Shorter words, such as `EMPTY` for local servers, are not secrets; replacing them would garble messages."""
_MIN_IN_REPLIES = 16
"""In a model's reply only words as long as a real key are replaced: a short password may be an ordinary word."""

_ESCAPES = re.compile(rb"\\u00|\\x|%|&#|\\/")
"""Every text with an escaped secret contains one of these."""


_SECRET_VARIABLES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
"""Names of environment variables that hold secrets."""
_MIN_IN_VARIABLES = 8
SHAPES = {
    kind: (marks, re.compile(shape))
    for kind, marks, shape in (
        ("api_key", ("sk-",), r"\bsk-[A-Za-z0-9_-]{16,}"),
        (
            "service_token",
            ("gh", "hf_", "glpat-", "xox"),
            r"\b(?:gh[pousr]_|github_pat_|hf_|glpat-|xox[abprs]-)[A-Za-z0-9_-]{16,}",
        ),
        ("aws_key", ("AKIA",), r"\bAKIA[0-9A-Z]{16}\b"),
        ("login_token", ("eyJ",), r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"),
        (
            "private_key",
            ("PRIVATE KEY-----",),
            # A key that was cut off ends where the next one begins, so each character is read once.
            (
                r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----BEGIN )){0,20000}?"
                r"(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|(?=-----BEGIN )|\Z)"
            ),
        ),
        ("email", ("@",), r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"),
    )
}
"""Keys of well-known services, private keys, tokens of logins, and e-mail addresses. A text with none of the marks has none."""


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


class RedactionRules:
    """What is removed from text before others get it: secrets of this machine, keys and addresses by shape, patterns."""

    def __init__(self, environ: Mapping[str, str], patterns: Iterable[str] = ()) -> None:
        """`environ` are environment variables: those named like secrets are. `patterns` are regular expressions."""
        words = [value for name, value in environ.items() if _SECRET_VARIABLES.search(name)]
        self._secrets = Secrets(words, _MIN_IN_VARIABLES)
        self._patterns = tuple(map(_compiled, patterns))
        self._redacted: set[int] = set()

    def redact(self, text: str) -> str:
        """The text without what the rules name."""
        found = self._secrets.redact(text)
        shapes = (shape for marks, shape in SHAPES.values() if any(mark in found for mark in marks))
        for pattern in (*shapes, *self._patterns):
            found = pattern.sub(REDACTED, found)
        if found != text:
            self._redacted.add(hash(text))
        return found

    @property
    def num_redacted(self) -> int:
        """The number of different texts in which something was removed."""
        return len(self._redacted)

    def redact_all(self, value: Any) -> Any:
        """A value with every text in it redacted: in lists, mappings and records, however deep. Bytes stay as they are."""
        match value:
            case str():
                return self.redact(value) if type(value) is str else value  # the words of an enum are ours
            case dict():
                pairs = cast("dict[Any, Any]", value).items()
                return {self.redact_all(key): self.redact_all(each) for key, each in pairs}
            case list():
                return [self.redact_all(each) for each in cast("list[Any]", value)]
            case tuple():
                return tuple(self.redact_all(each) for each in cast("tuple[Any, ...]", value))
            case msgspec.Struct():
                names = value.__struct_fields__
                return msgspec.structs.replace(value, **{name: self.redact_all(getattr(value, name)) for name in names})
            case _:
                return value


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"the redaction rule `{pattern}` is not a regular expression: {error}") from error


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
