"""Which replica takes a request, decided from what is known of them: their work, and the prefixes they hold.

The cost of a replica for a request, in tokens of prompt to compute:

    cost = tokens of the prompt that it does not have + work there that the request does not share

The work of a replica is that of its requests under way (tokens of prompt to compute, and `decode_cost` for each token expected to
be sampled) and one average turn for each of its rollouts that waits for a tool, since it comes back. What is being computed there
right now and begins the request's own prompt is shared: the request waits for it and computes nothing twice. What a report shows
as stored is computed: it is no work any more, although its request still samples.

- A new rollout goes where the cost is lowest. So the members of a group meet where their prompt is computed or warm, and the next
  ones go elsewhere as soon as the difference in other work is more than computing the prompt once more: a large group is spread,
  and a small one stays together.
- A rollout stays where it is. It leaves if its replica is down, or if leaving saves more than its whole prompt costs.
- What a replica holds is predicted from what it was sent; or it is what its own events say, where these are followed (`follow`).
- New weights, a restart or a failure make void what was expected of a replica.
- A replica that is down gets nothing until it is admitted again, with an empty cache.

All of it is a function of what was told, without clocks or chance.
"""

from collections import OrderedDict
from collections.abc import Container, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal

from sandlot.model.routing.prefixes import BLOCK_TOKENS, TOKEN_BYTES, PredictedPrefixes, PrefixHit, block_keys
from sandlot.model.routing.reported import ReportedPrefixes

Routing = Literal["prefix", "reported", "round-robin"]
"""`prefix`: the lowest cost, by what each replica is predicted to hold. For comparisons: `reported`, the same by what replicas
report where they do; `round-robin`, in turn, whatever they hold."""

_NEWEST = 0.05
"""Weight of the newest turn in the averages, once there are many."""


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """The router's constants."""

    routing: Routing = "prefix"
    decode_cost: float = 4.0
    """The cost of sampling a token, relative to computing one of a prompt."""
    cache_tokens: int = 2**20
    """Tokens that a replica is expected to hold at most; each costs the router about 8 bytes."""
    first_turn: int = 128
    """Tokens that a turn is expected to sample, before any has ended."""
    most_rollouts: int = 2**16
    """Rollouts whose replica is remembered; one that is quiet is forgotten first."""


@dataclass(slots=True)
class Replica:
    """One server of the model, and what is known of it."""

    name: str
    prefixes: PredictedPrefixes
    reported: ReportedPrefixes | None = None
    """What it reports to hold; None: only the prediction is known."""
    cache_tokens: int | None = None
    """Tokens that it says to hold at most."""
    is_up: bool = True
    num_returns: int = 0
    """How often it was down and came back."""
    generation: int = 0
    """Grows whenever what was expected of it becomes void."""
    version: int = 0
    """The newest weight version of its replies."""
    reports_hits: bool = False
    """True if it has reported a hit: some servers report none, whatever they find."""
    work: float = 0.0
    """What is left of its requests under way."""
    prefilling: "dict[PlacedRequest, None]" = field(default_factory=dict["PlacedRequest", None])
    """Those whose prompt is not known to be computed, in order."""
    num_open: int = 0
    """Requests under way."""
    num_waiting: int = 0
    """Its rollouts without a request under way."""
    num_requests: int = 0
    num_failed: int = 0
    """Requests that failed on its side."""

    @property
    def num_held(self) -> int:
        """Blocks that it holds, as far as known."""
        return len(self.prefixes) if self.reported is None else len(self.reported)

    def match(self, keys: Sequence[bytes]) -> PrefixHit:
        """The longest prefix of these blocks that it has or computes."""
        return self.prefixes.match(keys, self.reported)

    def credit(self, reported: ReportedPrefixes) -> None:
        """Take off the work that is done, as the blocks in its cache show."""
        for placed in list(self.prefilling):
            self.work -= placed.credit(reported)
            if not placed.num_to_compute:
                del self.prefilling[placed]


@dataclass(slots=True, eq=False)
class PlacedRequest:
    """A request at the replica that takes it. It ends with `Router.finish` or `Router.withdraw`."""

    number: int
    """Of the replica."""
    prompt: bytes
    rollout: str
    model: str
    keys: list[bytes]
    hit: PrefixHit
    """What the replica was expected to have."""
    num_to_compute: int
    """Tokens of the prompt that are not known to be computed; none else is charged for them."""
    work: float
    """What is left of it: these tokens, and those to sample."""
    generation: int

    @property
    def num_tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.prompt) // TOKEN_BYTES

    @property
    def new_keys(self) -> list[bytes]:
        """Keys of the blocks that it computes, or waits for."""
        return self.keys[self.hit.warm // BLOCK_TOKENS :]

    def credit(self, stored: Container[bytes]) -> int:
        """Take off the tokens that are stored by now; their number."""
        end = len(self.keys) * BLOCK_TOKENS
        done = begun = self.num_tokens - self.num_to_compute
        while done < end and self.keys[done // BLOCK_TOKENS] in stored:
            done += BLOCK_TOKENS
        if begun < done == end:
            done = self.num_tokens  # the rest is less than a block
        self.num_to_compute -= done - begun
        self.work -= done - begun
        return done - begun


@dataclass(slots=True)
class _Home:
    """The replica of a rollout, and its last prompt."""

    number: int
    num_open: int = 0
    """Its requests under way."""
    model: str = ""
    prompt: bytes = b""
    keys: list[bytes] = field(default_factory=list[bytes])


class Router:
    """The state of all replicas. Tell it everything that happens, and ask `place` for every request."""

    def __init__(self, names: Sequence[str], config: RouterConfig | None = None) -> None:
        self.config = config or RouterConfig()
        self.replicas = [Replica(name, PredictedPrefixes(self.config.cache_tokens)) for name in names]
        self._homes: OrderedDict[str, _Home] = OrderedDict()
        self._sampled = float(self.config.first_turn)
        self._turn = self.config.decode_cost * self._sampled
        self._num_placed = 0
        self._num_ended = 0

    # -- requests ------------------------------------------------------------------------------------------------------

    def place(
        self,
        prompt: bytes,
        rollout: str = "",
        *,
        model: str = "",
        max_tokens: int | None = None,
        avoid: AbstractSet[int] = frozenset(),
    ) -> PlacedRequest | None:
        """Choose a replica and count the request as under way there; None if none is up, apart from those to avoid.

        The prompt is its ids as int32, or text that begins as the prompt does. Prompts for different `model` names share nothing.
        At most `max_tokens` are sampled.
        """
        able = [number for number, each in enumerate(self.replicas) if each.is_up and number not in avoid]
        if not able:
            return None
        keys = self._keys(prompt, rollout, model)
        number = self._choose(able, keys, prompt, rollout)
        replica = self.replicas[number]
        hit = replica.match(keys)
        missing = max(0, len(prompt) // TOKEN_BYTES - hit.tokens)
        sampled = self._sampled if max_tokens is None else min(self._sampled, max_tokens)
        work = missing + self.config.decode_cost * sampled
        placed = PlacedRequest(number, prompt, rollout, model, keys, hit, missing, work, replica.generation)
        replica.prefixes.begin(placed.new_keys)
        if missing >= BLOCK_TOKENS:
            replica.prefilling[placed] = None
        replica.work += work
        replica.num_open += 1
        replica.num_requests += 1
        self._num_placed += 1
        if rollout:
            self._settle(rollout, number)
            home = self._homes[rollout]
            home.num_open += 1
            home.model, home.prompt, home.keys = model, prompt, keys
        return placed

    def finish(
        self, placed: PlacedRequest, sampled: bytes = b"", *, num_sampled: int = 0, cached: int | None = None, version: int = 0
    ) -> None:
        """The request was answered.

        - `sampled`: the sampled ids, which the next prompt goes on with; `num_sampled` where only their number is known.
        - `cached`: how many tokens of the prompt the replica found in its cache, if it tells.
        - `version`: the newest weight version of the reply.
        """
        replica = self.replicas[placed.number]
        self._leave(placed)
        if version > replica.version:
            self._void(replica)  # what it computed with older weights is gone
            replica.version = version
        replica.reports_hits = replica.reports_hits or bool(cached)
        if replica.is_up and version == replica.version:
            if replica.reports_hits and cached is not None:
                missed = placed.keys[-(-cached // BLOCK_TOKENS) : placed.hit.warm // BLOCK_TOKENS]
                replica.prefixes.drop_older(missed)
            computed = placed.prompt + sampled[:-TOKEN_BYTES]  # the last token is sampled, but not computed
            keys = block_keys(computed, placed.model, placed.keys)
            replica.prefixes.add(keys)
            if replica.reported is not None:
                replica.reported.recent.add(keys)
        num_sampled = num_sampled or len(sampled) // TOKEN_BYTES
        work = placed.num_tokens - min(placed.num_tokens, placed.hit.tokens) + self.config.decode_cost * num_sampled
        self._num_ended += 1
        newest = max(_NEWEST, 1 / self._num_ended)
        self._sampled += newest * (num_sampled - self._sampled)
        self._turn += newest * (work - self._turn)

    def withdraw(self, placed: PlacedRequest) -> None:
        """The request was cancelled, or failed."""
        self._leave(placed)

    def release(self, rollout: str) -> int | None:
        """The rollout has ended; returns the number of its replica."""
        home = self._homes.pop(rollout, None)
        if home is None:
            return None
        self.replicas[home.number].num_waiting -= home.num_open == 0
        return home.number

    # -- replicas ------------------------------------------------------------------------------------------------------

    def remove(self, number: int) -> None:
        """The replica is down: it gets nothing, and its rollouts find another one with their next request."""
        replica = self.replicas[number]
        replica.is_up = False
        replica.reported = None
        self._void(replica)
        for rollout in [rollout for rollout, home in self._homes.items() if home.number == number]:
            self.release(rollout)

    def admit(self, number: int) -> None:
        """The replica is up again, with an empty cache."""
        replica = self.replicas[number]
        replica.is_up = True
        replica.num_returns += 1
        replica.version = 0
        self._void(replica)

    def follow(self, number: int, reported: ReportedPrefixes | None) -> None:
        """The replica holds what it reports, from now on; None: it reports nothing that can be followed, so it is predicted.

        Call it after every report: what is stored is no work any more.
        """
        replica = self.replicas[number]
        replica.reported = reported if replica.is_up else None
        if replica.reported is not None:
            replica.credit(replica.reported)

    def resize(self, number: int, cache_tokens: int) -> None:
        """The replica reports how many tokens its cache holds; more than `cache_tokens` of the config are not remembered."""
        self.replicas[number].cache_tokens = cache_tokens
        self.replicas[number].prefixes.resize(min(cache_tokens, self.config.cache_tokens))

    def cost(self, number: int, keys: Sequence[bytes], num_tokens: int, rollout: str = "") -> float:
        """The cost of a replica for a prompt with these blocks, in tokens of prompt to compute."""
        replica = self.replicas[number]
        hit = replica.match(keys)
        home = self._homes.get(rollout)
        own = home is not None and home.number == number and home.num_open == 0  # it does not wait for itself
        work = replica.work + self._turn * (replica.num_waiting - own)
        return max(0, num_tokens - hit.tokens) + max(0.0, work - hit.computing)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _choose(self, able: Sequence[int], keys: Sequence[bytes], prompt: bytes, rollout: str) -> int:
        if self.config.routing == "round-robin":
            return able[self._num_placed % len(able)]
        num_tokens = len(prompt) // TOKEN_BYTES
        costs = {number: self.cost(number, keys, num_tokens, rollout) for number in able}
        best = min(able, key=lambda number: (costs[number], self.replicas[number].num_held, number))
        home = self._homes.get(rollout)
        if home is not None and home.number in costs and costs[home.number] <= costs[best] + num_tokens:
            return home.number
        return best

    def _keys(self, prompt: bytes, rollout: str, model: str) -> list[bytes]:
        """The prompt's keys; those of the rollout's last prompt are not computed again."""
        home = self._homes.get(rollout)
        known = home is not None and home.model == model and prompt.startswith(home.prompt)
        return block_keys(prompt, model, home.keys if known and home is not None else ())

    def _settle(self, rollout: str, number: int) -> None:
        """The rollout has a request under way at this replica, which is its home from now on."""
        home = self._homes.get(rollout)
        if home is None:
            home = self._homes[rollout] = _Home(number)
            self._forget_quiet()
        elif home.num_open == 0:
            self.replicas[home.number].num_waiting -= 1
        home.number = number
        self._homes.move_to_end(rollout)

    def _forget_quiet(self) -> None:
        """Forget the rollout that was quiet for longest, if there are too many."""
        if len(self._homes) > self.config.most_rollouts:
            quiet = next((rollout for rollout, home in self._homes.items() if home.num_open == 0), None)
            if quiet is not None:
                self.release(quiet)

    def _leave(self, placed: PlacedRequest) -> None:
        """The request is no longer under way."""
        replica = self.replicas[placed.number]
        replica.work -= placed.work
        replica.num_open -= 1
        replica.prefilling.pop(placed, None)
        if placed.generation == replica.generation:
            replica.prefixes.end(placed.new_keys)
        home = self._homes.get(placed.rollout)
        if home is not None and home.num_open:
            home.num_open -= 1
            self.replicas[home.number].num_waiting += home.num_open == 0

    def _void(self, replica: Replica) -> None:
        replica.prefixes.clear()
        if replica.reported is not None:
            replica.reported.recent.clear()  # what it has reported is dropped by its own events
        replica.generation += 1
