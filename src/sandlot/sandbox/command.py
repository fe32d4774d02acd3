"""Runs a command to its end, over the `spawn` of any sandbox."""

import anyio
import msgspec

from sandlot.core.ports.sandbox import Command, Completed, Sandbox

_OUTPUT_BYTES = 8 << 20
"""Output kept of one command if it sets no limit itself; the rest is dropped inside the sandbox and counted."""


async def run_command(sandbox: Sandbox, command: Command) -> Completed:
    """Start a command, wait for its end and return its output and exit code. If cancelled, it is killed with all it started."""
    limit = _OUTPUT_BYTES if command.output_bytes is None else command.output_bytes
    process = await sandbox.spawn(msgspec.structs.replace(command, stdin=command.stdin or b"", output_bytes=limit))
    pieces: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    try:
        async for name, data in process.output():
            pieces[name].append(data)
        code = await process.wait()
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(5, shield=True):
            await process.kill()
        raise
    whole = {name: b"".join(parts).decode("utf-8", "replace") for name, parts in pieces.items()}
    return Completed(code=code, stdout=whole["stdout"], stderr=whole["stderr"], dropped=process.dropped)
