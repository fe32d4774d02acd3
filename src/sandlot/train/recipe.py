"""A recipe: the whole configuration of a training, in one frozen record that a short Python function returns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import msgspec

from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.model import Sampling
from sandlot.core.task import Task
from sandlot.core.trace import Trace
from sandlot.core.types import Dtype
from sandlot.env.environment import Environment
from sandlot.env.module import forget_if_changed, load_module
from sandlot.model.engine.siblings import Speculate
from sandlot.train.algorithms.algorithms import Algorithm, PolicyGradient, Ppo, Prefer
from sandlot.train.algorithms.losses import corrects_staleness
from sandlot.train.algorithms.shaping import Shaped
from sandlot.train.guard import CollapseGuard
from sandlot.train.own_policy import OwnPolicy
from sandlot.train.trainer import Optimisation
from sandlot.train.training_env import TrainingEnv
from sandlot.train.variants import Variant
from sandlot.train.weights import Weigh
from sandlot.wiring.config import AgentConfig, ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How the model is measured on held-out tasks, which it never trains on.

    ```python
    from sandlot.train import Evaluation

    often = Evaluation(every=5, tasks=32, group=8)
    ```
    """

    every: int = 10
    """Steps between measurements. There is always one before the first step and one after the last."""
    tasks: int | None = None
    """How many held-out tasks; None for all."""
    group: int = 4
    """Rollouts per task."""
    sampling: Sampling | None = None
    """Sampling settings; None: as in training."""
    rollback: float | None = None
    """Go back to the best weights when the score falls this far below theirs."""
    variants: Mapping[str, Variant] = field(default_factory=dict[str, Variant])
    """The same tasks rephrased (`variants.py`), or with other sampling settings; measured before the first step and after the
    last."""

    def __post_init__(self) -> None:
        for name in self.variants:
            if not name.replace("-", "").isalnum():
                raise ConfigError(f"variant `{name}`: use letters, digits and `-` only: it becomes the name of a folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The whole configuration of a training. A recipe file is a Python file with a function `recipe()` that returns one.

    ```python
    from sandlot.train import Evaluation, Optimisation, Recipe


    def recipe() -> Recipe:
        return Recipe(
            name="first",
            env="environments/arithmetic",
            model="rookie",
            steps=20,
            optimisation=Optimisation(learning_rate=3e-4),
            evaluation=Evaluation(every=10, tasks=16),
        )


    assert recipe().but(steps=2).steps == 2
    ```
    """

    name: str
    """The run is stored in `runs/NAME`."""
    env: str | Path | Environment | None = None
    """A path, an installed name, or an `Environment`; None with `envs`."""
    envs: Sequence[str | Path | Environment | TrainingEnv] | None = None
    """Several environments to learn together, instead of `env`; a `TrainingEnv` has a weight, limits and so on of its own."""
    model: str = "rookie"
    """`rookie`, `smollm2` or `hf:FOLDER`."""
    steps: int = 50
    """Updates of the weights."""
    tasks: int = 8
    """Tasks (groups) per step."""
    group: int = 8
    """Rollouts per task; their scores are compared with each other."""
    algorithm: Algorithm = field(default_factory=PolicyGradient)
    """`PolicyGradient` (GRPO and its relatives), `Ppo`, `Imitate` (SFT) or `Prefer` (DPO), from `sandlot.train`."""
    optimisation: Optimisation = field(default_factory=Optimisation)
    """Learning rate and other settings of the optimiser."""
    sampling: Sampling = field(default_factory=lambda: Sampling(max_tokens=256))
    """How turns are sampled; `top_p` and `top_k` must stay off in training."""
    evaluation: Evaluation = field(default_factory=Evaluation)
    """How held-out tasks are measured."""
    staleness: int = 0
    """How many weight versions a rollout may be behind when it is trained on; 0 alternates sampling and training. More
    needs a loss that corrects for it: `Clip(against="behaviour")`."""
    resample: int = 2
    """Groups with equal scores teach nothing and are replaced, up to this many times `tasks` per step; 1: never."""
    warn_idle: int = 3
    """Warn after this many steps in a row in which no group taught anything; 0 never does."""
    stop_idle: int = 10
    """Stop after this many such steps; the same command continues for as many again. 0 never stops."""
    stop_crashed: float = 0.1
    """Stop before learning when a crash of the environment touched more than this share of the rewards of the newest 64 groups,
    and at least 8; 1 never stops."""
    guard: CollapseGuard = field(default_factory=CollapseGuard)
    """What to do when the training is about to collapse; by default it only warns."""
    lora: int | None = None
    """Rank of LoRA adapters on all linear layers; None trains all weights. Adapters need about ten times the learning rate."""
    server: str | None = None
    """`vllm:NAME@URL` or `sandlot:NAME@URL`: sample with a running server, which receives the adapters after every step; needs
    `lora`."""
    critic: bool = False
    """Train a value head, for `Ppo`."""
    teacher: str | None = None
    """Whose rollouts are imitated: `scripted:golden`, `replay:RUN`, `openai:NAME@URL`; None for the model's own."""
    pairs: str | Path | None = None
    """Learn from this file of pairs instead of rollouts, `tasks` pairs per step: `.jsonl` or `.parquet` with `prompt`, `chosen`
    and `rejected`, as `sandlot export pairs RUN` writes it; needs `algorithm=Prefer()`."""
    user: str | None = None
    """The model that simulates the environment's user, in training and evaluation: any model, `scripted:persona`, or
    `replay:RUN`; None for the author's own replies, or no user."""
    seats: Mapping[str, str | OwnPolicy] | None = None
    """Where several agents act: the models of seats that do not learn, such as `{"seller": "scripted:golden"}`, and `OwnPolicy()`
    for seats that learn with weights of their own. `model` plays all other seats, and learns from each. A seat is compared with
    the same seat in other rollouts of the task."""
    reward: Callable[[Trace], float] | None = None
    """A reward instead of the score: a function, or a trained `RewardModel`; evaluation always uses the score."""
    outcome: Callable[[Trace], float] | None = None
    """A second measure that is never trained on; None for the share of rollouts with full marks, or with a `RewardModel` the
    environment's own score."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    """The harness and how tool calls are written."""
    sandbox: str = "native"
    """The sandbox backend: `native`, `docker` or `docker:SOCKET`."""
    at_once: int = 64
    """Rollouts in flight."""
    adapt: bool = False
    """Find out how many rollouts in flight the model's server, the judge and the machine can take, up to `at_once`."""
    threads: int | None = None
    """CPU threads for sampling and training; None leaves it to torch."""
    speculate: Speculate = "off"
    """`siblings`: guess tokens from what rollouts of the same task have written, and check several at once."""
    seed: int = 0
    """Seed of task order and sampling."""
    device: str = "cpu"
    """`cpu` or `cuda`."""
    dtype: Dtype = Dtype.FLOAT32
    """The number type of the weights that sample; those that are trained are always float32. With another type, the two differ by
    rounding, which the KL shows."""
    tracker: str | None = None
    """Where metrics go besides the run's folder: `tensorboard`, `mlflow`, `wandb` (offline), or a plug-in's name."""
    curriculum: tuple[str, ...] | str | Path = ()
    """Train on these tasks only: ids, or the path of the `curriculum.json` that `sandlot calibrate` wrote."""
    select: Callable[[Task], bool] | None = None
    """Use only tasks for which it returns True, in training and in evaluation."""
    weigh: Weigh | None = None
    """Sampling weights of tasks by what the model made of them, such as `TowardsBand()`; None: all the same."""

    def __post_init__(self) -> None:
        limits = {"steps": 1, "tasks": 1, "group": 1, "staleness": 0, "resample": 1, "at_once": 1, "warn_idle": 0, "stop_idle": 0}
        for name, least in limits.items():
            if getattr(self, name) < least:
                raise ConfigError(f"recipe `{self.name}`: {name} is {getattr(self, name)}; give {least} or more")
        if not 0 <= self.stop_crashed <= 1:
            raise ConfigError(f"recipe `{self.name}`: stop_crashed is {self.stop_crashed}; give a share from 0 to 1")
        if self.lora is not None and (type(self.lora) is not int or self.lora < 1):
            raise ConfigError(f"recipe `{self.name}`: lora is {self.lora!r}; give the rank of the adapters, 1 or more, or None")
        if self.server is not None and self.lora is None:
            raise ConfigError(
                f"recipe `{self.name}`: server `{without_secrets(self.server)}` can only receive adapters; give "
                "`lora` a rank, or leave `server` out"
            )
        if self.teacher is not None and isinstance(self.algorithm, PolicyGradient | Ppo):
            raise ConfigError(
                f"recipe `{self.name}`: `{without_secrets(self.teacher)}` is not the policy in training, so its turns have no "
                "policy gradient; imitate them (`algorithm=Imitate()`) or leave `teacher` out"
            )
        if self.speculate != "off" and self.server is not None:
            raise ConfigError(
                f"recipe `{self.name}`: `speculate` is `{self.speculate}`, but guesses are for the built-in engine, not for a "
                "server: leave it out"
            )
        _require_environments(self)
        _require_own_policies(self)
        _require_staleness_correction(self)
        _require_plain_steps(self)
        _require_policy_loss(self)
        if self.sampling.top_p != 1.0 or self.sampling.top_k:
            raise ConfigError(
                f"recipe `{self.name}`: top_p {self.sampling.top_p} and top_k {self.sampling.top_k} truncate the distribution "
                "that is trained; use top_p=1 and top_k=0, and truncate in `evaluation.sampling` only"
            )

    @property
    def environments(self) -> tuple[TrainingEnv, ...]:
        """The environments, each with its settings; one if the recipe names `env`."""
        if self.env is not None:
            return (TrainingEnv(env=self.env, curriculum=self.curriculum, user=self.user, seats=self.seats),)
        return tuple(each if isinstance(each, TrainingEnv) else TrainingEnv(env=each) for each in self.envs or ())

    @property
    def own_policies(self) -> dict[str, OwnPolicy]:
        """The policies with weights of their own, by seat; there is one environment then."""
        return self.environments[0].own_policies

    @property
    def own_models(self) -> dict[str, str]:
        """The models that these begin with."""
        return {seat: policy.model or self.model for seat, policy in self.own_policies.items()}

    def for_policy(self, name: str) -> "Recipe":
        """The recipe of one policy: with the model and the optimisation of its own, if it has them."""
        own = self.own_policies.get(name, OwnPolicy())
        return self.but(model=own.model or self.model, optimisation=own.optimisation or self.optimisation)

    def evaluates(self, version: int) -> bool:
        """True if this version is measured on held-out tasks."""
        return version % self.evaluation.every == 0 or version == self.steps

    def but(self, **changed: Any) -> "Recipe":
        """The same recipe with some fields changed."""
        return replace(self, **changed)


def _require_environments(recipe: Recipe) -> None:
    if (recipe.env is None) == (not recipe.envs):
        raise ConfigError(f"recipe `{recipe.name}`: give `env`, or several environments as `envs`, not both")
    if isinstance(recipe.envs, str):
        raise ConfigError(f"recipe `{recipe.name}`: `envs` is the text `{recipe.envs}`; give a list, or `env`")
    own = [name for name in ("curriculum", "user", "seats") if recipe.envs and getattr(recipe, name)]
    if own:
        raise ConfigError(
            f"recipe `{recipe.name}`: `{own[0]}` belongs to one environment; with `envs`, give it there: "
            f"`TrainingEnv(env=..., {own[0]}=...)`"
        )
    if recipe.pairs is not None and recipe.envs:
        raise ConfigError(f"recipe `{recipe.name}`: a training on `pairs` has one environment, which measures it; give `env`")


def _require_own_policies(recipe: Recipe) -> None:
    """Policies with weights of their own learn from their rollouts, in this process and in one environment."""
    if not any(each.own_policies for each in recipe.environments):
        return
    start = f"recipe `{recipe.name}`: `seats` has policies of their own, and"
    if len(recipe.environments) > 1:
        raise ConfigError(f"{start} there are {len(recipe.environments)} environments; train them in one, `env=...`")
    if recipe.server is not None:
        raise ConfigError(f"{start} a server receives the adapters of one policy; leave `server` out: each has an engine here")
    if recipe.pairs is not None:
        raise ConfigError(f"{start} `pairs` do not say which of them a pair is for; leave one of the two out")


def _require_policy_loss(recipe: Recipe) -> None:
    preference = recipe.algorithm if isinstance(recipe.algorithm, Prefer) else None
    if preference is not None and "values" in preference.loss.needs:
        raise ConfigError(
            f"recipe `{recipe.name}`: `{type(preference.loss).__name__}` trains a reward model, not a policy; "
            "use `train_reward_model`"
        )
    if recipe.pairs is None:
        return
    if preference is None:
        raise ConfigError(
            f"recipe `{recipe.name}`: `pairs` are learned from with `algorithm=Prefer()`, not `{type(recipe.algorithm).__name__}`"
        )
    others = {"staleness": recipe.staleness, "teacher": recipe.teacher, "reward": recipe.reward}
    given = [name for name, value in others.items() if value]
    if given:
        raise ConfigError(f"recipe `{recipe.name}`: with `pairs` no rollouts are learned from; leave out {', '.join(given)}")


def _require_staleness_correction(recipe: Recipe) -> None:
    algorithm = recipe.algorithm.algorithm if isinstance(recipe.algorithm, Shaped) else recipe.algorithm
    if recipe.staleness and isinstance(algorithm, PolicyGradient | Ppo) and not corrects_staleness(algorithm.loss):
        raise ConfigError(
            f"recipe `{recipe.name}`: staleness is {recipe.staleness}, and the loss `{type(algorithm.loss).__name__}` does not "
            "limit how far the policy moves from the weights that sampled; such a training can destroy the model. Write "
            f"`algorithm={type(algorithm).__name__}(loss=Clip(0.2, 0.28).for_staleness({recipe.staleness}))`, or leave "
            "`staleness` out"
        )


def _require_plain_steps(recipe: Recipe) -> None:
    """While torch compiles, it replaces the calls of all modules in the process, also those that sample on the CPU meanwhile."""
    learning = [recipe.optimisation, *(own.optimisation for own in recipe.own_policies.values() if own.optimisation)]
    here = recipe.server is None and recipe.device == "cpu"
    if recipe.staleness and here and any(each.compiled for each in learning):
        raise ConfigError(
            f"recipe `{recipe.name}`: staleness is {recipe.staleness}, and `compiled` on a CPU would disturb the sampling that "
            "goes on meanwhile; leave `compiled` out, or `staleness`"
        )


FILE = "recipe.json"
_PACE = (
    *("steps", "at_once", "adapt", "threads", "speculate", "device", "sandbox", "server", "tracker"),
    *("warn_idle", "stop_idle", "stop_crashed", "guard"),
)
"""Fields that may change when a run is continued: they do not change the result of a step, and `guard` only those to come."""
_ADDRESSES = ("server", "teacher", "user")
"""Fields whose URL may hold a password."""


def without_secrets(spec: str) -> str:
    """A model spec without the secrets in its URL."""
    return ModelConfig(spec=spec).shown


def load_recipe(what: str) -> Recipe:
    """Load the recipe that `path.py` or `path.py:function` returns. Default function: `recipe`."""
    path, _, name = what.partition(":")
    if not Path(path).is_file():
        raise ConfigError(f"no recipe `{path}`: a recipe is a Python file, `path.py` or `path.py:function`")
    forget_if_changed(Path(path))
    module = load_module(Path(path))
    made = {
        key: value
        for key, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__
    }
    function = made.get(name or "recipe")
    if function is None:
        raise ConfigError(f"`{path}` has no function `{name or 'recipe'}`; it has: {', '.join(made) or 'none'}")
    with boundary(ConfigError, f"recipe `{what}`"):
        value: Any = function()
    if not isinstance(value, Recipe):
        raise ConfigError(f"`{what}` returned {type(value).__name__}; a recipe's function returns a `Recipe`")
    return value


def as_plain_data(value: Any) -> Any:
    """A recipe, or a value in it, as plain data for storing: functions by name, URLs without their secrets."""
    if isinstance(value, Environment):
        return str(value.source or value.name)
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if is_dataclass(value) and not isinstance(value, type):
        named = {entry.name: as_plain_data(getattr(value, entry.name)) for entry in fields(value)}
        named = _public(named) if isinstance(value, Recipe | TrainingEnv) else named
        return (
            named
            if isinstance(value, Recipe | Evaluation | Optimisation | CollapseGuard | TrainingEnv | OwnPolicy)
            else {"is": type(value).__name__, **named}
        )
    if isinstance(value, Mapping):
        return {str(name): as_plain_data(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, tuple | list):
        return [as_plain_data(each) for each in cast("list[Any]", value)]
    plain = str(value) if isinstance(value, Path) else value
    return f"{getattr(value, '__qualname__', type(value).__name__)}()" if callable(value) else plain


def require_same_recipe(recipe: Recipe, path: Path) -> None:
    """Refuse to continue a run with another recipe."""
    file = path / FILE
    if file.is_file():
        begun = _public(msgspec.json.decode(file.read_bytes()))
        wanted: dict[str, Any] = msgspec.json.decode(_encode_recipe(recipe))
        for each in (begun, wanted):
            _drop_pace(each)
        changed = [name for name, value in wanted.items() if name not in _PACE and begun.get(name) != value]
        if changed:
            raise ConfigError(f"`{path}` was begun with another {', '.join(changed)}; name a new folder with `--run`")
    elif (path / "manifest.json").is_file():
        raise ConfigError(f"`{path}` is a run, but not a training; name another folder with `--run`")


def _drop_pace(stored: dict[str, Any]) -> None:
    """Remove from a stored recipe what sets the pace only, as `device` does, below its own fields."""
    envs = [cast("dict[str, Any]", env) for env in stored.get("envs") or () if isinstance(env, dict)]
    for env in envs:
        env.pop("at_once", None)
        env.setdefault("seats", None)  # trainings of earlier versions did not store it
    players = [player for each in (stored, *envs) for player in cast("dict[str, Any]", each.get("seats") or {}).values()]
    for part in (stored, *(player for player in players if not isinstance(player, str))):
        cast("dict[str, Any]", part["optimisation"] or {}).pop("compiled", None)


def write_recipe(recipe: Recipe, path: Path) -> None:
    """Store the recipe in the run directory."""
    (path / FILE).write_bytes(_encode_recipe(recipe))


def _public(named: dict[str, Any]) -> dict[str, Any]:
    players: dict[str, Any] = named.get("seats") or {}
    shown = {seat: without_secrets(player) if isinstance(player, str) else player for seat, player in players.items()}
    seats = {"seats": shown} if shown else {}
    return named | {name: without_secrets(named[name]) for name in _ADDRESSES if named.get(name)} | seats


def _encode_recipe(recipe: Recipe) -> bytes:
    return msgspec.json.format(msgspec.json.encode(as_plain_data(recipe)), indent=2) + b"\n"
