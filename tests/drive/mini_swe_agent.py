"""mini-swe-agent from PyPI, unmodified, where a sandbox with the image `host` has it."""

import fcntl
import shutil
from pathlib import Path

from drive.packages import install_below

PACKAGES = ("mini-swe-agent==2.4.6", "mcp>=2,<3")  # its litellm imports mcp without naming it
HOME = Path("/usr/local/lib/sandlot-agents/mini-swe-agent-2.4.6")
COMMAND = (
    "MSWEA_CONFIGURED=true MSWEA_COST_TRACKING=ignore_errors LITELLM_LOCAL_MODEL_COST_MAP=True HOME=/tmp "
    f"PYTHONPATH={HOME} /usr/bin/python3 -m minisweagent -y --exit-immediately -m openai/sandlot -o /tmp/t.json -t {{prompt}}"
)
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The command that ends it."""


def install_mini_swe_agent() -> str:
    """Install it once on this machine; the command that starts it in a sandbox."""
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with HOME.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not HOME.exists():
            made = HOME.with_suffix(".new")
            shutil.rmtree(made, ignore_errors=True)
            install_below(made, *PACKAGES, version="3.11")
            made.rename(HOME)
    return COMMAND
