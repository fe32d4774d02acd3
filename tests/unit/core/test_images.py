"""Image files are hostile: types are read from bytes, and nothing is unpacked beyond what a header announces."""

import contextlib
import io
import random
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from builders.pictures import SIGNATURE, SVG, chunk, header, huge_by_header, png, unpacked_bomb
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.image_formats import MAX_IMAGE_BYTES, BadImageError, ImageFacts, image_facts
from sandlot.core.images import Image, describe_images, image_line, images_stored_in, load_images, store_image
from sandlot.core.task import Task
from sandlot.core.trace import ImagePart, Message, Text, ToolResult
from sandlot.core.types import Role
from sandlot.store.blobs import MemoryBlobs


def foreign(kind: str, mode: str, size: tuple[int, int], **options) -> bytes:
    """An image that another program wrote."""
    out = io.BytesIO()
    Pillow.frombytes("L", size, random.Random(1).randbytes(size[0] * size[1])).convert(mode).save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "mode", "options"),
    [
        ("PNG", "1", {}),
        ("PNG", "L", {}),
        ("PNG", "P", {}),
        ("PNG", "RGB", {}),
        ("PNG", "RGBA", {"optimize": True}),
        ("PNG", "I;16", {}),
        ("JPEG", "L", {}),
        ("JPEG", "RGB", {"progressive": True}),
        ("GIF", "P", {}),
        ("WEBP", "RGB", {}),
        ("WEBP", "RGBA", {"lossless": True}),
    ],
)
def test_what_another_program_wrote_is_read_right(kind, mode, options):
    assert image_facts(foreign(kind, mode, (61, 37), **options)) == ImageFacts(f"image/{kind.lower()}", 61, 37)


def test_an_interlaced_png_is_read_right():
    rows = {(0, 0): (1, 1), (4, 0): (1, 1), (0, 4): (2, 1), (2, 0): (1, 2), (0, 2): (3, 1), (1, 0): (2, 3), (0, 1): (5, 2)}
    pixels = b"".join((b"\0" + bytes(columns)) * lines for columns, lines in rows.values())
    data = SIGNATURE + header(5, 5, interlaced=1) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")
    assert Pillow.open(io.BytesIO(data)).load() is not None
    assert image_facts(data) == ImageFacts("image/png", 5, 5)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "there are no bytes"),
        (SVG, "SVG drawing, which can hold scripts"),
        (b"<?xml version='1.0'?><!-- x -->" + SVG, "SVG drawing"),
        (b"<html>", "not an image"),
        (b"%PDF-1.7", "not an image"),
        (huge_by_header(), "60000 x 60000 pixels"),
        (huge_by_header(0, 5), "0 x 5 pixels"),
        (huge_by_header(7999, 7999), "7999 x 7999 pixels"),
        (png(pixels=b"\0\0"), "2 bytes of pixels instead of 8"),
        (png()[:-20], "broken"),
        (png()[:-5] + b"12345", "checksum"),
        (png() + b"PK\x03\x04", "4 bytes follow the end"),
        (png(more=chunk(b"acTL", bytes(8))), "animated"),
        (SIGNATURE + chunk(b"IEND", b""), "does not begin with its header"),
        (SIGNATURE + header(2, 2, depth=3) + chunk(b"IEND", b""), "colour type 0 with 3 bits"),
        (b"\xff\xd8\xff\xd9", "no size"),
        (b"\xff\xd8\xff\xc0\0\x11\x08" + struct.pack(">HH", 65535, 65535), "65535 x 65535"),
        (b"GIF89a" + struct.pack("<HHBBB", 9, 9, 0, 0, 0) + b";", "no frame"),
        (b"GIF89a" + struct.pack("<HHBBB", 9, 9, 0, 0, 0) + b"," + struct.pack("<HHHHB", 0, 0, 65535, 65535, 0), "does not fit"),
        (b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0" + bytes(4) + b"\xff" * 6, "16777216 x 16777216"),
        (b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\x02" + bytes(9), "animated"),
        (b"RIFF\0\0\0\0WEBPXXXX", "no size"),
        (bytes(MAX_IMAGE_BYTES + 1), "make it smaller"),
    ],
)
def test_what_is_no_image_is_refused_with_a_reason(data, says):
    with pytest.raises(BadImageError, match=says):
        image_facts(data)


def test_a_bomb_is_refused_without_unpacking_it():
    bomb = unpacked_bomb()
    tracemalloc.start()
    with pytest.raises(BadImageError, match="more data than its header announces"):
        image_facts(bomb)
    assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    tracemalloc.stop()


_WHOLE = [
    foreign("PNG", "RGB", (9, 9)),
    foreign("JPEG", "RGB", (9, 9)),
    foreign("GIF", "P", (9, 9)),
    foreign("WEBP", "RGB", (9, 9)),
]


@given(st.sampled_from(_WHOLE), st.data())
def test_a_damaged_image_is_read_or_refused_and_nothing_else(whole, data):
    bytes_now = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place in data.draw(st.lists(st.integers(0, max(len(bytes_now) - 1, 0)), max_size=8)) if bytes_now else ():
        bytes_now[place] = data.draw(st.integers(0, 255))
    try:
        facts = image_facts(bytes(bytes_now))
    except BadImageError:
        return
    assert 0 < facts.width <= 8000
    assert 0 < facts.height <= 8000


@given(st.binary(max_size=200), st.sampled_from([b"", SIGNATURE, b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 "]))
def test_any_bytes_are_read_or_refused(rest, start):
    with contextlib.suppress(BadImageError):
        assert image_facts(start + rest).width > 0


async def test_an_image_is_stored_once_under_its_hash():
    blobs = MemoryBlobs()
    first, second = await store_image(Image(png(5, 4), alt="a\nb\x1b[31m"), blobs), await store_image(Image(png(5, 4)), blobs)
    assert first.artifact == second.artifact
    assert first == ImagePart(second.artifact, "image/png", width=5, height=4, alt="a b\\x1b[31m")
    with images_stored_in(blobs):
        assert await load_images([Message(role=Role.USER, parts=(first, second))]) == {first.artifact: png(5, 4)}
        with pytest.raises(ModelError, match="is not stored"):
            await load_images([Message(role=Role.USER, parts=(ImagePart("0" * 64),))])
    with pytest.raises(ModelError, match="where their bytes are stored"):
        await load_images([Message(role=Role.USER, parts=(first,))])


def test_text_stands_for_images_as_declared():
    chart = ImagePart("a" * 64, "image/png", width=3, height=2, alt="a chart")
    message = Message(role=Role.TOOL, parts=(ToolResult("c", "done", images=(chart, ImagePart("b" * 64))),))
    assert image_line(chart) == "[image: a chart, 3 x 2 pixels, image/png]"
    told = describe_images(message, "describe").results[0]
    assert told.images == ()
    assert told.text == (
        "done\n[image: a chart, 3 x 2 pixels, image/png; you cannot see images]\n[image: image/png; you cannot see images]"
    )
    assert describe_images(message, "drop").results[0] == ToolResult("c", "done")
    assert describe_images(message, "send") is message
    asked = Message(role=Role.USER, parts=(Text("What is this?"), chart))
    assert describe_images(asked, "drop").parts == (Text("What is this?"),)


def test_a_task_refuses_what_is_no_image():
    assert Task("t", images=(Image(png()),)).images[0].data == png()
    with pytest.raises(ConfigError, match="task `t`: this is an SVG"):
        Task("t", images=(Image(SVG),))
    with pytest.raises(ConfigError, match="images has a bytes"):
        Task("t", images=(png(),))  # type: ignore[arg-type]
