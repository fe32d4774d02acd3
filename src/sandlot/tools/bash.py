"""The one tool every sandbox has: a shell command, as the agent would type it."""

from sandlot.core.ports.sandbox import Completed
from sandlot.core.ports.world import World
from sandlot.tools.function import FunctionTool

_OUTPUT_BYTES = 1 << 20
"""Output kept of one command. An agent sees far less of it, and 64 commands of one turn are held at the same time."""


async def bash(world: World, command: str) -> str:
    """Run a shell command in the sandbox; gives its output and, if it is not 0, its exit code.

    command: what to run, with /bin/sh
    """
    return _result_text(await world.exec(command, output_bytes=_OUTPUT_BYTES))


def _result_text(done: Completed) -> str:
    """Output as a person at a terminal would see it, and what they would have to ask for."""
    text = done.stdout + (("\n" if done.stdout and not done.stdout.endswith("\n") else "") + done.stderr if done.stderr else "")
    if done.dropped:
        text += f"\n[{done.dropped} more bytes of output were thrown away]"
    return text + (f"\n[exit code {done.code}]" if done.code else "") or "(no output)"


BASH = FunctionTool.of(bash)
