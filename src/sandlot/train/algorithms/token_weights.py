"""Weights of tokens, fixed over the whole batch before it is packed, so that splitting a batch does not change its loss."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from sandlot.train.rows import Floats, Row

Aggregate = Literal["token", "sequence", "constant", "rollout"]


def token_weights(rows: Sequence[Row], aggregate: Aggregate, *, length: int = 1024) -> list[Floats]:
    """One weight per token of each row, 0 for tokens that are not trained.

    `token`: the same for every trained token. `sequence`: the same sum for every row. `constant`: rows are summed and divided by
    a fixed `length`. `rollout`: the same sum for every rollout, however many rows it has.
    """
    counts = [int(row.trained.sum()) for row in rows]
    num_trained_rows = sum(count > 0 for count in counts)
    rollouts: Counter[tuple[str, int]] = Counter()
    for row, count in zip(rows, counts, strict=True):
        rollouts[row.rollout] += count
    num_trained_rollouts = sum(count > 0 for count in rollouts.values())

    def share(row: Row, count: int) -> float:
        match aggregate:
            case "token":
                return 1 / max(1, sum(counts))
            case "sequence":
                return 1 / max(1, num_trained_rows * count)
            case "constant":
                return 1 / max(1, num_trained_rows * length)
            case "rollout":
                return 1 / max(1, num_trained_rollouts * rollouts[row.rollout])

    return [row.trained.astype(np.float32) * np.float32(share(row, count)) for row, count in zip(rows, counts, strict=True)]
