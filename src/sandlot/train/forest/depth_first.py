"""Forests larger than memory, computed depth first in pieces, with the loss and the gradients of the whole forest.

Tokens are in depth-first order, so a piece of consecutive tokens attends only to itself and to ancestors of its first token. A
piece with descendants leaves its keys and values on a stack; the forward pass stores nothing else. In the backward pass those
keys and values are autograd leaves that collect gradients from all descendants; then the piece is computed once more, and its
own and the collected gradients are sent back together. Memory holds one piece, and the keys and values along one path.

Losses depend on whole rows, which span many pieces. So all log-probabilities are computed first, without gradients, and the
gradient of the loss is known before any piece is differentiated. This works for any loss.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]

from sandlot.model.nn.decoder import Block, Decoder
from sandlot.train.forest.attention import Attention, interval_attention, padded_size
from sandlot.train.forest.forest import Forest, Ints
from sandlot.train.forest.layers import PLAIN, LayerFunctions, Recompute, at_least_fp32
from sandlot.train.forest.scores import score_tokens, to_tensor


@dataclass(frozen=True, slots=True)
class ForestPiece:
    """Tokens `start` to `stop` of a forest."""

    start: int
    stop: int
    above: int
    """Pieces on the stack when it is computed: its possible ancestors."""
    inner: bool
    """True if it has descendants."""


def pieces_of(forest: Forest, budget: int) -> list[ForestPiece]:
    """The forest in order, no piece over the budget: whole subtrees where they fit, else the first tokens of one."""
    made: list[ForestPiece] = []
    todo = [(0, len(forest), 0)]
    while todo:
        start, stop, above = todo.pop()
        begun = at = start
        while at < stop:
            end = int(forest.last[at])
            if at > begun and end - begun > budget:
                made.append(ForestPiece(begun, at, above, inner=False))
                begun = at
            elif end - at > budget:
                made.append(ForestPiece(at, at + budget, above, inner=True))
                todo += [(end, stop, above), (at + budget, end, above + 1)]
                break
            else:
                at = end
        else:
            if at > begun:
                made.append(ForestPiece(begun, at, above, inner=False))
    return made


@dataclass(frozen=True, slots=True)
class ForwardSettings:
    """The decoder and the options of a forward pass."""

    decoder: Decoder
    temperature: float
    entropy: bool = False
    critic: nn.Linear | None = None
    recompute: Recompute = "nothing"
    functions: LayerFunctions = PLAIN


@dataclass(slots=True)
class _Held:
    """Keys and values of a piece for its descendants, per layer, of the tokens whose subtrees end after it."""

    piece: ForestPiece
    open: Ints
    keys: list[Tensor]
    values: list[Tensor]
    gradients: list[Tensor] = field(default_factory=list[Tensor])
    """Gradients of all keys, then all values, summed in fp32 or fp64."""

    @property
    def leaves(self) -> list[Tensor]:
        """All keys, then all values."""
        return self.keys + self.values

    def collect(self) -> None:
        """Add the gradients that one descendant has sent back."""
        for leaf, total in zip(self.leaves, self.gradients, strict=True):
            if leaf.grad is not None:
                total.add_(leaf.grad)
                leaf.grad = None


def forward_depth_first(settings: ForwardSettings, forest: Forest, wanted: Ints, budget: int) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probability, entropy and value of each wanted token, 0 where not wanted. `backward` computes the gradients."""
    walk = Walk(settings, forest, wanted, pieces_of(forest, budget))
    anchor = torch.zeros((), requires_grad=True)  # autograd calls `backward` only if an input may have a gradient
    return cast("Any", _DepthFirst).apply(anchor, walk)


class _DepthFirst(Function):
    """A whole walk as one autograd function; its backward adds to the `grad` of the parameters."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, walk: "Walk") -> tuple[Tensor, Tensor, Tensor]:  # noqa: ARG004 - see `looked_at`
        """Compute everything, and store the autocast state for the backward pass."""
        ctx.walk = walk
        kind = walk.device.type
        # Without autocast's cache: it would give the backward pass weights that were cast without gradients.
        ctx.precision = (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), False)
        return walk.forward()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        """Walk the pieces again."""
        with torch.autocast(*ctx.precision):
            ctx.walk.backward(gradients)
        return None, None


@dataclass(frozen=True, slots=True)
class Walk:
    """A forest computed in pieces."""

    settings: ForwardSettings
    forest: Forest
    wanted: Ints
    """Tokens whose log-probability is wanted; each is computed from the hidden state of its parent."""
    pieces: Sequence[ForestPiece]

    @property
    def device(self) -> torch.device:
        """The decoder's device."""
        return self.settings.decoder.embedding.weight.device

    def forward(self) -> tuple[Tensor, Tensor, Tensor]:
        """All results, without gradients."""
        stack: list[_Held] = []
        kind = at_least_fp32(self.settings.decoder.embedding.weight.new_zeros(0)).dtype
        found = [torch.zeros(len(self.wanted), dtype=kind, device=self.device) for _ in range(3)]
        for piece in self.pieces:
            del stack[piece.above :]
            hidden, keys, values = self._compute(piece, stack)
            chosen = self._wanted_from(piece)
            for all_of_them, part in zip(found, self._score(piece, hidden, chosen), strict=True):
                all_of_them[to_tensor(chosen, self.device)] = part
            if piece.inner:
                stack.append(self._hold(piece, keys, values))
        return found[0], found[1], found[2]

    def backward(self, gradients: Sequence[Tensor]) -> None:
        """Propagate the gradients of the results to the parameters."""
        stack: list[_Held] = []
        for piece in self.pieces:
            self._leave(stack, piece.above, gradients)
            if piece.inner:
                with torch.no_grad():
                    _, keys, values = self._compute(piece, stack)
                stack.append(self._hold(piece, keys, values, learns=True))
            else:
                self._send_back(piece, stack, gradients, None)
        self._leave(stack, 0, gradients)

    def _leave(self, stack: list[_Held], above: int, gradients: Sequence[Tensor]) -> None:
        """Finish the last pieces on the stack: all of their descendants are done."""
        while len(stack) > above:
            held = stack.pop()
            self._send_back(held.piece, stack, gradients, held)

    def _send_back(self, piece: ForestPiece, stack: list[_Held], gradients: Sequence[Tensor], held: _Held | None) -> None:
        chosen = self._wanted_from(piece)
        place = to_tensor(chosen, self.device)
        with torch.enable_grad():
            hidden, keys, values = self._compute(piece, stack)
            sent = list(zip(self._score(piece, hidden, chosen), [each[place] for each in gradients], strict=True))
            if held is not None:
                rows = to_tensor(held.open - piece.start, self.device)
                below = [each[rows] for each in (*keys, *values)]
                sent += [(each, total.to(each.dtype)) for each, total in zip(below, held.gradients, strict=True)]
        sent = [(each, gradient) for each, gradient in sent if each.requires_grad and len(each)]
        if sent:
            cast("Any", torch.autograd).backward([each for each, _ in sent], [gradient for _, gradient in sent])
        for each in stack:
            each.collect()

    def _wanted_from(self, piece: ForestPiece) -> Ints:
        """The wanted tokens whose parents are in this piece."""
        parents = self.forest.parent[self.wanted]
        return np.flatnonzero((parents >= piece.start) & (parents < piece.stop))

    def _score(self, piece: ForestPiece, hidden: Tensor, chosen: Ints) -> tuple[Tensor, Tensor, Tensor]:
        settings, wanted = self.settings, self.wanted[chosen]
        before = hidden[to_tensor(self.forest.parent[wanted] - piece.start, self.device)]
        targets = to_tensor(self.forest.ids[wanted], self.device)
        logprobs, spread = score_tokens(
            settings.decoder.head,
            before,
            targets,
            settings.temperature,
            entropy=settings.entropy,
            functions=settings.functions,
        )
        values = at_least_fp32(settings.critic(before))[:, 0] if settings.critic is not None else torch.zeros_like(logprobs)
        return logprobs, spread if settings.entropy else spread.detach(), values

    def _hold(self, piece: ForestPiece, keys: list[Tensor], values: list[Tensor], *, learns: bool = False) -> _Held:
        reach = np.arange(piece.start, piece.stop)
        reach = reach[self.forest.last[reach] > piece.stop]
        rows = to_tensor(reach - piece.start, self.device)
        held = _Held(piece, reach, [each[rows] for each in keys], [each[rows] for each in values])
        if learns:
            held.gradients = [at_least_fp32(leaf).new_zeros(leaf.shape) for leaf in held.leaves]
            for leaf in held.leaves:
                leaf.requires_grad_()
        return held

    def _compute(self, piece: ForestPiece, stack: Sequence[_Held]) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Hidden states of a piece, and its keys and values in each layer."""
        settings, forest, device = self.settings, self.forest, self.device
        decoder, count = settings.decoder, piece.stop - piece.start
        spare = padded_size(count) - count if device.type == "cuda" else 0
        own = np.arange(piece.start, piece.stop)
        x = decoder.embedding(to_tensor(np.pad(forest.ids[own], (0, spare)), device))
        cos, sin = decoder.angles(to_tensor(np.pad(forest.depth[own], (0, spare)), device), x.dtype)
        before, attention = self._attention(piece, [held.open for held in stack], spare)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for layer, block in enumerate(cast("Iterable[Block]", decoder.blocks)):
            given = [*(held.keys[layer] for held in stack), *(held.values[layer] for held in stack)]
            step = (settings.functions, block, attention, before, x, cos, sin, *given)
            again = settings.recompute != "nothing"  # a piece is short: storing what attention computed would gain little
            x, k, v = cast("Any", checkpoint)(_layer, *step, use_reentrant=False) if again else _layer(*step)
            keys.append(k)
            values.append(v)
        return decoder.norm(x), keys, values

    def _attention(self, piece: ForestPiece, above: Sequence[Ints], spare: int) -> tuple[int, Attention]:
        """The number of keys before a piece's own, and the attention. On a GPU both kinds are padded with unseen keys."""
        seen = np.concatenate((*above, np.empty(0, np.int64)))
        before = padded_size(len(seen)) if self.device.type == "cuda" and len(seen) else len(seen)
        count = piece.stop - piece.start
        filling, alone = np.zeros(before - len(seen), np.int64), np.arange(count, count + spare)
        first = np.concatenate((seen - piece.start, filling, np.arange(count), alone))
        last = np.concatenate((
            self.forest.last[seen] - piece.start, filling, self.forest.last[piece.start : piece.stop] - piece.start, alone + 1,
        ))  # fmt: skip
        return before, interval_attention(to_tensor(first, self.device), to_tensor(last, self.device), count + spare)


def _layer(
    functions: LayerFunctions,
    block: Block,
    attention: Attention,
    before: int,
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    *given: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer of a piece: the residual stream, and the piece's own keys and values."""
    q, k, v = functions.inputs(block, x, cos, sin)
    half = len(given) // 2
    attended = attention(q, _joined(given[:half], k, before), _joined(given[half:], v, before))
    return functions.outputs(block, x, attended), k, v


def _joined(above: Sequence[Tensor], own: Tensor, before: int) -> Tensor:
    """Keys or values of the stack, padded to `before`, and the piece's own."""
    missing = before - sum(map(len, above))
    filling = [own.new_zeros(missing, *own.shape[1:])] if missing else []
    return torch.cat([*(each.to(own.dtype) for each in above), *filling, own])
