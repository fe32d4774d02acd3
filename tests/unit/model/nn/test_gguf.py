import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.model.nn.gguf import open_gguf
from sandlot.model.nn.quants import QUANTS, unpack_blocks

SCALES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}
"""Bytes where a block keeps its fp16 numbers, which are kept finite."""


@pytest.mark.parametrize("kind", QUANTS)
def test_blocks_unpack_as_the_gguf_package_unpacks_them(kind: int):
    quant = QUANTS[kind]
    random = np.random.default_rng(kind)
    blocks = random.integers(0, 256, (64, quant.size_bytes), np.uint8)
    if quant.name in {"F32", "F16", "BF16"}:
        width = {"F32": "<f4", "F16": "<f2", "BF16": None}[quant.name]
        values = random.normal(size=(64, 1)).astype("<f4")
        blocks = values.astype(width).view(np.uint8) if width else values.view(np.uint8)[:, 2:].copy()
    for at in SCALES.get(quant.name, ()):
        blocks[:, at : at + 2] = random.normal(size=(64, 1)).astype("<f2").view(np.uint8)
    ours = unpack_blocks(quant, blocks.tobytes(), (64, quant.weights))
    theirs = gguf.quants.dequantize(blocks.reshape(1, -1), gguf.GGMLQuantizationType(kind))
    assert ours.dtype == np.float32
    assert np.array_equal(ours.reshape(-1), np.asarray(theirs, np.float32).reshape(-1))


def written(path: Path) -> Path:
    """A small file with a value of every kind and two tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("a.count", 7)
    writer.add_float32("a.number", 0.5)
    writer.add_bool("a.flag", True)
    writer.add_int64("a.negative", -(2**40))
    writer.add_string("a.text", "häuser")
    writer.add_array("a.list", ["x", "", "yz"])
    writer.add_array("a.numbers", [1, 2, 3])
    writer.add_tensor("first", np.arange(6, dtype=np.float32).reshape(2, 3))
    packed = gguf.quants.quantize(np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("second", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata_and_tensors_are_read(tmp_path: Path):
    with open_gguf(written(tmp_path / "small.gguf")) as file:
        assert file.metadata["a.count"] == 7
        assert file.metadata["a.number"] == 0.5
        assert file.metadata["a.flag"] is True
        assert file.metadata["a.negative"] == -(2**40)
        assert file.metadata["a.text"] == "häuser"
        assert file.metadata["a.list"] == ["x", "", "yz"]
        assert list(file.metadata["a.numbers"]) == [1, 2, 3]
        assert np.array_equal(file.tensors["first"].read(), np.arange(6).reshape(2, 3))
        assert np.allclose(file.tensors["second"].read(), np.linspace(-1, 1, 128).reshape(2, 64), atol=0.01)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def tensor(name: str = "t", dimensions: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    sizes = b"".join(struct.pack("<Q", size) for size in dimensions)
    return text(name) + struct.pack("<I", len(dimensions)) + sizes + struct.pack("<IQ", kind, offset)


def file_of(*, tensors: tuple[bytes, ...] = (), values: tuple[bytes, ...] = (), version: int = 3, data: int = 256) -> bytes:
    table = b"".join(values) + b"".join(tensors)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)) + table
    return head + bytes(-len(head) % 32) + bytes(data)


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "another format": (b"PK\x03\x04" + bytes(64), "GGUF"),
    "an old version": (file_of(version=1), "version 1"),
    "the other byte order": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version"),
    "countless tensors": (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "cannot fit"),
    "more tensors than any model has": (b"GGUF" + struct.pack("<IQQ", 3, 65_537, 0) + bytes(65_537 * 24), "65536 is the maximum"),
    "countless values": (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "cannot fit"),
    "an endless key": (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62) + bytes(64), "cannot fit"),
    "an endless array": (file_of(values=(text("k") + struct.pack("<IIQ", 9, 4, 2**61),)), "cannot fit"),
    "arrays of arrays": (file_of(values=(text("k") + struct.pack("<IIQ", 9, 9, 1),)), "arrays of type 9"),
    "an unknown value type": (file_of(values=(text("k") + struct.pack("<I", 99),)), "99"),
    "a key twice": (file_of(values=(text("k") + struct.pack("<IB", 0, 1),) * 2), "twice"),
    "an odd alignment": (file_of(values=(text("general.alignment") + struct.pack("<II", 4, 24),)), "power of two"),
    "no alignment": (file_of(values=(text("general.alignment") + struct.pack("<II", 4, 0),)), "power of two"),
    "an alignment of words": (file_of(values=(text("general.alignment") + struct.pack("<I", 8) + text("x"),)), "power of two"),
    "a tensor beyond the end": (file_of(tensors=(tensor(offset=2**50),)), "would span bytes"),
    "a tensor longer than the file": (file_of(tensors=(tensor(dimensions=(2**31, 2**31)),)), "would span bytes"),
    "an unaligned tensor": (file_of(tensors=(tensor(offset=7),)), "would span bytes"),
    "an unknown tensor type": (file_of(tensors=(tensor(kind=77),)), "type 77"),
    "no dimensions": (file_of(tensors=(tensor(dimensions=()),)), "0 dimensions"),
    "nine dimensions": (file_of(tensors=(tensor(dimensions=(1,) * 9),)), "9 dimensions"),
    "an empty tensor": (file_of(tensors=(tensor(dimensions=(0, 4)),)), "not a multiple"),
    "half a block": (file_of(tensors=(tensor(dimensions=(33, 32), kind=8),)), "not a multiple"),
    "a tensor twice": (file_of(tensors=(tensor(), tensor())), "twice"),
    "a thousand tensors in one place": (
        file_of(tensors=tuple(tensor(f"t{number}", (64,)) for number in range(1000))),
        "overlaps other tensors",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name: str, tmp_path: Path):
    data, told = HOSTILE[name]
    (tmp_path / "file.gguf").write_bytes(data)
    with pytest.raises(ValueError, match=told), open_gguf(tmp_path / "file.gguf"):
        pass


def test_an_array_of_numbers_takes_no_more_memory_than_the_file(tmp_path: Path):
    size = 2 << 20
    (tmp_path / "file.gguf").write_bytes(file_of(values=(text("k") + struct.pack("<IIQ", 9, 0, size) + bytes(size),)))
    tracemalloc.start()
    try:
        with open_gguf(tmp_path / "file.gguf") as file:
            assert len(file.metadata["k"]) == size
            assert tracemalloc.get_traced_memory()[1] < size + (1 << 18)
    finally:
        tracemalloc.stop()


def test_metadata_larger_than_any_tokenizer_is_refused(tmp_path: Path):
    size = 33 << 20
    with (tmp_path / "file.gguf").open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 0, size))
        file.truncate(size + 4096)  # no such bytes are on disk
    with pytest.raises(ValueError, match="values cannot fit"), open_gguf(tmp_path / "file.gguf"):
        pass


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return written(tmp_path_factory.mktemp("gguf") / "small.gguf").read_bytes()


def _cut(data: bytes, at: int, _byte: int) -> bytes:
    return data[:at]


def _flip(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + bytes([byte]) + data[at + 1 :]


@settings(max_examples=4 * settings.default.max_examples)
@given(st.sampled_from([_cut, _flip]), st.floats(0, 1, exclude_max=True), st.integers(0, 255))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, damage: Callable[[bytes, int, int], bytes], where: float, byte: int
):
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(damage(whole, int(where * len(whole)), byte))
    with suppress(ValueError), open_gguf(path) as file, np.errstate(all="ignore"):
        for stored in file.tensors.values():
            stored.read()
