"""Keys by their names: `ctrl+s`, `alt+F4`, `Enter`, as people write them, to the names that X has."""

import unicodedata

from sandlot.core.errors import ToolError

_HELD = {"ctrl": "Control_L", "control": "Control_L", "alt": "Alt_L", "shift": "Shift_L", "super": "Super_L", "meta": "Super_L"}
_NAMED = {
    "enter": "Return",
    "return": "Return",
    "esc": "Escape",
    "escape": "Escape",
    "tab": "Tab",
    "space": "space",
    "backspace": "BackSpace",
    "delete": "Delete",
    "del": "Delete",
    "insert": "Insert",
    "home": "Home",
    "end": "End",
    "pageup": "Page_Up",
    "page_up": "Page_Up",
    "pagedown": "Page_Down",
    "page_down": "Page_Down",
    "up": "Up",
    "down": "Down",
    "left": "Left",
    "right": "Right",
    "menu": "Menu",
    "plus": "plus",
    "minus": "minus",
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}
MAX_TEXT = 2_000
"""Characters of one call."""


def checked_keys(keys: str) -> tuple[str, list[str]]:
    """The key and the keys held with it, as X names them; `ToolError` for a name that does not exist."""
    *held, last = keys.split("+") if keys.strip("+ ") else [keys]
    for word in held:
        if word.strip().lower() not in _HELD:
            raise ToolError(f"`{_shown(word)}` cannot be held; write keys like `ctrl+s` with: {', '.join(_HELD)}")
    key = last.strip()
    if len(last) == 1 and last.isprintable():
        found = last.lower() if held and last != last.lower() and "shift" not in keys.lower() else last
        return found, [_HELD[word.strip().lower()] for word in held]
    if key.lower() in _HELD and not held:
        return _HELD[key.lower()], []
    if key.lower() not in _NAMED:
        raise ToolError(f"there is no key `{_shown(key)}`; write one sign, or one of: {', '.join(sorted(set(_NAMED.values())))}")
    return _NAMED[key.lower()], [_HELD[word.strip().lower()] for word in held]


def checked_modifiers(keys: list[str]) -> list[str]:
    """Keys to hold during a click."""
    for word in keys:
        if word.lower() not in _HELD:
            raise ToolError(f"`{_shown(word)}` cannot be held; choose from: {', '.join(_HELD)}")
    return [_HELD[word.lower()] for word in dict.fromkeys(keys)]


def checked_text(text: str) -> str:
    """Text that can be typed: newlines and tabs are keys, other control characters are refused."""
    plain = text.replace("\r\n", "\n")
    if len(plain) > MAX_TEXT:
        raise ToolError(f"the text has {len(plain)} characters; type at most {MAX_TEXT} in one call")
    for sign in plain:
        if sign not in "\n\t" and unicodedata.category(sign) in {"Cc", "Cs", "Cn", "Zl", "Zp"}:
            raise ToolError(f"U+{ord(sign):04X} cannot be typed; use `desktop_press` for keys such as Escape")
    return plain


def _shown(word: str) -> str:
    return word[:40].encode("unicode_escape").decode()
