"""Our harness and the one of the guides, held to the suite that we ship."""

import pytest

from sandlot.core.trace import Node
from sandlot.harness.tool_loop import ToolLoop
from sandlot.testing.harness import *


class Plain:
    """The ten-line harness of the guides."""

    name = "plain"

    async def play(self, session, policy, trace):
        step, leaf = await session.reset(), None
        while True:
            for message in step.messages:
                leaf = trace.append(Node(message=message, parent=leaf))
            if step.end is not None:
                return step.end
            leaf = trace.append(await policy.turn(trace, leaf, session.tools))
            step = await session.step(trace.nodes[leaf].message)


@pytest.fixture(params=[ToolLoop, Plain], ids=lambda kind: kind.__name__)
def harness(request):
    return request.param()
