"""The columns of a forest: data of the trained tokens of all rows, joined, as tensors on the weights' device.

Tokens are in the order of the rows, as in the results of a forward pass; rows are numbered over the whole forest, across groups.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sandlot.train.algorithms.algorithms import TrainingRow
from sandlot.train.algorithms.losses import Component
from sandlot.train.forest.forward import RowOutputs
from sandlot.train.forest.scores import to_tensor
from sandlot.train.rows import Floats


def fixed_column(settled: list[list[Floats]] | None, places: Sequence[tuple[int, int]], device: torch.device) -> Tensor | None:
    """Log-probabilities that were computed before the update, for the rows at `(group, row)`; None if there are none."""
    return to_tensor(np.concatenate([settled[number][row] for number, row in places]), device) if settled else None


def common_columns(
    examples: Sequence[TrainingRow], sizes: Sequence[int], result: RowOutputs, settled: Mapping[str, Tensor | None]
) -> dict[str, Any]:
    """The columns that all components share, by their names in `Columns`; `sizes` are the numbers of rows of each piece."""
    device = result.logprobs.device
    counts = [int(example.row.trained.sum()) for example in examples]
    starts = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    partners = [
        -1 if example.partner is None else int(start) + example.partner for start, example in zip(starts, examples, strict=True)
    ]
    behaviour = np.concatenate([example.row.logprobs[example.row.trained] for example in examples])
    old = settled["old"]
    return {
        "logprobs": result.logprobs,
        "old": result.logprobs.detach() if old is None else old,
        "behaviour": to_tensor(behaviour, device),
        "row": to_tensor(np.repeat(np.arange(len(examples)), counts), device),
        "rows": len(examples),
        "partner": to_tensor(np.array(partners, np.int64), device),
        "reference": settled["reference"],
        "entropy": result.entropy,
        "values": result.values,
    }


def stream_columns(examples: Sequence[TrainingRow], component: Component, device: torch.device) -> tuple[Tensor, Tensor]:
    """The signal and the weight of one component on every trained token; weight 0 where a row does not have it."""
    signals: list[Floats] = []
    weights: list[Floats] = []
    for example in examples:
        trained = example.row.trained
        stream = next((stream for stream in example.streams if stream.component == component), None)
        blank = np.zeros(int(trained.sum()), np.float32)
        signals.append(stream.signal[trained] if stream else blank)
        weights.append(stream.weight[trained] if stream else blank)
    return to_tensor(np.concatenate(signals), device), to_tensor(np.concatenate(weights), device)
