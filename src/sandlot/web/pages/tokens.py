"""The sampled tokens of a message with their numbers, sent when they are asked for."""

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sandlot.core.errors import ConfigError, SandlotError
from sandlot.core.text import printable
from sandlot.core.tokens import unpacked_ids
from sandlot.core.trace import Tokens
from sandlot.run.results import Run
from sandlot.web.pages.messages import open_trace
from sandlot.web.site import Asked
from sandlot.wiring.models import folder_of_model

_MOST = 4_000
"""Tokens that are sent at a time."""


def token_columns(asked: Asked) -> dict[str, Any]:
    """The tokens of a message, from the one that `from` asks for."""
    run, trace = open_trace(asked)
    number, start = asked.number("message"), asked.number("from")
    tokens = trace.nodes[number].tokens if number < len(trace.nodes) else None
    if tokens is None:
        raise ConfigError(f"message {number} of {trace.task}/{trace.rollout} has no stored tokens")
    end = min(start + _MOST, len(tokens))
    ids = unpacked_ids(tokens.ids)[start:end]
    texts, unread = _texts(run, ids)
    logprobs = [float(each) for each in tokens.logprobs_array()[start:end]]
    return {
        "message": number,
        "start": start,
        "next": end if end < len(tokens) else None,
        "size": len(tokens),
        "ids": ids,
        "texts": texts,
        "unread": unread,
        "logprobs": [each if math.isfinite(each) else None for each in logprobs] or None,
        "mask": list(tokens.mask[start:end]) or None,
        "versions": _versions(tokens)[start:end] or None,
        "entropy": None,
    }


def _versions(tokens: Tokens) -> list[int]:
    """The weight version of each token. The counts are as stored, so they may be wrong."""
    found: list[int] = []
    for count, version in tokens.versions:
        found += [version] * min(count, len(tokens) - len(found))
    return found


def _texts(run: Run, ids: list[int]) -> tuple[list[str] | None, str]:
    """The text of each token; None and why if this machine has no tokenizer for the model."""
    model = run.manifest.config.model
    try:
        folder = folder_of_model(model)
        if folder is None or not (folder / "tokenizer.json").is_file():
            return None, f"there is no tokenizer of `{printable(model.shown, 200)}` on this machine"
        decode = _decoder(folder / "tokenizer.json")
    except SandlotError as error:
        return None, printable(str(error), 300)
    known = {token: printable(decode([token]), 60) for token in set(ids)}
    return [known[token] for token in ids], ""


@functools.lru_cache(maxsize=4)
def _decoder(file: Path) -> Callable[[Sequence[int]], str]:
    try:
        from sandlot.model.render.tokenizer import Tokenizer  # noqa: PLC0415 - only tokens need it
    except ImportError as error:
        raise ConfigError(f"the text of tokens needs the torch extra ({error}): pip install 'sandlot[torch]'") from error
    return Tokenizer(file).decode
