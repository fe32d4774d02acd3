"""Plays a Gymnasium environment for one trial: reset with a seed, steps with given or drawn actions, all noted as plain data.

Nothing here judges: whether a reward is finite or an observation in its space is written down, and what raised is told. Only the
methods every environment has are used, so Gymnasium itself is imported only to make an environment by its registered name.
"""

# pyright: basic
# Whatever foreign environments return passes through here, and nothing is known of its types.

from __future__ import annotations

import hashlib
import importlib
import json
import math
import random
from collections.abc import Callable
from typing import Any

MAX_TEXT = 300


def load(spec: dict[str, Any]) -> tuple[Callable[[dict[str, Any]], Any], dict[str, Any]]:
    """A way to make the environment, `module:make` or a registered id, and what it says of itself."""
    make = maker(spec["env"], spec["arguments"])
    env = make()
    try:
        facts = {
            "actions": str(getattr(env, "action_space", None))[:MAX_TEXT],
            "observations": str(getattr(env, "observation_space", None))[:MAX_TEXT],
            "reward_range": [plain_float(bound) for bound in getattr(env, "reward_range", ()) or ()],
        }
    finally:
        close(env)
    return lambda request: played(make, request), facts


def maker(name: str, arguments: dict[str, Any]) -> Callable[[], Any]:
    """What makes a fresh environment."""
    module, mark, attribute = name.partition(":")
    if mark and attribute:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        return lambda: found(**arguments)
    return lambda: importlib.import_module("gymnasium").make(name, **arguments)


def played(make: Callable[[], Any], request: dict[str, Any]) -> dict[str, Any]:
    """One trial in a fresh environment; `again` resets it once more with the same seed when it is over."""
    noted: dict[str, Any] = {"steps": [], "error": None}
    try:
        env = make()
        noted["opening"] = opened(env, request["seed"])
        draw = random.Random(request["draws"])  # noqa: S311 - actions, no secrets
        space: Any = getattr(env, "action_space", None)
        if hasattr(space, "seed"):
            space.seed(request["draws"])
        for number in range(request["steps"]):
            given = request["actions"][number] if number < len(request["actions"]) else None
            if given is None and request["actions"]:
                break
            step = stepped(env, chosen(space, draw, request["play"]) if given is None else given, request["play"])
            noted["steps"].append(step)
            if step.get("raised") or step.get("terminated") or step.get("truncated"):
                break
        if request["again"]:
            noted["reopening"] = opened(env, request["seed"])
        close(env)
    except BaseException as error:  # noqa: BLE001 - theirs, and the answer
        noted["error"] = f"{type(error).__name__}: {error}"[:MAX_TEXT]
    return noted


def opened(env: Any, seed: int) -> dict[str, Any]:
    """What a reset shows."""
    came = env.reset(seed=seed)
    pair = isinstance(came, tuple) and len(came) == 2
    observation = came[0] if pair else came
    return {"pair": pair, "digest": digest(observation), "inside": inside(getattr(env, "observation_space", None), observation)}


def stepped(env: Any, action: Any, play: str) -> dict[str, Any]:
    """What a step shows."""
    told = {"action": text(action)}
    try:
        came = env.step(action)
    except Exception as error:  # noqa: BLE001 - theirs, and the answer
        return {**told, "raised": f"{type(error).__name__}: {error}"[:MAX_TEXT]}
    if not isinstance(came, tuple) or len(came) != 5:
        return {**told, "parts": len(came) if isinstance(came, tuple) else 0}
    observation, reward, terminated, truncated, _ = came
    return {
        **told,
        "parts": 5,
        "digest": digest(observation),
        "inside": inside(getattr(env, "observation_space", None), observation),
        "reward": plain_float(reward),
        "flags": kind_of(terminated) == "bool" and kind_of(truncated) == "bool",
        "terminated": bool(terminated),
        "truncated": bool(truncated),
        "play": play,
    }


def chosen(space: Any, draw: random.Random, play: str) -> Any:
    """An action out of the space, or one that is surely not in it."""
    if play != "outside":
        return space.sample()
    strange = [10**9, -1, "sideways", [1e12] * 3, None, {"move": "up"}]
    refused = [action for action in strange if not inside(space, action)]
    return draw.choice(refused or ["sideways"])


def kind_of(value: Any) -> str:
    """`bool` for Python's and numpy's."""
    return "bool" if type(value).__name__ in {"bool", "bool_"} else type(value).__name__


def inside(space: Any, value: Any) -> bool | None:
    """Whether a space says that it holds a value; None if it cannot say."""
    try:
        return bool(space.contains(value))
    except Exception:  # noqa: BLE001 - a space that cannot tell has not said no
        return None


def digest(value: Any) -> str:
    """A short name for a value: equal values have equal names."""
    return hashlib.sha256(text(value).encode()).hexdigest()[:16]


def text(value: Any) -> str:
    """A value in words, numbers of arrays included, whole."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {text(value[key])}" for key in sorted(value, key=str)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text(each) for each in value) + "]"
    return json.dumps(value) if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def plain_float(value: Any) -> str:
    """A number as its text, so that `nan` survives; empty for what is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return ""
    return "nan" if math.isnan(number) else float.__repr__(number)


def close(env: Any) -> None:
    """Let it go, if it knows how."""
    if hasattr(env, "close"):
        env.close()
