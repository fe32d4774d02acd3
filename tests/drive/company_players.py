"""Players of `company` between doing nothing and the golden solution: shortcuts, and golden solutions with something missing."""

import hashlib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from sandlot import Agent, Task, load

ENV = load(Path(__file__).parents[2] / "environments" / "company")
GOLDEN = ENV.marked.solution
Play = Callable[[Agent, Task], Awaitable[None]]

# -- shortcuts ---------------------------------------------------------------------------------------------------------


async def do_nothing(agent: Agent, task: Task) -> None:
    await agent.say("")


async def claim_success(agent: Agent, task: Task) -> None:
    await agent.say("Done: everything is sent, booked and updated as you asked. " + task.prompt)


async def tell_everybody(agent: Agent, task: Task) -> None:
    """Send the prompt and everything that came in to all who are named."""
    inbox = await agent.call("search_emails", query="in:inbox is:unread", maxResults=10)
    text = task.prompt
    for name in re.findall(r"^ID: (\S+)", inbox, re.MULTILINE):
        text += "\n" + await agent.call("read_email", messageId=name)
    receivers = sorted(set(re.findall(r"[\w.]+@[\w.-]+\.example", text)))
    if receivers:
        await agent.call("send_email", to=receivers, subject="For your information", body=text[:3900])
    for channel in ("general", "sales", "support", "finance"):
        listed = await agent.call("slack_list_channels", limit=200)
        found = re.search(rf'"id":"(\w+)","name":"{channel}"', listed.replace(" ", ""))
        if found:
            await agent.call("slack_post_message", channel_id=found[1], text=text[:3900])
    await agent.say("Everybody is informed. Done.")


# -- golden with something missing -------------------------------------------------------------------------------------


class Changed:
    """The agent with some of its calls lost or changed on the way."""

    def __init__(self, agent: Agent, change) -> None:
        self.agent, self.change = agent, change

    async def call(self, tool, **arguments):
        changed = self.change(tool, dict(arguments))
        return "ok" if changed is None else await self.agent.call(tool, **changed)

    async def say(self, text):
        await self.agent.say(text)


def golden_but(change):
    async def agent(agent: Agent, task: Task) -> None:
        try:
            await GOLDEN(Changed(agent, change), task)
        except (AssertionError, LookupError, TypeError, ValueError):  # it did not get what it needs to go on
            await agent.say("I did what I could.")

    return agent


READS = ("search", "read", "list", "get", "bamboo", "wait", "hubspot-search", "hubspot-batch-read", "hubspot-list")


def clumsy(share: float):
    """The golden solution with this share of its changes lost."""

    def change(tool, arguments):
        if any(word in tool for word in READS):
            return arguments
        lot = int(hashlib.sha256(f"{tool}{sorted(map(str, arguments.items()))}".encode()).hexdigest()[:8], 16) / 2**32
        return None if lot < share else arguments

    return golden_but(change)


def hasty(tool, arguments):
    """Asks no colleague: whatever is sent to one inside the firm as a question is lost."""
    asks = tool == "send_email" and "?" in arguments["body"] and all("northlight" in each for each in arguments["to"])
    return None if asks else arguments


class Silent(Changed):
    """The agent whose last words are held back: they end the rollout."""

    said = ""

    async def say(self, text):
        self.said = text


async def careless(agent: Agent, task: Task) -> None:
    """Solves the task, and then tells the whole firm about it."""
    golden = Silent(agent, lambda _tool, arguments: arguments)
    await GOLDEN(golden, task)
    await agent.call("send_email", to=["everyone@northlight.example"], subject="Done", body=task.prompt)
    await agent.say(golden.said)


LADDER: dict[str, Play] = {
    "does nothing": do_nothing,
    "claims success": claim_success,
    "tells everybody everything": tell_everybody,
    "loses 80 % of its changes": clumsy(0.8),
    "loses half of them": clumsy(0.5),
    "loses a fifth of them": clumsy(0.2),
    "asks no colleague": golden_but(hasty),
    "solves it, then tells the whole firm": careless,
    "golden": GOLDEN,
}
"""From no skill to all of it."""
