"""A toy model behind token ids: bytes are tokens, turns are framed by two special ones, and replies are scripted.

Small enough to check by eye, honest enough for every suite: it implements `TokenModel`, `Renderer` and the server's `Words`.
"""

import json
import math
import struct
from collections.abc import Callable

import anyio

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampled
from sandlot.core.trace import Message, Text, ToolCall, ToolResult
from sandlot.core.types import Role

START, END = 256, 257
CALL = "CALL "


class ToyWords:
    size = 258

    def encode_template(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids) -> str:
        special = {START: b"<start>", END: b"<end>"}
        return b"".join(special.get(each) or bytes([each]) for each in ids).decode("utf-8", "replace")


class ToyRenderer:
    name = "toy/1"
    stop_ids = (END,)

    def __init__(self):
        self.words = ToyWords()

    def render(self, messages, tools) -> list[int]:
        ids = self._turn("tools", json.dumps([tool.name for tool in tools])) if tools else []
        for message in messages:
            ids += self._turn(message.role.value, spelled(message))
        return [*ids, START, *b"assistant\n"]

    def parse(self, ids, prefix="call") -> Message:
        text = self.words.decode([each for each in ids if each != END])
        said, mark, call = text.partition(CALL)
        parts = (Text(said),) if said else ()
        if mark:
            name, _, arguments = call.partition(" ")
            parts += (ToolCall(f"{prefix}0", name, json.loads(arguments)),)
        return Message(role=Role.ASSISTANT, parts=parts)

    def bridge(self, ids, messages) -> list[int] | None:
        if ids[-1] != END:
            return None
        return [each for message in messages for each in self._turn(message.role.value, spelled(message))] + [
            START,
            *b"assistant\n",
        ]

    def _turn(self, role: str, text: str) -> list[int]:
        return [START, *role.encode(), 10, *text.encode(), END]


def spelled(message: Message) -> str:
    pieces = []
    for part in message.parts:
        match part:
            case ToolCall():
                pieces.append(f"{CALL}{part.name} {json.dumps(part.arguments)}")
            case ToolResult() | Text():
                pieces.append(part.text)
    return "".join(pieces)


def sampled(text: str | bytes, *, stop="stop", version=7, cached=0) -> Sampled:
    ids = [*(text.encode() if isinstance(text, str) else text)]
    ids += [END] if stop == "stop" else []
    logprobs = [-math.log(1 + place) for place in range(len(ids))]
    return Sampled(
        ids=struct.pack(f"<{len(ids)}i", *ids),
        logprobs=struct.pack(f"<{len(ids)}f", *logprobs),
        versions=((len(ids), version),),
        stop=stop,
        cached=cached,
    )


class ScriptedTokens:
    """Plays replies in order, then `then`; remembers what it was asked. A reply is text, a `Sampled`, an error or a function."""

    name = "toy"

    def __init__(self, *replies, then: object = "ok", context: int = 4096):
        self.replies = list(replies)
        self.then = then
        self.context = context
        self.asked: list[tuple[list[int], object, tuple[int, ...], str]] = []
        self.released: list[str] = []
        self.running = 0
        self.cancelled = 0
        self.begun = anyio.Event()
        self.freed = anyio.Event()

    async def sample(self, ids, sampling, *, stop_ids=(), session="") -> Sampled:
        if len(ids) >= self.context:
            raise ModelError(f"{len(ids)} tokens are over the context length of {self.context}", kind="context")
        self.asked.append((list(ids), sampling, tuple(stop_ids), session))
        self.running += 1
        self.begun.set()
        try:
            reply = self.replies.pop(0) if self.replies else self.then
            if isinstance(reply, Callable):
                reply = await reply(ids)
            if isinstance(reply, Exception):
                raise reply
            reply = reply if isinstance(reply, Sampled) else sampled(reply)
            return ended(reply, min(sampling.max_tokens or self.context, self.context - len(ids)), stop_ids)
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            self.freed.set()
            raise
        finally:
            self.running -= 1

    async def release(self, session: str) -> None:
        self.released.append(session)


def ended(reply: Sampled, most: int, stop_ids) -> Sampled:
    """As an engine would: up to the first stop token, or as far as it may; the last token is said again until then."""
    ids = struct.unpack(f"<{len(reply.ids) // 4}i", reply.ids)
    stops = [place for place, each in enumerate(ids) if each in stop_ids]
    num = min(stops[0] + 1 if stops else most, most)
    logprobs = struct.unpack(f"<{len(ids)}f", reply.logprobs)
    whole = [(*ids, *[ids[-1]] * most)[:num], (*logprobs, *[logprobs[-1]] * most)[:num]]
    return Sampled(
        ids=struct.pack(f"<{num}i", *whole[0]),
        logprobs=struct.pack(f"<{num}f", *whole[1]),
        versions=((num, reply.versions[0][1]),),
        stop="stop" if whole[0][-1] in stop_ids else "length",
        cached=reply.cached,
    )


async def never(ids):
    await anyio.sleep_forever()
