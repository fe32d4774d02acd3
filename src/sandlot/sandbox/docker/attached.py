"""The attached streams of a container's process as one connection: we send its input and receive its output.

The engine puts an eight-byte header before each piece of output (stream number, three zeros, big-endian length); it is removed
here. The headers are the engine's own. The bytes between them come from the sandbox, and the link checks them.
"""

import socket

from sandlot.sandbox.link.wire import protocol_error

_HEADER_BYTES = 8
_STDOUT = 1


class AttachedStream:
    """A non-blocking connection over an upgraded socket of the engine."""

    def __init__(self, sock: socket.socket, received: bytes = b"") -> None:
        self._socket = sock
        self._waiting = bytearray(received)
        self._left = 0
        self._wanted = False

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def recv(self, size: int, /) -> bytes:
        """Output of the process; empty at the end, `BlockingIOError` if there is none yet."""
        data = self._socket.recv(size)
        if not data:
            return b""
        self._waiting += data
        printed = self._printed()
        if not printed:
            raise BlockingIOError
        return printed

    def send(self, data: memoryview, /) -> int:
        """Send input; returns the number of bytes sent."""
        return self._socket.send(data)

    def shutdown(self, how: int, /) -> None:
        """End the connection; the engine then closes the process's input."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """Close the descriptor."""
        self._socket.close()

    def _printed(self) -> bytes:
        pieces: list[bytes] = []
        at = 0
        while at < len(self._waiting):
            if self._left == 0:
                if len(self._waiting) - at < _HEADER_BYTES:
                    break
                if self._waiting[at] > 2 or any(self._waiting[at + 1 : at + 4]):
                    raise protocol_error("output without the engine's headers")
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
