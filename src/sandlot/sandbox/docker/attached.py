"""The attached streams of an engine's process as one connection: what we send is its input, what it prints is what we receive.

The engine cuts output into pieces, each behind eight bytes (which stream, three zeros, big-endian length); here they are taken
off again. Those eight bytes are the engine's own, what lies between them is the sandbox's and is judged by the link.
"""

import socket

from sandlot.sandbox.link.wire import protocol_error

_HEADER_BYTES = 8
_STDOUT = 1


class AttachedStream:
    """A non-blocking connection (`link.Connection`) over a hijacked engine socket."""

    def __init__(self, sock: socket.socket, received: bytes = b"") -> None:
        self._socket = sock
        self._waiting = bytearray(received)
        self._left = 0
        self._wanted = False

    def fileno(self) -> int:
        """What to wait on."""
        return self._socket.fileno()

    def recv(self, size: int, /) -> bytes:
        """What its process printed; empty at the end, `BlockingIOError` if nothing came but a header."""
        data = self._socket.recv(size)
        if not data:
            return b""
        self._waiting += data
        printed = self._printed()
        if not printed:
            raise BlockingIOError
        return printed

    def send(self, data: memoryview, /) -> int:
        """How much of it was taken."""
        return self._socket.send(data)

    def shutdown(self, how: int, /) -> None:
        """End it; the engine then closes the process's input."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """Give the descriptor back."""
        self._socket.close()

    def _printed(self) -> bytes:
        pieces: list[bytes] = []
        at = 0
        while at < len(self._waiting):
            if self._left == 0:
                if len(self._waiting) - at < _HEADER_BYTES:
                    break
                if self._waiting[at] > 2 or any(self._waiting[at + 1 : at + 4]):
                    raise protocol_error("a stream the engine did not cut into pieces")
                self._wanted = self._waiting[at] == _STDOUT
                self._left = int.from_bytes(self._waiting[at + 4 : at + _HEADER_BYTES], "big")
                at += _HEADER_BYTES
                continue
            piece = bytes(self._waiting[at : at + self._left])
            at += len(piece)
            self._left -= len(piece)
            if self._wanted:
                pieces.append(piece)
        del self._waiting[:at]
        return b"".join(pieces)
