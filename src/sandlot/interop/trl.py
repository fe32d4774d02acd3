# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
"""TRL's GRPO trainer on Sandlot environments. TRL updates the weights; tasks, worlds and grades come from Sandlot.

    with open_for_trl("drill", model="rookie", run="runs/trl") as sandlot:
        GRPOTrainer(
            model=str(sandlot.folder),
            train_dataset=sandlot.dataset(),
            rollout_func=sandlot.rollouts,
            reward_funcs=sandlot.reward,
            args=GRPOConfig(...),
        ).train()

With `rollout_func`, Sandlot runs whole rollouts in its own engine with the trainer's weights: tools, sandboxes, several turns,
exact tokens. With `environment_factory=sandlot.environment`, TRL runs the loop and samples (transformers, vLLM), and Sandlot
answers the tool calls. With neither, TRL samples one message and `reward` grades it: for environments with a single answer.
In all three cases the reward of a failed rollout is None, and TRL leaves it out of its group.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakSet

import anyio
import anyio.from_thread
import numpy as np

from sandlot.core.errors import ConfigError, HarnessError
from sandlot.core.ports.model import Renderer, Sampling
from sandlot.core.ports.session import Policies
from sandlot.core.task import Task
from sandlot.core.trace import Failed, Scored, Text, Trace
from sandlot.core.types import Json
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.interop.driven import DrivenRollout, environment_class
from sandlot.interop.stage import Stage, StageConfig, open_stage
from sandlot.model.engine.local import LocalConfig, LocalModel, open_local
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder
from sandlot.model.nn.layout import put_weights
from sandlot.model.policy.player import Move, Player, PlayerView
from sandlot.model.policy.scripted import ScriptedPolicies
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer
from sandlot.model.render.template import as_entries
from sandlot.train.rows import rows_of
from sandlot.wiring.config import AgentConfig

_REWARD = "sandlot_reward"
"""The column that passes rewards from `rollouts` to `reward`."""
_FURTHER = "further_turns"
_MAX_BATCH = 128
_SETTINGS = {"min_p": (None, 0.0), "repetition_penalty": (None, 1.0)}
"""Sampling settings that the engine does not have, with the values that have no effect."""


@contextmanager
def open_for_trl(
    env: str | Path | Environment,
    *,
    run: str | Path,
    model: str | None = None,
    agent: AgentConfig | None = None,
    judge: str | None = None,
    sandbox: str = "native",
    at_once: int = 64,
    select: Callable[[Task], bool] | None = None,
) -> Generator["TrlEnvironment"]:
    """Open an environment for a TRL trainer, until the block ends. Rollouts are stored in `run`, which `sandlot show` reads.

    `model` is the model that the trainer trains, `rookie`, `smollm2` or `hf:FOLDER`; only `rollouts` needs it.
    """
    stage_config = StageConfig(
        env=load(env),
        run=Path(run),
        model=model or "trl",
        agent=agent or AgentConfig(),
        judge=judge,
        sandbox=sandbox,
        at_once=at_once,
        select=select,
    )
    with anyio.from_thread.start_blocking_portal() as portal, ExitStack() as stack:
        stage = stack.enter_context(portal.wrap_async_context_manager(open_stage(stage_config)))
        opened = TrlEnvironment(portal, stack, stage, model_folder(model) if model else None)
        stack.callback(opened.drop)
        yield opened


@dataclass(slots=True)
class _Published:
    """The engine that samples, and a decoder that the trainer's weights are copied through."""

    model: LocalModel
    renderer: Renderer
    weights: Decoder
    version: int = -1


class TrlEnvironment:
    """What a TRL trainer needs: `dataset()`, `reward`, and for several turns `rollouts` or `environment`."""

    def __init__(self, portal: anyio.from_thread.BlockingPortal, stack: ExitStack, stage: Stage, folder: Path | None) -> None:
        self._portal = portal
        self._stack = stack
        self._stage = stage
        self._folder = folder
        self._published: _Published | None = None
        self._begun: WeakSet[DrivenRollout] = WeakSet()

    @property
    def folder(self) -> Path:
        """The folder of the model's weights and tokenizer."""
        if self._folder is None:
            raise ConfigError("`rollouts` needs the model; open with `model='hf:FOLDER'`, the model that the trainer trains")
        return self._folder

    def dataset(self) -> Any:
        """A `datasets.Dataset` of the train tasks: `prompt` as messages, and `task`. Held-out tasks are not in it."""
        from datasets import Dataset  # noqa: PLC0415 - it comes with TRL

        return Dataset.from_list(self._portal.call(self._rows))

    async def _rows(self) -> list[Json]:
        return [
            {
                # The task id is in the message too: a rollout function receives prompts only.
                "prompt": [
                    {**entry, "task": task.id} for message in await self._stage.opening(task) for entry in as_entries(message)
                ],
                "task": task.id,
            }
            for task in self._stage.tasks.values()
        ]

    # -- whole rollouts ------------------------------------------------------------------------------------------------

    def rollouts(self, prompts: Sequence[Sequence[Json]], trainer: Any) -> dict[str, list[Any]]:
        """TRL's `rollout_func`: one rollout for each prompt, with the trainer's current weights."""
        published = self._publish(trainer)
        policies = token_policies(published.model, published.renderer, _sampling(trainer))
        traces = self._portal.call(self._stage.play, [(str(prompt[-1]["task"]), policies) for prompt in prompts])
        sequences = [_sequence(trace, published.renderer.stop_ids[0]) for trace in traces]
        names = ("prompt_ids", "completion_ids", "logprobs", "env_mask")
        return {name: [sequence[name] for sequence in sequences] for name in names} | {
            _REWARD: [trace.reward for trace in traces]
        }

    def _publish(self, trainer: Any) -> _Published:
        if trainer.accelerator.num_processes > 1:
            raise ConfigError("rollouts run in one process; start the trainer without `accelerate launch`")
        network = trainer.accelerator.unwrap_model(trainer.model)
        if hasattr(network, "peft_config"):
            raise ConfigError("rollouts need whole weights; train without `peft_config`")
        published = self._published or self._open(network)
        self._published = published
        if published.version != trainer.state.global_step:
            state: dict[str, Any] = network.state_dict()
            if published.weights.shape.tied:
                state.pop("lm_head.weight", None)
            put_weights(published.weights, state)
            published.version = trainer.state.global_step
            self._portal.call(published.model.update, published.version, published.weights.state_dict())
        return published

    def _open(self, network: Any) -> _Published:
        """An engine on the device of the trainer's weights, with their number type."""
        where = next(iter(network.parameters()))
        own, sent = (load_folder(self.folder, dtype=where.dtype, device=where.device) for _ in range(2))
        config = LocalConfig(max_batch=min(self._stage.collector.slots.at_once, _MAX_BATCH), chunk=1024)
        opened = self._portal.wrap_async_context_manager(open_local(own, name=self._stage.collector.name, config=config))
        return _Published(self._stack.enter_context(opened), open_renderer(self.folder), sent)

    # -- TRL's own loop ------------------------------------------------------------------------------------------------

    @cached_property
    def environment(self) -> type:
        """TRL's `environment_factory`: a class with a method for every tool. Each call is a turn and returns its result."""
        return environment_class(self._stage.env.name, self._stage.tools, self._begin)

    def _begin(self, task: str) -> DrivenRollout:
        async def play(driven: DrivenRollout) -> Trace:
            # One attempt: a second one would not continue the trainer's rollout.
            return (await self._stage.play([(task, driven.seat())], attempts=1))[0]

        handed = DrivenRollout(self._portal, play)
        self._begun.add(handed)
        return handed

    def drop(self) -> None:
        """Cancel rollouts that TRL began and did not finish."""
        for handed in list(self._begun):
            handed.drop()

    def _finished(self, environments: Sequence[Any], completions: Sequence[Any]) -> list[Trace]:
        """The traces of rollouts that TRL drove to their last message."""
        self._portal.call(
            self._finish, [(each.handed, _text_of(said)) for each, said in zip(environments, completions, strict=True)]
        )
        return [each.handed.trace() for each in environments]

    async def _finish(self, last: list[tuple[DrivenRollout, str]]) -> None:
        async with anyio.create_task_group() as group:
            for handed, words in last:
                group.start_soon(handed.finish, words)

    # -- rewards -------------------------------------------------------------------------------------------------------

    def reward(self, *, completions: Sequence[Any], task: Sequence[str], **columns: Any) -> list[float | None]:
        """TRL's reward function: the score of each rollout; None if it failed, and TRL leaves it out of its group."""
        rewards = columns.get(_REWARD)
        if rewards is None:
            environments = columns.get("environments")
            traces = self._finished(environments, completions) if environments else self._played(completions, task)
            rewards = [trace.reward for trace in traces]
        if log := columns.get("log_metric"):
            log("sandlot/failed", sum(reward is None for reward in rewards) / len(rewards))
        return list(rewards)

    def _played(self, completions: Sequence[Any], tasks: Sequence[str]) -> list[Trace]:
        """Rollouts in which the agent sends only this one message."""
        if self._stage.env.tools:
            raise ConfigError(f"environment `{self._stage.env.name}` has tools; give the trainer `rollout_func=....rollouts` too")
        wanted = [(name, _one_message_policies(_text_of(said))) for name, said in zip(tasks, completions, strict=True)]
        traces = self._portal.call(self._stage.play, wanted)
        if any(isinstance(trace.outcome, Failed) and trace.outcome.kind == _FURTHER for trace in traces):
            raise ConfigError(
                f"environment `{self._stage.env.name}` continues after the first answer; give the trainer "
                "`rollout_func=....rollouts` too"
            )
        return traces


def _sequence(trace: Trace, stop: int) -> dict[str, list[Any]]:
    """A trace as one TRL sequence: everything before the first sampled token is the prompt, and what was not sampled is masked.

    TRL has one sequence per rollout: of a rollout that forked, it is the branch with the most trained tokens. A failed rollout is
    a sequence without trained tokens.
    """
    rows = rows_of(trace) if isinstance(trace.outcome, Scored) and trace.num_turns else ()
    if not any(row.trained.any() for row in rows):
        return {"prompt_ids": [stop], "completion_ids": [stop], "logprobs": [0.0], "env_mask": [0]}
    row = max(rows, key=lambda row: int(row.trained.sum()))
    first, last = np.flatnonzero(row.trained)[[0, -1]]
    ours = slice(int(first), int(last) + 1)
    return {
        "prompt_ids": row.ids[: ours.start].tolist(),
        "completion_ids": row.ids[ours].tolist(),
        "logprobs": row.logprobs[ours].tolist(),
        "env_mask": row.trained[ours].astype(int).tolist(),
    }


def _sampling(trainer: Any) -> Sampling:
    for name, nothing in _SETTINGS.items():
        if getattr(trainer, name, None) not in nothing:
            raise ConfigError(
                f"`{name}` is {getattr(trainer, name)}; rollouts are sampled with temperature, top_p and top_k only"
            )
    return Sampling(
        temperature=trainer.temperature,
        top_p=trainer.top_p,
        top_k=max(0, trainer.top_k or 0),
        max_tokens=trainer.max_completion_length,
    )


def _text_of(completion: Any) -> str:
    """The text of a completion, in either of TRL's formats."""
    return completion if isinstance(completion, str) else str(completion[-1]["content"])


def _one_message_policies(words: str) -> Policies:
    def once(moment: PlayerView) -> Move:
        if moment.turn:
            raise HarnessError("the environment continues after the only message", kind=_FURTHER)
        return Move((Text(words),) if words else ())

    return ScriptedPolicies("trl", lambda _task, seed: Player("trl", once, seed))
