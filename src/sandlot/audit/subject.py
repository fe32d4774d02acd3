"""What is audited, seen from outside: a description, and trials that are taken in it.

The auditor never imports the subject's code. A trial is data (which task, what the agent does there, under which conditions) and
so is what comes back; the code runs in worker processes, which may hang, die or lie without touching the auditor. Sandlot
environments, plain Python graders and Gymnasium environments are three subjects behind one Protocol.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from sandlot.audit.finding import Layer
from sandlot.core.limits import Limits
from sandlot.core.ports.world import ToolSpec
from sandlot.core.rubric import Rubric, RubricScore
from sandlot.core.task import Task
from sandlot.core.trace import Failed, Scored, Trace
from sandlot.core.types import Json

# -- what an agent does ------------------------------------------------------------------------------------------------


class Say(msgspec.Struct, frozen=True, tag="say", tag_field="do"):
    """A plain message."""

    text: str


class Call(msgspec.Struct, frozen=True, tag="call", tag_field="do"):
    """One tool call."""

    tool: str
    arguments: Json = {}


Act = Say | Call


class Script(msgspec.Struct, frozen=True, kw_only=True, tag="script", tag_field="play"):
    """Turns written down beforehand, played whatever the environment answers. After the last one the agent says nothing more."""

    name: str
    turns: tuple[tuple[Act, ...], ...] = ()
    """Acts of one turn: either one `Say`, or calls."""


class NamedPlay(msgspec.Struct, frozen=True, kw_only=True, tag="named", tag_field="play"):
    """Somebody who looks before acting: `golden`, one of `adversaries.py`, or the author's own adversary or control."""

    name: str


Play = Script | NamedPlay

# -- trials ------------------------------------------------------------------------------------------------------------


class Take(msgspec.Struct, frozen=True, kw_only=True, tag="take", tag_field="trial"):
    """Play a task in a fresh world, and grade it."""

    task: str
    play: Play
    seed: int = 0


class Regrade(msgspec.Struct, frozen=True, kw_only=True, tag="regrade", tag_field="trial"):
    """Grade what an earlier trial left, perhaps changed since. Milliseconds: no world is opened."""

    trace: Trace
    files: dict[str, bytes] = {}
    """The bytes behind the trace's evidence, by hash."""
    times: int = 1


Request = Take | Regrade


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """The trial never came back: its process hung or died."""

    kind: str
    """`hung`, `died`, or `skipped`: after too many of those, or on a machine that is too busy."""
    message: str
    busy: bool = False
    """The machine was too busy to tell."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one request."""

    trace: Trace | None = None
    """How it went, with outcome and evidence; None only if it was lost."""
    files: dict[str, bytes] = {}
    """The bytes behind the evidence, by hash, as far as they fit."""
    scores: tuple[Scored | Failed, ...] = ()
    """Every grading, in order: one for a `Take`, `times` of a `Regrade`."""
    lost: Lost | None = None
    seconds: float = 0.0
    """How long it took, less `starved_s`."""
    starved_s: float = 0.0
    """How long its process waited for a processor that others used."""
    reached: tuple[str, ...] = ()
    """Where author code tried to connect to, under conditions without a network."""
    peak_bytes: int = 0
    """Most memory the worker had in use while it was taken, as far as it can tell."""

    @property
    def reward(self) -> float | None:
        """The first score's value; None for whatever has no score."""
        return self.score.value if self.score is not None else None

    @property
    def score(self) -> RubricScore | None:
        """The first score, with its checks."""
        return self.scores[0].score if self.scores and isinstance(self.scores[0], Scored) else None

    @property
    def passed(self) -> bool:
        """Full marks."""
        return self.score is not None and self.score.passed

    @property
    def failed(self) -> Failed | None:
        """Why there is no score, if a side failed."""
        return self.scores[0] if self.scores and isinstance(self.scores[0], Failed) else None

    @property
    def untried(self) -> bool:
        """Nothing is known: too many others had been lost, or the machine was too busy. It says nothing about the subject."""
        return self.lost is not None and self.lost.kind == "skipped"

    @property
    def fate(self) -> str:
        """How it came out, in a few words for a witness."""
        if self.lost is not None:
            return f"lost ({self.lost.kind}): {self.lost.message}"
        if self.failed is not None:
            return f"failed ({self.failed.side.value}, {self.failed.kind}): {self.failed.message[:200]}"
        return f"scored {self.score} = {self.score.value:g}" if self.score is not None else "cancelled"


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What surrounds trials. What an environment promises holds under all of them."""

    hash_seed: int = 0
    timezone: str = "UTC"
    locale: str = "C.UTF-8"
    clock_shift_s: float = 0.0
    """The wall clock, moved; it goes on ticking."""
    network: bool = True
    """False: every attempt to reach the network from author code raises."""
    random_seed: int | None = None
    """Seed Python's and numpy's global generators with this before every trial."""
    at_once: int = 1
    """Trials beside each other in one process."""
    shuffled: int | None = None
    """Take them in an order drawn from this seed."""
    alone: bool = False
    """A process of its own for every trial."""
    user: str | None = None
    """The model that plays the user, instead of the one the audit was given."""
    limits: Json = {}
    """Overrides of every task's limits."""
    fault: str | None = None
    """Break something on purpose: `tool:slow` (what tools wait for takes a hundred times as long), `tool:raise`,
    `tool:hang`, `tool:empty` (what tools do with files and commands of the world
    raises, hangs, gives nothing), `check:raise` (reading evidence raises), `judge:raise`, `judge:empty`."""


PLAIN = Conditions()

# -- the subject -------------------------------------------------------------------------------------------------------


class Declared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an author says about an environment that would otherwise look like a flaw; read from `audit.toml`."""

    floor: float = 0.0
    """The score that doing nothing useful may reach."""
    noop_is_correct: tuple[str, ...] = ()
    """Tasks, by id or tag, where leaving everything as it is is right."""
    eventual: tuple[str, ...] = ()
    """Tools that may show what was true a while ago, and whose description says so."""
    volatile: tuple[str, ...] = ()
    """Names of fields that differ from world to world on purpose: times, ids."""
    discoverable: tuple[str, ...] = ()
    """Words the checks ask for that the agent has to find out."""
    guessable: bool = False
    """Few answers are possible, and that is meant."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a subject that can be known without playing it."""

    name: str
    kind: str
    """`environment`, `grader` or `gymnasium`."""
    fingerprint: str
    tasks: tuple[Task, ...]
    """All of them, keys included."""
    tools: tuple[ToolSpec, ...] = ()
    unlisted: str = ""
    """Why the tools of its MCP servers are not among `tools`; empty if they are."""
    rubrics: dict[str, Rubric] = {}
    """By name; empty for an environment that grades itself."""
    system: str = ""
    image: str | None = None
    limits: Limits = Limits()
    has_golden: bool = False
    has_user: bool = False
    """Plain messages are answered: by the author's replies, or by a persona that a model plays."""
    has_persona: bool = False
    """A model can play the user."""
    needs_user: bool = False
    """Only a model can: there is a persona, and no reply function of the author's."""
    adversaries: tuple[str, ...] = ()
    """The author's own, who must stay at the floor."""
    controls: tuple[str, ...] = ()
    """The author's own, who must get full marks."""
    sources: dict[str, str] = {}
    """Text of what the author wrote, by path relative to the environment; tests and documentation aside."""
    declared: Declared = Declared()
    needs_judge: bool = False
    inapplicable: dict[Layer, str] = {}
    """Layers that nothing of its kind can have, each with the reason."""


class Subject(Protocol):
    """Something that can be audited."""

    async def describe(self) -> Description:
        """What it is. `ConfigError` if it cannot be loaded at all."""
        ...

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        """One trial for each request, in the order asked, whatever happens to them on the way."""
        ...
