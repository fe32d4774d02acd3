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
async def open_attack(
    spec: str | None, reads: str, seed: int, runs: str | Path | None = None
) -> AsyncGenerator[AttackPlan | None]:
    """The attacker that `--attacker` names: `file:PATH`, or any model that can be a judge. None: no attacker."""
    if spec is None:
        yield None
        return
    if reads not in READS:
        raise ConfigError(f"--attacker-reads is `{reads}`; it is one of: {', '.join(READS)}")
    identity, kept = (_identity_of(spec), reads), Path(runs) if runs is not None else None
    if spec.startswith(_FILE):
        replies = read_replies(Path(spec.removeprefix(_FILE)))
        yield AttackPlan(FileAttacker(replies), reads == "code", len(replies), runs=kept, identity=identity)
        return
    async with open_chat(ModelConfig(spec=spec), "attacker") as chat:
        yield AttackPlan(ChatAttacker(chat, seed), reads == "code", runs=kept, identity=identity)


def _identity_of(spec: str) -> str:
    """What tells an attacker from another: the model without the secrets of its URL, or the content of its file."""
    if not spec.startswith(_FILE):
        return ModelConfig(spec=spec).shown
    file = Path(spec.removeprefix(_FILE))
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else spec
