"""The trace of a rollout: a tree of messages with their tokens.

A node is one message, stored once; a branch is the path from a leaf to the root. A linear rollout is one path; retries,
compaction and sub-agents append siblings; nothing is overwritten. Store, trainer, auditor and reports read the same object.
Token ids are the sampled ids: text is never tokenised again.

`end` and `outcome` are two fields. Only the outcome `Scored` has a reward.
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
    """Text."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning", tag_field="type"):
    """The model's reasoning; stored, and by default not shown to it again."""

    text: str


class ImagePart(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    """An image, by the hash of its bytes."""

    artifact: str
    media_type: str = "image/png"
    width: int = 0
    """In pixels; 0 if it is not known."""
    height: int = 0
    alt: str = ""
    """What is in it, in a few words."""


class Tensor(msgspec.Struct, frozen=True, tag="tensor", tag_field="type"):
    """An array, by the hash of its bytes, for environments that are not text."""

    artifact: str
    dtype: str
    shape: tuple[int, ...]


class ToolCall(msgspec.Struct, frozen=True, tag="call", tag_field="type"):
    """A tool call. If the arguments could not be parsed, `malformed` is their text."""

    id: str
    name: str
    arguments: Json = {}
    malformed: str | None = None


class ToolResult(msgspec.Struct, frozen=True, tag="result", tag_field="type"):
    """The result of a tool call, as the agent saw it."""

    call: str
    text: str
    error: bool = False
    whole: str | None = None
    """The hash of the whole text, if it was cut."""
    images: tuple[ImagePart, ...] = ()


Part = Text | Reasoning | ImagePart | Tensor | ToolCall | ToolResult


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Role
    parts: tuple[Part, ...]
    agent: str = "agent"
    """The name of the agent; `user` for a user that a model plays. Only tokens of trained agents have mask 1."""

    @property
    def text(self) -> str:
        """The text, without reasoning, calls and results."""
        return "".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it."""
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results in it."""
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])


def text_message(role: Role, text: str) -> Message:
    """A message with one text part."""
    return Message(role=role, parts=(Text(text),))


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The exact tokens of one node, as little-endian bytes."""

    ids: bytes
    """int32."""
    logprobs: bytes = b""
    """float32, of the distribution that was sampled from; empty if the tokens were not sampled."""
    mask: bytes = b""
    """uint8, 1 where the token may be trained on; empty for none."""
    versions: tuple[tuple[int, int], ...] = ()
    """Runs of (count, weight version)."""

    def __len__(self) -> int:
        return len(self.ids) // 4

    def ids_array(self) -> "np.ndarray[Any, Any]":
        """The ids as int32."""
        import numpy as np  # noqa: PLC0415 - running needs no numpy

        return np.frombuffer(self.ids, dtype="<i4")

    def logprobs_array(self) -> "np.ndarray[Any, Any]":
        """The log-probabilities as float32."""
        import numpy as np  # noqa: PLC0415 - as above

        return np.frombuffer(self.logprobs, dtype="<f4")


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a turn, as the endpoint counted it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            usd=self.usd + other.usd,
        )


class TurnReplica(msgspec.Struct, frozen=True, kw_only=True):
    """Which of several servers of the model took a turn."""

    name: str
    """Its address, without secrets."""
    expected_tokens: int = 0
    """Tokens of the prompt that it was expected to have in its cache; `Usage.cached_tokens` are those that it reported."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the tree."""

    message: Message
    parent: int | None = None
    sampled: bool = False
    """True if a model produced it."""
    context: bytes = b""
    """int32 ids of the prompt between the nearest sampled node above and this one: the environment's messages and the chat
    template. Never trained on. The prompt of a turn is the contexts and tokens of its path, joined."""
    tokens: Tokens | None = None
    """The sampled tokens."""
    usage: Usage | None = None
    stop: str | None = None
    """Why sampling stopped: `stop`, `length`, `calls`, `refusal`."""
    model: str | None = None
    dtype: str | None = None
    """The number type the model computed in, such as `float32`; None if the engine does not report it."""
    replica: TurnReplica | None = None
    """The server that took the turn, if the model has several."""
    start_s: float = 0.0
    """Seconds after the rollout began."""
    seconds: float = 0.0

    @property
    def is_turn(self) -> bool:
        """True for a turn of the agent; False for a user that a model plays, which is sampled too."""
        return self.sampled and self.message.role is Role.ASSISTANT

    @property
    def num_tokens(self) -> int:
        """Number of sampled tokens; without their ids, as the endpoint counted them."""
        if self.tokens is not None:
            return len(self.tokens)
        return self.usage.completion_tokens if self.usage else 0


MODEL_RETRY = "model_retry"
"""The kind of the event for a failed attempt at a turn that another one followed: `attempt`, `kind`, `message`, `wait_s`."""
RECORDING = "terminal_recording"
"""The kind of the event that names the stored recording of a terminal session: `session`, `artifact`, `bytes`."""
CAPTURED = "captured"
"""The kind of the event that counts the requests of an agent that ran as a program in the sandbox."""
OUTPUT_CUT = "tool_output_cut"
"""The kind of the event for a tool result that was cut: `call`, `chars`, `shown`, and `whole`, the hash of all of it."""
TOOL_CRASHED = "tool_crashed"
"""The kind of the event for a crash of the environment that was graded all the same: `tool`, `signature`, `message`, `frames`."""
TEARDOWN_FAILED = "teardown_failed"
"""The kind of the event for a world that could not be closed in order: `tool`, `signature`, `message`."""


CRASHES = (TOOL_CRASHED, TEARDOWN_FAILED)

AFTER_THE_END = ("gather", "close", "waiting", "grade")
"""The phases between the agent's end and its reward."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened besides the messages: a cut output, a breach, a limit, a retry, an intervention."""

    kind: str
    turn: int
    detail: Json = {}


class Scored(msgspec.Struct, frozen=True, tag="scored", tag_field="is"):
    """The rollout was graded: the only outcome with a reward.

    ```python
    import sandlot

    run = sandlot.run("arithmetic", "scripted:golden", rollouts=1)
    (trace,) = run
    assert isinstance(trace.outcome, sandlot.Scored) and trace.outcome.score.passed
    ```
    """

    score: RubricScore
    """Points, possible points, `value` (the reward) and the result of every check."""


class Failed(msgspec.Struct, frozen=True, tag="failed", tag_field="is"):
    """Something failed, so there is no reward, which is not a reward of 0.

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
    """The stack frames in the author's code, outermost first: `file:line in function: code`."""


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
    """One file at the end of the rollout."""

    size: int
    blob: str | None
    """The hash of its bytes; None if they were not stored: too large, or not readable."""


class AppsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The apps of a world at the end of the rollout: their base states, and what changed since."""

    now: str
    """World time at the end."""
    bases: dict[str, str]
    """The hash of each app's base state."""
    journal: str
    """The hash of the changes."""
    num_changes: int = 0


class EvidenceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The stored evidence: enough to grade again with the same result."""

    answer: str = ""
    """The agent's last message."""
    state: Any = None
    """The final `world.state` as plain data."""
    files: dict[str, FileRecord] = {}
    """The files at the end of the rollout, by path."""
    kinds: dict[str, str] = {}
    """Paths that are not regular files: `folder`, `link` or `other`."""
    left_out: int = 0
    """Number of paths not recorded, because there were more than `evidence_files`."""
    lost: str = ""
    """Why the files could not be read, if the agent's programs ended the sandbox; empty if they were."""
    initial: dict[str, FileRecord] = {}
    """The files after setup, for `Evidence.diff`."""
    penalties: dict[str, float] = {}
    """Points lost to broken constraints, by constraint."""
    crashed: dict[str, str] = {}
    """What crashed in an environment where that loses the rollout, by seat (without seats, and for all of them: ``)."""
    apps: AppsRecord | None = None
    """The apps; None in an environment without apps."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier attempt at the same rollout that failed for reasons of infrastructure."""

    outcome: Failed
    seconds: float
    usage: Usage = Usage()
    """Its cost."""


class SeatRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One agent of a rollout in which several act."""

    nodes: tuple[int, ...]
    """The nodes of its conversation, in order."""
    end: End | None = None
    """Why it stopped; None if the rollout was cut before."""
    score: RubricScore | None = None
    """Its own score; None if the rollout was not scored."""


class Trace(msgspec.Struct, kw_only=True):
    """The record of one rollout: messages with their tokens, timings, end and outcome.

    Messages form a tree: `nodes` is append-only, and each node names its parent. `path()` is the conversation from the first
    message to the newest.

    ```python
    import sandlot

    run = sandlot.run("arithmetic", "scripted:golden", rollouts=1)
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
    """Number of this rollout of the task, from 0."""
    seed: int
    """The world's seed: the same for every rollout of a task."""
    nodes: list[Node] = msgspec.field(default_factory=list[Node])
    """Every message, in the order they were added."""
    events: list[Event] = msgspec.field(default_factory=list[Event])
    """What happened besides the messages: a broken rule, a limit, a retry, a cut result."""
    end: End | None = None
    """Why the agent stopped; None while it runs."""
    outcome: Outcome | None = None
    """`Scored`, `Failed` or `Cancelled`; None while it runs."""
    evidence: EvidenceRecord | None = None
    """The stored evidence for checks."""
    attempts: list[Attempt] = msgspec.field(default_factory=list[Attempt])
    """Earlier attempts at this rollout that infrastructure failures ended."""
    phases: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    """Seconds by phase: open (sandbox, tools, setup), model, tools, gather, close, waiting (to be graded), grade."""
    started: float = 0.0
    """Wall clock, seconds since the epoch."""
    seats: dict[str, SeatRecord] = {}
    """Where several agents act: each one's nodes, end and score, by the name of its seat. See `seat_trace`."""

    @property
    def key(self) -> tuple[str, int]:
        """`(task, rollout)`: identifies the trace in its run."""
        return self.task, self.rollout

    @property
    def is_tree(self) -> bool:
        """False if a message follows itself or a later one, which `append` refuses: such a trace would be read for ever."""
        return all(node.parent is None or 0 <= node.parent < number for number, node in enumerate(self.nodes))

    def append(self, node: Node) -> int:
        """Add a node and return its index. `IndexError` if its parent does not exist."""
        if node.parent is not None and not 0 <= node.parent < len(self.nodes):
            raise IndexError(f"node {len(self.nodes)} names parent {node.parent}, which does not exist")
        self.nodes.append(node)
        return len(self.nodes) - 1

    def path(self, leaf: int | None = None) -> list[Node]:
        """The nodes from the root to a leaf; by default the newest node."""
        if not self.nodes:
            return []
        index: int | None = len(self.nodes) - 1 if leaf is None else leaf
        nodes: list[Node] = []
        while index is not None:
            nodes.append(self.nodes[index])
            index = self.nodes[index].parent
        return nodes[::-1]

    def turns(self) -> Iterator[Node]:
        """The agent's turns in order; without those of a user that a model plays."""
        return (node for node in self.nodes if node.is_turn)

    @property
    def num_turns(self) -> int:
        """The number of turns the agent took."""
        assistant = Role.ASSISTANT
        return len(
            [node for node in self.nodes if node.sampled and node.message.role is assistant]
        )  # `turns`, asked for every turn

    @property
    def is_captured(self) -> bool:
        """True if the agent was a program in the sandbox: of its messages only the sampled turns are known to be true."""
        return any(event.kind == CAPTURED for event in self.events)

    @property
    def answer(self) -> str:
        """The agent's last message; if a hook replaced it, the replacement."""
        return next((node.message.text for node in reversed(self.nodes) if node.message.role is Role.ASSISTANT), "")

    @property
    def reward_latency_s(self) -> float:
        """Seconds from the agent's end to the end of grading: gathering evidence, closing the world, waiting, grading."""
        return sum(self.phases.get(phase, 0.0) for phase in AFTER_THE_END)

    @property
    def reward(self) -> float | None:
        """The value of the score; None if the rollout was not scored."""
        return self.outcome.score.value if isinstance(self.outcome, Scored) else None

    @property
    def usage(self) -> Usage:
        """The usage of all turns of the agent; without that of a user that a model plays."""
        return sum((node.usage for node in self.turns() if node.usage), Usage())

    @property
    def trainable(self) -> bool:
        """True if every turn of the agent has its exact token ids and log-probabilities."""
        turns = list(self.turns())
        return bool(turns) and all(
            node.tokens is not None and len(node.tokens.logprobs) == len(node.tokens.ids) for node in turns
        )
