"""Reader of GGUF files (versions 2 and 3): metadata and tensors. Files are not trusted.

Every count, length and offset is compared with the bytes left in the file before it is used, and metadata, which may take several
times its size in memory, is limited: a hostile file costs at most some 250 MiB. Tensors stay on disk (mmap) until they are read.
"""

import math
import mmap
import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sandlot.model.nn.quants import QUANTS, Array, Quant, unpack_blocks

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_MOST_DIMENSIONS = 4
_MOST_METADATA_BYTES = 32 << 20
"""Names and metadata together. The vocabulary and the merges of a large tokenizer take 10 MiB."""
_MOST_NAMED = 65_536
"""Metadata values, and tensors. A model of 100 layers with 128 experts in each has some 40,000."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor in the file, still quantised."""

    name: str
    shape: tuple[int, ...]
    """In torch's order of dimensions; the file has the reverse."""
    quant: Quant
    file: memoryview
    begin: int
    end: int

    def read(self) -> Array:
        """Read its weights in fp32."""
        return unpack_blocks(self.quant, self.file[self.begin : self.end], self.shape)


@dataclass(frozen=True, slots=True)
class Gguf:
    """An open file."""

    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]


@contextmanager
def open_gguf(path: Path | str) -> Generator[Gguf]:
    """Open a file; its tensors can be read until the context ends. `ValueError` says what is wrong with it."""
    path = Path(path)
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise ValueError(f"{path} is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            try:
                gguf = _parse(_Reader(view))
            except ValueError as error:
                raise ValueError(f"{path} is not a valid GGUF file: {error}") from error
            yield gguf


class _Reader:
    """A bounds-checked cursor."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.at = 0

    @property
    def left(self) -> int:
        return min(len(self.view), _MOST_METADATA_BYTES) - self.at

    def take(self, num_bytes: int) -> bytes:
        if num_bytes > self.left:
            raise ValueError(f"{num_bytes} bytes are needed at offset {self.at}, {self.left} are left")
        self.at += num_bytes
        return bytes(self.view[self.at - num_bytes : self.at])

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def count(self, what: str, least_bytes: int) -> int:
        """The number of items that follow, each of at least `least_bytes` bytes."""
        count: int = self.number("<Q")
        if count * least_bytes > self.left:
            raise ValueError(f"{count} {what} cannot fit in the {self.left} bytes left")
        return count

    def text(self) -> str:
        return str(self.take(self.count("characters", 1)), "utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self.array(self.number("<I"))
        if kind not in _SCALARS:
            raise ValueError(f"unknown type {kind} of a metadata value")
        return self.number(_SCALARS[kind])

    def named(self, what: str, count: int, least_bytes: int) -> int:
        """The number of things with a name that follow."""
        if count > _MOST_NAMED or count * least_bytes > self.left:
            raise ValueError(f"{count} {what} cannot fit: {self.left} bytes are left, and {_MOST_NAMED} is the maximum")
        return count

    def array(self, kind: int) -> Sequence[Any]:
        if kind == _STRING:
            return [self.text() for _ in range(self.count("strings", 8))]
        if kind not in _SCALARS:
            raise ValueError(f"arrays of type {kind} are not supported")
        size = struct.calcsize(_SCALARS[kind])
        data = self.take(size * self.count("values", size))
        return cast("Any", memoryview(data)).cast(_SCALARS[kind][-1])  # a list would take up to nine times as much


def _parse(reader: _Reader) -> Gguf:
    if reader.left < 24 or reader.take(4) != b"GGUF":
        raise ValueError("it does not begin with `GGUF`")
    version = reader.number("<I")
    if version not in {2, 3}:
        raise ValueError(f"version {version} is not supported; supported: 2, 3 (little endian)")
    num_tensors: int = reader.number("<Q")
    metadata: dict[str, Any] = {}
    for _ in range(reader.named("metadata values", reader.number("<Q"), 13)):
        key = reader.text()
        if key in metadata:
            raise ValueError(f"key `{key}` occurs twice")
        metadata[key] = reader.value(reader.number("<I"))
    table = [_read_entry(reader) for _ in range(reader.named("tensors", num_tensors, 24))]
    return Gguf(metadata, _locate(reader, table, metadata.get("general.alignment", 32)))


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    shape: tuple[int, ...]
    quant: Quant
    offset: int


def _read_entry(reader: _Reader) -> _Entry:
    name = reader.text()
    num_dimensions: int = reader.number("<I")
    if not 0 < num_dimensions <= _MOST_DIMENSIONS:
        raise ValueError(f"`{name}` has {num_dimensions} dimensions; the maximum is {_MOST_DIMENSIONS}")
    shape = tuple(reader.number("<Q") for _ in range(num_dimensions))[::-1]
    kind: int = reader.number("<I")
    if kind not in QUANTS:
        known = ", ".join(quant.name for quant in QUANTS.values())
        raise ValueError(f"`{name}` is of type {kind}, which is not supported; supported: {known}")
    return _Entry(name, shape, QUANTS[kind], reader.number("<Q"))


def _locate(reader: _Reader, table: list[_Entry], alignment: Any) -> dict[str, GgufTensor]:
    if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
        raise ValueError(f"general.alignment is {alignment!r}; it must be a power of two")
    start = -(-reader.at // alignment) * alignment
    tensors: dict[str, GgufTensor] = {}
    total = 0
    for entry in table:
        quant, (*_, columns) = entry.quant, entry.shape
        weights = math.prod(entry.shape)
        size = weights // quant.weights * quant.size_bytes
        begin = start + entry.offset
        total += size
        if not weights or columns % quant.weights:
            raise ValueError(f"`{entry.name}` is {list(entry.shape)}, which is not a multiple of {quant.name} blocks")
        if entry.offset % alignment or begin + size > len(reader.view):
            raise ValueError(f"`{entry.name}` would span bytes {begin} to {begin + size} of {len(reader.view)}")
        if entry.name in tensors or total > len(reader.view):
            raise ValueError(f"`{entry.name}` occurs twice or overlaps other tensors")
        tensors[entry.name] = GgufTensor(entry.name, entry.shape, quant, reader.view, begin, begin + size)
    return tensors
