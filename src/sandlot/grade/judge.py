"""A judge: a grader model that answers one check per call, with control questions.

Each vote is one call with its own seed and random fence. The reply must be one JSON object; if it is not, the call is repeated
once. The cache key of a verdict covers model, sampling, template, question, choices, the view as shown, and the vote.

*Canaries* are control questions: before the first question of a run, and with every 50th new call, the judge is asked something
always true and something always false, with the current view. A wrong answer fails the grading that asked, and no further verdict
is accepted until both canaries are answered right. They cost 4 % of the calls; `canary_every=1` asks them with every call.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import msgspec

from sandlot.core.concurrency.limited import gather_limited
from sandlot.core.errors import GradeError, ModelError, boundary
from sandlot.core.ports.grading import NO_IMAGES, Judgement
from sandlot.core.ports.model import ChatModel, Sampling
from sandlot.core.text import encodable
from sandlot.core.trace import ImagePart, Message, Usage
from sandlot.core.types import derive_seed, digest
from sandlot.grade.batched import Criterion, batch_messages, opinions_of
from sandlot.grade.cache import VerdictCache
from sandlot.grade.prompt import TEMPLATE, judge_messages, prompt_view
from sandlot.grade.reply import Opinion, opinion_of, reply_text

_CANARY_EVERY = 50
CANARIES = (("The number 7 is greater than the number 3.", "yes"), ("The number 3 is greater than the number 7.", "no"))
_random_word = partial(secrets.token_hex, 16)
_VOTE_TEMPERATURE = 0.7
"""For several votes if the judge's temperature is 0, which would make all votes equal."""


@dataclass(slots=True)
class _JudgeCount:
    """Calls and cost of a judge so far."""

    calls: int = 0
    """Calls to the model, with canaries and retries."""
    retries: int = 0
    canaries: int = 0
    cached: int = 0
    usage: Usage = field(default_factory=Usage)


class ModelJudge:
    """A `Judge` over a chat model. One object serves a whole run."""

    def __init__(
        self,
        chat: ChatModel,
        cache: VerdictCache | None = None,
        sampling: Sampling | None = None,
        *,
        nonce: Callable[[], str] = _random_word,
        canary_every: int | None = _CANARY_EVERY,
    ) -> None:
        """Without `sampling` the temperature is 0. `nonce` makes the random word of a fence.

        `canary_every=None` asks no canaries: for measuring the judge, where they are ordinary questions.
        """
        self.count = _JudgeCount()
        self._chat = chat
        self._cache = cache
        self._sampling = sampling or Sampling(temperature=0.0, max_tokens=1024)
        self._nonce = nonce
        self._canary_every = canary_every
        self._since_canary: int | None = None  # None: no verdict is accepted yet
        self._proving = anyio.Lock()

    @property
    def name(self) -> str:
        """The model that judges."""
        return self._chat.name

    async def ask(
        self,
        question: str,
        choices: Sequence[str],
        view: Mapping[str, str],
        votes: int,
        images: Mapping[str, ImagePart] = NO_IMAGES,
    ) -> Judgement:
        """One verdict per vote, each one of `choices` (worst to best); `GradeError` if a reply is anything else."""
        asked = _Question(encodable(question), tuple(choices), prompt_view(view), tuple(images.items()))
        temperature = self._sampling.temperature or (_VOTE_TEMPERATURE if votes > 1 else 0.0)
        sampling = msgspec.structs.replace(self._sampling, temperature=temperature)
        given = await gather_limited([partial(self._vote, asked, sampling, vote) for vote in range(votes)], at_once=max(votes, 1))
        return Judgement(
            verdicts=tuple(vote.opinion.verdict for vote in given),
            reasons=tuple(vote.opinion.reason for vote in given),
            prompt_digest=asked.digest,
            cached=all(vote.cached for vote in given),
            retries=sum(vote.retries for vote in given),
        )

    async def ask_several(self, criteria: Sequence[Criterion], view: Mapping[str, str]) -> tuple[str, ...]:
        """One verdict per criterion, in one call, to measure whether batching changes verdicts. They are not cached."""
        prompt = batch_messages(criteria, prompt_view(view), self._nonce())
        return tuple(opinion.verdict for opinion in opinions_of(await self._chat_text(prompt, self._sampling), criteria))

    async def _vote(self, asked: "_Question", sampling: Sampling, vote: int) -> "_Vote":
        seed = derive_seed("judge", sampling.seed or 0, asked.digest, vote) % 2**31
        sampling = msgspec.structs.replace(sampling, seed=seed)
        key = digest(msgspec.json.encode([self.name, sampling, *asked.identity, vote]))
        opinion = await self._cached(key, asked.choices)
        if opinion is not None:
            self.count.cached += 1
            return _Vote(opinion, cached=True)
        await self._ask_due_canaries(asked.view)
        given = await self._opinion(asked, sampling)
        if self._cache is not None:
            await self._cache.put(key, msgspec.json.encode(given.opinion).decode())
        return given

    async def _cached(self, key: str, choices: Sequence[str]) -> Opinion | None:
        text = await self._cache.get(key) if self._cache is not None else None
        try:
            return None if text is None else opinion_of(text, choices)
        except GradeError:
            return None  # a damaged entry; it will be replaced

    async def _opinion(self, asked: "_Question", sampling: Sampling) -> "_Vote":
        """One vote by the model; the call is repeated once if the reply cannot be parsed."""
        try:
            return _Vote(await self._call(asked, sampling))
        except GradeError as error:
            if error.kind != "unparsable":
                raise
        self.count.retries += 1
        again = msgspec.structs.replace(sampling, seed=((sampling.seed or 0) + 1) % 2**31)
        return _Vote(await self._call(asked, again), retries=1)

    async def _call(self, asked: "_Question", sampling: Sampling) -> Opinion:
        prompt = judge_messages(asked.text, asked.choices, asked.view, self._nonce(), asked.images)
        return opinion_of(await self._chat_text(prompt, sampling), asked.choices)

    async def _chat_text(self, prompt: Sequence[Message], sampling: Sampling) -> str:
        """One call to the model."""
        self.count.calls += 1
        with boundary(GradeError, f"judge `{self.name}`"):
            try:
                reply = await self._chat.chat(prompt, (), sampling)
            except ModelError as error:
                raise GradeError(f"judge `{self.name}`: {error}", kind=error.kind) from error
        self.count.usage += reply.usage
        return reply_text(reply)

    async def _ask_due_canaries(self, view: Sequence[tuple[str, str]]) -> None:
        """Ask the canaries if they are due. All other calls wait until the first pair is answered right."""
        if self._canary_every is None:
            return
        if self._since_canary is None:
            async with self._proving:
                if self._since_canary is None:
                    await self._ask_canaries(view)
        elif self._since_canary + 1 >= self._canary_every:
            self._since_canary = 0  # other calls go on meanwhile
            await self._ask_canaries(view)
        else:
            self._since_canary += 1

    async def _ask_canaries(self, view: Sequence[tuple[str, str]]) -> None:
        proven = False
        try:
            for text, expected in CANARIES:
                self.count.canaries += 1
                given = await self._opinion(_Question(text, ("no", "yes"), view), self._sampling)
                if given.opinion.verdict != expected:
                    raise GradeError(
                        f"judge `{self.name}` answers `{given.opinion.verdict}` to the control question `{text}`: it is "
                        "unreliable, or misled by the agent's text; use another judge",
                        kind="canary",
                    )
            proven = True
        finally:
            self._since_canary = 0 if proven else None


@dataclass(frozen=True, slots=True)
class _Question:
    """One question about one view, as shown."""

    text: str
    choices: tuple[str, ...]
    view: Sequence[tuple[str, str]]
    images: tuple[tuple[str, ImagePart], ...] = ()

    @property
    def identity(self) -> list[Any]:
        """What makes it another question: template, text, choices, view, and images if there are any."""
        shown = [[(name, image.artifact) for name, image in self.images]] if self.images else []
        return [TEMPLATE, self.text, self.choices, self.view, *shown]

    @property
    def digest(self) -> str:
        """Identifies the question."""
        return digest(msgspec.json.encode(self.identity))


@dataclass(frozen=True, slots=True)
class _Vote:
    """One opinion and how it was obtained."""

    opinion: Opinion
    cached: bool = False
    retries: int = 0
