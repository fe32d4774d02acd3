"""The protocol of zygote and agents: length-prefixed frames, as defined in `agent/wire.h`.

Data from a sandbox is treated as hostile: every length is checked before it is used, and anything that is not a well-formed frame
ends the connection with a `SandboxError`, never with another Python error.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from sandlot.core.errors import SandboxError

FRAME_MAX = 1 << 20
"""The longest frame that either side may send, without its length field."""

WINDOW = 256 << 10
"""Most bytes of one direction of a channel that the other side has not read yet."""

_HEADER = struct.Struct("<IBI")
_LENGTH = struct.Struct("<I")
_ENTRY = struct.Struct("<BBIIIQQQ")
_EXIT = struct.Struct("<iQ?")


class FrameKind(IntEnum):
    """Kinds of frames; the numbers are those of `enum kind` in `agent/wire.h`."""

    CONFIGURE = 1
    START = 2
    ADD_FOLDER = 3
    ADD_UPPER = 4
    DROP_LAYER = 5
    COUNT = 6
    FATE = 7
    END = 8
    WEIGH = 9
    SPAWN = 16
    INPUT = 17
    GRANT = 18
    KILL = 19
    READ = 20
    WRITE = 21
    LIST = 22
    CONNECT = 23
    FREEZE = 24
    CLOSE = 25
    LISTEN = 26
    ACCEPT = 27
    HELLO = 64
    OUTPUT = 65
    EXITED = 66
    DATA = 67
    DONE = 68
    FAILED = 69
    CLOSED = 70
    TAKEN = 71


class Fate(IntEnum):
    """Whether a sandbox lives or how it ended; the numbers are those of `enum fate`."""

    LIVES = 0
    ENDED = 1
    OUT_OF_MEMORY = 2


class Listing(IntEnum):
    """What a LIST frame requests."""

    ITSELF = 0
    CHILDREN = 1
    BELOW = 2
    CHANGED = 3


@dataclass(frozen=True, slots=True)
class Frame:
    """One complete frame."""

    kind: int
    channel: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class ListingEntry:
    """One line of a listing."""

    path: str
    kind: str
    """`f` file, `d` folder, `l` link, `o` other, `-` not there any more, `t` too deep to look further."""
    image_kind: str
    """What the image has there; `-` for nothing. Only in a CHANGED listing."""
    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    image_size: int


def protocol_error(what: str) -> SandboxError:
    """The error for anything that a correct agent does not send."""
    return SandboxError(f"the sandbox sent {what}; its connection is closed", kind="protocol")


def pack_frame(kind: FrameKind, channel: int, payload: bytes = b"") -> bytes:
    """The bytes of one frame."""
    if len(payload) + 5 > FRAME_MAX:
        raise ValueError(f"a frame of {len(payload)} bytes is longer than {FRAME_MAX}; split it")
    return _HEADER.pack(len(payload) + 5, kind, channel) + payload


def pack_text(value: str | bytes) -> bytes:
    """Text or bytes inside a payload."""
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return _LENGTH.pack(len(data)) + data


def pack_texts(values: Sequence[str]) -> bytes:
    """A list of texts inside a payload."""
    return _LENGTH.pack(len(values)) + b"".join([pack_text(value) for value in values])


class FrameReader:
    """Splits a stream of bytes into frames."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete; `SandboxError` as soon as a length is impossible."""
        self._waiting += data
        frames: list[Frame] = []
        at, size = 0, len(self._waiting)
        while size - at >= 4:
            (length,) = _LENGTH.unpack_from(self._waiting, at)
            if not 5 <= length <= FRAME_MAX:
                raise protocol_error(f"a frame of impossible length {length}")
            if size - at < 4 + length:
                break
            _, kind, channel = _HEADER.unpack_from(self._waiting, at)
            frames.append(Frame(kind, channel, bytes(self._waiting[at + 9 : at + 4 + length])))
            at += 4 + length
        del self._waiting[:at]
        return frames


def take_number(payload: bytes) -> int:
    """The number in a DONE, TAKEN or CLOSED."""
    if len(payload) != 8:
        raise protocol_error(f"a number of {len(payload)} bytes")
    return int.from_bytes(payload, "little")


class Exit(NamedTuple):
    """How a command ended."""

    code: int
    dropped: int
    """Bytes of output beyond its limit."""
    others_live: bool
    """True if processes are left that were started inside, by this command or by another."""


def take_exit(payload: bytes) -> Exit:
    """The content of an EXITED."""
    if len(payload) != _EXIT.size:
        raise protocol_error(f"an exit of {len(payload)} bytes")
    return Exit._make(_EXIT.unpack(payload))


def take_failure(payload: bytes) -> tuple[int, str]:
    """Error number and message in a FAILED."""
    if len(payload) < 8 or len(payload) != 8 + int.from_bytes(payload[4:8], "little"):
        raise protocol_error("a malformed FAILED frame")
    return int.from_bytes(payload[:4], "little"), payload[8:].decode("utf-8", "replace")


def take_entries(payload: bytes) -> list[ListingEntry]:
    """The lines of one DATA frame of a listing."""
    entries: list[ListingEntry] = []
    at = 0
    while at < len(payload):
        if len(payload) - at < _ENTRY.size + 4:
            raise protocol_error("a listing that ends in the middle")
        kind, image_kind, mode, uid, gid, size, mtime_ns, image_size = _ENTRY.unpack_from(payload, at)
        (length,) = _LENGTH.unpack_from(payload, at + _ENTRY.size)
        at += _ENTRY.size + 4
        if length > len(payload) - at:
            raise protocol_error("a listing with a name longer than itself")
        path = payload[at : at + length].decode("utf-8", "surrogateescape")
        at += length
        entries.append(ListingEntry(path, chr(kind), chr(image_kind), mode, uid, gid, size, mtime_ns, image_size))
    return entries
