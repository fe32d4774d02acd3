"""A tokenizer in which content cannot produce control tokens.

It encodes a list of pieces: text and control tokens. Only a `ControlToken` becomes one. Text is encoded with the same vocabulary
without the added tokens, so `<|im_end|>` in a tool result becomes a few ordinary tokens. A control token that the tokenizer does
not have is encoded as text, as the model saw it in training.
"""

import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from tokenizers import Tokenizer as Encoder

from sandlot.core.errors import ConfigError, ModelError, boundary
from sandlot.core.types import digest

_UNKNOWN = "\ufffd"
"""Text for an id outside the vocabulary: a model may have more rows than its tokenizer has tokens."""


@contextmanager
def panics_raise(kind: type[Exception]) -> Generator[None]:
    """Raise an ordinary error for a panic of the tokenizers library, which is no `Exception` and would end the program.

    A damaged file causes one, and so does a pattern that takes too long for a text.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise kind(str(error)) from error


class ControlToken(NamedTuple):
    """A control token, named by its text."""

    text: str


Piece = ControlToken | str

CUT = ControlToken("")
"""Not a token: text before and after it is encoded separately. It marks where sampled tokens begin."""


class Tokenizer:
    """Pieces to ids and back, over one `tokenizer.json`."""

    def __init__(self, path: Path) -> None:
        written = path.read_bytes()
        self.digest = digest(written)
        with boundary(ConfigError, f"`{path}` is not a tokenizer"), panics_raise(ValueError):
            data: dict[str, Any] = json.loads(written)
            self.control: dict[str, int] = {token["content"]: token["id"] for token in data.get("added_tokens", ())}
            self._text = Encoder.from_str(json.dumps(_without(data, set(self.control))))
            self._whole = Encoder.from_str(written.decode())
        self._whole.no_padding()
        self._whole.no_truncation()
        self._names = {token: text for text, token in self.control.items()}
        self._known = set(self._text.get_vocab(with_added_tokens=False).values())

    def __len__(self) -> int:
        """One more than the largest id."""
        return 1 + max(max(self._known, default=-1), max(self._names, default=-1))

    def __contains__(self, token: int) -> bool:
        return token in self._known or token in self._names

    def encode(self, pieces: Iterable[Piece]) -> list[int]:
        """The ids of pieces; text between two control tokens is encoded as one string."""
        ids: list[int] = []
        text: list[str] = []
        for piece in pieces:
            if isinstance(piece, str):
                text.append(piece)
            elif piece.text and piece.text not in self.control:
                text.append(piece.text)
            else:
                ids += self.encode_text("".join(text))
                text.clear()
                if piece.text:
                    ids.append(self.control[piece.text])
        return ids + self.encode_text("".join(text))

    def encode_text(self, text: str) -> list[int]:
        """The ids of plain text, none of which is a control token."""
        if not text:
            return []
        clean = text.encode("utf-8", "replace").decode()
        with boundary(ModelError, "the tokenizer cannot encode the text"), panics_raise(ValueError):
            return self._text.encode(clean, add_special_tokens=False).ids

    def encode_template(self, text: str) -> list[int]:
        """The ids of text that may contain control tokens, as templates produce it. For comparison only."""
        with boundary(ModelError, "the tokenizer cannot encode the text"), panics_raise(ValueError):
            return self._whole.encode(text, add_special_tokens=False).ids

    def pieces(self, ids: Sequence[int]) -> list[Piece]:
        """Control tokens and the text between them."""
        pieces: list[Piece] = []
        text: list[int] = []
        for token in ids:
            name = self._names.get(token)
            if name is None:
                text.append(token)
                continue
            if text:
                pieces.append(self._decode_known(text))
                text = []
            pieces.append(ControlToken(name))
        return [*pieces, self._decode_known(text)] if text else pieces

    def decode(self, ids: Sequence[int]) -> str:
        """Text for people; control tokens are shown by their text."""
        return "".join(piece if isinstance(piece, str) else piece.text for piece in self.pieces(ids))

    def _decode_known(self, ids: list[int]) -> str:
        if self._known.issuperset(ids):
            return self._text.decode(ids, skip_special_tokens=False)
        return "".join(self._text.decode([token]) if token in self._known else _UNKNOWN for token in ids)


def _without(data: dict[str, Any], control: set[str]) -> dict[str, Any]:
    """The tokenizer without added tokens; they are removed from the vocabulary too, so that no merge produces them."""
    model: dict[str, Any] = data["model"]
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        gone = control - {model.get("unk_token")}
        kept = {text: token for text, token in cast("dict[str, int]", vocabulary).items() if text not in gone}
        model = {**model, "vocab": kept}
    return {**data, "model": model, "added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
