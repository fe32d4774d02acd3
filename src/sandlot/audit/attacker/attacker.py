"""Who proposes: a chat model, or a file: proposals that people wrote, or the record of an earlier loop, replayed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from sandlot.audit.attacker.proposal import MOST_PROPOSALS, MOST_REPLY_CHARS, Proposal, read_proposal
from sandlot.audit.reports.folder import folder_of
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import ChatModel, Sampling
from sandlot.core.trace import Message, Text
from sandlot.core.types import Json

_MOST_BYTES = 64 * 2**20
_SAMPLING = Sampling(temperature=1.0, max_tokens=8192)


ATTACKER = "attacker"
"""The name of the probe."""
RECORD = "attacker.jsonl"
"""The attacker's replies, in the audit's folder."""


class Attacker(Protocol):
    """Proposes plays."""

    async def propose(self, briefing: Sequence[Message]) -> str | None:
        """The next reply to a briefing; None if there is nothing more. `ModelError` if the model fails."""
        ...


class ChatAttacker:
    """A chat model (port `Attacker`). Its replies are cut, so that none fills the memory."""

    def __init__(self, chat: ChatModel, seed: int = 0) -> None:
        self._chat = chat
        self._seed = seed
        self._asked = 0

    async def propose(self, briefing: Sequence[Message]) -> str | None:
        """Ask the model; every question has a seed of its own."""
        sampling = msgspec.structs.replace(_SAMPLING, seed=self._seed + self._asked)
        self._asked += 1
        reply = await self._chat.chat(briefing, (), sampling)
        return "".join(part.text for part in reply.parts if isinstance(part, Text))[: MOST_REPLY_CHARS + 1]


class FileAttacker:
    """Replies that are known already (port `Attacker`)."""

    def __init__(self, replies: Sequence["RecordedReply"]) -> None:
        self._left = list(replies)

    async def propose(self, briefing: Sequence[Message]) -> str | None:  # noqa: ARG002 - the interface
        """The next reply, whatever was asked."""
        if not self._left:
            return None
        said = self._left.pop(0)
        if said.error:
            raise ModelError(said.error, kind=said.kind)
        return said.reply


@dataclass(frozen=True, slots=True)
class AttackPlan:
    """An attacker, what it may read, for how many rounds, and where its replies are kept."""

    attacker: Attacker
    reads_code: bool = False
    rounds: int | None = None
    """How often it proposes. None: as often as the audit's budget allows."""
    runs: Path | None = None
    """The folder of runs. None: nothing is kept."""
    record: Path | None = None
    identity: tuple[str, ...] = ()
    """What the result depends on: who it is and what it reads."""

    def recorded(self, name: str, place: str) -> "AttackPlan":
        """The same, with its record in the folder of an environment's audits."""
        return self if self.runs is None else replace(self, record=folder_of(name, place, self.runs) / RECORD)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a command line that replay it; none without a record."""
        return ("--attacker", f"file:{self.record}") if self.record is not None else ()


class RecordedReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of a record: a reply, or the error that ended the loop."""

    reply: str = ""
    error: str = ""
    kind: str = ""


class AttackerRecord:
    """Writes every reply to a file as it comes. A file of the same name is replaced."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._begun = False

    def keep(self, reply: RecordedReply) -> None:
        """Add one line."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab" if self._begun else "wb") as out:
            out.write(msgspec.json.encode(reply) + b"\n")
        self._begun = True


def read_replies(file: Path) -> list[RecordedReply]:
    """The replies of a record; lines that are proposals become replies of eight each. Any other line is a `ConfigError`."""
    if not file.is_file():
        raise ConfigError(f"no file `{file}` with proposals")
    if file.stat().st_size > _MOST_BYTES:
        raise ConfigError(f"`{file}` is larger than {_MOST_BYTES // 2**20} MiB")
    replies: list[RecordedReply] = []
    proposals: list[Any] = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if line.strip():
            read = _read_line(line, f"{file}:{number}")
            if isinstance(read, RecordedReply):
                replies.append(read)
            else:
                proposals.append(read)
    groups = [proposals[at : at + MOST_PROPOSALS] for at in range(0, len(proposals), MOST_PROPOSALS)]
    return replies + [RecordedReply(reply=msgspec.json.encode({"proposals": group}).decode()) for group in groups]


def _read_line(line: bytes, where: str) -> RecordedReply | Json:
    try:
        thing: Any = msgspec.json.decode(line)
        if isinstance(thing, dict) and {"reply", "error"} & set(cast("Json", thing)):
            return msgspec.convert(thing, RecordedReply)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"{where}: {error}; a line is a proposal, or a reply of a record") from error
    read = read_proposal(thing)
    if not isinstance(read, Proposal):
        raise ConfigError(f"{where}: {read}")
    return cast("Json", thing)
