"""Keys as people name them (`Enter`, `a`, `Control+A`), and the events the browser needs for them."""

from collections.abc import Iterator
from typing import Any

from sandlot.core.errors import ToolError

_MODIFIERS = {"Alt": 1, "Control": 2, "ControlOrMeta": 2, "Meta": 4, "Shift": 8}
_NAMED = {
    "Backspace": 8,
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "Space": 32,
    "PageUp": 33,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Insert": 45,
    "Delete": 46,
} | {f"F{number}": 111 + number for number in range(1, 13)}
_TYPED = {"Enter": "\r", "Tab": "\t", "Space": " "}
_COMMANDS = {"a": "selectAll", "c": "copy", "v": "paste", "x": "cut", "z": "undo"}


def modifier_bits(names: tuple[str, ...] | list[str]) -> int:
    """The modifiers of a click or key as the browser counts them."""
    return sum({_MODIFIERS[name] for name in names})


def key_events(key: str) -> Iterator[dict[str, Any]]:
    """The events of pressing and releasing a key; `ToolError` for a name that is none."""
    *held, name = key.split("+") if key != "+" else ["+"]
    unknown = [each for each in held if each not in _MODIFIERS]
    if unknown or (len(name) != 1 and name not in _NAMED):
        raise ToolError(
            f"no key `{key[:40]}`; keys are one character or {', '.join(_NAMED)}, with {', '.join(_MODIFIERS)} before a `+`"
        )
    bits = modifier_bits(held)
    code = _NAMED[name] if name in _NAMED else ord(name.upper()) if name.isascii() and name.isalnum() else 0
    event: dict[str, Any] = {"key": " " if name == "Space" else name, "windowsVirtualKeyCode": code, "modifiers": bits}
    event["code"] = name if name in _NAMED else f"Key{name.upper()}" if name.isascii() and name.isalpha() else ""
    down = {"type": "keyDown", **event}
    text = _TYPED.get(name, name if len(name) == 1 else "")
    if text and not bits & 7:
        down["text"] = text
    if bits == _MODIFIERS["Control"] and name.lower() in _COMMANDS:
        down["commands"] = [_COMMANDS[name.lower()]]
    yield down
    yield {"type": "keyUp", **event}
