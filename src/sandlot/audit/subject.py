"""What is audited: a `Subject` describes itself, and takes trials.

The auditor never imports the subject's code. A trial is requested as data (task, actions of the agent, conditions) and its result
is data. The code runs in worker processes, which may hang, die or lie without affecting the auditor. Sandlot environments, plain
Python graders and Gymnasium environments are three subjects behind one Protocol.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from sandlot.audit.finding import Layer
from sandlot.core.crashes import crashes_in
from sandlot.core.limits import Limits
from sandlot.core.ports.world import ToolSpec
from sandlot.core.rubric import Rubric, RubricScore
from sandlot.core.task import Task
from sandlot.core.trace import EvidenceRecord, Failed, Scored, Trace
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
    """Fixed turns, played whatever the environment answers. After the last one the agent says nothing more."""

    name: str
    turns: tuple[tuple[Act, ...], ...] = ()
    """The acts of each turn: one `Say`, or calls."""


class NamedPlay(msgspec.Struct, frozen=True, kw_only=True, tag="named", tag_field="play"):
    """An agent that reacts to what it sees: `golden`, `look-up`, a scripted player, or an adversary or control of the author."""

    name: str


Play = Script | NamedPlay

# -- trials ------------------------------------------------------------------------------------------------------------


class Take(msgspec.Struct, frozen=True, kw_only=True, tag="take", tag_field="trial"):
    """Play a task in a fresh world, and grade it."""

    task: str
    play: Play
    seed: int = 0


class Regrade(msgspec.Struct, frozen=True, kw_only=True, tag="regrade", tag_field="trial"):
    """Grade the evidence of an earlier trial again, changed or not. It takes milliseconds: no world is opened."""

    trace: Trace
    files: dict[str, bytes] = {}
    """The bytes behind the trace's evidence, by hash."""
    times: int = 1


Request = Take | Regrade


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """The trial has no result: its process hung or died."""

    kind: str
    """`hung`, `died`, or `skipped` (after too many of those, or because the machine is too busy)."""
    message: str
    busy: bool = False
    """True if the machine was too busy for a result."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one request."""

    trace: Trace | None = None
    """The rollout, with outcome and evidence; None only if the trial was lost."""
    files: dict[str, bytes] = {}
    """The bytes behind the evidence, by hash, up to a size limit."""
    scores: tuple[Scored | Failed, ...] = ()
    """All gradings in order: one for a `Take`, `times` for a `Regrade`."""
    lost: Lost | None = None
    seconds: float = 0.0
    """Duration without `starved_s`."""
    starved_s: float = 0.0
    """How long its process waited for a busy processor."""
    reached: tuple[str, ...] = ()
    """Hosts that author code tried to reach while the network was off."""
    did: tuple[str, ...] = ()
    """What the code did with the word it was watched for (`Conditions.watched`)."""
    answer_was_read: bool = True
    """False if no grading read the answer, so that another answer would get the same score. True if that is not known."""

    @property
    def evidence(self) -> EvidenceRecord:
        """What the trial left; empty if it has no evidence."""
        return self.trace.evidence if self.trace and self.trace.evidence else EvidenceRecord()

    @property
    def reward(self) -> float | None:
        """The value of the first score; None if there is no score."""
        return self.score.value if self.score is not None else None

    @property
    def unclipped(self) -> float:
        """The reward as a plain grader returned it, on the scale of its declared range; else the reward, 0 without a score."""
        score = self.score
        if score is None or score.checks:
            return self.reward or 0.0
        return score.points / score.possible

    @property
    def score(self) -> RubricScore | None:
        """The first score, with its checks."""
        return self.scores[0].score if self.scores and isinstance(self.scores[0], Scored) else None

    @property
    def paid(self) -> tuple[str, ...]:
        """The checks that gave points."""
        return tuple(check.id for check in self.score.checks if check.points > 0) if self.score is not None else ()

    @property
    def passed(self) -> bool:
        """True for full marks."""
        return self.score is not None and self.score.passed

    @property
    def failed(self) -> Failed | None:
        """The failure, if there is no score because a side failed."""
        return self.scores[0] if self.scores and isinstance(self.scores[0], Failed) else None

    @property
    def crashes(self) -> dict[str, str]:
        """What crashed in the environment without deciding the outcome, as `TOOL: SIGNATURE`, each with a message."""
        return crashes_in(self.trace) if self.trace is not None else {}

    @property
    def untried(self) -> bool:
        """True if it was skipped: it says nothing about the subject."""
        return self.lost is not None and self.lost.kind == "skipped"

    @property
    def fate(self) -> str:
        """The result in a few words, for a witness."""
        if self.lost is not None:
            return f"lost ({self.lost.kind}): {self.lost.message}"
        if self.failed is not None:
            return f"failed ({self.failed.side.value}, {self.failed.kind}): {self.failed.message[:200]}"
        crashed = "".join(f"; crashed: {crash} ({message[:200]})" for crash, message in self.crashes.items())[:600]
        return f"scored {self.score} = {self.score.value:g}{crashed}" if self.score is not None else "cancelled"


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of trials. An environment must behave the same under all of them."""

    hash_seed: int = 0
    timezone: str = "UTC"
    locale: str = "C.UTF-8"
    clock_shift_s: float = 0.0
    """Shift of the wall clock."""
    network: bool = True
    """False: network access from author code raises."""
    random_seed: int | None = None
    """Seed Python's and numpy's global generators with this before every trial."""
    at_once: int = 1
    """Parallel trials in one process."""
    shuffled: int | None = None
    """Take them in a random order with this seed."""
    alone: bool = False
    """One process per trial."""
    watched: str | None = None
    """A word in answers. Python code that uses it as a name, an import of it, and a file of that name in the folder for temporary
    files are noted in `Trial.did`: they show that an answer was run."""
    user: str | None = None
    """The model that plays the user, instead of the one the audit was given."""
    limits: Json = {}
    """Overrides of every task's limits."""
    fault: str | None = None
    """An injected fault: `tool:refuse` (every tool answers with an error and does nothing), `tool:slow` (waits in tools take 100
    times as long), `tool:raise`, `tool:hang` (files and commands of the world raise or hang inside tools), `check:raise` (reading
    evidence raises), `judge:raise`, `judge:hang`."""

    @property
    def changed(self) -> str:
        """What differs from plain conditions around the code, in a few words; empty if nothing does."""
        changes = {
            "hash seed": self.hash_seed != PLAIN.hash_seed,
            "clock": self.clock_shift_s != PLAIN.clock_shift_s,
            "time zone": self.timezone != PLAIN.timezone or self.locale != PLAIN.locale,
            "new process": self.alone,
        }
        return ", ".join(name for name, is_changed in changes.items() if is_changed)


PLAIN = Conditions()

# -- the subject -------------------------------------------------------------------------------------------------------


class Declared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an author declares as intended, so that it is not reported as a defect; read from `audit.toml`."""

    floor: float = 0.0
    """The score that doing nothing useful may reach."""
    noop_is_correct: tuple[str, ...] = ()
    """Tasks, by id or tag, whose right solution is to change nothing."""
    eventual: tuple[str, ...] = ()
    """Tools that may show an outdated state, and whose description says so."""
    volatile: tuple[str, ...] = ()
    """Names of fields that are meant to differ between worlds: times, ids."""
    discoverable: tuple[str, ...] = ()
    """Words that the checks require and the agent has to discover."""
    guessable: bool = False
    """True if only few answers are possible, on purpose."""
    material: tuple[str, ...] = ()
    """Folders that hold what tasks are about, such as repositories to repair: code of others, which nothing here imports."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a subject before any trial."""

    name: str
    kind: str
    """`environment`, `grader` or `gymnasium`."""
    fingerprint: str
    tasks: tuple[Task, ...]
    """All tasks, with their keys."""
    tools: tuple[ToolSpec, ...] = ()
    unlisted: str = ""
    """Why the tools of its MCP servers are not among `tools`; empty if they are."""
    rubrics: dict[str, Rubric] = {}
    """By name; empty for an environment that grades itself."""
    system: str = ""
    image: str | None = None
    seats: tuple[str, ...] = ()
    """Where several agents act: the names of their seats."""
    limits: Limits = Limits()
    has_golden: bool = False
    has_user: bool = False
    """True if messages of the agent are answered, by the author's replies or by a persona that a model plays."""
    has_persona: bool = False
    """True if a model can play the user."""
    needs_user: bool = False
    """True if only a model can: there is a persona, and no reply function."""
    adversaries: tuple[str, ...] = ()
    """The author's adversaries, which must stay at the floor."""
    controls: tuple[str, ...] = ()
    """The author's controls, which must get full marks."""
    sources: dict[str, str] = {}
    """The author's source text by path relative to the environment, without tests and documentation."""
    material: dict[str, str] = {}
    """The text of files in folders that are declared as material (`Declared.material`): nothing of it is the author's code."""
    declared: Declared = Declared()
    needs_judge: bool = False
    inapplicable: dict[Layer, str] = {}
    """Layers that do not apply to this kind of subject, each with the reason."""


class Subject(Protocol):
    """Something that can be audited."""

    async def describe(self) -> Description:
        """Describe it. `ConfigError` if it cannot be loaded."""
        ...

    async def take(self, requests: Sequence[Request], conditions: Conditions = PLAIN) -> list[Trial]:
        """Take one trial for each request, and return them in order, lost ones included."""
        ...
