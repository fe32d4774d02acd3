from collections.abc import Mapping

import anyio
import pytest

from sandlot.core.ports.model import Reply
from sandlot.core.trace import EvidenceRecord, FileRecord, Message, Node, Text, ToolCall, Trace, Usage
from sandlot.core.types import Role, digest
from sandlot.grade.evidence import StoredEvidence
from sandlot.grade.judge import CANARIES


def make_evidence(files: Mapping[str, bytes] | None = None, **record) -> StoredEvidence:
    """Evidence over literal files; `calls` are tool calls of one turn, the rest are fields of the record."""
    calls = record.pop("calls", ())
    state_type = record.pop("state_type", None)
    kept = {digest(data): data for data in (files or {}).values()}
    records = {path: FileRecord(size=len(data), blob=digest(data)) for path, data in (files or {}).items()}
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    parts = (Text(record.get("answer", "")), *calls)
    trace.append(Node(message=Message(role=Role.ASSISTANT, parts=parts), sampled=True))
    return StoredEvidence(EvidenceRecord(**{"files": records} | record), trace, kept, state_type)


def tool_call(tool: str, **arguments) -> ToolCall:
    return ToolCall(id="1", name=tool, arguments=arguments)


@pytest.fixture
def evidence_of():
    return make_evidence


@pytest.fixture
def call_of():
    return tool_call


class ScriptedChat:
    """A chat model that answers canaries right and everything else as told: text, an error, a function of the prompt."""

    name = "scripted:judge"

    def __init__(self, answer='{"reason": "seen", "verdict": "yes"}', canary=None):
        self.answer = answer
        self.canary = canary
        self.prompts = []
        self.samplings = []

    async def chat(self, messages, tools, sampling):
        await anyio.lowlevel.checkpoint()
        prompt = messages[-1].text
        known = next((expected for text, expected in CANARIES if f"Criterion: {text}" in prompt), None)
        if known is not None:
            return self.reply(self.canary(known) if self.canary else f'{{"reason": "", "verdict": "{known}"}}')
        self.prompts.append(messages)
        self.samplings.append(sampling)
        answer = self.answer.pop(0) if isinstance(self.answer, list) else self.answer
        return self.reply(answer(messages) if callable(answer) else answer)

    def reply(self, answer):
        if isinstance(answer, Exception):
            raise answer
        usage = Usage(prompt_tokens=10, completion_tokens=1)
        return answer if isinstance(answer, Reply) else Reply(parts=(Text(answer),), usage=usage)


@pytest.fixture
def chat_of():
    return ScriptedChat
