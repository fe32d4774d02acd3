"""A typed Python function as a tool.

Malformed, missing, unknown or mistyped arguments give a result with `error` that the agent can read, never an exception. Errors
of the author's code: a `ToolError` becomes such a result too; anything else is an `AuthorError`, which the session answers with
an error (`core/crashes.py`).
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakValueDictionary

import anyio
import msgspec

from sandlot.core.concurrency import author, isolate
from sandlot.core.crashes import OnCrash
from sandlot.core.errors import AuthorError, ConfigError, ToolError, boundary
from sandlot.core.images import Image
from sandlot.core.ports.world import ShowsImages, ToolSpec, World
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.tools.arguments import checked_arguments, clean
from sandlot.tools.schema import ToolSignature, signature_of

DECLARE_IMAGES = "say what models get that cannot see: `Environment(..., images='require')`, 'describe' or 'drop'"
MAX_RESULT_IMAGES = 16
"""Images of one tool result."""
_LOCKS: WeakValueDictionary[int, anyio.Lock] = WeakValueDictionary()
"""One lock for each world in which an isolated tool is running."""


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """Implements the `Tool` port over one function."""

    spec: ToolSpec
    function: Callable[..., Any]
    signature: ToolSignature
    isolated: bool = False
    """Run each call in a child process that can be killed. It then sees only `world.state`, `world.task` and `world.rng`."""
    on_crash: OnCrash | None = None
    """What a crash does to the rollout; None: what the environment says."""

    @classmethod
    def of(
        cls, function: Callable[..., Any], name: str | None = None, *, isolate: bool = False, on_crash: OnCrash | None = None
    ) -> "FunctionTool":
        """The tool for a function; `ConfigError` with file, line, parameter and fix if it cannot be a tool."""
        signature = signature_of(function)
        if isolate and author.is_async(function):
            raise ConfigError(
                f"{author.location_of(function)}: isolated tool `{function.__name__}` is async; isolated tools see only"
                " world.state and have nothing to await: make it a plain `def`, or remove `isolate`"
            )
        spec = ToolSpec(name=name or function.__name__, description=clean(signature.description), parameters=signature.parameters)
        return cls(spec, function, signature, isolate, on_crash)

    @property
    def concurrent(self) -> bool:
        """True for async functions; sync ones would use the world's state in several threads."""
        return author.is_async(self.function)

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Check the arguments, run the function outside the event loop, and return its result or error."""
        try:
            keywords = self.signature.check(checked_arguments(call))
            with boundary(AuthorError, f"tool `{self.spec.name}`"):
                value = await self._run(world, keywords)
        except ToolError as error:
            return ToolResult(call=call.id, text=clean(str(error)), error=True)
        except SystemExit as error:
            raise AuthorError(
                f"tool `{self.spec.name}` called exit({error.code!r}); raise ToolError or return instead"
            ) from error
        if isinstance(value, Image) or (isinstance(value, list | tuple) and any(isinstance(each, Image) for each in value)):  # pyright: ignore[reportUnknownVariableType] - an author's value
            return await self._pictured(world, call, cast("Sequence[Any]", value if isinstance(value, list | tuple) else [value]))
        return ToolResult(call=call.id, text=self._text(value))

    async def _pictured(self, world: World, call: ToolCall, values: Sequence[Any]) -> ToolResult:
        """A result with images; its text says where each stands, if there are several or text follows."""
        try:
            return await pictured_result(world, call, [each if isinstance(each, Image) else self._text(each) for each in values])
        except ToolError as error:
            return ToolResult(call=call.id, text=clean(str(error)), error=True)
        except LookupError:
            raise AuthorError(f"tool `{self.spec.name}` returned an `Image`; {DECLARE_IMAGES}") from None

    async def _run(self, world: World, keywords: dict[str, Any]) -> Any:
        if not self.isolated:
            first = (world,) if self.signature.wants_world else ()
            return await author.call(self.function, *first, **keywords)
        if not self.signature.wants_world:
            return await isolate.call(functools.partial(self.function, **keywords))
        lock = _LOCKS.setdefault(id(world), anyio.Lock())
        async with lock:
            return await self._run_on_copy(world, keywords)

    async def _run_on_copy(self, world: World, keywords: dict[str, Any]) -> Any:
        """Run on a copy of the world's state, which then replaces the state."""
        before = isolate.pickle_value(world.state)
        copy = _StateWorld(world)
        value, state, rng = await isolate.call(_call_in_child, self.function, copy, keywords)
        if isolate.pickle_value(world.state) != before:
            raise AuthorError(
                f"tool `{self.spec.name}`: another tool changed world.state while this isolated tool ran on a copy of it;"
                " isolate both tools, or neither",
                kind="conflict",
            )
        world.state = state
        world.rng.setstate(rng)
        return value

    def _text(self, value: Any) -> str:
        if isinstance(value, str):
            return clean(value)
        if value is None:
            return "ok"
        try:
            return msgspec.json.encode(value).decode()
        except UnicodeEncodeError:
            return clean(str(msgspec.to_builtins(value)))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise AuthorError(
                f"tool `{self.spec.name}` returned a `{type(value).__name__}` that cannot be written as JSON ({error});"
                " return text, plain data, a dataclass or a msgspec.Struct"
            ) from error


async def pictured_result(world: World, call: ToolCall, values: Sequence[str | Image]) -> ToolResult:
    """A result of texts and images; its text says where each image stands, if that is not clear from the order.

    `LookupError` if the world shows no images, `ToolError` if one is not allowed.
    """
    images = [value for value in values if isinstance(value, Image)]
    if len(images) > MAX_RESULT_IMAGES:
        raise ToolError(f"the result has {len(images)} images; at most {MAX_RESULT_IMAGES} are shown at once")
    stored = [await world.store_image(image) for image in images] if isinstance(world, ShowsImages) else [None]
    parts = tuple(part for part in stored if part is not None)
    if len(parts) < len(images):
        raise LookupError("this world shows no images")
    lines, number = list[str](), 0
    for value in values:
        number += isinstance(value, Image)
        lines.append(value if isinstance(value, str) else f"[image {number}]")
    if len(images) == 1 and len(values) > 1 and isinstance(values[-1], Image):
        lines.pop()  # one image after all text: nothing to tell apart
    return ToolResult(call=call.id, text=clean("\n".join(lines)), images=parts)


class _StateWorld:
    """What an isolated tool sees of the world."""

    def __init__(self, world: World) -> None:
        self.state, self.task, self.rng = world.state, world.task, world.rng

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"isolated tools see only world.state, world.task and world.rng, not `world.{name}`")


def _call_in_child(function: Callable[..., Any], world: _StateWorld, keywords: dict[str, Any]) -> tuple[Any, Any, Any]:
    value = function(world, **keywords)
    return value, world.state, world.rng.getstate()
