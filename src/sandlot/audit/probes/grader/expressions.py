r"""Formulas, intervals and sets: the same one written otherwise, and others that look like it. Texts of a few symbols only."""

import re

_FORMULA = re.compile(r"[\w\s+\-*/^=(){}\[\],.\\|!<>∞π√]{2,120}")
_TERMS = re.compile(r"(?P<first>[^\s+\-(){}\[\],=]+)\s*\+\s*(?P<second>[^\s+\-(){}\[\],=]+)")
_INTERVAL = re.compile(r"(?P<open>[\[(])\s*(?P<low>[^,()\[\]]+?)\s*,\s*(?P<high>[^,()\[\]]+?)\s*(?P<close>[\])])")
_SET = re.compile(r"(?P<open>\\?\{)\s*(?P<inner>[^{}]+?,[^{}]+?)\s*(?P<close>\\?\})")
_COMPLEX = re.compile(r"-?\d+(?:\.\d+)?\s*[+-]\s*\d+(?:\.\d+)?[ij]")
_BOUNDS = re.compile(r"(?i)\binterval|\binfty|∞|\bdomain|\brange of\b|\binequalit")
_PAIRED = re.compile(r"(?i)\b(?:ordered (?:pair|triple)|coordinates?|point|vector|\(x, ?y\))")
OTHER_BRACKET = "the other first bracket"
_FORM_ASKED = re.compile(r"(?i)\b(?:form|expand|factor|simplif\w*|standard)\b")


def is_formula(value: str) -> bool:
    """True for a text with letters or LaTeX and an operator, and no words."""
    words = re.findall(r"(?<!\\)\b[A-Za-z]{3,}\b", re.sub(r"\\[A-Za-z]+(?:\{[a-z ]*\})?", "", value))
    operator = re.search(r"[+\-*/^=\\]", value) is not None
    return bool(_FORMULA.fullmatch(value)) and operator and not words and bool(re.search(r"[A-Za-z\\π√]", value))


def same_expression(value: str, prompt: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each other spelling, and whether it certainly means the same."""
    if found := _SET.fullmatch(value):
        parts = [part.strip() for part in found["inner"].split(",")]
        return (
            [("a set in another order", f"{found['open']}{', '.join(parts[::-1])}{found['close']}", True)]
            if len(set(parts)) > 1
            else []
        )
    if not is_formula(value):
        return []
    spelled = [
        ("`\\dfrac`", value.replace("\\frac", "\\dfrac")),
        (
            "`\\left` and `\\right`",
            re.sub(r"\)", r"\\right)", re.sub(r"(?<![a-zA-Z])\(", r"\\left(", value)) if "\\" in value else value,
        ),
        ("braces around an exponent", re.sub(r"\^(\w)(?!\w)", r"^{\1}", value) if "\\" in value else value),
        (
            "other space in a formula",
            re.sub(r"\s*([+=])\s*", r"\1", value)
            if re.search(r"\s[+=]\s", value)
            else re.sub(r"(?<=\w)([+=])(?=\w)", r" \1 ", value),
        ),
    ]
    found_here = [(kind, text, True) for kind, text in spelled if text != value]
    if _COMPLEX.fullmatch(value):
        found_here.append(("brackets around a complex number", f"({value})", True))
    sides = [side.strip() for side in value.split("=")]
    if len(sides) == 2 and all(sides) and sides[0] != sides[1] and not re.search(r"[<>!:]", value):
        equation = not re.fullmatch(r"\\?[A-Za-z]", sides[0]) or re.search(r"[A-Za-z]", sides[1])
        found_here.append(
            ("the sides of an equation exchanged", f"{sides[1]} = {sides[0]}", bool(equation) and not _FORM_ASKED.search(prompt))
        )
    if terms := _TERMS.fullmatch(value):
        found_here.append(("terms in another order", f"{terms['second']} + {terms['first']}", not _FORM_ASKED.search(prompt)))
    return found_here


def other_expression(value: str, prompt: str) -> list[tuple[str, str, bool]]:
    """The kind and text of each wrong answer, and whether it is certainly wrong."""
    if found := _INTERVAL.fullmatch(value):
        return _other_interval(found, prompt)
    if (listed := _SET.fullmatch(value)) and len(parts := [part.strip() for part in listed["inner"].split(",")]) > 1:
        return [
            (
                "a set without its last element",
                f"{listed['open']}{', '.join(parts[:-1])}{listed['close']}",
                len(set(parts)) == len(parts),
            )
        ]
    if not is_formula(value):
        return []
    changed = [
        ("minus for plus", re.sub(r"\+", "-", value, count=1)),
        ("plus for minus", re.sub(r"(?<=[\w})])\s*-", " + ", value, count=1)),
        ("another exponent", re.sub(r"\^(\{?)(\d)", lambda power: f"^{power[1]}{(int(power[2]) + 1) % 10}", value, count=1)),
        ("another root", re.sub(r"(\\sqrt\{?)(\d+)", lambda root: f"{root[1]}{int(root[2]) + 1}", value, count=1)),
        ("no root", re.sub(r"\\sqrt\{(\d+)\}", r"\1", value, count=1)),
        ("no π", re.sub(r"\s*(?:\\pi\b|π)", "", value, count=1)),
        ("another letter", re.sub(r"(?<![\\A-Za-z])([a-z])(?![A-Za-z])", lambda letter: "w" if letter[1] != "w" else "v", value)),
    ]
    letters = set(re.findall(r"(?<![\\A-Za-z])[a-z](?![A-Za-z])", value))
    known = all(re.search(rf"(?<![A-Za-z]){letter}(?![A-Za-z])", prompt) for letter in letters)
    return [(kind, text, known or kind != "another letter") for kind, text in changed if text != value and text.strip()]


def _other_interval(found: re.Match[str], prompt: str) -> list[tuple[str, str, bool]]:
    low, high, opens, closes = found["low"], found["high"], found["open"], found["close"]
    mixed = (opens, closes) in {("[", ")"), ("(", "]")}
    bounds = bool(_BOUNDS.search(prompt + found[0])) or mixed
    pair = bool(_PAIRED.search(prompt)) and not bounds
    wrong = (
        [(OTHER_BRACKET, f"{'(' if opens == '[' else '['}{low}, {high}{closes}", bounds and "infty" not in low)] if bounds else []
    )
    if low != high:
        wrong.append(("both values swapped", f"{opens}{high}, {low}{closes}", bounds or pair))
    return wrong
