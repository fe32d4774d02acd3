"""A safe grammar for mathematical answers: plain text and the common part of LaTeX, read into a small tree.

Nothing is evaluated here, and no Python is run. Length, depth and the size of numbers are limited. What has two readings is
refused, such as `a/b c` without a sign between `b` and `c`, or `1/2/3`.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

_MAX_CHARS = 2_000
_MAX_TOKENS = 600
_MAX_DEPTH = 40
_MAX_DIGITS = 60

Tree: TypeAlias = "tuple[str | Fraction | Tree, ...]"
"""A node: a word, then its parts: `("+", a, b)`, `("number", 3)`, `("name", "x")`, `("sin", a)`, `("list", "(]", a, b)`."""

# fmt: off
_FUNCTIONS = frozenset({
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "exp", "ln", "log", "abs",
})
_CALLED = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "tg": "tan", "ctg": "cot", "cosec": "csc", "cbrt": "cbrt"}
_GREEK = (
    "alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|vartheta|kappa|lambda|mu|nu|xi|rho|sigma|tau|phi|varphi|chi|psi|omega|"
    "Gamma|Delta|Theta|Lambda|Sigma|Phi|Psi|Omega"
)
# fmt: on
_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|limits|bigl?|bigr?|Bigl?|Bigr?|[,;:! ]|quad|qquad)(?![A-Za-z])|\\[,;:!]|\$|~"
)
_MATRIX = re.compile(r"\\begin\{([pbv]?matrix|array)\}(?:\{[clr|]*\})?(.*?)(?:\\\\)?\s*\\end\{\1\}", re.DOTALL)
_WRAPPED = re.compile(r"\\(?:text|textnormal|mathrm|mathbf|mathit|textbf|operatorname|mbox|rm)\s*\{([^{}]*)\}")
_REPLACED = {
    "\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\cfrac": "\\frac", "\\cdot": "*", "\\times": "*", "\\div": "/", "\u00d7": "*",
    "\u00b7": "*", "\u22c5": "*", "\u00f7": "/", "\u2212": "-", "\u2013": "-", "**": "^", "\\pi": " pi ", "\u03c0": " pi ",
    "\\infty": " inf ", "\u221e": " inf ", "infinity": " inf ", "\\cup": " cup ", "\u222a": " cup ", "\\le": "<=", "\\ge": ">=",
    "\u2264": "<=", "\u2265": ">=", "\\leq": "<=", "\\geq": ">=", "\\leqslant": "<=", "\\geqslant": ">=",
    "\\lt": "<", "\\gt": ">",
    "percent": "%", "\\%": "%", "^{\\circ}": " deg ", "^\\circ": " deg ", "\u00b0": " deg ", "\\{": " lbrace ",
    "\\}": " rbrace ", "\\lbrace": " lbrace ", "\\rbrace": " rbrace ", "\\sqrt": " sqrt ", "\u221a": " sqrt ", "\\lvert": "|",
    "\\rvert": "|", "\\mid": "|", "\\in": " in ", "\u2208": " in ", "\\to": "", "\\pm": " pm ", "\u00b1": " pm ",
}  # fmt: skip
_RAISED = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", "0123456789")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3}(?![A-Za-z\d]))?|\.\d+)|(?P<word>\\?[A-Za-z]+)|(?P<sign><=|>=|[-+*/^!%(){}\[\]|,;=<>&_]))"
)


class NotFormulaError(ValueError):
    """Why a text is not a formula."""


@dataclass(frozen=True, slots=True)
class _Token:
    """One piece of a formula: its kind (`number`, `word`, `sign`) and text."""

    kind: str
    text: str
    spaced: bool
    """True if white space stands before it."""


def read_formula(text: str) -> Tree:
    r"""The tree of a whole text; `NotFormulaError` says why it is none.

    >>> read_formula("\\frac{1}{2} x")
    ('*', ('/', ('number', Fraction(1, 1)), ('number', Fraction(2, 1))), ('name', 'x'))
    """
    reader = _Reader(_tokens(text))
    tree = reader.relation()
    if reader.place < len(reader.tokens):
        raise NotFormulaError(f"`{reader.tokens[reader.place].text[:20]}` is not expected")
    return tree


def _tokens(text: str) -> list[_Token]:
    if len(text) > _MAX_CHARS:
        raise NotFormulaError(f"it has {len(text):,} characters; at most {_MAX_CHARS:,} are read")
    text = _MATRIX.sub(lambda found: "[[" + found[2].replace("&", ",").replace("\\\\", "],[") + "]]", text)
    text = _WRAPPED.sub(r" \1 ", text)
    text = re.sub(
        r"(?<=[\dA-Za-z)\]}])([\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+)", lambda m: f"^({m[1].translate(_RAISED)})", text
    )
    text = re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", text) if re.fullmatch(r"\W*\d{1,3}(?:,\d{3})+(?:\.\d+)?\W*", text) else text
    text = re.sub(r"(?<=\d)\{,\}(?=\d{3})|(?<=\d)\\,(?=\d{3})|(?<=\d),\\!\s*(?=\d{3})", "", text)
    text = _DROPPED.sub(" ", text.replace("\\left.", "").replace("\\right.", ""))
    for word, other in sorted(_REPLACED.items(), key=lambda item: -len(item[0])):
        if word.startswith("\\") and word[-1].isalpha():
            text = re.sub(re.escape(word) + r"(?![A-Za-z])", lambda _, other=other: other, text)
        else:
            text = text.replace(word, other)
    text = re.sub(r"\b(?:or|and)\b", ",", text)
    tokens: list[_Token] = []
    place, text = 0, text.strip().removesuffix(".")
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None or len(tokens) >= _MAX_TOKENS:
            raise NotFormulaError(
                f"`{text[place : place + 10].strip()}` is not mathematics" if match is None else "it is too long"
            )
        kind = str(match.lastgroup)
        tokens += (
            _split_word(match[kind], spaced=match[0][:1].isspace())
            if kind == "word"
            else [_Token(kind, match[kind], spaced=match[0][:1].isspace())]
        )
        place = match.end()
    if not tokens:
        raise NotFormulaError("it is empty")
    return tokens


def _split_word(word: str, *, spaced: bool) -> list[_Token]:
    """A known word, or its letters as a product: `xy` is `x y`."""
    plain = word.removeprefix("\\")
    if word.startswith("\\") and not re.fullmatch(rf"{_GREEK}|frac|{'|'.join(_FUNCTIONS)}|{'|'.join(_CALLED)}", plain):
        raise NotFormulaError(f"`{word[:20]}` is not understood")
    known = {"pi", "inf", "cup", "deg", "lbrace", "rbrace", "sqrt", "in", "pm", "frac", *_FUNCTIONS, *_CALLED, *_GREEK.split("|")}
    if plain in known or len(plain) == 1:
        return [_Token("word", _CALLED.get(plain, plain), spaced)]
    for size in (6, 5, 4, 3, 2):  # `xsin` and `2pi` are written without blanks
        for name in known:
            if len(name) == size and plain.startswith(name) and size < len(plain) and name in {"pi", *_FUNCTIONS}:
                return [_Token("word", name, spaced), *_split_word(plain[size:], spaced=False)]
    if len(plain) > 3:
        raise NotFormulaError(f"`{plain[:20]}` is a word, not mathematics")
    return [_Token("word", letter, spaced and not place) for place, letter in enumerate(plain)]


class _Reader:
    """A reader of tokens by recursive descent, one method per level of binding."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.bars = 0

    def peek(self, *texts: str) -> bool:
        return self.place < len(self.tokens) and self.tokens[self.place].text in texts

    def take(self, *texts: str) -> bool:
        if self.peek(*texts):
            self.place += 1
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            found = self.tokens[self.place].text if self.place < len(self.tokens) else "the end"
            raise NotFormulaError(f"`{text}` is missing before {found[:20]}")

    def relation(self) -> Tree:
        """`a = b`, `a < b <= c`, `x in S`, a list without brackets, a union of intervals."""
        parts, signs = [self.listing()], list[str]()
        while self.peek("=", "<", ">", "<=", ">=", "in"):
            signs.append(self.tokens[self.place].text)
            self.place += 1
            parts.append(self.listing())
        if not signs:
            return parts[0]
        if len(signs) > 2:
            raise NotFormulaError("it has more than two signs of comparison")
        return ("relation", " ".join(signs), *parts)

    def listing(self) -> Tree:
        items = [self.union()]
        while self.take(",", ";"):
            items.append(self.union())
        return ("list", "", *items) if len(items) > 1 else items[0]

    def union(self) -> Tree:
        items = [self.sum()]
        while self.take("cup"):
            items.append(self.sum())
        return ("cup", *items) if len(items) > 1 else items[0]

    def sum(self) -> Tree:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise NotFormulaError("it is nested too deeply")
        sign = "-" if self.take("-") else "+" if self.take("+") else ""
        tree: Tree = self.product()
        tree = ("-", tree) if sign == "-" else tree
        while self.peek("+", "-", "pm"):
            sign = self.tokens[self.place].text
            self.place += 1
            if sign == "pm":
                raise NotFormulaError("plus or minus stands for two values; write both")
            tree = ("+", tree, self.product()) if sign == "+" else ("+", tree, ("-", self.product()))
        self.depth -= 1
        return tree

    def product(self) -> Tree:
        tree, divided = self.power(), False
        while self.place < len(self.tokens):
            if self.take("*"):
                tree, divided = ("*", tree, self.signed_power()), False
            elif self.take("/"):
                if divided:
                    raise NotFormulaError("two fraction bars in a row have two readings")
                tree, divided = ("/", tree, self.signed_power()), True
            elif self.begins_factor():
                tree = self.beside(tree, divided=divided)
            else:
                break
        return tree

    def beside(self, tree: Tree, *, divided: bool) -> Tree:
        r"""A factor without a sign: `2x`, `1\frac{1}{2}` and `1 1/2` (mixed numbers)."""
        if divided:
            raise NotFormulaError("a factor right after a fraction bar's right side has two readings; use brackets")
        whole = tree[1] if tree[0] == "number" and isinstance(tree[1], Fraction) and tree[1].denominator == 1 else None
        if whole is not None and self.peek("frac"):
            part = self.power()
            if part[0] == "/" and all(isinstance(side, tuple) and side[0] == "number" for side in part[1:]):
                return ("+", tree, part)
            return ("*", tree, part)
        if self.tokens[self.place].kind == "number":
            return self.mixed(tree, whole)
        return ("*", tree, self.power())

    def mixed(self, tree: Tree, whole: Fraction | None) -> Tree:
        top, bar, bottom = (*(token.text for token in self.tokens[self.place : self.place + 3]), "", "", "")[:3]
        if whole is None or bar != "/" or not bottom.isdigit() or not top.isdigit() or int(top) >= int(bottom):
            raise NotFormulaError("two numbers stand side by side")
        self.place += 3
        return ("+", tree, ("number", Fraction(int(top), int(bottom))))

    def begins_factor(self) -> bool:
        token = self.tokens[self.place]
        if token.text == "|":
            return self.bars == 0
        return (
            token.kind == "number"
            or token.text in {"(", "{", "["}
            or (token.kind == "word" and token.text not in {"cup", "in", "pm", "rbrace", "deg"})
        )

    def signed_power(self) -> Tree:
        return ("-", self.signed_power()) if self.take("-") else self.power()

    def power(self) -> Tree:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise NotFormulaError("it is nested too deeply")
        tree = self.after(self.atom())
        if self.take("^"):
            tree = self.after(("^", tree, self.exponent()))
        self.depth -= 1
        return tree

    def after(self, tree: Tree) -> Tree:
        while True:
            if self.take("!"):
                tree = ("!", tree)
            elif self.take("%"):
                tree = ("/", tree, ("number", Fraction(100)))
            elif self.take("deg"):
                tree = ("*", tree, ("/", ("name", "pi"), ("number", Fraction(180))))
            elif tree[0] == "name" and self.take("_"):
                tree = ("name", f"{tree[1]}_{self.index()}")
            else:
                return tree

    def index(self) -> str:
        if self.take("{"):
            words = list[str]()
            while not self.take("}"):
                if self.place >= len(self.tokens):
                    raise NotFormulaError("`}` is missing")
                words.append(self.tokens[self.place].text)
                self.place += 1
            return "".join(words)
        if self.place >= len(self.tokens):
            raise NotFormulaError("an index is missing")
        self.place += 1
        return self.tokens[self.place - 1].text

    def exponent(self) -> Tree:
        """What is raised to: `^2`, `^{x+1}`, `^-1`, `^(1/2)`; without brackets, a single digit as in LaTeX or a whole number."""
        return ("-", self.exponent()) if self.take("-") else self.power()

    def atom(self) -> Tree:
        if self.place >= len(self.tokens):
            raise NotFormulaError("it ends too early")
        token = self.tokens[self.place]
        self.place += 1
        if token.kind == "number":
            if len(token.text) > _MAX_DIGITS:
                raise NotFormulaError("it has a number with too many digits")
            return ("number", Fraction(token.text))
        if token.kind == "word":
            return self.word(token.text)
        if token.text == "{":
            tree = self.listing()
            self.need("}")
            return ("list", "{}", *tree[2:]) if tree[:2] == ("list", "") else tree
        if token.text in {"(", "["}:
            return self.bracket(token.text)
        if token.text == "|":
            self.bars += 1
            tree = self.sum()
            self.need("|")
            self.bars -= 1
            return ("abs", tree)
        raise NotFormulaError(f"`{token.text}` is not expected")

    def bracket(self, opened: str) -> Tree:
        bars, self.bars = self.bars, 0
        tree = self.listing()
        self.bars = bars
        closed = next((each for each in (")", "]") if self.take(each)), None)
        if closed is None:
            raise NotFormulaError(f"`{opened}` is not closed")
        if tree[:2] == ("list", ""):
            return ("list", opened + closed, *tree[2:])
        if opened + closed in {"(]", "[)"}:
            raise NotFormulaError(f"`{opened}` is closed by `{closed}`")
        return ("list", "[]", tree) if opened == "[" else tree

    def word(self, word: str) -> Tree:
        if word == "frac":
            return ("/", self.argument(), self.argument())
        if word == "sqrt":
            index = self.root_index()
            inside = self.argument()
            return ("root", inside, index)
        if word == "cbrt":
            return ("root", self.argument(), ("number", Fraction(3)))
        if word == "lbrace":
            tree = self.listing()
            self.need("rbrace")
            return ("list", "{}", *(tree[2:] if tree[:2] == ("list", "") else (tree,)))
        if word in _FUNCTIONS:
            return self.function(word)
        if word in {"cup", "in", "deg", "rbrace", "pm"}:
            raise NotFormulaError(f"`{word}` is not expected")
        return ("name", word)

    def root_index(self) -> Tree:
        if self.take("["):
            index = self.sum()
            self.need("]")
            return index
        return ("number", Fraction(2))

    def argument(self) -> Tree:
        """What a LaTeX command takes: `{...}`, `(...)`, or one digit or letter."""
        if self.take("{"):
            tree = self.sum()
            self.need("}")
            return tree
        token = self.tokens[self.place] if self.place < len(self.tokens) else None
        if token is not None and token.kind == "number" and token.text.isdigit() and len(token.text) > 1:
            previous = self.tokens[self.place - 1].text
            if previous == "frac" or (previous.isdigit() and self.place > 1):  # \frac12 is one half
                self.tokens[self.place] = _Token("number", token.text[1:], spaced=False)
                return ("number", Fraction(token.text[0]))
        return self.power() if token is not None and token.text in {"sqrt", "frac"} else self.atom()

    def function(self, name: str) -> Tree:
        """`sin x`, `sin(x)`, `sin^2 x`, `log_2 8`, `sin^{-1} x` (the inverse)."""
        power: Tree | None = None
        base: Tree | None = None
        if self.take("_"):
            base = self.argument()
        if self.take("^"):
            power = self.exponent()
        if self.peek("(", "{", "|"):
            inside = self.atom()
            if inside[0] == "list":
                raise NotFormulaError(f"`{name}` takes one argument")
        else:
            inside = self.power()
            while self.place < len(self.tokens) and self.begins_factor() and self.tokens[self.place].text not in _FUNCTIONS:
                inside = ("*", inside, self.power())
        if power == ("-", ("number", Fraction(1))) and f"arc{name}" in _FUNCTIONS:
            return (f"arc{name}", inside)
        tree: Tree = ("log", inside, base) if base is not None else (name, inside)
        return ("^", tree, power) if power is not None else tree
