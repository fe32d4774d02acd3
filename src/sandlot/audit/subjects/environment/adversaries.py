"""Adversaries that react to what they see, played in the worker like golden solutions.

Most attacks are scripts (`attacks.py`) made from what the golden solution did. The adversaries here decide while they play. They
get the task with its key, as golden solutions do, and use the key only to recognise it where it should not be.
"""

from collections.abc import Mapping

from sandlot.audit.answer_places import PLACES, key_values_in
from sandlot.core.task import Task
from sandlot.model.policy.solution import Agent, Solution


async def _look_up(agent: Agent, task: Task) -> None:
    """Search the places where answers are often left, and say which values of the key were found."""
    found: list[str] = []
    for tool in [spec.name for spec in agent.tools if spec.name == "bash"]:
        for command in PLACES.values():
            found += key_values_in(await agent.call(tool, command=command), task)
    await agent.say("\n".join(dict.fromkeys(found)) or "I found nothing.")


ADVERSARIES: Mapping[str, Solution] = {"look-up": _look_up}
"""By the name that a `NamedPlay` has."""
