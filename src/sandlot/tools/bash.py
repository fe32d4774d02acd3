"""The tool that every sandbox has: run a shell command."""

from sandlot.core.ports.sandbox import Completed
from sandlot.core.ports.world import World
from sandlot.tools.function import FunctionTool

_OUTPUT_BYTES = 1 << 20
"""Output kept of one command. An agent sees far less of it, and one turn can run 64 commands at the same time."""


async def bash(world: World, command: str) -> str:
    """Run a shell command in the sandbox; gives its output and, if it is not 0, its exit code.

    command: what to run, with /bin/sh
    """
    return _result_text(await world.exec(command, output_bytes=_OUTPUT_BYTES))


def _result_text(done: Completed) -> str:
    """The output as in a terminal, and the exit code if it is not 0."""
    text = done.stdout + (("\n" if done.stdout and not done.stdout.endswith("\n") else "") + done.stderr if done.stderr else "")
    if done.dropped:
        text += f"\n[{done.dropped} more bytes of output were thrown away]"
    return text + (f"\n[exit code {done.code}]" if done.code else "") or "(no output)"


BASH = FunctionTool.of(bash)
