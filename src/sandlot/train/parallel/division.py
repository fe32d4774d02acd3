"""Who computes what: the pieces of a batch over several processes, so that all have about as much to do.

Every process divides the same batch and comes to the same answer, so that nothing needs to be sent.
"""

from collections.abc import Sequence

from sandlot.model.nn.shape import Shape
from sandlot.train.forest.forest import Forest


def balance(costs: Sequence[float], count: int) -> list[list[int]]:
    """The numbers of the pieces for each process, in the order given: the dearest first to whom has least."""
    shares: list[list[int]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for piece in sorted(range(len(costs)), key=lambda piece: (-costs[piece], piece)):
        least = min(range(count), key=lambda share: (loads[share], share))
        shares[least].append(piece)
        loads[least] += costs[piece]
    return [sorted(share) for share in shares]


def cost_of(forest: Forest, shape: Shape) -> float:
    """Multiplications of one forward: every token through every weight, and every pair that attention compares."""
    attended = shape.heads * shape.head
    layer = shape.hidden * (attended + 2 * shape.kv_heads * shape.head) + attended * shape.hidden + 3 * shape.hidden * shape.mlp
    weights = shape.layers * layer + shape.vocabulary * shape.hidden
    return float(len(forest) * weights + 2 * shape.layers * attended * forest.seen)
