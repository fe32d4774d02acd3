"""Plays a Gymnasium environment for one trial: reset with a seed, steps with given or chosen actions, all noted as plain data.

Nothing here judges: whether a reward is finite or an observation in its space is written down, and what raised is told. Only the
methods every environment has are used, so Gymnasium itself is imported only to make an environment by its registered name.
"""

# pyright: basic
# Whatever foreign environments return passes through here, and nothing is known of its types.

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

MAX_TEXT = 300
MAX_MODULES = 200
FEW_ACTIONS = 8
"""So many actions of a space are all tried; of a larger space a few are drawn."""
DRAWN_ACTIONS = 3
SOLUTION = "golden"
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Where an object lies in memory says nothing about it."""


def load(spec: dict[str, Any]) -> tuple[Callable[[dict[str, Any]], Any], dict[str, Any]]:
    """A way to play the environment, and what it says of itself."""
    make = find_maker(spec["env"], spec["arguments"], spec["path"])
    solution = resolve(spec["solution"], spec["path"]) if spec["solution"] else None
    env = make_first(make, spec)
    try:
        space = getattr(env, "action_space", None)
        facts = {
            "actions": str(space)[:MAX_TEXT],
            "observations": str(getattr(env, "observation_space", None))[:MAX_TEXT],
            "reward_range": [plain_float(bound) for bound in getattr(env, "reward_range", ()) or ()],
            "constant": [text(action)[:MAX_TEXT] for action in constant_actions(space)],
            "modules": own_modules(spec["path"]),
            "made_in": str(getattr(type(getattr(env, "unwrapped", env)), "__module__", "")),
        }
    finally:
        close(env)
    return lambda request: play_trial(make, solution, request), facts


def find_maker(name: str, arguments: dict[str, Any], folders: Sequence[str]) -> Callable[[], Any]:
    """What makes a fresh environment: `module:make`, or Gymnasium by an id, which may name the module that registers it."""
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


def make_first(make: Callable[[], Any], spec: dict[str, Any]) -> Any:
    """The first one, to look at; it must be something that can be played."""
    try:
        env = make()
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise Unloadable(
            f"making `{spec['env']}` with {spec['arguments'] or 'no arguments'} raised {told}; mend it, or give what it needs "
            "with `--gym-argument NAME=VALUE`"
        ) from error
    missing = [name for name in ("reset", "step", "action_space") if not hasattr(env, name)]
    if missing:
        kind = type(env).__name__
        raise Unloadable(f"`{spec['env']}` made a {kind} without `{missing[0]}`; name what makes a Gymnasium environment")
    return env


def own_modules(folders: Sequence[str]) -> list[str]:
    """Modules that were loaded from the folders of whoever wrote it, installed packages aside."""
    found: list[str] = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name == "__main__" or {"site-packages", "dist-packages"} & set(Path(file).parts):
            continue
        if any(Path(file).is_relative_to(folder) for folder in folders):
            found.append(name)
    return sorted(found)[:MAX_MODULES]


# -- one trial -----------------------------------------------------------------------------------------------------------------


def play_trial(make: Callable[[], Any], solution: Callable[[Any], Any] | None, request: dict[str, Any]) -> dict[str, Any]:
    """One trial in a fresh environment; `again` resets it once more with the same seed when it is over."""
    noted: dict[str, Any] = {"steps": []}
    try:
        env = make()
        beside = Neighbour(make(), request) if request["play"] == "beside" else None
        noted["opening"], observation = reset(env, request["seed"])
        choose = find_player(env, solution, request)
        for number in range(request["steps"]):
            if beside is not None:
                beside.step()
            if request["actions"] and number == len(request["actions"]):
                break
            action = request["actions"][number] if request["actions"] else choose(observation)
            step, observation = step_env(env, action)
            noted["steps"].append(step)
            if step.get("terminated") or step.get("truncated") or step.get("parts") != 5:
                break
        if request["again"]:
            noted["reopening"] = reset(env, request["seed"])[0]
        close(env)
    except BaseException as error:  # noqa: BLE001 - theirs, and the answer
        noted["error"] = f"{type(error).__name__}: {error}"[:MAX_TEXT]
    return noted


class Neighbour:
    """A second environment in the same process, played in turn with the first: a vector of environments does that."""

    def __init__(self, env: Any, request: dict[str, Any]) -> None:
        self._env = env
        self._seed = request["seed"] + 1
        self._space = seeded(env.action_space, request["draws"] + 1)
        self._over = True

    def step(self) -> None:
        """One step, or a new beginning; what it raises is seen elsewhere."""
        try:
            if self._over:
                self._env.reset(seed=self._seed)
                self._over = False
            else:
                came = self._env.step(self._space.sample())
                self._over = bool(came[2] or came[3])
        except Exception:  # noqa: BLE001 - playing it alone shows that
            self._over = True


def find_player(env: Any, solution: Callable[[Any], Any] | None, request: dict[str, Any]) -> Callable[[Any], Any]:
    """What chooses an action for an observation."""
    play, space = request["play"], env.action_space
    if play == SOLUTION and solution is not None:
        return solution(env)
    if play.startswith("constant-"):
        always = constant_actions(space)[int(play.removeprefix("constant-"))]
        return lambda _observation: always
    if play == "outside":
        stranger = random.Random(request["draws"]).choice(actions_outside(space))  # noqa: S311 - actions, no secrets
        return lambda _observation: stranger
    drawn = seeded(space, request["draws"])
    return lambda _observation: drawn.sample()


def seeded(space: Any, number: int) -> Any:
    """The space, with draws that come again, and are nobody else's: environments may share one."""
    with contextlib.suppress(Exception):  # one that cannot be copied is drawn from as it is
        space = copy.deepcopy(space)
    if hasattr(space, "seed"):
        space.seed(number)
    return space


def constant_actions(space: Any) -> list[Any]:
    """Actions to take again and again: all of a few, else nothing at all and some that are drawn."""
    size: Any = getattr(space, "n", None)
    first: Any = getattr(space, "start", 0)
    if hasattr(size, "__index__") and getattr(size, "shape", ()) == () and int(size) <= FEW_ACTIONS:
        few = [type(size)(first + number) for number in range(int(size))]
        if all(inside(space, action) for action in few):
            return few
    try:
        drawn = [seeded(space, number).sample() for number in range(DRAWN_ACTIONS)]
    except Exception:  # noqa: BLE001 - playing it shows that it cannot be drawn from
        return []
    nothing = [drawn[0] * 0] if hasattr(drawn[0], "dtype") else []
    return [*(action for action in nothing if inside(space, action)), *drawn]


def actions_outside(space: Any) -> list[Any]:
    """Actions that are surely not in the space."""
    known = [10**9, -1, "sideways", [1e12] * 3, None, {"move": "up"}]
    return [action for action in known if not inside(space, action)] or ["sideways"]


def reset(env: Any, seed: int) -> tuple[dict[str, Any], Any]:
    """What a reset shows, and the observation itself."""
    came = env.reset(seed=seed)
    pair = isinstance(came, tuple) and len(came) == 2
    observation = came[0] if pair else came
    space = getattr(env, "observation_space", None)
    return {"pair": pair, "digest": digest(observation), "inside": inside(space, observation)}, observation


def step_env(env: Any, action: Any) -> tuple[dict[str, Any], Any]:
    """What a step shows, and the observation itself."""
    told = {"action": text(action)[:MAX_TEXT]}
    try:
        came = env.step(action)
    except Exception as error:  # noqa: BLE001 - theirs, and the answer
        return {**told, "raised": f"{type(error).__name__}: {error}"[:MAX_TEXT]}, None
    if not isinstance(came, tuple) or len(came) != 5:
        return {**told, "parts": len(came) if isinstance(came, tuple) else 0}, None
    observation, reward, terminated, truncated, _ = came
    shown = {
        **told,
        "parts": 5,
        "digest": digest(observation),
        "inside": inside(getattr(env, "observation_space", None), observation),
        "reward": plain_float(reward),
        "flags": kind_of(terminated) == "bool" and kind_of(truncated) == "bool",
        "terminated": bool(terminated),
        "truncated": bool(truncated),
    }
    return shown, observation


# -- values as plain data ------------------------------------------------------------------------------------------------------


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
    return hashlib.sha256(_bytes(value)).hexdigest()[:16]


def _bytes(value: Any) -> bytes:
    """Pictures are large: an array of numbers is taken as it lies in memory."""
    if hasattr(value, "tobytes") and hasattr(value, "dtype") and not value.dtype.hasobject:
        return f"{value.dtype}{value.shape}".encode() + value.tobytes()
    if isinstance(value, dict):
        return b"{" + b",".join(text(key).encode() + b":" + _bytes(value[key]) for key in sorted(value, key=str)) + b"}"
    if isinstance(value, (list, tuple)):
        return b"[" + b",".join(_bytes(each) for each in value) + b"]"
    return text(value).encode()


def text(value: Any) -> str:
    """A value in words, numbers of arrays included, whole."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {text(value[key])}" for key in sorted(value, key=str)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text(each) for each in value) + "]"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(text(each) for each in value)) + "}"
    if isinstance(value, (str, int, float, bool, type(None))):
        return json.dumps(value)
    return ADDRESS.sub("", repr(value))


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
