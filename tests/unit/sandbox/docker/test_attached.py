import contextlib
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.errors import SandboxError
from sandlot.sandbox.docker.attached import AttachedStream


def piece(stream: int, data: bytes) -> bytes:
    return bytes((stream, 0, 0, 0)) + len(data).to_bytes(4, "big") + data


def received(sent: bytes, cuts: list[int]) -> bytes:
    """What comes out of an attached connection when these bytes arrive cut at these places."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        attached = AttachedStream(ours)
        whole = b""
        for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
            if start == end:
                continue
            theirs.sendall(sent[start:end])
            with contextlib.suppress(BlockingIOError):
                whole += attached.recv(1 << 20)
        return whole


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=40)), max_size=8), st.data())
def test_what_was_printed_comes_out_however_it_was_cut(pieces, data):
    sent = b"".join(piece(stream, printed) for stream, printed in pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=12)))
    assert received(sent, cuts) == b"".join(printed for stream, printed in pieces if stream == 1)


@pytest.mark.parametrize("sent", [b"HTTP/1.1 400 Bad", piece(3, b"x"), b"\1\0\1\0\0\0\0\1x"])
def test_what_the_engine_did_not_cut_is_refused(sent):
    with pytest.raises(SandboxError, match="headers"):
        received(sent, [])


def test_the_end_is_the_end():
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        assert AttachedStream(ours).recv(10) == b""


def test_a_header_alone_is_nothing_yet():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(piece(1, b"abc")[:8])
        with pytest.raises(BlockingIOError):
            AttachedStream(ours).recv(100)
