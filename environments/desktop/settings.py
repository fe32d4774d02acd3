"""Jobs in dialogs of settings: of the editor, and of the window manager."""

import re
from random import Random
from typing import Any

from .hands import Hands
from .job import DOCUMENTS, HOME, Family, Job, Want, background

_EDITOR = f"{HOME}/.config/glib-2.0/settings/keyfile"
_WINDOWS = f"{HOME}/.config/openbox/rc.xml"
_BOXES = {
    "Show line numbers": "show-line-numbers",
    "Display whitespace": "show-whitespace",
    "Display line endings": "show-line-endings",
    "Highlight current line": "highlight-current-line",
    "Highlight matching brackets": "match-braces",
    "Wrap long lines": "word-wrap",
}


# -- the editor --------------------------------------------------------------------------------------------------------


def make_editor(rng: Random, level: int) -> Job:
    boxes = rng.sample(sorted(_BOXES), level + 1)
    section = "org/xfce/mousepad/preferences/view"
    asked = [_BOXES[box] for box in boxes]
    others = sorted(set(_BOXES.values()) - set(asked))
    told = ", ".join(f"'{box}'" for box in boxes)
    return Job(
        prompt=f"In the preferences of the text editor, turn on: {told}. Leave its other settings as they are.",
        files={**background(rng), f"{DOCUMENTS}/draft.txt": "A draft.\n"},
        wants=[{"kind": "switches", "path": _EDITOR, "section": section, "on": asked, "off": others}],
        plan={"boxes": boxes},
    )


async def play_editor(hands: Hands, plan: dict[str, Any]) -> None:
    await hands.open("editor")
    await hands.press("alt+e")
    await hands.click("menu item", "Preferences...")
    await hands.wait("Mousepad Preferences")
    for box in plan["boxes"]:
        await hands.click("check box", box)
    await hands.press("Escape")
    await hands.do("wait", seconds=1)


# -- the window manager ------------------------------------------------------------------------------------------------

_THEMES = ("Bear2", "Mikachu", "Natura", "Onyx", "Orang", "Syscrash")


def make_windows(rng: Random, level: int) -> Job:
    theme, order = rng.choice(_THEMES), rng.choice(("CLI", "NLC", "LIMC", "CMIL"))
    wants: list[Want] = [{"kind": "element", "path": _WINDOWS, "at": "theme/name", "value": theme}]
    told = [f"the theme {theme}"]
    if level > 1:
        wants.append({"kind": "element", "path": _WINDOWS, "at": "theme/titleLayout", "value": order})
        told.append(f"the button order {order}")
    if level > 2:
        wants.append({"kind": "element", "path": _WINDOWS, "at": "focus/focusNew", "value": "no"})
        told.append("new windows that do not get the focus when they appear")
    return Job(
        prompt=f"Set up the window manager with its configuration dialog: {', '.join(told)}.",
        files=background(rng),
        wants=wants,
        plan={"theme": theme, "order": order if level > 1 else "", "focus": level > 2},
    )


async def play_windows(hands: Hands, plan: dict[str, Any]) -> None:
    await hands.open("windows", title="Openbox Configuration")
    await hands.click("cell", "Clearlooks")  # the one in use is in view; others may have to be scrolled to
    names = re.findall(r'cell "([^"]+)"', hands.shown_tree)
    steps = names.index(plan["theme"]) - names.index("Clearlooks")
    await hands.do("press", keys="Down" if steps > 0 else "Up", count=abs(steps))
    if plan["order"]:
        await hands.click("tab", "Appearance")
        await hands.click("text", "", after="Button order:")
        await hands.fill(plan["order"])
    if plan["focus"]:
        await hands.click("tab", "Windows")
        await hands.click("check box", "Focus new windows when they appear")
    await hands.click("button", "Close")
    await hands.do("wait", seconds=1)


FAMILIES = {
    "editor-settings": Family(make_editor, play_editor),
    "window-settings": Family(make_windows, play_windows),
}
