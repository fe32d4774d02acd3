"""What is asked of the engine, what it answers, and what it remembers in between."""

from collections.abc import Sequence as Ids
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sandlot.model.engine.tree import PrefixBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Continue these ids."""

    ids: Ids[int]
    max_tokens: int
    temperature: float = 1.0
    """0 takes the likeliest token."""
    top_p: float = 1.0
    top_k: int = 0
    """0 for all."""
    seed: int | None = None
    """The same seed and ids give the same tokens, whatever else is running. None draws one."""
    stop_ids: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    """Texts that end it; the one that did stays in the output."""
    session: str = ""
    """The rollout it belongs to: its KV is kept with preference until `Engine.release`."""
    deadline: float = float("inf")
    """On the engine's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What came of a request."""

    id: int
    ids: NDArray[np.int32]
    """The sampled ones; a stop token that was sampled is the last."""
    logprobs: NDArray[np.float64]
    """Of the distribution each was sampled from."""
    versions: NDArray[np.int32]
    """The weights that sampled each."""
    stop: str
    """`stop`, `length`, `deadline`, or `failed`."""
    cached: int
    """Tokens of the prompt that were found in the prefix tree when it first began."""
    stale: int
    """Tokens sampled while the KV they saw was of older weights: only under the rule `keep`."""
    queued_s: float
    """From submission until it first began."""
    error: str = ""
    """Why it `failed`."""


class Sequence:
    """A request on its way: what is known of it while it has no seat."""

    __slots__ = (
        "admitted",
        "cached",
        "error",
        "id",
        "ids",
        "kv_version",
        "logprobs",
        "node",
        "num_prompt",
        "order",
        "request",
        "seat",
        "seed",
        "spelled",
        "stale",
        "stop",
        "submitted",
        "versions",
    )

    def __init__(self, number: int, request: Request, seed: int, submitted: float) -> None:
        self.id = number
        self.request = request
        self.seed = seed
        self.num_prompt = len(request.ids)
        self.ids: NDArray[np.int32] = np.asarray(request.ids, np.int32)
        """Prompt and what was sampled so far; while seated, the seat's row is the truth."""
        self.logprobs: NDArray[np.float64] = np.empty(0, np.float64)
        self.versions: NDArray[np.int32] = np.empty(0, np.int32)
        self.spelled = self.ids.tobytes()
        """`ids` as the tree spells them."""
        self.seat = -1
        self.order = -1
        """When it was seated: the newest is preempted first."""
        self.node: PrefixBlock | None = None
        """Where in the tree its whole blocks end."""
        self.kv_version = -1
        """The weights its KV was computed with."""
        self.cached = 0
        self.stale = 0
        self.submitted = submitted
        self.admitted: float | None = None
        self.stop = ""
        self.error = ""

    def completion(self, now: float) -> Completion:
        """The answer, from what is known."""
        return Completion(
            id=self.id,
            ids=self.ids[self.num_prompt :],
            logprobs=self.logprobs,
            versions=self.versions,
            stop=self.stop,
            cached=self.cached,
            stale=self.stale,
            queued_s=(now if self.admitted is None else self.admitted) - self.submitted,
            error=self.error,
        )
