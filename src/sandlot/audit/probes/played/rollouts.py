"""Rollouts of a model for an audit: an ordinary run in its own process, because the auditor never loads its subject."""

import sys
from pathlib import Path

import anyio

from sandlot.core.errors import ConfigError

_ROLLOUTS = 64
"""Enough to detect a failure rate of 5 %, which needs 59."""


async def take_rollouts(
    env: str, model: str, place: Path, *, judge: str | None = None, user: str | None = None, sandbox: str = "native"
) -> Path:
    """Run the model on the environment's training tasks; the same call continues an interrupted run."""
    options = ["--model", model, "--rollouts", str(_ROLLOUTS), "--split", "train", "--run", str(place), "--sandbox", sandbox]
    options += ["--judge", judge] if judge else []
    options += ["--user", user] if user else []
    done = await anyio.run_process([sys.executable, "-m", "sandlot", "run", env, *options, "--json"], check=False)
    if done.returncode not in (0, 1):  # 1: some rollouts failed, which the audit reads
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise ConfigError(f"rollouts of `{model}` for the audit: {said[-1] if said else f'exit code {done.returncode}'}")
    return place
