import anyio
import pytest

from builders.evidence import make_evidence, tool_call
from sandlot.core.ports.model import Reply
from sandlot.core.trace import Text, Usage
from sandlot.grade.judge import CANARIES


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
