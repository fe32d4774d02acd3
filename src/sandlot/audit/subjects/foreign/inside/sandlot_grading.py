"""Calls a plain grader, and encodes its result or its error as text."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from typing import Any, cast

from sandlot_naming import resolve

_MAX_TEXT = 600


def load(spec: dict[str, Any]) -> tuple[Callable[[dict[str, Any]], Any], dict[str, Any]]:
    """Import the grader `module:function`."""
    grader = resolve(spec["grader"], spec["path"])

    def call(request: dict[str, Any]) -> list[dict[str, str]]:
        return [_grade(grader, request) for _ in range(request["times"])]

    return call, {}


def _grade(function: Any, request: dict[str, Any]) -> dict[str, str]:
    """Grade once. An exception, `SystemExit` included, is reported as an error."""
    try:
        value = function(*request["args"], **request["kwargs"])
        return _encode_score(asyncio.run(value) if inspect.iscoroutine(value) else value)
    except BaseException as error:  # noqa: BLE001 - the error of the grader is the answer
        return {"error": f"{type(error).__name__}: {error}"[:_MAX_TEXT]}


def _encode_score(value: Any) -> dict[str, str]:
    """A number as text, to keep `nan` and infinity; anything else as the name of its type."""
    kind = cast("type[Any]", type(value))
    if isinstance(value, (str, bytes, bytearray)) or (
        not isinstance(value, (bool, int, float)) and not hasattr(kind, "__float__")
    ):
        return {"bad": str(getattr(kind, "__name__", "?"))[:_MAX_TEXT]}
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except Exception as error:  # noqa: BLE001 - its conversion is the grader's code too
        return {"bad": f"{kind.__name__}, whose float() raises {type(error).__name__}"[:_MAX_TEXT]}
    return {"value": float.__repr__(number) if type(number) is float else "nan"}
