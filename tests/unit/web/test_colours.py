"""Text can be read on every ground of the pages, light and dark: the contrast that WCAG 2.2 asks for (AA)."""

import re
from itertools import product
from pathlib import Path

import pytest

import sandlot.web

STYLE = (Path(sandlot.web.__file__).parent / "static" / "view.css").read_text()
THEMES = re.findall(r":root\{([^}]*)\}", STYLE)
TEXT, GROUND = ("ink", "dim", "blue", "green", "amber", "red"), ("page", "card", "tint")


def luminance(colour: str) -> float:
    digits = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
    parts = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
def test_text_stands_out_from_every_ground(theme):
    colours = dict(re.findall(r"--(\w+):#([0-9a-f]{3,6})", theme))
    levels = {name: luminance(colour) for name, colour in colours.items()}
    for text, ground in product(TEXT, GROUND):
        high, low = sorted((levels[text], levels[ground]), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)
