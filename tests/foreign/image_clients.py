"""The openai and anthropic packages send images to the server whose address is given; the picture comes on stdin."""

import base64
import json
import sys

import anthropic
import openai

PICTURE = base64.b64encode(sys.stdin.buffer.read()).decode()
ADDRESS = sys.argv[1].rstrip("/")


def use_openai() -> None:
    """A prompt with an image, a call, and its result followed by an image."""
    client = openai.OpenAI(base_url=f"{ADDRESS}/v1", api_key="x", max_retries=0)
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    history = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, shown]}]
    first = client.chat.completions.create(model="m", messages=history, tools=[tool]).choices[0].message
    assert json.loads(first.tool_calls[0].function.arguments) == {"at": "chart"}
    history += [first.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "here:"}]
    history.append({"role": "user", "content": [shown]})
    last = client.chat.completions.create(model="m", messages=history, tools=[tool]).choices[0].message
    assert last.content == "2 images", last
    try:
        address = {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": [address]}])
    except openai.BadRequestError as error:
        assert "data URI" in str(error), error  # noqa: PT017 - a program, not a test
    else:
        raise AssertionError("an address was accepted")


def use_anthropic() -> None:
    """The same, with the image inside the tool result, and streamed."""
    client = anthropic.Anthropic(base_url=ADDRESS, api_key="x", max_retries=0)
    shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
    tool = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
    history = [{"role": "user", "content": [{"type": "text", "text": "And this?"}, shown]}]
    first = client.messages.create(model="m", max_tokens=100, messages=history, tools=[tool])
    (call,) = [block for block in first.content if block.type == "tool_use"]
    history.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "here:"}, shown]}
    history.append({"role": "user", "content": [result]})
    with client.messages.stream(model="m", max_tokens=100, messages=history, tools=[tool]) as stream:
        assert stream.get_final_text() == "2 images"


use_openai()
use_anthropic()
print("openai", openai.__version__, "and anthropic", anthropic.__version__, "sent images")  # noqa: T201 - a program
