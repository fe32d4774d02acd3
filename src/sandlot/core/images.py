"""Images: what a tool or a task gives, how they are stored, and how text stands in for them.

A tool returns an `Image`, alone or in a list among texts. It becomes an `ImagePart`: the hash of its bytes, which are stored once
with the run. The bytes are read again where a model or a judge is asked: `images_stored_in` says where, for everything below it
(the rollout sets it), and `load_images` reads them.

A model that takes text only gets what the environment declared (`Environment(images=...)`): `describe_images` replaces each image
by a line of text, or by nothing. The trace keeps the image either way.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import anyio.to_thread
import msgspec

from sandlot.core.errors import ModelError
from sandlot.core.image_formats import image_facts
from sandlot.core.ports.store import Blobs
from sandlot.core.text import one_line
from sandlot.core.trace import ImagePart, Message, Part, Text, ToolResult

ImagePolicy = Literal["require", "describe", "drop"]
"""What a model that cannot see gets: nothing at all (it is refused before the first rollout), a line of text for each image, or
the text without the images."""
IMAGE_POLICIES: tuple[ImagePolicy, ...] = ("require", "describe", "drop")
MAX_ALT_CHARS = 1000
_SMALL_BYTES = 2**15
"""Checking an image of this size takes no longer than starting a thread."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image for the agent to see: return it from a tool, alone or in a list with text, or give it to a `Task`.

    PNG, JPEG, GIF and WebP are allowed, up to 5 MiB and 8000 pixels on a side. The type is read from the bytes. Anything
    else becomes an error that the agent reads. The environment says what a model gets that cannot see: `Environment(images=...)`.

    ```python
    from sandlot import Environment, Image, World

    env = Environment("plots", image="host", images="require")


    @env.tool
    async def look_at_plot(world: World) -> list[str | Image]:
        "Show the plot as it is now."
        return ["The plot:", Image(await world.read("/work/plot.png"), alt="the plot /work/plot.png")]
    ```
    """

    data: bytes
    """The bytes of the file."""
    alt: str = ""
    """What is in it, in a few words: for models that take text only, and for people."""


async def store_image(image: Image, blobs: Blobs) -> ImagePart:
    """Check an image, store its bytes once, and return the part for the trace; `BadImageError` if it may not be shown."""
    data = bytes(image.data)
    facts = image_facts(data) if len(data) <= _SMALL_BYTES else await anyio.to_thread.run_sync(image_facts, data)
    artifact = await blobs.put(data)
    alt = one_line(image.alt, MAX_ALT_CHARS)
    return ImagePart(artifact, facts.media_type, width=facts.width, height=facts.height, alt=alt)


# -- what stands for an image where it cannot be shown -----------------------------------------------------------------


def image_line(image: ImagePart) -> str:
    """One line that says what an image is: `[image: a chart, 640 x 480 pixels, image/png]`."""
    size = f"{image.width} x {image.height} pixels" if image.width else ""
    return f"[image: {', '.join(filter(None, (image.alt, size, image.media_type)))}]"


def images_of(message: Message) -> Iterator[ImagePart]:
    """The images of a message, those of tool results included, in order."""
    for part in message.parts:
        if isinstance(part, ImagePart):
            yield part
        elif isinstance(part, ToolResult):
            yield from part.images


def describe_images(message: Message, how: str) -> Message:
    """The message for a model that takes text only: `describe` has a line of text for each image, `drop` has none.

    With any other word it stays as it is.
    """
    if how not in {"describe", "drop"} or not any(images_of(message)):
        return message
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ImagePart):
            if how == "describe":
                parts.append(Text(f"\n{_unseen(part)}"))
        elif isinstance(part, ToolResult) and part.images:
            lines = [_unseen(image) for image in part.images] if how == "describe" else []
            parts.append(msgspec.structs.replace(part, text="\n".join([part.text, *lines]), images=()))
        else:
            parts.append(part)
    return msgspec.structs.replace(message, parts=tuple(parts))


def _unseen(image: ImagePart) -> str:
    return image_line(image)[:-1] + "; you cannot see images]"


# -- the bytes, where a model is asked ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ImageStore:
    blobs: Blobs
    accepted: bool


_STORE: ContextVar[_ImageStore | None] = ContextVar("image_store", default=None)


@contextmanager
def images_stored_in(blobs: Blobs, *, accepted: bool = False) -> Generator[None]:
    """Below this, `load_images` reads from these blobs and `keep_images` writes to them.

    `accepted`: the model sees images, or gets a text for them; so an agent with a loop of its own may send some.
    """
    token = _STORE.set(_ImageStore(blobs, accepted))
    try:
        yield
    finally:
        _STORE.reset(token)


async def load_images(messages: Sequence[Message]) -> dict[str, bytes]:
    """The bytes of all images of the messages, by hash; `ModelError` if one is not stored."""
    wanted = {image.artifact for message in messages for image in images_of(message)}
    if not wanted:
        return {}
    store = _STORE.get()
    if store is None:
        raise ModelError("the messages hold images, and nothing says where their bytes are stored", kind="bad_request")
    try:
        return {artifact: await store.blobs.get(artifact) for artifact in sorted(wanted)}
    except KeyError as error:
        raise ModelError(f"the image {str(error)[:80]} is not stored with the run", kind="bad_request") from error


def images_accepted() -> bool:
    """True if an agent with a loop of its own may send images to the model."""
    store = _STORE.get()
    return store is not None and store.accepted


async def keep_images(found: Mapping[str, bytes]) -> None:
    """Store images that came with a request."""
    store = _STORE.get()
    if store is not None:
        for data in found.values():
            await store.blobs.put(data)
