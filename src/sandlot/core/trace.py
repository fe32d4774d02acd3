"""A trace: what happened in one rollout, as a token tree.

A node is one message, stored once; a branch is the walk from a leaf to the root. A linear rollout is a path; retries,
compaction and sub-agents append siblings; nothing is overwritten. The same object serves store, trainer, auditor and pages.
Token ids are the ids that were sampled: nothing is ever re-tokenised, and a trace without ids says so.

`End` and outcome are two fields. A reward exists only in `Scored`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from sandlot.core.rubric import RubricScore
from sandlot.core.types import End, Json, Role, Side

if TYPE_CHECKING:
    import numpy as np

FORMAT = 1


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """What was said."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning", tag_field="type"):
    """What the model thought aloud; kept, and by default not shown to it again."""

    text: str


class ImagePart(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    """An image by the hash of its bytes."""

    artifact: str
    media_type: str = "image/png"


class Tensor(msgspec.Struct, frozen=True, tag="tensor", tag_field="type"):
    """Numbers by the hash of their bytes, for environments that are not text."""

    artifact: str
    dtype: str
    shape: tuple[int, ...]


class ToolCall(msgspec.Struct, frozen=True, tag="call", tag_field="type"):
    """What the agent asked for. If `malformed` is set the arguments could not be read, and that is the text that came."""

    id: str
    name: str
    arguments: Json = {}
    malformed: str | None = None


class ToolResult(msgspec.Struct, frozen=True, tag="result", tag_field="type"):
    """What came back, as the agent saw it."""

    call: str
    text: str
    error: bool = False
    whole: str | None = None
    """If the text was cut: the hash of the whole of it."""
    images: tuple[ImagePart, ...] = ()


Part = Text | Reasoning | ImagePart | Tensor | ToolCall | ToolResult


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Who spoke, and what."""

    role: Role
    parts: tuple[Part, ...]
    agent: str = "agent"
    """Which agent of several, `user` for a user that a model plays; only trained agents' tokens have mask 1."""

    @property
    def text(self) -> str:
        """The spoken text, without reasoning, calls and results."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results in it."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


def text_message(role: Role, text: str) -> Message:
    """A message of one text."""
    return Message(role=role, parts=(Text(text),))


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Exact tokens of one node: little-endian bytes, numpy views."""

    ids: bytes
    """int32."""
    logprobs: bytes = b""
    """float32, of the distribution actually sampled from; empty for tokens nobody sampled."""
    mask: bytes = b""
    """uint8, 1 where the token may be trained on; empty for none."""
    versions: tuple[tuple[int, int], ...] = ()
    """Runs of (count, weight version)."""

    def __len__(self) -> int:
        return len(self.ids) // 4

    def ids_array(self) -> "np.ndarray[Any, Any]":
        """The ids as int32."""
        import numpy as np  # noqa: PLC0415 - numpy is not paid for by those who only run

        return np.frombuffer(self.ids, dtype="<i4")

    def logprobs_array(self) -> "np.ndarray[Any, Any]":
        """The log-probabilities as float32."""
        import numpy as np  # noqa: PLC0415 - as above

        return np.frombuffer(self.logprobs, dtype="<f4")


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn cost, as the endpoint counted it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the tree."""

    message: Message
    parent: int | None = None
    sampled: bool = False
    """True only if a policy produced it."""
    context: bytes = b""
    """int32 ids the model was given between the nearest sampled node above and this one: what the environment said, and template
    glue. Never trained on. The prompt of a turn is its path's contexts and tokens, joined."""
    tokens: Tokens | None = None
    """What was sampled, exactly."""
    usage: Usage | None = None
    stop: str | None = None
    """Why sampling stopped: `stop`, `length`, `calls`, `refusal`."""
    model: str | None = None
    dtype: str | None = None
    """The number type the model computed in, such as `float32`; None where its engine does not tell."""
    start_s: float = 0.0
    """Seconds after the rollout began."""
    seconds: float = 0.0

    @property
    def is_turn(self) -> bool:
        """True if it is a turn of the agent; a user that a model plays is sampled too, and takes none."""
        return self.sampled and self.message.role is Role.ASSISTANT


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened beside the messages: a cut, a breach, a limit, a retry, an intervention. Never silent."""

    kind: str
    turn: int
    detail: Json = {}


class Scored(msgspec.Struct, frozen=True, tag="scored", tag_field="is"):
    """Graded: the only outcome with a reward.

    ```python
    import sandlot

    run = sandlot.run("environments/arithmetic", "scripted:golden", rollouts=1)
    (trace,) = run
    assert isinstance(trace.outcome, sandlot.Scored) and trace.outcome.score.passed
    ```
    """

    score: RubricScore
    """Points, possible points, `value` (the reward) and the result of every check."""


class Failed(msgspec.Struct, frozen=True, tag="failed", tag_field="is"):
    """Something failed, so there is no reward: a failure is never a 0.

    ```python
    from sandlot import Failed

    assert Failed(side="grader", kind="timeout", message="check `slow` took 120 s").side == "grader"
    ```
    """

    side: Side
    """What failed: `environment`, `sandbox`, `model`, `grader` or `harness`."""
    kind: str
    """One word: `crash`, `timeout`, `rate_limit`, ..."""
    message: str = ""
    """What happened."""
    frames: tuple[str, ...] = ()
    """The author's own frames of the error, outermost first: `file:line in function: code`."""


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled", tag_field="is"):
    """The rollout was stopped, by a person or a hook, before it was graded. There is no reward.

    ```python
    from sandlot import Cancelled

    assert Cancelled("interrupted").reason == "interrupted"
    ```
    """

    reason: str = ""
    """Why it was stopped."""


Outcome = Scored | Failed | Cancelled


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One file the agent left."""

    size: int
    blob: str | None
    """The hash of its bytes; None if they were not kept: over the size cap, or not readable."""


class EvidenceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What checks see, as stored: enough to grade again, bit for bit."""

    answer: str = ""
    """The agent's last words."""
    state: Any = None
    """The world's final state as plain data."""
    files: dict[str, FileRecord] = {}
    """What the agent left, by path."""
    kinds: dict[str, str] = {}
    """What the agent left that is no regular file, by path: `folder`, `link` or `other`."""
    left_out: int = 0
    """Paths the agent left that are not recorded here, because there were more than `evidence_files`."""
    lost: str = ""
    """Why the files could not be gathered, if the agent ended its own sandbox; empty if they were."""
    initial: dict[str, FileRecord] = {}
    """What was there after setup, for the diff."""
    penalties: dict[str, float] = {}
    """Points lost to broken constraints, by constraint."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier try at the same rollout that infrastructure spoiled."""

    outcome: Failed
    seconds: float
    usage: Usage = Usage()
    """What it cost all the same."""


class Trace(msgspec.Struct, kw_only=True):
    """What happened in one rollout: messages with their tokens, timings, end and outcome.

    Messages form a tree: `nodes` is append-only, and each node names its parent. `path()` is the conversation from the first
    message to the newest.

    ```python
    import sandlot

    run = sandlot.run("environments/arithmetic", "scripted:golden", rollouts=1)
    for trace in run:
        print(trace.task, trace.rollout, trace.end, trace.reward)
        for node in trace.path():
            print(node.message.role, node.message.text)
    ```
    """

    format: int = FORMAT
    """Version of the stored format."""
    run: str
    """Name of the run."""
    task: str
    """Id of the task."""
    rollout: int
    """Number of this attempt at the task, from 0."""
    seed: int
    """The world's seed: the same for every rollout of a task."""
    nodes: list[Node] = msgspec.field(default_factory=list[Node])
    """Every message, in the order they were added."""
    events: list[Event] = msgspec.field(default_factory=list[Event])
    """What happened beside the messages: a broken rule, a limit, a retry, a cut result."""
    end: End | None = None
    """Why the agent stopped; None while it runs."""
    outcome: Outcome | None = None
    """`Scored`, `Failed` or `Cancelled`; None while it runs."""
    evidence: EvidenceRecord | None = None
    """What checks saw, as stored."""
    attempts: list[Attempt] = msgspec.field(default_factory=list[Attempt])
    """Earlier tries at this rollout that infrastructure failures ended."""
    phases: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    """Seconds by phase: open (sandbox, tools, setup), model, tools, gather, close, grade."""
    started: float = 0.0
    """Wall clock, seconds since the epoch."""

    @property
    def key(self) -> tuple[str, int]:
        """Identity within the run."""
        return self.task, self.rollout

    def append(self, node: Node) -> int:
        """Add a node below its parent and return its index. Nothing is ever changed or removed."""
        if node.parent is not None and not 0 <= node.parent < len(self.nodes):
            raise IndexError(f"node {len(self.nodes)} names parent {node.parent}, which does not exist")
        self.nodes.append(node)
        return len(self.nodes) - 1

    def path(self, leaf: int | None = None) -> list[Node]:
        """The nodes from the root to a leaf; by default the newest."""
        if not self.nodes:
            return []
        index: int | None = len(self.nodes) - 1 if leaf is None else leaf
        nodes: list[Node] = []
        while index is not None:
            nodes.append(self.nodes[index])
            index = self.nodes[index].parent
        return nodes[::-1]

    def turns(self) -> Iterator[Node]:
        """The agent's turns in the order they were taken; what a model said as the user is none."""
        return (node for node in self.nodes if node.is_turn)

    @property
    def num_turns(self) -> int:
        """How many turns the agent took."""
        return sum(1 for _ in self.turns())

    @property
    def answer(self) -> str:
        """The agent's last words, as they were acted on: an intervention's, if a hook put one in their place."""
        return next((node.message.text for node in reversed(self.nodes) if node.message.role is Role.ASSISTANT), "")

    @property
    def reward(self) -> float | None:
        """The score's value, or None: a failure is never a zero."""
        return self.outcome.score.value if isinstance(self.outcome, Scored) else None

    @property
    def usage(self) -> Usage:
        """All turns of the agent together; what a user cost stands on its own nodes."""
        return sum((node.usage for node in self.turns() if node.usage), Usage())

    @property
    def trainable(self) -> bool:
        """True if every turn of the agent carries the exact ids and log-probabilities it was sampled with."""
        turns = list(self.turns())
        return bool(turns) and all(
            node.tokens is not None and len(node.tokens.logprobs) == len(node.tokens.ids) for node in turns
        )


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trace in numbers: the columns of a run that tables, summaries and SQL read without opening a trace."""

    task: str
    rollout: int
    split: str
    tags: tuple[str, ...]
    end: str
    outcome: str
    """scored, failed or cancelled."""
    side: str | None
    kind: str | None
    message: str | None
    score: float | None
    points: float | None
    possible: float | None
    passed: bool | None
    turns: int
    calls: int
    tool_errors: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    seconds: float
    """From opening the world to the end of grading, attempts and waiting included."""
    phases: dict[str, float]
    attempts: int
    """Tries in all: 1 if the first one went through."""
    started: float


def row_of(trace: Trace, *, split: str, tags: tuple[str, ...] = ()) -> TraceRow:
    """The row of a finished trace."""
    outcome = trace.outcome
    if outcome is None or trace.end is None:
        raise ValueError(f"trace {trace.task}/{trace.rollout} is not finished")
    failed = outcome if isinstance(outcome, Failed) else None
    score = outcome.score if isinstance(outcome, Scored) else None
    results = [result for node in trace.nodes for result in node.message.results]
    usage = sum((attempt.usage for attempt in trace.attempts), trace.usage)
    return TraceRow(
        task=trace.task,
        rollout=trace.rollout,
        split=split,
        tags=tags,
        end=trace.end.value,
        outcome="scored" if score else "failed" if failed else "cancelled",
        side=failed.side.value if failed else None,
        kind=failed.kind if failed else None,
        message=failed.message if failed else outcome.reason if isinstance(outcome, Cancelled) else None,
        score=score.value if score else None,
        points=score.points if score else None,
        possible=score.possible if score else None,
        passed=score.passed if score else None,
        turns=trace.num_turns,
        calls=sum(len(node.message.calls) for node in trace.turns()),
        tool_errors=sum(result.error for result in results),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        usd=usage.usd,
        seconds=sum(trace.phases.values()) + sum(attempt.seconds for attempt in trace.attempts),
        phases=trace.phases,
        attempts=len(trace.attempts) + 1,
        started=trace.started,
    )
