"""What every `ChatModel` promises.

Your fixture is `chat_of`: a function that opens (as an asynchronous context manager) your chat model on a server, or a
program, that answers everything with what the function is given: a text, a `ToolCall`, or an error, which stands for no answer.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import msgspec
import pytest

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import ChatModel, Reply, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Message, Text, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.testing.running import anyio_backend as anyio_backend
from sandlot.testing.running import pytestmark as pytestmark

_OpenChat = Callable[[str | ToolCall | Exception], AbstractAsyncContextManager[ChatModel]]
_ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object"})
_HISTORY = [
    text_message(Role.SYSTEM, "Be brief."),
    text_message(Role.USER, "2+2?"),
    Message(role=Role.ASSISTANT, parts=(Text("I add."), ToolCall("a", "add", {"x": 2}))),
    Message(role=Role.TOOL, parts=(ToolResult("a", "4"),)),
]


@pytest.mark.parametrize(
    "said", ["4", "", "größe\n\x00", ToolCall("c0", "add", {"x": 1})], ids=["text", "nothing", "odd", "call"]
)
async def test_a_reply_is_whole_and_can_be_stored(chat_of: _OpenChat, said: str | ToolCall) -> None:
    async with chat_of(said) as model:
        reply = await model.chat(_HISTORY, [_ADD], Sampling())
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(reply), type=Reply) == reply
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    if isinstance(said, ToolCall):
        assert reply.stop == "calls"
        assert [(call.name, call.arguments) for call in calls] == [(said.name, said.arguments)]
    else:
        assert (reply.stop, calls) == ("stop", [])
        assert "".join(part.text for part in reply.parts if isinstance(part, Text)) == said


async def test_a_failure_is_a_model_error_with_a_kind(chat_of: _OpenChat) -> None:
    async with chat_of(OSError("gone")) as model:
        with pytest.raises(ModelError) as caught:
            await model.chat(_HISTORY, (), Sampling())
    assert caught.value.kind not in {"", "crash"}


async def test_many_may_speak_at_once(chat_of: _OpenChat) -> None:
    got: list[Reply] = []

    async with chat_of("ok") as model, anyio.create_task_group() as group:

        async def one(number: int) -> None:
            got.append(await model.chat([text_message(Role.USER, str(number))], (), Sampling()))

        for number in range(50):
            group.start_soon(one, number)
    assert [reply.parts for reply in got] == [(Text("ok"),)] * 50


async def test_the_history_is_not_changed(chat_of: _OpenChat) -> None:
    before = msgspec.json.encode(_HISTORY)
    async with chat_of("ok") as model:
        await model.chat(_HISTORY, [_ADD], Sampling())
    assert msgspec.json.encode(_HISTORY) == before


async def test_the_name_is_a_line_of_text(chat_of: _OpenChat) -> None:
    async with chat_of("ok") as model:
        assert model.name
        assert model.name.isprintable()
