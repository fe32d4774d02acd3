"""The engine's requests, completions, and the state of a request in between."""

from collections.abc import Sequence as Ids
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sandlot.model.engine.adapters import Adapter
from sandlot.model.engine.tree import BASE, PrefixBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to continue token ids."""

    ids: Ids[int]
    max_tokens: int
    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 disables it."""
    seed: int | None = None
    """The same seed and ids give the same tokens, whatever else is running. None: a random seed."""
    stop_ids: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    """Texts that end the completion; the matched text stays in the output."""
    session: str = ""
    """Its rollout; the prefix is preferred in the cache until `Engine.release`."""
    deadline: float = float("inf")
    """Time on the engine's clock."""
    adapter: str = ""
    """The name of a loaded adapter; empty for the base model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The result of a request."""

    id: int
    ids: NDArray[np.int32]
    """The sampled ids, including a sampled stop token."""
    logprobs: NDArray[np.float64]
    """Log-probabilities under the distribution each id was sampled from."""
    versions: NDArray[np.int32]
    """The weight version that sampled each id: the base model's, or its adapter's."""
    stop: str
    """`stop`, `length`, `deadline`, or `failed`."""
    cached: int
    """Prompt tokens found in the prefix tree when it was first admitted."""
    stale: int
    """Tokens sampled on KV of older weights; only with `old_kv="keep"`."""
    queued_s: float
    """Time from submission until it was first admitted."""
    error: str = ""
    """The reason if `stop` is `failed`."""


@dataclass(slots=True, eq=False)
class Sequence:
    """The state of a submitted request. While it is seated, its row in `Seats` is current."""

    id: int
    request: Request
    seed: int
    submitted: float
    adapter: Adapter | None = None
    admitted: float | None = None
    num_prompt: int = field(init=False)
    ids: NDArray[np.int32] = field(init=False)
    """Prompt and sampled ids, as of when it last had no seat."""
    spelled: bytes = field(init=False)
    """`ids` as bytes, as in the prefix tree."""
    logprobs: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))
    versions: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    seat: int = -1
    order: int = -1
    """Order of seating; the newest is preempted first."""
    group: bytes = b""
    """The name of its siblings' group, if tokens are guessed."""
    node: PrefixBlock | None = None
    """The prefix block where its full blocks end."""
    kv_version: int = -1
    """The weight version of its KV."""
    cached: int = 0
    stale: int = 0
    stop: str = ""
    error: str = ""

    def __post_init__(self) -> None:
        self.num_prompt = len(self.request.ids)
        self.ids = np.asarray(self.request.ids, np.int32)
        self.spelled = self.ids.tobytes()

    @property
    def root(self) -> int:
        """The root of its prefixes in the tree: KV of one adapter is never that of another, or of the base model."""
        return BASE if self.adapter is None else self.adapter.version

    def completion(self, now: float) -> Completion:
        """The result."""
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
