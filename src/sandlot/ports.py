"""The seams between the parts, as Protocols: a part knows these and never its siblings.

Implementations do not subclass them. Every Protocol has one contract suite under `tests/contract/` that every implementation,
third parties' too, must pass. Deadlines are cancel scopes around a call, never arguments.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Protocol, runtime_checkable

import msgspec

from sandlot.limits import Limits
from sandlot.persona import Persona
from sandlot.sandboxes import Command, Completed, Process, Sandbox, Stream
from sandlot.task import Task
from sandlot.trace import Event, EvidenceRecord, FileRecord, Message, Node, Part, ToolCall, ToolResult, Trace, TraceRow, Usage
from sandlot.types import End, Json

# -- worlds ------------------------------------------------------------------------------------------------------------


class World(Protocol):
    """What a rollout acts in: the first argument of setups and tools.

    With an image, files and commands are those of the rollout's sandbox. Without one, files live in memory and `exec` is refused.
    Commands and files are awaited, so a tool that uses them is `async`.

    ```python
    from sandlot import Environment, Task, World

    env = Environment("notes", state=lambda: {"reads": 0})


    @env.setup
    async def put_note(world: World, task: Task) -> None:
        await world.write("/notes/today.txt", task.data["note"])


    @env.tool
    async def read_note(world: World, name: str) -> str:
        "Read one note."
        world.state["reads"] += 1
        return (await world.read(f"/notes/{name}.txt")).decode()
    ```
    """

    state: Any
    """Made anew for every rollout by the environment's `state`; checks see its last value."""
    task: Task
    """The task, without its key."""
    rng: Random
    """Seeded by environment and task: every rollout of a task draws the same numbers."""

    async def exec(
        self,
        command: str,
        *,
        stdin: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_bytes: int | None = None,
        check: bool | None = None,
    ) -> Completed:
        """Run a shell command in the sandbox and wait for it. Output beyond `output_bytes` (None: 8 MiB) is dropped and counted.

        With `check`, an exit code other than 0 raises, with the end of what the command printed. Setups check unless you write
        `check=False`; tools and checks do not unless you write `check=True`.
        """
        ...

    async def spawn(self, command: Command) -> Process:
        """Start a command in the sandbox, and hold its streams."""
        ...

    async def start(self, command: str, *, ready: int | str | None = None, timeout_s: float = 30.0) -> Process:
        """Start a shell command in the sandbox and leave it running.

        With `ready`, a port or the path of a unix socket, wait until it takes connections; one that ends or is late is an error.
        """
        ...

    async def connect(self, where: int | str) -> Stream:
        """Reach a port or a unix socket inside the sandbox, without opening the network."""
        ...

    def listen(self, port: int) -> AbstractAsyncContextManager[AsyncIterator[Stream]]:
        """Answer, on the host, what programs in the sandbox send to this port of their loopback address."""
        ...

    async def read(self, path: str) -> bytes:
        """The bytes of one file."""
        ...

    async def write(self, path: str, data: bytes | str) -> None:
        """Write one file, and make the folders above it."""
        ...

    async def list(self, folder: str = "/") -> Sequence[str]:
        """Absolute paths of all files below a folder, sorted."""
        ...


class Blobs(Protocol):
    """Bytes kept by their hash."""

    async def put(self, data: bytes) -> str:
        """Keep them and return their digest; keeping the same bytes twice keeps them once."""
        ...

    async def get(self, digest: str) -> bytes:
        """The bytes again, verified; `KeyError` if they were never kept."""
        ...


# -- tools -------------------------------------------------------------------------------------------------------------


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as every model and every MCP client sees it."""

    name: str
    description: str
    parameters: Json
    """JSON Schema of the arguments, an object."""


class Tool(Protocol):
    """What the agent may call. A bad call comes back as a result with `error`; only infrastructure raises."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description, schema."""
        ...

    @property
    def concurrent(self) -> bool:
        """True if calls of one turn may run beside each other; what shares the world's state in threads may not."""
        ...

    async def call(self, world: World, call: ToolCall) -> ToolResult:
        """Check the arguments, run it, and say what came of it."""
        ...


class ToolSource(Protocol):
    """Something that offers tools for as long as a world lives: an MCP server, for one."""

    def open(self, world: World) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Start it for this world; it is gone when the context ends."""
        ...


# -- sessions and harnesses --------------------------------------------------------------------------------------------


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What an action led to."""

    messages: tuple[Message, ...]
    end: End | None = None
    """None: go on."""
    events: tuple[Event, ...] = ()
    user: Node | None = None
    """The last message as a model said it who plays the user, with what it took; None if nobody had to."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The messages as nodes that have no place in a tree yet."""
        if self.user is None:
            return tuple(Node(message=message) for message in self.messages)
        return (*(Node(message=message) for message in self.messages[:-1]), self.user)

    @property
    def terminated(self) -> bool:
        """The task itself is over."""
        return self.end in {End.DONE, End.BREACH, End.REFUSED}

    @property
    def truncated(self) -> bool:
        """A budget ran out; the task itself might have gone on."""
        return self.end is not None and not self.terminated


class Session(Protocol):
    """An opened world with the loop turned inside out. Limits and constraints are kept here, whoever holds the loop."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """What the agent may call."""
        ...

    async def reset(self) -> Step:
        """The opening messages."""
        ...

    async def step(self, action: Message, *, num_tokens: int = 0) -> Step:
        """Take one assistant message: run its tool calls, or hear the environment's reply."""
        ...

    async def render(self) -> str:
        """The present situation for a person."""
        ...


@runtime_checkable
class Workplace(Session, Protocol):
    """A session whose machine a harness may put an agent of its own into; the limits of the task hold there too."""

    @property
    def limits(self) -> Limits:
        """What the rollout may use."""
        ...

    def machine(self) -> Sandbox:
        """The sandbox; `ConfigError` if the environment has none."""
        ...

    def turn_taken(self, num_tokens: int) -> End | None:
        """Count a turn that was taken beside `step`; the limit that is reached with it, if one is."""
        ...


class UserTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What a user says."""

    text: str = ""
    """Empty if it ends the conversation without a word."""
    end: End | None = None
    """None: it waits for an answer. `done`: it has nothing more to say. `token_limit`, `time_limit`: it can take in no more."""
    node: Node | None = None
    """How the text came about, if a model said it: sampled, in the role of the user."""
    events: tuple[Event, ...] = ()


class User(Protocol):
    """The other side of a conversation: it hears what the agent says, and nothing of what it does."""

    async def open(self) -> UserTurn:
        """The first words."""
        ...

    async def reply(self, text: str) -> UserTurn:
        """What it answers to a plain message; `ModelError` if a model that plays it gives nothing to go on with."""
        ...


class Users(Protocol):
    """Where users come from that a model plays: one for each rollout."""

    @property
    def name(self) -> str:
        """The model, as the person who runs it wrote it, without secrets."""
        ...

    def user(self, persona: Persona, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[User]:
        """A user for one rollout of a task, which is given without its key; `seed` is for its sampling."""
        ...


class Policy(Protocol):
    """A model at a weight version with its sampling settings, able to take a turn."""

    async def turn(self, trace: Trace, leaf: int, tools: Sequence[ToolSpec]) -> Node:
        """The next assistant message below `leaf`, as a sampled node; `ModelError` if there is none to be had."""
        ...


class Policies(Protocol):
    """Where policies come from: one for each rollout, so that it may keep state of its own while the rollout lives."""

    @property
    def name(self) -> str:
        """As the user wrote it, without secrets."""
        ...

    def policy(self, task: Task, seed: int, rollout: int = 0) -> AbstractAsyncContextManager[Policy]:
        """A policy for one rollout of a task, by its number; `seed` is for its sampling."""
        ...


class Harness(Protocol):
    """The loop between a policy and a session."""

    @property
    def name(self) -> str:
        """Part of the setting's fingerprint."""
        ...

    async def play(self, session: Session, policy: Policy, trace: Trace) -> End:
        """Take turns until there is an end, appending everything to the trace."""
        ...


class Hook(Protocol):
    """Sees every turn; may replace it or raise `StoppedByHook`."""

    async def after_turn(self, trace: Trace, node: Node) -> Message | None:
        """Called with each sampled node before it is acted on. A message takes its place and is recorded as an intervention."""
        ...

    async def after_step(self, trace: Trace, step: Step) -> None:
        """Called with what the environment answered."""
        ...


# -- models ------------------------------------------------------------------------------------------------------------


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How turns are sampled; stored with the run."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """How many of the likeliest tokens stay in play; 0 for all."""
    max_tokens: int | None = None
    """A turn's own cap; None leaves it to the endpoint."""
    stop: tuple[str, ...] = ()
    """Texts that end a turn; the one that did stays in it, since it was sampled."""
    seed: int | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a chat endpoint answered."""

    parts: tuple[Part, ...]
    usage: Usage = Usage()
    stop: str = "stop"


class ChatModel(Protocol):
    """A model behind messages. Its traces have no token ids, and say so."""

    @property
    def name(self) -> str:
        """As the user wrote it, without secrets."""
        ...

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        """One reply; `ModelError` with a kind if there is none."""
        ...


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens an engine sampled, in little-endian bytes."""

    ids: bytes
    """int32; a stop token that was sampled is one of them."""
    logprobs: bytes
    """float32, of the distribution actually sampled from: after temperature, top-k and top-p."""
    versions: tuple[tuple[int, int], ...]
    """Runs of (count, weight version) over the ids."""
    stop: str
    """`stop` (a stop token or text) or `length`."""
    cached: int = 0
    """Tokens of the prompt that were found in the prefix tree."""
    dtype: str | None = None
    """The number type the model computed in, such as `float32`; None where the engine does not tell."""


class TokenModel(Protocol):
    """A model behind token ids."""

    @property
    def name(self) -> str:
        """As the user wrote it, without secrets."""
        ...

    @property
    def context(self) -> int:
        """Tokens it takes in all, prompt and completion."""
        ...

    async def sample(self, ids: Sequence[int], sampling: Sampling, *, stop_ids: Sequence[int] = (), session: str = "") -> Sampled:
        """Continue exactly these ids; cancelling it frees what it held. A prompt that is too long is `ModelError("context")`.

        `session` names the rollout: what it has computed is kept with preference until `release`.
        """
        ...

    async def release(self, session: str) -> None:
        """The rollout is over; nothing of it needs to be kept."""
        ...


class Renderer(Protocol):
    """Messages to ids and back, for one model family."""

    @property
    def name(self) -> str:
        """Family and tokenizer digest; part of the setting's fingerprint."""
        ...

    @property
    def stop_ids(self) -> Sequence[int]:
        """Tokens that end a turn."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """The whole prompt, up to where the assistant's own tokens begin."""
        ...

    def parse(self, ids: Sequence[int], prefix: str = "call") -> Message:
        """A sampled completion as a message; its calls are numbered after `prefix`."""
        ...

    def bridge(self, ids: Sequence[int], messages: Sequence[Message]) -> list[int] | None:
        """What to append to `ids`, which end with a sampled turn, so that `messages` and the assistant's opening follow.

        Never re-renders history. None if it cannot.
        """
        ...


# -- grading -----------------------------------------------------------------------------------------------------------


class Evidence(Protocol):
    """What checks see: the first argument of a check. It was stored when the agent had ended, so grading can be repeated.

    Asking for a file that is not there ends the check as not met; it is no error.

    ```python
    from sandlot import Environment, Evidence, Task

    env = Environment("report", image="host")


    @env.check(points=2)
    def total_is_right(evidence: Evidence, task: Task) -> tuple[bool, str]:
        found = evidence.read_text("/out/total.txt").strip()
        return found == task.key["total"], f"found {found!r}"
    ```
    """

    answer: str
    """The agent's last message."""
    state: Any
    """The last value of `world.state`, as the type that the environment's `state` makes."""
    trace: Trace
    """The whole conversation."""
    record: EvidenceRecord
    """The evidence as it is stored."""

    def read(self, path: str) -> bytes:
        """A file the agent left."""
        ...

    def read_text(self, path: str) -> str:
        """A file the agent left, as UTF-8 text."""
        ...

    def list(self, folder: str = "/") -> Sequence[str]:
        """Paths of the files below a folder."""
        ...

    def exists(self, path: str) -> bool:
        """True if there is a regular file, kept or not. A folder or a link is not a file."""
        ...

    def kind(self, path: str) -> str | None:
        """What is at a path: `file`, `folder`, `link`, `other`, or None for nothing. Below a link there is `link` too."""
        ...

    def diff(self) -> Mapping[str, tuple[FileRecord | None, FileRecord | None]]:
        """What changed since setup: path -> (before, after)."""
        ...

    def grading_sandbox(self, *paths: str, replace: Sequence[str] = ()) -> AbstractAsyncContextManager[World]:
        """A fresh sandbox of the image, without network, with these files of the agent in it and nothing else of the agent's.

        For checks that run what the agent wrote. The code runs in there; compute the verdict outside. A file that the image has,
        or that its programs load by themselves (`/usr/bin/python3`, `/etc/ld.so.preload`, `sitecustomize.py`), is brought only if
        `replace` names it; otherwise the check is not met. So it is if the code does not end in time or fills the memory.
        """
        ...


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge said to one question: one verdict and one reason a vote."""

    verdicts: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    prompt_digest: str = ""
    """Names the question exactly: equal digests were asked the same thing about the same view."""
    cached: bool = False
    """True if no vote had to be asked for anew."""
    retries: int = 0
    """Replies that could not be read and were asked for once more."""


class Judge(Protocol):
    """Puts questions to a grader model."""

    @property
    def name(self) -> str:
        """The model that judges."""
        ...

    async def ask(self, question: str, choices: Sequence[str], view: Mapping[str, str], votes: int) -> Judgement:
        """One verdict a vote, each one of `choices` (worst to best); `GradeError` if a reply is anything else."""
        ...


# -- keeping -----------------------------------------------------------------------------------------------------------


class TraceSink(Protocol):
    """Where finished rollouts go."""

    async def add(self, trace: Trace, row: TraceRow) -> None:
        """Returns when it is on disk: only then does the rollout count. A second trace of the same rollout is a `StoreError`."""
        ...
