"""Images in OpenAI's and Anthropic's shapes: what a client sends, our servers read; what is no image they refuse by name."""

import base64
import json
import struct

import pytest
from starlette.exceptions import HTTPException

from builders.pictures import SVG, huge_by_header, png
from sandlot.core.ports.model import Sampling
from sandlot.core.trace import ImagePart, Message, Text, ToolCall, ToolResult
from sandlot.core.types import Role, digest
from sandlot.model.wire.anthropic_server import read_messages
from sandlot.model.wire.openai_client import request_body
from sandlot.model.wire.openai_server import read_chat

PICTURE = png(6, 5)
PART = ImagePart(digest(PICTURE), "image/png", width=6, height=5)
BASE64 = base64.b64encode(PICTURE).decode()


def openai(*content, role="user", **more):
    return json.dumps({"messages": [{"role": role, "content": list(content), **more}]}).encode()


def anthropic(*content, role="user"):
    return json.dumps({"messages": [{"role": role, "content": list(content)}]}).encode()


def image_url(url):
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def source(data, kind="base64", media_type="image/png"):
    return {"type": "image", "source": {"type": kind, "media_type": media_type, "data": data}}


def test_what_our_client_sends_our_server_reads():
    history = [
        Message(role=Role.USER, parts=(Text("What is"), PART, Text("this?"))),
        Message(role=Role.ASSISTANT, parts=(ToolCall("c1", "look", {}),)),
        Message(role=Role.TOOL, parts=(ToolResult("c1", "seen", images=(PART,)),), agent="environment"),
    ]
    _, asked = read_chat(request_body("m", history, (), Sampling(), images={PART.artifact: PICTURE}), images=True)
    assert asked.images == {PART.artifact: PICTURE}
    assert asked.messages[:2] == tuple(history[:2])
    assert asked.messages[2].results == (ToolResult("c1", "seen"),)
    assert asked.messages[3].parts == (Text("The image of the tool result of call c1:"), PART)


def test_a_tool_message_may_hold_an_image():
    body = openai({"type": "text", "text": "seen"}, image_url(f"data:image/png;base64,{BASE64}"), role="tool", tool_call_id="c1")
    assert read_chat(body, images=True)[1].messages[0].results == (ToolResult("c1", "seen", images=(PART,)),)


def test_anthropics_blocks_are_read_in_messages_and_in_tool_results():
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "seen"}, source(BASE64)]}
    asked = read_messages(
        anthropic(result, {"type": "text", "text": "and"}, source(BASE64, media_type="image/jpeg")), images=True
    )
    assert asked.messages[0].results == (ToolResult("t1", "seen", images=(PART,)),)
    assert asked.messages[1].parts == (Text("and"), PART)  # the type is read from the bytes
    assert asked.images == {PART.artifact: PICTURE}


def encoded(data):
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (openai(image_url("http://169.254.169.254/latest")), "`messages[0].content[0]`: is not a data URI"),
        (openai(image_url("file:///etc/passwd")), "is not a data URI"),
        (openai({"type": "image_url"}), "is not a data URI"),
        (openai(image_url("data:image/png;base64,@@@")), "base64"),
        (openai(image_url(f"data:image/png;base64,{encoded(SVG)}")), "SVG drawing"),
        (openai(image_url(f"data:image/png;base64,{encoded(huge_by_header())}")), "60000 x 60000"),
        (openai(image_url("data:image/png;base64," + "A" * 8_000_000)), "more than 5,242,880 bytes"),
        (openai(image_url(f"data:image/png;base64,{BASE64}"), role="assistant"), "only text is supported"),
        (openai({"type": "input_audio", "input_audio": {}}), "is of type `input_audio`"),
        (anthropic(source("", "url")), "must be of type `base64`"),
        (anthropic({"type": "image"}), "must be of type `base64`"),
        (anthropic(source(encoded(SVG))), "SVG drawing"),
        (
            anthropic({"type": "tool_result", "tool_use_id": "t", "content": [source(encoded(SVG))]}),
            "content[0].content[0]`: this",
        ),
        (anthropic(source(BASE64), role="assistant"), "is of type `image`"),
    ],
)
def test_what_is_no_image_is_refused_by_name(body, says):
    with pytest.raises(HTTPException) as caught:
        (read_messages if b'"image"' in body else read_chat)(body, images=True)
    assert caught.value.status_code == 400
    assert says in caught.value.detail


@pytest.mark.parametrize("read", [read_chat, read_messages])
def test_a_server_of_a_text_model_refuses_images(read):
    body = openai(image_url(f"data:image/png;base64,{BASE64}")) if read is read_chat else anthropic(source(BASE64))
    with pytest.raises(HTTPException, match="only text"):
        read(body)


def test_one_image_many_times_counts_each_time():
    asked = read_messages(anthropic(*[source(BASE64)] * 256), images=True)
    assert (len(asked.messages[0].parts), asked.images) == (256, {PART.artifact: PICTURE})
    with pytest.raises(HTTPException, match="one image too many; a request may hold 256"):
        read_messages(anthropic(*[source(BASE64)] * 257), images=True)


def test_the_pixels_of_a_request_are_limited():
    large = [gif(6000, 6000, number) for number in range(9)]
    blocks = [source(base64.b64encode(each).decode()) for each in large]
    assert len(read_messages(anthropic(*blocks[:8], *blocks[:8]), images=True).images) == 8  # each is unpacked once
    with pytest.raises(HTTPException, match="300,000,000 pixels in all"):
        read_messages(anthropic(*blocks), images=True)


def gif(width, height, colour):
    """A GIF that is large by its header only."""
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0, colour, 0)
    return screen + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x01\x00\x00;"
