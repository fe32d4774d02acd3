"""A reward model: a decoder with a value head that scores a conversation, trained on pairs (`reward_training.py`).

Its score is the head's value before the last token of the assistant's last turn. A difference of two scores is a log-odds that
the first conversation is better; the absolute level means nothing. As a reward, the score is moved so that the mean of the
attempts it was trained on is 0, and squashed: the probability that an attempt is better than a typical one. So it is between 0
and 1 as the environment's score is, and the alarm for reward hacking can compare the two.
"""

import functools
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import torch
from torch import nn

from sandlot.core.errors import ConfigError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import Trace
from sandlot.core.types import Role
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder
from sandlot.model.nn.stored import open_tensors
from sandlot.model.render.open import open_renderer
from sandlot.model.render.renderer import TokenRenderer
from sandlot.train.forest.forest import pack_numbers
from sandlot.train.forest.module import DecoderWithCritic
from sandlot.train.pairs import PairsUsed, conversation_row
from sandlot.train.rows import Row

FOLDER, MODEL, HEAD, RECORD = "reward-model", "model", "value_head.safetensors", "reward_model.json"
_TOKENS = 16384
"""Tokens per forward pass."""


class PairAgreement(msgspec.Struct, frozen=True, kw_only=True, tag="agreement", tag_field="is"):
    """How often a reward model ranks held-out pairs as they were labelled."""

    version: int
    """Number of updates of the weights."""
    share: float
    """Share of pairs whose better answer has the higher score; equal scores count half."""
    low: float
    high: float
    """95 % interval of the share, clustered by task."""
    pairs: int
    """Held-out pairs."""
    tasks: int
    """Their tasks."""
    margin: float
    """Mean score of the better answer minus that of the worse."""
    confidence: float
    """Mean probability that the model gives its own ranking; it is calibrated if this equals the share."""


class RewardModelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`reward_model.json`: what a reward model was trained on, and how well it ranks."""

    format: int = 1
    model: str
    """The model it began as."""
    pairs: PairsUsed
    """The file of pairs, and which of them were left out."""
    trained: int
    """Pairs trained on; the others were held out, or left out."""
    before: PairAgreement
    """Before training: the head is zero, so that all scores are equal."""
    after: PairAgreement
    """After the last step."""
    length: PairAgreement
    """The same held-out pairs, ranked by length alone: a reward model should do better."""
    centre: float
    """Mean score of all attempts trained on."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools that its conversations begin with."""
    weights: str
    """Hash of the weights."""
    seconds: float
    """Time of the updates."""


@dataclass(frozen=True, slots=True)
class RewardModel:
    """The reward of a recipe: `Recipe(reward=RewardModel("runs/taste"))`, from the folder that `train_reward_model` wrote."""

    folder: str | Path
    """The run directory of the reward model."""
    device: str = "cpu"
    """`cpu` or `cuda`."""
    weights: str = ""
    """Hash of its weights, read from the folder: a training continues only with the same ones."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", read_reward_model(self.folder).weights)

    def __call__(self, trace: Trace) -> float:
        """The reward of one trace; `ConfigError` if it is longer than the context of the reward model."""
        (reward,) = self.rewards([trace])
        if reward is None:
            raise ConfigError(
                f"rollout {trace.task}/{trace.rollout} is longer than the context of the reward model in `{self.folder}`: limit "
                "the environment's tokens, or train a reward model with a longer context"
            )
        return reward

    def rewards(self, traces: Sequence[Trace]) -> list[float | None]:
        """The rewards of several traces, computed together: between 0 and 1, and 1/2 for a typical attempt.

        None for a trace that is longer than the context: it has no reward, and is left out of its group.
        """
        return [None if score is None else 0.5 + 0.5 * math.tanh(score / 2) for score in self.scores(traces)]

    def scores(self, traces: Sequence[Trace]) -> list[float | None]:
        """Scores before they are squashed, 0 for a typical attempt; None for a trace that is longer than the context."""
        opened = _open(Path(self.folder), self.device, self.weights)
        rows = [_trace_row(trace, opened.tools, opened.renderer) for trace in traces]
        context = opened.network.decoder.shape.context
        # The score is read before the last token, which only ends the row.
        known = iter(score_rows(opened.network, [row for row in rows if len(row) - 1 <= context]))
        return [next(known) - opened.centre if len(row) - 1 <= context else None for row in rows]


@dataclass(frozen=True, slots=True)
class _Opened:
    network: DecoderWithCritic
    renderer: TokenRenderer
    centre: float
    tools: tuple[ToolSpec, ...]


def read_reward_model(folder: str | Path) -> RewardModelRecord:
    """The record of a trained reward model; `ConfigError` if there is none."""
    file = Path(folder) / FOLDER / RECORD
    if not file.is_file():
        raise ConfigError(f"`{folder}` has no trained reward model (`{FOLDER}/{RECORD}`); `train_reward_model` writes one")
    try:
        return msgspec.json.decode(file.read_bytes(), type=RewardModelRecord)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"`{file}`: {error}") from error


@functools.lru_cache(maxsize=2)
def _open(folder: Path, device: str, weights: str) -> _Opened:
    """Load a reward model once per process; `weights` tells one from another that was written to the same folder."""
    record = read_reward_model(folder)
    if record.weights != weights:
        raise ConfigError(f"the reward model in `{folder}` was replaced since the recipe was read; start again")
    home = folder / FOLDER
    decoder = load_folder(home / MODEL, dtype=torch.float32, device=device)
    head = value_head(decoder)
    with ExitStack() as files:
        stored = {name: tensor.read() for name, tensor in open_tensors(home / HEAD, files).items()}
    head.load_state_dict(stored)
    return _Opened(DecoderWithCritic(decoder, head), open_renderer(home / MODEL), record.centre, record.tools)


def value_head(decoder: Decoder) -> nn.Linear:
    """An empty head for a decoder."""
    weight = decoder.embedding.weight
    return nn.Linear(decoder.shape.hidden, 1, device=weight.device, dtype=weight.dtype)


def _trace_row(trace: Trace, tools: Sequence[ToolSpec], renderer: TokenRenderer) -> Row:
    """The conversation of a trace up to the agent's last message, as a reward model reads it."""
    messages = [node.message for node in trace.path()]
    while messages and messages[-1].role is not Role.ASSISTANT:
        messages.pop()
    return conversation_row(messages, tools, renderer, trace.key)


def at_the_end(row: Row) -> Row:
    """The same row with only its last trained token trained: the one whose value is the score."""
    last = np.zeros(len(row), dtype=bool)
    last[np.flatnonzero(row.trained)[-1]] = True
    return replace(row, trained=last)


@torch.no_grad()
def score_rows(network: DecoderWithCritic, rows: Sequence[Row], tokens: int = _TOKENS) -> list[float]:
    """The score of each row; rows that fit `tokens` are computed together, and shared beginnings once."""
    ends = [at_the_end(row) for row in rows]
    scores: list[float] = []
    for pack in pack_numbers([len(row) for row in ends], tokens):
        values = network.compute([ends[number] for number in pack], critic=True).values
        assert values is not None
        scores += [float(value) for value in values.cpu()]
    return scores
