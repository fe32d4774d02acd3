"""Opens the attacker that `--attacker` names."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from sandlot.audit.attacker.attacker import AttackPlan, ChatAttacker, FileAttacker, read_replies
from sandlot.core.errors import ConfigError
from sandlot.wiring.config import ModelConfig
from sandlot.wiring.models import open_chat

_FILE = "file:"


READS = ("prompt", "code")
"""What an attacker may read: what an agent sees, or the author's source too."""


@asynccontextmanager
async def open_attack(spec: str, reads: str, rounds: int, seed: int) -> AsyncGenerator[AttackPlan]:
    """The attacker that `--attacker` names, `file:PATH` or any model that can be a judge, with what it may do."""
    if reads not in READS:
        raise ConfigError(f"--attacker-reads is `{reads}`; it is one of: {', '.join(READS)}")
    if rounds < 1:
        raise ConfigError(f"--attacker-rounds is {rounds}; give 1 or more")
    identity = (_identity_of(spec), reads, str(rounds))
    if spec.startswith(_FILE):
        replies = read_replies(Path(spec.removeprefix(_FILE)))
        attacker = FileAttacker(replies)
        yield AttackPlan(attacker, reads == "code", max(rounds, len(replies)), identity=identity)
        return
    async with open_chat(ModelConfig(spec=spec), "attacker") as chat:
        yield AttackPlan(ChatAttacker(chat, seed), reads == "code", rounds, identity=identity)


def _identity_of(spec: str) -> str:
    """What tells an attacker from another: the model without the secrets of its URL, or the content of its file."""
    if not spec.startswith(_FILE):
        return ModelConfig(spec=spec).shown
    file = Path(spec.removeprefix(_FILE))
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else spec
