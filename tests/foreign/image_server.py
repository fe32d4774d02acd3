"""Serve a conversation in which images pass through, run a program against it, and look at what the trace has of it."""

import subprocess
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent))

from builders.pictures import png
from sandlot.core.images import images_of, images_stored_in, load_images
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.task import Task
from sandlot.core.trace import Text, ToolCall, Trace
from sandlot.core.types import digest
from sandlot.harness.captured.server import CapturedConversation, capture_app
from sandlot.model.policy.chat import chat_policies
from sandlot.model.wire.listening import serve_app
from sandlot.store.blobs import MemoryBlobs

PICTURE = png(40, 30, shade=7)


class Seeing:
    """Says how many images it was shown, and calls `look` first."""

    name = "seeing"

    async def chat(self, messages, tools, sampling):
        """A call of `look`, then the number of images."""
        found = await load_images(messages)
        assert all(data == PICTURE for data in found.values())
        if not any(message.results for message in messages):
            return Reply(parts=(ToolCall("call_1", "look", {"at": "chart"}),), stop="calls")
        return Reply(parts=(Text(f"{sum(len(list(images_of(message))) for message in messages)} images"),))


async def main(*command: str) -> None:
    """Serve, run the program, and check the trace."""
    trace, blobs = Trace(run="r", task="one", rollout=0, seed=0), MemoryBlobs()
    policies = chat_policies(Seeing(), Sampling(), images="send")
    with images_stored_in(blobs, accepted=True):
        async with policies.policy(Task("one", prompt="?"), 7) as policy:
            app = capture_app(CapturedConversation(trace, policy, lambda _tokens: None))
            async with serve_app(app, drain_s=0.1) as address:
                done = await anyio.run_process([*command, str(address)], input=PICTURE, check=False, stdout=None, stderr=None)
    assert done.returncode == 0, f"the clients failed: {done.returncode}"
    shown = [image for node in trace.nodes for image in images_of(node.message)]
    assert {image.artifact for image in shown} == {digest(PICTURE)}, shown
    assert {(image.width, image.height) for image in shown} == {(40, 30)}
    print(f"{len(shown)} images of {len(trace.nodes)} messages, all stored under one hash")  # noqa: T201 - a program


if __name__ == "__main__":
    try:
        anyio.run(main, *sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
