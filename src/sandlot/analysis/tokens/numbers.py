"""Compares recorded log-probabilities with the trainer's own, and classifies the differences.

A difference that begins at the start of a turn and stays is a broken boundary: the sampler saw another prompt. One inside a
turn, or one that later turns recover from, means other tokens or other weights than recorded. One that is everywhere means
arithmetic, settings or the wrong model. Only the first wrong turn of a path is reported: later ones follow from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from sandlot.analysis.tokens.faults import FaultCode, TokenFault
from sandlot.core.tokens import exact_leaves, token_path
from sandlot.core.trace import Trace

Logprobs = Callable[[Sequence[int]], Sequence[float] | NDArray[np.float32]]
"""The log-probability of each id after those before it; the first value is not used."""


class Tolerance(msgspec.Struct, frozen=True, kw_only=True):
    """How far two computations of the same log-probabilities may differ."""

    name: str
    largest: float | None = None
    """Limit of the largest difference."""
    mean_k3: float | None = None
    """Limit of the mean of `exp(d) - 1 - d`."""
    p999: float | None = None
    """Limit of the 99.9 % quantile."""


SAME_CODE = Tolerance(name="fp32", largest=1e-4)
"""The same code in fp32."""
OTHER_KERNELS = Tolerance(name="bf16", mean_k3=1e-3, p999=0.5)
"""Other kernels, or bf16."""
_TURN_K3 = 20.0
"""A turn whose mean k3 is this many times the limit is wrong by itself."""
_EVERYWHERE = 0.9
"""Numbers that are wrong in this share of turns are wrong everywhere."""


_EDGE = 3.0
"""First tokens whose difference is this many times that of the others point to a wrong context."""


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """Differences of log-probabilities at one kind of position, recomputed minus recorded."""

    tokens: int
    mean: float
    """Mean absolute difference."""
    p999: float
    largest: float
    mean_k3: float
    outside: int
    """Tokens with probability 0 in the recomputed distribution: rounding at the edge of top-k or top-p, or other tokens."""


@dataclass(frozen=True, slots=True)
class MeasuredTurn:
    """Differences of one sampled turn."""

    node: int
    differences: NDArray[np.float64]

    def off(self, gate: Tolerance) -> NDArray[np.bool_]:
        """Which tokens are wrong."""
        size = np.abs(self.differences)
        if gate.largest is not None:
            return ~(size < gate.largest)
        k3 = float(np.mean(_k3(self.differences)))
        too_far = ~(size < (gate.p999 or np.inf))
        return too_far if k3 >= _TURN_K3 * (gate.mean_k3 or np.inf) else np.zeros_like(too_far)


@dataclass(frozen=True, slots=True)
class MeasuredPath:
    """The turns of one path, in order, without those of earlier paths."""

    task: str
    rollout: int
    turns: list[MeasuredTurn]


def measure(trace: Trace, logprobs: Logprobs) -> list[MeasuredPath]:
    """Compute the log-probability of every sampled token of a trace again, each once."""
    paths: list[MeasuredPath] = []
    seen: set[int] = set()
    for leaf in exact_leaves(trace):
        path = token_path(trace, leaf)
        again = np.asarray(logprobs(path.ids.tolist()), dtype=np.float64)
        sampled = ~np.isnan(path.logprobs)
        turns: list[MeasuredTurn] = []
        for node in dict.fromkeys(path.nodes.tolist()):
            here = (path.nodes == node) & sampled
            if node not in seen and here.any():
                turns.append(MeasuredTurn(node, again[here] - path.logprobs[here].astype(np.float64)))
        seen.update(turn.node for turn in turns)
        paths.append(MeasuredPath(trace.task, trace.rollout, turns))
    return paths


def _k3(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    bounded = np.clip(differences, -50.0, 50.0)
    return np.exp(bounded) - 1.0 - bounded


def _summed(differences: list[NDArray[np.float64]]) -> Differences:
    joined = np.concatenate([np.zeros(0), *differences])
    finite = joined[np.isfinite(joined)]
    size = np.abs(finite)
    some = len(finite) > 0
    return Differences(
        tokens=len(joined),
        mean=float(size.mean()) if some else 0.0,
        p999=float(np.quantile(size, 0.999)) if some else 0.0,
        largest=float(size.max()) if some else 0.0,
        mean_k3=float(_k3(finite).mean()) if some else 0.0,
        outside=len(joined) - len(finite),
    )


def positions(paths: Sequence[MeasuredPath]) -> dict[str, Differences]:
    """Differences by position in a turn: `first`, `inside`, `last`, and `all`."""
    all_of = [turn.differences for path in paths for turn in path.turns]
    return {
        "all": _summed(all_of),
        "first": _summed([values[:1] for values in all_of]),
        "inside": _summed([values[1:-1] for values in all_of]),
        "last": _summed([values[-1:] for values in all_of if len(values) > 1]),
    }


def _passes(all_of: Differences, gate: Tolerance) -> bool:
    return (
        not all_of.outside
        and (gate.largest is None or all_of.largest < gate.largest)
        and (gate.mean_k3 is None or all_of.mean_k3 < gate.mean_k3)
        and (gate.p999 is None or all_of.p999 < gate.p999)
    )


def number_faults(paths: Sequence[MeasuredPath], gate: Tolerance) -> list[tuple[MeasuredPath, TokenFault]]:
    """The faults, each with its path."""
    turns = [turn for path in paths for turn in path.turns]
    all_of = _summed([turn.differences for turn in turns])
    num_off = sum(bool(turn.off(gate).any()) for turn in turns)
    if num_off == 0 and _passes(all_of, gate):
        return []
    if num_off == 0 or (num_off >= _EVERYWHERE * len(turns) and not _at_edges(paths)):
        first = next(path for path in paths if path.turns)
        detail = f"mean {all_of.mean:.2g}, largest {all_of.largest:.2g}, mean k3 {all_of.mean_k3:.2g} over {all_of.tokens} tokens"
        message = f"{num_off} of {len(turns)} turns are wrong: {detail}"
        return [(first, TokenFault(code=FaultCode.NUMERICS, node=first.turns[0].node, detail=message))]
    return [(path, fault) for path in paths if (fault := _first_off(path, gate)) is not None]


def _at_edges(paths: Sequence[MeasuredPath]) -> bool:
    """True if differences are largest at the start of turns, or there is only one turn."""
    places = positions(paths)
    return sum(len(path.turns) for path in paths) == 1 or places["first"].mean > _EDGE * places["inside"].mean


def _first_off(path: MeasuredPath, gate: Tolerance) -> TokenFault | None:
    """The fault of the first wrong turn of a path: later ones follow from it."""
    for depth, turn in enumerate(path.turns):
        off = turn.off(gate)
        if not off.any():
            continue
        below = path.turns[depth + 1 :]
        recovers = bool(below) and not any(later.off(gate).any() for later in below)
        code = FaultCode.BOUNDARY if off[0] and not recovers else FaultCode.TURN
        at = int(np.argmax(off))
        worst = float(np.max(np.abs(turn.differences)))
        detail = f"from token {at} of {len(off)} on, {int(off.sum())} are wrong, by up to {worst:.2g}"
        return TokenFault(code=code, node=turn.node, detail=detail + ("; later turns are right" if recovers else ""))
    return None
