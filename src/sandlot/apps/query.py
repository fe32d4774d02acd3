"""Tokens of the query languages JQL and CQL: quoted texts, signs and words, each with its place."""

import re
from collections.abc import Callable
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<sign>!=|!~|<=|>=|=|~|<|>|\(|\)|,)
    |(?P<word>[^\s"'=!~<>(),]+)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class QueryToken:
    """One word, sign or quoted text."""

    text: str
    quoted: bool
    place: int


def split_query(text: str, language: str, error: Callable[[str], Exception]) -> list[QueryToken]:
    """The tokens of a query; raises what `error` makes of a text if a quote is not closed."""
    tokens: list[QueryToken] = []
    place = 0
    while place < len(text) and text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            shown = text[place:].strip()[:20]
            told = f"The character '{shown[:1]}' is a reserved or unclosed {language} character near '{shown}'."
            raise error(f"Error in the {language} Query: {told}")
        quoted = match["quoted"]
        said = re.sub(r"\\(.)", r"\1", quoted[1:-1]) if quoted else match["sign"] or match["word"]
        tokens.append(QueryToken(said, quoted is not None, match.start(match.lastgroup or 0)))
        place = match.end()
    return tokens
