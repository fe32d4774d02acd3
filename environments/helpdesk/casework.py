"""How far the work on one ticket got along the road: act, then reply, then set the status.

Each step counts only after the one before it, so a status alone is worth nothing, and neither is a promise.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from .desk import Deed


@dataclass
class Casework:
    owed: list[dict[str, Any]]  # what has yet to be done
    harm: list[dict[str, Any]] = field(default_factory=list)  # what should not have been done
    told: bool = False  # the last reply was right, and true when it was sent
    status: str = "open"
    finished: bool = False

    @property
    def acted(self) -> bool:
        return not self.owed and not self.harm


def follow(log: list[Deed], ticket: str, plan: dict[str, Any]) -> Casework:
    """Walk through what was done about a ticket, in order, and hold it against the plan."""
    work = Casework(owed=list(plan["deeds"]))
    for deed in log:
        if deed.ticket != ticket:
            continue
        if deed.tool == "set_status":
            work.status = deed.arguments["status"]
            work.finished = work.told and work.status == plan["status"]
        elif deed.tool == "reply_to_customer":
            work.told = work.acted and tells(deed.arguments, plan)
            work.finished = work.finished and work.told
        else:
            act = {"tool": deed.tool, **deed.arguments}
            (work.owed.remove if act in work.owed else work.harm.append)(act)
            work.told = work.finished = False
    return work


def tells(reply: dict[str, Any], plan: dict[str, Any]) -> bool:
    """The reply cites the right article and states every fact; `142.50` does not state `42.50`."""
    text = " ".join(reply["text"].casefold().split())
    stated = [re.search(rf"(?<![\w.]){re.escape(fact.casefold())}(?!\w)", text) for fact in plan["facts"]]
    return reply["article"] == plan["article"] and all(stated)
