"""Plays a Gymnasium environment for one trial: reset with a seed, steps with given or chosen actions, recorded as plain data.

Nothing is judged here: whether a reward is finite or an observation is in its space is recorded, and so are errors. Only methods
that every environment has are used; Gymnasium itself is imported only to make an environment by its registered id.
"""

# pyright: basic
# Values of foreign environments pass through here, and their types are unknown.

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import math
import random
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sandlot_naming import Unloadable, import_named, resolve

_MAX_TEXT = 300
_MAX_MODULES = 200
_FEW_ACTIONS = 8
"""Spaces with up to this many actions are tried completely; of a larger space a few are sampled."""
_DRAWN_ACTIONS = 3
_SOLUTION = "golden"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""The memory address in a `repr`, which is removed."""


def load(spec: dict[str, Any]) -> tuple[Callable[[dict[str, Any]], Any], dict[str, Any]]:
    """The function that plays a trial, and the facts about the environment."""
    make = _find_maker(spec["env"], spec["arguments"], spec["path"])
    solution = resolve(spec["solution"], spec["path"]) if spec["solution"] else None
    env = _make_first(make, spec)
    try:
        space = getattr(env, "action_space", None)
        facts = {
            "actions": str(space)[:_MAX_TEXT],
            "observations": str(getattr(env, "observation_space", None))[:_MAX_TEXT],
            "reward_range": [_plain_float(bound) for bound in getattr(env, "reward_range", ()) or ()],
            "constant": [_text(action)[:_MAX_TEXT] for action in _constant_actions(space)],
            "modules": _own_modules(spec["path"]),
            "made_in": str(getattr(type(getattr(env, "unwrapped", env)), "__module__", "")),
        }
    finally:
        _close(env)
    return lambda request: _play_trial(make, solution, request), facts


def _find_maker(name: str, arguments: dict[str, Any], folders: Sequence[str]) -> Callable[[], Any]:
    """The function that makes an environment: `module:make`, or `gymnasium.make` with an id (`module:Id` imports the module)."""
    module, mark, attribute = name.partition(":")
    if mark and all(part.isidentifier() for part in attribute.split(".")):
        make = resolve(name, folders)
        return lambda: make(**arguments)
    if mark:
        import_named(module, folders)
    try:
        gymnasium = import_named("gymnasium", folders)
    except Unloadable:
        raise Unloadable(
            f"`{name}` is the id of an environment, and {sys.executable} has no gymnasium to make it; install it there "
            f"(`{sys.executable} -m pip install gymnasium`), or name a Python that has it with `--python`"
        ) from None
    return lambda: gymnasium.make(name, **arguments)


def _make_first(make: Callable[[], Any], spec: dict[str, Any]) -> Any:
    """Make the first environment, and check that it can be played."""
    try:
        env = make()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise Unloadable(
            f"making `{spec['env']}` with {spec['arguments'] or 'no arguments'} raised {reason}; fix it, or pass what it needs "
            "with `--gym-argument NAME=VALUE`"
        ) from error
    missing = [name for name in ("reset", "step", "action_space") if not hasattr(env, name)]
    if missing:
        kind = type(env).__name__
        raise Unloadable(f"`{spec['env']}` made a {kind} without `{missing[0]}`; name what makes a Gymnasium environment")
    return env


def _own_modules(folders: Sequence[str]) -> list[str]:
    """Modules loaded from the author's folders, without installed packages."""
    found: list[str] = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name == "__main__" or {"site-packages", "dist-packages"} & set(Path(file).parts):
            continue
        if any(Path(file).is_relative_to(folder) for folder in folders):
            found.append(name)
    return sorted(found)[:_MAX_MODULES]


# -- one trial -----------------------------------------------------------------------------------------------------------------


def _play_trial(make: Callable[[], Any], solution: Callable[[Any], Any] | None, request: dict[str, Any]) -> dict[str, Any]:
    """Play one trial in a new environment; with `again` it is reset once more with the same seed at the end."""
    noted: dict[str, Any] = {"steps": []}
    try:
        env = make()
        beside = _Neighbour(make(), request) if request["play"] == "beside" else None
        noted["opening"], observation = _reset(env, request["seed"])
        choose = _find_player(env, solution, request)
        for number in range(request["steps"]):
            if beside is not None:
                beside.step()
            if request["actions"] and number == len(request["actions"]):
                break
            action = request["actions"][number] if request["actions"] else choose(observation)
            step, observation = _step_env(env, action)
            noted["steps"].append(step)
            if step.get("terminated") or step.get("truncated") or step.get("parts") != 5:
                break
        if request["again"]:
            noted["reopening"] = _reset(env, request["seed"])[0]
        _close(env)
    except BaseException as error:  # noqa: BLE001 - an error of foreign code is the answer
        noted["error"] = f"{type(error).__name__}: {error}"[:_MAX_TEXT]
    return noted


class _Neighbour:
    """A second environment in the same process, played in turn with the first, as in a vector environment."""

    def __init__(self, env: Any, request: dict[str, Any]) -> None:
        self._env = env
        self._seed = request["seed"] + 1
        self._space = _seeded(env.action_space, request["draws"] + 1)
        self._over = True

    def step(self) -> None:
        """Take one step, or reset. Errors are ignored here: playing it alone shows them."""
        try:
            if self._over:
                self._env.reset(seed=self._seed)
                self._over = False
            else:
                came = self._env.step(self._space.sample())
                self._over = bool(came[2] or came[3])
        except Exception:  # noqa: BLE001 - as the docstring says
            self._over = True


def _find_player(env: Any, solution: Callable[[Any], Any] | None, request: dict[str, Any]) -> Callable[[Any], Any]:
    """The function from observation to action for a play."""
    play, space = request["play"], env.action_space
    if play == _SOLUTION and solution is not None:
        return solution(env)
    if play.startswith("constant-"):
        always = _constant_actions(space)[int(play.removeprefix("constant-"))]
        return lambda _observation: always
    if play == "outside":
        stranger = random.Random(request["draws"]).choice(_actions_outside(space))  # noqa: S311 - actions, not secrets
        return lambda _observation: stranger
    drawn = _seeded(space, request["draws"])
    return lambda _observation: drawn.sample()


def _seeded(space: Any, number: int) -> Any:
    """A seeded copy of a space: environments may share one."""
    with contextlib.suppress(Exception):  # if it cannot be copied, use it as it is
        space = copy.deepcopy(space)
    if hasattr(space, "seed"):
        space.seed(number)
    return space


def _constant_actions(space: Any) -> list[Any]:
    """Actions for the `constant-N` plays: all of a small space, else a zero action and a few samples."""
    size: Any = getattr(space, "n", None)
    first: Any = getattr(space, "start", 0)
    if hasattr(size, "__index__") and getattr(size, "shape", ()) == () and int(size) <= _FEW_ACTIONS:
        few = [type(size)(first + number) for number in range(int(size))]
        if all(_inside(space, action) for action in few):
            return few
    try:
        drawn = [_seeded(space, number).sample() for number in range(_DRAWN_ACTIONS)]
    except Exception:  # noqa: BLE001 - playing it shows that it cannot be sampled
        return []
    nothing = [drawn[0] * 0] if hasattr(drawn[0], "dtype") else []
    return [*(action for action in nothing if _inside(space, action)), *drawn]


def _actions_outside(space: Any) -> list[Any]:
    """Actions that are not in the space."""
    known = [10**9, -1, "sideways", [1e12] * 3, None, {"move": "up"}]
    return [action for action in known if not _inside(space, action)] or ["sideways"]


def _reset(env: Any, seed: int) -> tuple[dict[str, Any], Any]:
    """Reset, and return the record and the observation."""
    came = env.reset(seed=seed)
    pair = isinstance(came, tuple) and len(came) == 2
    observation = came[0] if pair else came
    space = getattr(env, "observation_space", None)
    return {"pair": pair, "digest": _digest(observation), "inside": _inside(space, observation)}, observation


def _step_env(env: Any, action: Any) -> tuple[dict[str, Any], Any]:
    """Take a step, and return the record and the observation."""
    taken = {"action": _text(action)[:_MAX_TEXT]}
    try:
        came = env.step(action)
    except Exception as error:  # noqa: BLE001 - an error of foreign code is the answer
        return {**taken, "raised": f"{type(error).__name__}: {error}"[:_MAX_TEXT]}, None
    if not isinstance(came, tuple) or len(came) != 5:
        return {**taken, "parts": len(came) if isinstance(came, tuple) else 0}, None
    observation, reward, terminated, truncated, _ = came
    shown = {
        **taken,
        "parts": 5,
        "digest": _digest(observation),
        "inside": _inside(getattr(env, "observation_space", None), observation),
        "reward": _plain_float(reward),
        "flags": all(type(flag).__name__ in {"bool", "bool_"} for flag in (terminated, truncated)),  # Python's and numpy's
        "terminated": bool(terminated),
        "truncated": bool(truncated),
    }
    return shown, observation


# -- values as plain data ------------------------------------------------------------------------------------------------------


def _inside(space: Any, value: Any) -> bool | None:
    """Whether a space contains a value; None if `contains` fails."""
    try:
        return bool(space.contains(value))
    except Exception:  # noqa: BLE001 - unknown is not False
        return None


def _digest(value: Any) -> str:
    """A short hash of a value."""
    return hashlib.sha256(_bytes(value)).hexdigest()[:16]


def _bytes(value: Any) -> bytes:
    """The bytes to hash; an array of numbers is used as it is in memory, since images are large."""
    if hasattr(value, "tobytes") and hasattr(value, "dtype") and not value.dtype.hasobject:
        return f"{value.dtype}{value.shape}".encode() + value.tobytes()
    if isinstance(value, dict):
        return b"{" + b",".join(_text(key).encode() + b":" + _bytes(value[key]) for key in sorted(value, key=str)) + b"}"
    if isinstance(value, (list, tuple)):
        return b"[" + b",".join(_bytes(each) for each in value) + b"]"
    return _text(value).encode()


def _text(value: Any) -> str:
    """A value as text, with all numbers of arrays."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(value[key])}" for key in sorted(value, key=str)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(each) for each in value) + "]"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(_text(each) for each in value)) + "}"
    if isinstance(value, (str, int, float, bool, type(None))):
        return json.dumps(value)
    return _ADDRESS.sub("", repr(value))


def _plain_float(value: Any) -> str:
    """A number as text, to keep `nan`; empty if it is not a number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return ""
    return "nan" if math.isnan(number) else float.__repr__(number)


def _close(env: Any) -> None:
    """Close an environment, if it has `close`."""
    if hasattr(env, "close"):
        env.close()
