"""A rollout as a terminal recording: asciicast version 2, as asciinema plays it.

It is built from the trace: the shell commands of the agent, what they printed, and when. Text is made printable first, so that
what an agent printed cannot send escapes to the terminal of a person who plays the recording. Sessions of the tool `terminal`
were recorded while they ran, as pictures of the screen; they are stored with the run and stand between the commands.
"""

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.text import printable
from sandlot.core.trace import RECORDING, ToolCall, ToolResult, Trace

_SHELL = "bash"
"""The tool whose calls are recorded."""
_ARGUMENT = "command"
_WIDTH, _HEIGHT = 100, 30
_IDLE_S = 2.0
"""Players shorten longer waits to this: a model thinks for minutes."""
_OUTPUT = 20_000
"""Characters of one command's output that are recorded."""

Happening = tuple[float, str, str]
"""One line of a recording: seconds after the beginning, `o` for output or `m` for a marker, and the text."""


def has_terminal(trace: Trace) -> bool:
    """True if the agent ran shell commands or used a terminal."""
    return any(event.kind == RECORDING for event in trace.events) or any(
        call.name == _SHELL for node in trace.nodes for call in node.message.calls
    )


def terminal_events(trace: Trace) -> Iterator[Happening]:
    """The commands and their output, in the order of the trace. Times never go back."""
    now, answered = 0.0, 0.0
    waiting: set[str] = set()
    begins = _next_turns(trace)
    for number, node in enumerate(trace.nodes):
        if node.sampled:
            now = max(now, node.start_s + node.seconds)
            # The results were there when the next turn began; after the last one, when the tools were done.
            answered = begins.get(number, now + min(trace.phases.get("tools", 0.0), _IDLE_S))
        for call in node.message.calls:
            if call.name == _SHELL:
                waiting.add(call.id)
                yield round(now, 3), "m", f"message {number}"
                yield round(now, 3), "o", f"$ {_on_terminal(_command(call))}\r\n"
        for result in node.message.results:
            if result.call in waiting:
                now = max(now, answered)
                waiting.remove(result.call)
                yield round(now, 3), "o", _printed(result)


def recorded_events(trace: Trace, read: Callable[[str], bytes]) -> list[Happening]:
    """The commands, and the pictures of terminal sessions, in the order of time. `read` gives the bytes of an artifact."""
    happened = list(terminal_events(trace))
    for event in trace.events:
        if event.kind == RECORDING:
            lines = read(str(event.detail["artifact"])).splitlines()[1:]
            happened += [msgspec.json.decode(line, type=tuple[float, str, str]) for line in lines]
    return sorted(happened, key=operator.itemgetter(0))


def _next_turns(trace: Trace) -> dict[int, float]:
    """For each turn, when the next one began."""
    turns = [number for number, node in enumerate(trace.nodes) if node.sampled]
    return {turn: trace.nodes[following].start_s for turn, following in itertools.pairwise(turns)}


def _command(call: ToolCall) -> str:
    told = call.arguments.get(_ARGUMENT)
    return told if isinstance(told, str) else call.malformed or msgspec.json.encode(call.arguments).decode()


def _printed(result: ToolResult) -> str:
    text = _on_terminal(result.text[:_OUTPUT])
    left = len(result.text) - _OUTPUT
    return text + ("" if text.endswith("\n") else "\r\n") + (f"[{left:,} more characters]\r\n" if left > 0 else "")


def _on_terminal(text: str) -> str:
    return printable(text).replace("\n", "\r\n")


def asciicast_of(trace: Trace, read: Callable[[str], bytes]) -> bytes:
    """The recording of a rollout as a file; `ConfigError` if the agent ran no shell commands. `read` gives stored bytes."""
    if not has_terminal(trace):
        raise ConfigError(
            f"rollout {trace.task}/{trace.rollout} has no terminal recording: the agent ran no shell commands (`{_SHELL}`)"
        )
    head: dict[str, Any] = {
        "version": 2,
        "width": _WIDTH,
        "height": _HEIGHT,
        "timestamp": int(trace.started),
        "idle_time_limit": _IDLE_S,
        "title": printable(f"{trace.run}/{trace.task}/{trace.rollout}", 200),
        "env": {"TERM": "xterm-256color", "SHELL": "/bin/sh"},
    }
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (head, *recorded_events(trace, read)))
