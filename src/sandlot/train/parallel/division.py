"""Dividing the pieces of a batch over processes, with about equal work for each.

Every process divides the same batch in the same way, so nothing needs to be sent.
"""

from collections.abc import Sequence

from sandlot.model.nn.shape import Shape
from sandlot.train.forest.forest import Forest


def balance(costs: Sequence[float], count: int) -> list[list[int]]:
    """The pieces of each process: the most expensive piece goes first, always to the process with the least work so far."""
    shares: list[list[int]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for piece in sorted(range(len(costs)), key=lambda piece: (-costs[piece], piece)):
        least = min(range(count), key=lambda share: (loads[share], share))
        shares[least].append(piece)
        loads[least] += costs[piece]
    return [sorted(share) for share in shares]


def cost_of(forest: Forest, shape: Shape) -> float:
    """Multiplications of one forward pass: every token with every weight, and every pair of tokens in attention."""
    attended = shape.heads * shape.head
    layer = shape.hidden * (attended + 2 * shape.kv_heads * shape.head) + attended * shape.hidden + 3 * shape.hidden * shape.mlp
    weights = shape.layers * layer + shape.vocabulary * shape.hidden
    return float(len(forest) * weights + 2 * shape.layers * attended * forest.seen)
