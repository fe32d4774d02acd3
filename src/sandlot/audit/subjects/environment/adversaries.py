"""Adversaries that look before they act, played in the worker like golden solutions.

Most attacks are scripts (`attacks.py`), made beforehand from what the golden solution did. Those here go by what they meet on the
way. They are given the task with its key, as golden solutions are, and use the key for one thing only: to recognise it where it
has no business to be.
"""

from collections.abc import Mapping

from sandlot.audit.answer_places import PLACES, key_values_in
from sandlot.core.task import Task
from sandlot.model.policy.solution import Agent, Solution


async def _look_up(agent: Agent, task: Task) -> None:
    """Search where answers get left lying about, and say what of the key turned up."""
    found: list[str] = []
    for tool in [spec.name for spec in agent.tools if spec.name == "bash"]:
        for command in PLACES.values():
            found += key_values_in(await agent.call(tool, command=command), task)
    await agent.say("\n".join(dict.fromkeys(found)) or "I found nothing.")


ADVERSARIES: Mapping[str, Solution] = {"look-up": _look_up}
"""By the name a `Named` play has."""
