"""Replies are the same however their bytes arrive, and what is not HTTP is refused."""

import gzip
import http.client
import io
import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.model.wire import http_reply
from sandlot.model.wire.http_reply import HttpReply, HttpReplyError, ReplyReader

OK = b"HTTP/1.1 200 OK\r\n"
LIMIT = 10_000


def read(data: bytes, cuts: list[int] | None = None, *, limit: int = LIMIT) -> HttpReply:
    """The reply in `data`, which arrives in pieces and then ends."""
    reader = ReplyReader(limit)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    for start, end in itertools.pairwise(places):
        if start < end and (reply := reader.feed(data[start:end])):
            return reply
    return reader.end()


class _Bytes:
    """What `http.client` reads from."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self.data)


def read_by_library(data: bytes) -> tuple[int, bytes]:
    reply = http.client.HTTPResponse(_Bytes(data), method="POST")
    reply.begin()
    return reply.status, reply.read()


def chunked(pieces: list[bytes], trailers: bytes) -> bytes:
    chunks = b"".join(b"%x;note=1\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
    return OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailers + b"\r\n"


bodies = st.binary(max_size=200)
replies = st.one_of(
    bodies.map(lambda body: OK + b"Content-Length: %d\r\n\r\n" % len(body) + body),
    bodies.map(lambda body: b"HTTP/1.0 503 No\r\nServer: x\r\n\r\n" + body),
    st.builds(chunked, st.lists(bodies, max_size=4), st.sampled_from([b"", b"X-Sum: 1\r\n"])),
    bodies.map(lambda body: b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: %d\r\n\r\n" % len(body) + body),
)


@given(replies, st.lists(st.integers(0, 1000), max_size=8))
def test_a_reply_is_read_as_the_standard_library_reads_it_however_it_arrives(data, cuts):
    reply = read(data, cuts)
    assert (reply.status, reply.body) == read_by_library(data)


@given(st.binary(max_size=300), st.lists(st.integers(0, 1000), max_size=4), st.booleans())
def test_any_bytes_are_a_reply_or_a_refusal(data, cuts, begun):
    data = OK + data if begun else data
    try:
        reply = read(data, cuts)
    except HttpReplyError:
        return
    assert begun
    assert len(reply.body) <= LIMIT


@pytest.mark.parametrize(
    ("head", "keeps_open"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", True),
        (b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK", False),
        (b"HTTP/1.1 200 OK\r\n\r\nx", False),
    ],
)
def test_a_connection_is_used_again_only_if_nothing_else_is_on_it(head, keeps_open):
    assert read(head).keeps_open is keeps_open


def test_names_of_headers_are_in_lower_case_and_repeated_ones_are_joined():
    headers = read(OK + b"Retry-After: 7\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n").headers
    assert (headers["retry-after"], headers["x-a"]) == ("7", "1, 2")


@pytest.mark.parametrize("packed", [gzip.compress(b"hello", mtime=0), zlib.compress(b"hello")])
def test_a_body_that_was_packed_unasked_is_unpacked(packed):
    encoding = b"gzip" if packed[:2] == b"\x1f\x8b" else b"deflate"
    assert read(OK + b"Content-Encoding: " + encoding + b"\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed).body == b"hello"


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (OK + b"Content-Length: 20000\r\n\r\n", "over 10000 bytes"),
        (OK + b"\r\n" + b"x" * 20_000, "over 10000 bytes"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" + b"x" * 4096 + b"\r\n4000\r\n", "over 10000 bytes"),
        (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "transfer encoding"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 5000, "chunk"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n", "longer than it says"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"x" * 70_000, "trailers"),
        (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "content length"),
        (OK + b" folded\r\n\r\n", "header"),
        (OK + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx", "not asked for"),
        (OK + b"Content-Encoding: gzip\r\nContent-Length: 12\r\n\r\n" + gzip.compress(b"hello", mtime=0)[:12], "breaks off"),
        (b"HTTP/2 200\r\n\r\n", "not HTTP"),
        (b"HTTP", "incomplete"),
        (b"SSH-2.0", "not HTTP"),
    ],
)
def test_a_reply_that_cannot_be_used_says_why(data, match):
    with pytest.raises(HttpReplyError, match=match):
        read(data)


def test_a_long_reply_in_many_pieces_is_not_read_again_for_each():
    body = b"x" * 1_000_000
    reader = ReplyReader(2_000_000)
    reader.feed(OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body))
    for start in range(0, len(body), 100):
        assert reader.feed(body[start : start + 100]) is None
    reply = reader.feed(b"\r\n0\r\n\r\n")
    assert reply is not None
    assert reply.body == body


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nxx", 429),
        (b"HTTP/1.1 503 No\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", 503),
        (b"HTTP/1.1 204 Done\r\nTransfer-Encoding: chunked\r\n\r\n", 204),
    ],
)
def test_the_status_counts_where_there_is_no_body_to_read(data, status):
    reply = ReplyReader(1000).feed(data)
    assert (reply.status, reply.body) == (status, b"")


def test_only_one_packed_body_is_taken():
    packed = 2 * gzip.compress(b"hello ", mtime=0)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    with pytest.raises(HttpReplyError, match="something follows"):
        ReplyReader(1000).feed(head + packed)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + 20_000 * b"a: b\r\n",
        10_000 * b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
def test_trailers_and_interim_replies_are_bounded(data):
    with pytest.raises(HttpReplyError, match="interim replies or trailers are over"):
        ReplyReader(1000).feed(data)


def test_a_head_in_many_pieces_is_searched_once(monkeypatch):
    searched = 0

    class Counting:
        def search(self, buffer, start, stop):
            nonlocal searched
            searched += max(0, min(len(buffer), stop) - start)
            return head_end.search(buffer, start, stop)

    head_end = http_reply._HEAD_END
    monkeypatch.setattr(http_reply, "_HEAD_END", Counting())
    data = b"HTTP/1.1 200 OK\r\n" + 2_000 * b"a: b\r\n" + b"Content-Length: 0\r\n\r\n"
    reader = ReplyReader(1000)
    replies = [reader.feed(data[at : at + 4]) for at in range(0, len(data), 4)]
    assert replies[-1] is not None
    assert searched < 3 * len(data)
