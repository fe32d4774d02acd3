"""The two ways out: an environment as a Gymnasium or PettingZoo one. They import those packages when they are called."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandlot.core.errors import ConfigError
from sandlot.core.persona import AGENT as USER
from sandlot.core.types import Split
from sandlot.env.environment import Environment
from sandlot.interop.gyms.rollouts import GymOptions, GymRollouts

if TYPE_CHECKING:
    from sandlot.interop.gyms.environment import GymEnvironment
    from sandlot.interop.gyms.views import GymView


def to_gym(
    env: str | Path | Environment,
    *,
    view: "GymView | None" = None,
    tasks: Sequence[str] = (),
    split: Split | str | None = Split.TRAIN,
    judge: str | None = None,
    sandbox: str = "native",
    render_mode: str | None = None,
) -> "GymEnvironment":
    """An environment as a `gymnasium.Env`, with `pip install 'sandlot[gymnasium]'`. It passes Gymnasium's `check_env`.

    - `env`: an `Environment`, or its path or name.
    - `view`: the spaces, and how messages and turns map to them. Default: text observations; actions are messages, with tool
      calls if the environment has tools. `DiscreteView` lists turns for classic algorithms.
    - `tasks`: ids of the tasks that `reset` draws from. Default: all of `split`.
    - `split`: `train`, `heldout`, or None for both.
    - `judge`: the grader model of judge checks.
    - `sandbox`: where worlds with an image run.
    - `render_mode`: `ansi` for the conversation as text.

    The score is the reward of the last step. A failure of the environment or of a check is raised; it is never a reward.

    ```python
    from importlib.util import find_spec

    import sandlot

    if find_spec("gymnasium"):
        env = sandlot.to_gym("arithmetic")
        question, info = env.reset(seed=0)
        observation, reward, terminated, truncated, info = env.step("42")
    ```
    """
    with _installed("gymnasium"):
        from sandlot.interop.gyms.environment import GymEnvironment  # noqa: PLC0415 - an extra
        from sandlot.interop.gyms.views import TextView  # noqa: PLC0415 - an extra

    rollouts = _rollouts(env, GymOptions(tasks=tasks, split=_split(split), judge=judge, sandbox=sandbox), "gym")
    declared = rollouts.env
    if declared.marked.persona is not None and declared.marked.user is None:
        raise ConfigError(f"environment `{declared.name}` has a user that a model plays; use `sandlot.to_pettingzoo`")
    return GymEnvironment(rollouts, view or TextView(tools=_has_tools(declared)), render_mode)


def to_pettingzoo(
    env: str | Path | Environment,
    *,
    parallel: bool = False,
    view: "GymView | None" = None,
    tasks: Sequence[str] = (),
    split: Split | str | None = Split.TRAIN,
    judge: str | None = None,
    sandbox: str = "native",
    render_mode: str | None = None,
) -> Any:
    """An environment as a `pettingzoo.AECEnv`, with `pip install 'sandlot[pettingzoo]'`. It passes `api_test`.

    The agents are `agent`, and `user` if the environment has a persona. Observations are dictionaries with the key `text`.

    - `parallel`: True for a `ParallelEnv`, which passes `parallel_api_test`. With a user, only the action of the one whose turn
      it is counts.
    - `view`: the agent's spaces, as in `to_gym`. `env`, `tasks`, `split`, `judge`, `sandbox` and `render_mode` are as there.

    ```python
    from importlib.util import find_spec

    import sandlot

    if find_spec("pettingzoo"):
        env = sandlot.to_pettingzoo("arithmetic")
        env.reset(seed=0)
        for agent in env.agent_iter():
            observation, reward, terminated, truncated, info = env.last()
            env.step(None if terminated or truncated else "42")
    ```
    """
    with _installed("pettingzoo"):
        from sandlot.interop.gyms.aec import AGENT, TEXT, PettingZooEnvironment, parallel_of  # noqa: PLC0415 - an extra
        from sandlot.interop.gyms.views import TextView  # noqa: PLC0415 - an extra

    rollouts = _rollouts(env, GymOptions(tasks=tasks, split=_split(split), judge=judge, sandbox=sandbox), "pettingzoo")
    views: dict[str, GymView] = {AGENT: view or TextView(tools=_has_tools(rollouts.env), key=TEXT)}
    if rollouts.env.marked.persona is not None:
        views[USER] = TextView(tools=False, key=TEXT)
    made = PettingZooEnvironment(rollouts, views, render_mode)
    return parallel_of(made) if parallel else made


@contextmanager
def _installed(extra: str) -> Generator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in {"gymnasium", "pettingzoo"}:
            raise
        raise ConfigError(f"{error.name} is not installed: `pip install 'sandlot[{extra}]'`") from error


def _split(split: Split | str | None) -> Split | None:
    try:
        return None if split is None else Split(split)
    except ValueError:
        raise ConfigError(f"split={split!r} is unknown; use 'train', 'heldout', or None for both") from None


def _rollouts(env: str | Path | Environment, options: GymOptions, name: str) -> GymRollouts:
    rollouts = GymRollouts(env, options, name)
    if rollouts.env.seats:
        raise ConfigError(f"environment `{rollouts.env.name}` has seats for several agents; only `sandlot run` plays it so far")
    if rollouts.env.images == "require":
        raise ConfigError(f"environment `{rollouts.env.name}` needs a model that sees images; these observations are text")
    return rollouts


def _has_tools(env: Environment) -> bool:
    return bool(env.tools or env.marked.sources)
