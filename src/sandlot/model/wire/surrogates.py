"""Lone surrogates, which UTF-8 cannot hold, in what is sent to an endpoint and in what comes back.

A model may write one as an escape, and a server hands it on. That must not make the reply unreadable: a turn of the agent
would be a failure of the model's side, which is not graded.
"""

import json
from typing import Any, TypeVar

import msgspec

Value = TypeVar("Value")


def without_surrogates(value: Any) -> Any:
    """JSON of any shape, with each lone surrogate replaced by `?`."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {without_surrogates(name): without_surrogates(inner) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType] - JSON of any shape
    if isinstance(value, list):
        return [without_surrogates(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType] - as above
    return value


def decode_reply(decoder: "msgspec.json.Decoder[Value]", body: bytes) -> Value:
    """Decode a reply; lone surrogates in it are replaced. `ValueError` or `RecursionError` if it is not what is expected."""
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        if "surrogate" not in str(error):
            raise
    return decoder.decode(json.dumps(without_surrogates(json.loads(body))).encode())
