"""Calls a plain grader: arguments in, a number out, told in words that cannot be mistaken for something else."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from typing import Any, cast

from sandlot_naming import resolve

MAX_TEXT = 600


def load(spec: dict[str, Any]) -> tuple[Callable[[dict[str, Any]], Any], dict[str, Any]]:
    """The grader by `module:function`."""
    grader = resolve(spec["grader"], spec["path"])

    def call(request: dict[str, Any]) -> list[dict[str, str]]:
        return [grade(grader, request) for _ in range(request["times"])]

    return call, {}


def grade(function: Any, request: dict[str, Any]) -> dict[str, str]:
    """One grading. What it raises, an exit of the interpreter included, is told apart from what it returns."""
    try:
        value = function(*request["args"], **request["kwargs"])
        return encode_score(asyncio.run(value) if inspect.iscoroutine(value) else value)
    except BaseException as error:  # noqa: BLE001 - the grader's, and the answer
        return {"error": f"{type(error).__name__}: {error}"[:MAX_TEXT]}


def encode_score(value: Any) -> dict[str, str]:
    """A number as its text, so that `nan` and what is beyond floats survive; anything else by the name of its type."""
    kind = cast("type[Any]", type(value))
    if isinstance(value, (str, bytes, bytearray)) or (
        not isinstance(value, (bool, int, float)) and not hasattr(kind, "__float__")
    ):
        return {"bad": str(getattr(kind, "__name__", "?"))[:MAX_TEXT]}
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except Exception as error:  # noqa: BLE001 - its own conversion is the grader's code too
        return {"bad": f"{kind.__name__}, whose float() raises {type(error).__name__}"[:MAX_TEXT]}
    return {"value": float.__repr__(number) if type(number) is float else "nan"}
