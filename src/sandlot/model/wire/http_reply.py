"""HTTP/1.1 replies, read from the pieces of bytes in which they arrive.

A server is not trusted: the head, every length and what a compressed body unpacks to are bounded, and what is not HTTP is refused
at the first byte that shows it. Interim replies are skipped; trailers are read and ignored.
"""

import functools
import re
import zlib

import msgspec

_HEAD_BYTES = 64 * 2**10
"""Limit of the status line and the headers together, and of the trailers."""
_LINE_BYTES = 4096
"""Limit of the line before a chunk."""
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(r"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: .*)?")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,15}")


class HttpReplyError(Exception):
    """A reply that cannot be used; `retryable` if another attempt may get a better one."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class HttpReply(msgspec.Struct, frozen=True):
    """A whole reply; the names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    keeps_open: bool
    """True if the connection can carry another request."""


class _Head(msgspec.Struct, frozen=True):
    """The head of a reply, and how its body is delimited."""

    status: int
    headers: dict[str, str]
    keeps_open: bool
    length: int | None
    """None for a body that ends with the connection."""
    chunked: bool


class ReplyReader:
    """Reads one reply. `feed` it what arrives, and tell it when the connection has ended."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._needed = 0
        """Bytes in the buffer without which reading on is in vain."""
        self._head: _Head | None = None
        self._chunks = bytearray()
        self._in_trailers = False
        self._num_searched = 0
        """Bytes of the buffer in which no head ends."""
        self._num_passed_over = 0
        """Bytes of interim replies and trailers."""

    def feed(self, data: bytes) -> HttpReply | None:
        """The reply, once it is whole; `HttpReplyError` if it cannot become one."""
        self._buffer += data
        if len(self._buffer) < self._needed:
            return None
        while self._head is None:
            if not self._read_head():
                return None
        head = self._head
        if head.chunked:
            return self._reply(bytes(self._chunks)) if self._read_chunks() else None
        self._require_size(len(self._buffer) if head.length is None else head.length)
        if head.length is None or len(self._buffer) < head.length:
            self._needed = head.length or 0
            return None
        return self._reply(self._take(head.length))

    def end(self) -> HttpReply:
        """The reply whose end is that of the connection."""
        if self._head is None or self._head.chunked or self._head.length is not None:
            raise HttpReplyError("the reply is incomplete: the connection was closed", retryable=True)
        return self._reply(self._take(len(self._buffer)))

    def _read_head(self) -> bool:
        if not self._buffer.startswith(b"HTTP/"[: len(self._buffer)]):
            raise HttpReplyError(f"the reply is not HTTP: it begins with {bytes(self._buffer[:40])!r}")
        end = _HEAD_END.search(self._buffer, max(0, self._num_searched - 3), _HEAD_BYTES)  # 3: an end may have begun there
        self._num_searched = len(self._buffer) if end is None else 0
        if end is None:
            if len(self._buffer) >= _HEAD_BYTES:
                raise HttpReplyError(f"the reply is not HTTP: its head is over {_HEAD_BYTES} bytes")
            return False
        status_line, *lines = self._take(end.end())[: end.start()].decode("latin-1").replace("\r\n", "\n").split("\n")
        status = _STATUS.fullmatch(status_line)
        if status is None:
            raise HttpReplyError(f"the reply is not HTTP: it begins with {status_line[:80]!r}")
        head = _head_of(int(status[2]), _headers_of(lines), is_old=status[1] == "0")
        if head.status >= 200:
            self._head = head
        else:
            self._pass_over(end.end())  # an interim reply is followed by another
        return True

    def _read_chunks(self) -> bool:
        """Move the chunks that are whole; true if the last one is."""
        while not self._in_trailers:
            end = self._buffer.find(b"\n", 0, _LINE_BYTES)
            if end < 0:
                if len(self._buffer) >= _LINE_BYTES:
                    raise HttpReplyError("the reply is not HTTP: no chunk begins where one should")
                return False
            size = bytes(self._buffer[:end]).partition(b";")[0].strip()
            if not _HEX.fullmatch(size):
                raise HttpReplyError(f"the reply is not HTTP: a chunk of {size[:20]!r} bytes")
            num_bytes = int(size, 16)
            self._require_size(len(self._chunks) + num_bytes)
            if num_bytes == 0:
                del self._buffer[: end + 1]
                self._in_trailers = True
                break
            self._needed = end + 1 + num_bytes + 2
            if len(self._buffer) < self._needed:
                return False
            _, chunk = self._take(end + 1), self._take(num_bytes)
            self._chunks += chunk
            self._needed = 0
            ending = re.match(rb"\r?\n", self._buffer)
            if ending is None:
                raise HttpReplyError("the reply is not HTTP: a chunk is longer than it says")
            del self._buffer[: ending.end()]
        return self._read_trailers()

    def _read_trailers(self) -> bool:
        while (end := self._buffer.find(b"\n")) >= 0:
            self._pass_over(end + 1)
            is_last = not self._take(end + 1).strip()
            if is_last:
                return True
        if len(self._buffer) >= _HEAD_BYTES:
            raise HttpReplyError(f"the reply is not HTTP: its trailers are over {_HEAD_BYTES} bytes")
        return False

    def _pass_over(self, num_bytes: int) -> None:
        self._num_passed_over += num_bytes
        if self._num_passed_over > _HEAD_BYTES:
            raise HttpReplyError(f"the reply is not HTTP: its interim replies or trailers are over {_HEAD_BYTES} bytes")

    def _take(self, num_bytes: int) -> bytes:
        taken = bytes(self._buffer[:num_bytes])
        del self._buffer[:num_bytes]
        return taken

    def _reply(self, body: bytes) -> HttpReply:
        head = self._head
        assert head is not None
        encoding = head.headers.get("content-encoding", "identity").strip().lower()
        if body and encoding != "identity":
            body = self._unpacked(body, encoding) if head.status < 300 else self._unpacked_error(body, encoding)
        return HttpReply(head.status, head.headers, body, head.keeps_open and not self._buffer)

    def _unpacked_error(self, body: bytes, encoding: str) -> bytes:
        """As `_unpacked`, but nothing if that fails: the status says what happened."""
        try:
            return self._unpacked(body, encoding)
        except HttpReplyError:
            return b""

    def _unpacked(self, body: bytes, encoding: str) -> bytes:
        """A body that was compressed though no compression was asked for."""
        if encoding not in {"gzip", "x-gzip", "deflate"}:
            raise HttpReplyError(f"the reply is compressed with {encoding[:40]!r}, which was not asked for")
        unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # 32: gzip or zlib, as it begins
        try:
            unpacked = unpacking.decompress(body, self._limit_bytes + 1)
        except zlib.error as error:
            raise HttpReplyError(f"the reply cannot be unpacked: {error}", retryable=True) from None
        self._require_size(len(unpacked))
        if unpacking.unused_data:
            raise HttpReplyError("the reply cannot be unpacked: something follows what is packed", retryable=True)
        if not unpacking.eof:
            raise HttpReplyError("the reply is incomplete: what is packed in it breaks off", retryable=True)
        return unpacked

    def _require_size(self, num_bytes: int) -> None:
        if num_bytes > self._limit_bytes:
            raise HttpReplyError(f"the reply is over {self._limit_bytes} bytes")


def _headers_of(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        known = _header_name(name) if colon else None
        if known is None:
            raise HttpReplyError(f"the reply is not HTTP: a header is {line[:80]!r}")
        value = value.strip(" \t")
        headers[known] = f"{headers[known]}, {value}" if known in headers else value
    return headers


@functools.lru_cache(maxsize=256)  # a server sends the same names with every reply
def _header_name(name: str) -> str | None:
    """The name in lower case; None if it cannot be one."""
    return name.lower() if _NAME.fullmatch(name) else None


def _head_of(status: int, headers: dict[str, str], *, is_old: bool) -> _Head:
    """How the body is delimited, and whether the connection stays; `is_old` for HTTP/1.0."""
    connection = headers.get("connection", "").lower()
    keeps_open = "keep-alive" in connection if is_old else "close" not in connection
    if status < 200 or status in {204, 304}:
        return _Head(status, headers, keeps_open, 0, chunked=False)
    coding = headers.get("transfer-encoding")
    if coding is not None:
        keeps_open = keeps_open and "content-length" not in headers  # where it ends is in doubt
        if coding.strip().lower() != "chunked":
            raise HttpReplyError(f"the reply is not HTTP: its transfer encoding is {coding[:40]!r}")
        return _Head(status, headers, keeps_open, None, chunked=True)
    length = headers.get("content-length")
    if length is None:
        return _Head(status, headers, keeps_open=False, length=None, chunked=False)
    if not (length.isascii() and length.isdigit() and len(length) <= 15):
        raise HttpReplyError(f"the reply is not HTTP: its content length is {length[:40]!r}")
    return _Head(status, headers, keeps_open, int(length), chunked=False)
