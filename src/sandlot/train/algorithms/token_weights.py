"""How much each token counts, fixed over the whole batch before it is packed: splitting a batch does not change its loss."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from sandlot.train.rows import Floats, Row

Aggregate = Literal["token", "sequence", "constant", "rollout"]


def token_weights(rows: Sequence[Row], aggregate: Aggregate, *, length: int = 1024) -> list[Floats]:
    """One weight a token of each row, 0 where nothing is trained.

    `token`: every trained token alike. `sequence`: every row alike. `constant`: rows summed and divided by a fixed `length`.
    `rollout`: every rollout alike, however many rows it forked into.
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
