"""The live parts of a run, and how each is opened.

A part is named by a short spec, `scheme:rest`. Ready schemes and installed ones (entry points) are looked up the same way, and an
unknown one is answered with the list of what there is.
"""

import functools
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

import msgspec

from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.grading import Judge
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.sandbox import Backend
from sandlot.core.ports.session import Harness, Hook, Policies, Users
from sandlot.core.task import Task
from sandlot.core.trace import Usage
from sandlot.core.types import Dtype, derive_seed
from sandlot.env.environment import Environment
from sandlot.env.user import OpenUser
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.endpoint.secret import shown_url


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the agent is played; all of it is part of the setting's fingerprint, except hooks."""

    harness: str = "tool-loop"
    """`tool-loop`, `command`, or `module:attribute` of your own."""
    command: str | None = None
    """For `command`: what to run in the sandbox. `{prompt}` in it becomes the task."""
    calls: Literal["native", "text"] = "native"
    """How tool calls are written: `native`, or `text` for models without a tool API."""
    reasoning: Literal["drop", "keep"] = "drop"
    """What becomes of earlier reasoning in later turns: `drop` or `keep`. The trace always keeps it."""
    hooks: tuple[str, ...] = ()
    """`module:attribute`, each a `Hook`."""


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model, how it is sampled, and what it may cost."""

    spec: str
    """`smollm2`, `hf:FOLDER`, `openai:NAME@URL`, `vllm:NAME@URL`, `scripted:NAME`, `replay:RUN`, or an installed scheme."""
    sampling: Sampling = Sampling()
    """Temperature and the like."""
    tokenizer: str | None = None
    """The folder with `tokenizer.json` and chat template of a model that `vllm:` or `sglang:` serves."""
    kv_gib: float | None = None
    """Memory for keys and values of an engine of our own; None for its default."""
    dtype: Dtype | None = None
    """The number type an engine of our own computes in; None for the one that suits the processor."""
    connections: int = 512
    """Requests open at the same time."""
    patience_s: float = 300.0
    """How long one turn may be retried before it is the model's failure."""
    max_total_tokens: int | None = None
    """Prompt and completion tokens this model may use in the whole run; None for no cap."""
    max_usd: float | None = None
    """What this model may cost in the whole run; needs the prices."""
    usd_per_million_prompt: float = 0.0
    """The price of prompt tokens; there is no built-in price list."""
    usd_per_million_completion: float = 0.0
    """The price of completion tokens."""

    @property
    def shown(self) -> str:
        """The spec without what is secret in its URL."""
        model, mark, rest = self.spec.partition("@http")
        return f"{model}@{shown_url('http' + rest)}" if mark else self.spec

    def __post_init__(self) -> None:
        least = {"connections": 1, "patience_s": 0, "max_total_tokens": 0, "max_usd": 0}
        least |= {"usd_per_million_prompt": 0, "usd_per_million_completion": 0}
        for name, low in least.items():
            _require_number(f"{name} of model `{self.shown}`", getattr(self, name), low)
        _require_number("kv_gib", self.kv_gib, 0.001)
        _require_number("temperature", self.sampling.temperature, 0)
        _require_number("top_p", self.sampling.top_p, 0)
        _require_number("max_tokens", self.sampling.max_tokens, 1)
        if self.max_usd is not None and not (self.usd_per_million_prompt or self.usd_per_million_completion):
            raise ConfigError(f"max_usd is {self.max_usd:g} and nothing has a price; give `--price IN/OUT`, such as `0.5/1.5`")


def judge_config(spec: str | None) -> ModelConfig | None:
    """A judge as the command line names it: asked for its likeliest answer."""
    return ModelConfig(spec=spec, sampling=Sampling(temperature=0.0)) if spec else None


def user_config(spec: str | None) -> ModelConfig | None:
    """A user as the command line names it: lively, but held to what it knows, and brief."""
    return ModelConfig(spec=spec, sampling=Sampling(temperature=0.7, max_tokens=512)) if spec else None


@dataclass(frozen=True, slots=True)
class Grading:
    """Everything grading needs beside the evidence."""

    env: Environment
    judge: Judge | None = None
    rubric: str | None = None
    """Grade by this rubric instead of the tasks' own."""
    backend: Backend | None = None
    """Where sandboxes come from: the rollout's, and those that checks execute things in."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything one rollout needs beside its task."""

    grading: Grading
    policies: Policies
    harness: Harness
    users: Users | None = None
    """Who plays the environment's persona; None for the author's own replies, or none."""
    draws: str | None = None
    """What models and users draw by, instead of the run's name: runs with the same one draw the same."""

    def user(self, task: Task, run: str, rollout: int) -> OpenUser | None:
        """Opens the user of one rollout, which is told nothing of the key."""
        if self.users is None:
            return None
        seed = derive_seed("user", self.draws or run, task.id, rollout)
        return functools.partial(self.users.user, task=task.public(), seed=seed, rollout=rollout)

    @property
    def env(self) -> Environment:
        """The environment that is both played in and graded by."""
        return self.grading.env


def by_path(path: str, what: str) -> Any:
    """The object a person named on the command line as `module:attribute`."""
    module, _, attribute = path.partition(":")
    if not attribute:
        raise ConfigError(f"{what} `{path}`: write `module:attribute`")
    with boundary(ConfigError, f"{what} `{path}` (is its module on PYTHONPATH?)"):
        return getattr(import_module(module), attribute)


def opener(group: str, ready: dict[str, Callable[..., Any]], spec: str) -> tuple[Callable[..., Any], str]:
    """The function that opens `scheme:rest`, and the rest."""
    scheme, _, rest = spec.partition(":")
    if scheme in ready:
        return ready[scheme], rest
    installed = {entry.name: entry for entry in entry_points(group=f"sandlot.{group}")}
    if scheme in installed:
        return installed[scheme].load(), rest
    near = get_close_matches(scheme, [*ready, *installed], n=1, cutoff=0.75)
    meant = f" (did you mean `{near[0]}`?)" if near else ""
    known = ", ".join(f"`{name}`" for name in [*ready, *installed])
    hint = f"; one behind an OpenAI-compatible API is `openai:{spec}@URL`" if group == "models" and not near and not rest else ""
    raise ConfigError(f"no {group.removesuffix('s')} `{scheme}`{meant}; there are: {known}{hint}")


def open_harness(config: AgentConfig) -> Harness:
    """The loop, with its hooks."""
    hooks: list[Hook] = [_made(path, "hook", ("after_turn", "after_step")) for path in config.hooks]
    if config.command is not None and config.harness != "command":
        raise ConfigError(f"harness `{config.harness}` runs no command; leave `--agent-command` out, or `--harness`")
    if config.harness == "tool-loop":
        return ToolLoop(hooks)
    if hooks:
        raise ConfigError(f"hooks are called by the built-in harness; `{config.harness}` has a loop of its own")
    if config.harness == "command":
        from sandlot.capture.command import CommandAgent  # noqa: PLC0415 - only agents we did not write need a server

        return CommandAgent(config.command or "")
    return _made(config.harness, "harness", ("name", "play"))


@asynccontextmanager
async def open_grading(
    env: Environment,
    *,
    judge: ModelConfig | None = None,
    rubric: str | None = None,
    sandbox: str = "native",
    pool: int = 0,
    cache: Path | None = None,
) -> AsyncGenerator[Grading]:
    """What rollouts of an environment are graded with, and where their sandboxes come from; `cache` keeps a judge's verdicts."""
    from sandlot.wiring.models import open_judge  # noqa: PLC0415 - models import what only they need

    async with AsyncExitStack() as stack:
        judging = await stack.enter_async_context(open_judge(judge, cache)) if judge else None
        backend = await stack.enter_async_context(open_backend(sandbox, pool)) if env.image is not None else None
        yield Grading(env=env, judge=judging, rubric=rubric, backend=backend)


@asynccontextmanager
async def open_parts(
    grading: Grading,
    model: ModelConfig,
    agent: AgentConfig,
    *,
    user: ModelConfig | None = None,
    spent: Usage | None = None,
) -> AsyncGenerator[Parts]:
    """All parts of a run, open for as long as it lasts; `spent` is what earlier sittings of the run have cost."""
    from sandlot.wiring.models import open_policies, open_users  # noqa: PLC0415 - as above

    if agent.harness == "command" and grading.env.image is None:
        raise ConfigError(
            f"environment `{grading.env.name}` has no sandbox to put an agent into; run it in one with `--image host`"
        )
    if agent.harness == "command" and user is not None:
        raise ConfigError(
            f"harness `command` has a loop of its own, and nobody in it who hears `{user.shown}`; leave `--user` out"
        )
    async with open_policies(model, agent, grading.env, spent) as policies, AsyncExitStack() as stack:
        users = await stack.enter_async_context(open_users(user, grading.env)) if user else None
        yield Parts(grading=grading, policies=policies, harness=open_harness(agent), users=users)


@asynccontextmanager
async def open_backend(spec: str = "native", pool: int = 0) -> AsyncGenerator[Backend]:
    """A sandbox backend by name; installed ones are found in the group `sandlot.backends`."""
    open_it, rest = opener("backends", BACKENDS, spec)
    async with open_it(rest, pool=pool) as backend:
        yield backend


@asynccontextmanager
async def _native(rest: str, *, pool: int) -> AsyncGenerator[Backend]:
    from sandlot.sandbox.native.backend import open_native  # noqa: PLC0415 - only sandboxed environments need it

    if rest:
        raise ConfigError(f"sandbox `native:{rest}`: it takes no more than its name")
    async with open_native(pool=pool) as backend:
        yield backend


@asynccontextmanager
async def _docker(rest: str, *, pool: int) -> AsyncGenerator[Backend]:
    from sandlot.sandbox.docker.backend import open_docker  # noqa: PLC0415 - only those who ask for it wait for aiohttp

    async with open_docker(rest, pool=pool) as backend:
        yield backend


BACKENDS: dict[str, Callable[..., Any]] = {"native": _native, "docker": _docker}


def _made(path: str, what: str, needs: tuple[str, ...]) -> Any:
    """What a path names: a class is instantiated, an instance is used as it is; refused if it is not of the port's shape."""
    named: Any = by_path(path, what)
    with boundary(ConfigError, f"{what} `{path}`"):
        value = named() if isinstance(named, type) else named
    missing = [name for name in needs if not hasattr(value, name)]
    if missing:
        raise ConfigError(f"{what} `{path}` is a {type(value).__name__} without `{missing[0]}`; a {what} has {', '.join(needs)}")
    return value


def _require_number(what: str, value: float | None, low: float) -> None:
    if value is not None and not low <= value < math.inf:
        raise ConfigError(f"{what} is {value!r}; give a finite number, {low} or more")
