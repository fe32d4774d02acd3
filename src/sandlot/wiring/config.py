"""Configuration of the agent and of models."""

import math
from typing import Literal

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Sampling
from sandlot.core.types import Dtype
from sandlot.model.endpoint.secret import public_url
from sandlot.model.engine.blocks import KvDtype
from sandlot.model.engine.eviction import EvictionName
from sandlot.model.engine.siblings import Speculate
from sandlot.model.routing.router import Routing


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the agent runs. All of it except hooks is part of the setting's fingerprint."""

    harness: str = "tool-loop"
    """`tool-loop`, `command`, or `module:attribute` of your own."""
    command: str | None = None
    """For `command`: what to run in the sandbox. `{prompt}` in it becomes the task."""
    calls: Literal["native", "text"] = "native"
    """How tool calls are written: `native`, or `text` for models without a tool API."""
    reasoning: Literal["drop", "keep"] = "drop"
    """Whether later turns include earlier reasoning: `drop` or `keep`. The trace always has it."""
    hooks: tuple[str, ...] = ()
    """`module:attribute`, each a `Hook`."""


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model, how it is sampled, and what it may cost."""

    spec: str
    """`smollm2`, `hf:FOLDER`, `openai:NAME@URL`, `vllm:NAME@URL`, `scripted:NAME`, `replay:RUN`, or an installed scheme.

    `sandlot:NAME@URL` is a model that `sandlot serve` offers. Several servers of one model: `vllm:NAME@URL,URL,...`.
    `anthropic:NAME` is a model behind Anthropic's API; `openai+images:` and `anthropic+images:` are models that see images."""
    sampling: Sampling = Sampling()
    """Temperature, top-p, maximum tokens and so on."""
    tokenizer: str | None = None
    """The folder with `tokenizer.json` and chat template of a model that `sandlot:`, `vllm:` or `sglang:` serves."""
    routing: Routing = "prefix"
    """How requests are divided between several servers: `prefix`, by their work and what they should have cached; `reported`, by
    what our own servers report to have cached; or `round-robin`."""
    kv_gib: float | None = None
    """Memory for keys and values in the built-in engine, in GiB; None for its default."""
    kv_dtype: KvDtype | None = None
    """How the built-in engine stores keys and values: `same`, as computed, or `int8` or `fp8`, in about half the memory, which
    changes log-probabilities; None for its default, `same`."""
    eviction: EvictionName | None = None
    """Which cached prefixes the built-in engine drops first: `turns`, `cost` or `lru`; None for its default, `turns`."""
    speculate: Speculate | None = None
    """Whether the built-in engine guesses tokens from what `siblings` have written; None for its default, `off`."""
    dtype: Dtype | None = None
    """The number type that the built-in engine computes in; None for the one that suits the processor."""
    connections: int = 512
    """Requests open at the same time, at each server."""
    patience_s: float = 300.0
    """How long a turn is retried before it counts as a failure of the model."""
    max_total_tokens: int | None = None
    """Prompt and completion tokens this model may use in the whole run; None for no cap."""
    max_usd: float | None = None
    """Maximum cost of this model in the whole run; needs the prices."""
    usd_per_million_prompt: float = 0.0
    """The price of prompt tokens; there is no built-in price list."""
    usd_per_million_completion: float = 0.0
    """The price of completion tokens."""

    @property
    def shown(self) -> str:
        """The spec without the secrets in its URL."""
        model, mark, rest = self.spec.partition("@http")
        return f"{model}@{public_url('http' + rest)}" if mark else self.spec

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
            raise ConfigError(f"max_usd is {self.max_usd:g}, but no price is set; give `--price IN/OUT`, such as `0.5/1.5`")


def judge_config(spec: str | None) -> ModelConfig | None:
    """A judge as the command line names it, at temperature 0."""
    return ModelConfig(spec=spec, sampling=Sampling(temperature=0.0)) if spec else None


def user_config(spec: str | None) -> ModelConfig | None:
    """A simulated user as the command line names it, with temperature 0.7 and short replies."""
    return ModelConfig(spec=spec, sampling=Sampling(temperature=0.7, max_tokens=512)) if spec else None


def _require_number(what: str, value: float | None, low: float) -> None:
    if value is not None and not low <= value < math.inf:
        raise ConfigError(f"{what} is {value!r}; give a finite number, {low} or more")
