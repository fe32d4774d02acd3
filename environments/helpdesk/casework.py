"""How far the work on one ticket got along the road: act, then reply, then set the status.

Each step counts only after the one before it, so a status alone is worth nothing, and neither is a promise.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from .desk import Deed


@dataclass
class Casework:
    owed: list[dict[str, str]]  # what has yet to be done
    harm: list[dict[str, str]] = field(default_factory=list)  # what should not have been done
    told: bool = False  # the last reply was right, and true when it was sent
    status: str = "open"
    finished: bool = False

    @property
    def acted(self) -> bool:
        return not self.owed and not self.harm


def follow(log: list[Deed], ticket: str, plan: dict[str, Any]) -> Casework:
    """Walk through what was done about a ticket, in order, and hold it against the plan."""
    work = Casework(owed=[comparable(deed) for deed in plan["deeds"]])
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
            act(work, comparable({"tool": deed.tool, **deed.arguments}))
    return work


def act(work: Casework, deed: dict[str, str]) -> None:
    if deed in work.owed:
        work.owed.remove(deed)
    else:
        work.harm.append(deed)
    work.told = work.finished = False  # whatever was said before was said too early


def tells(reply: dict[str, Any], plan: dict[str, Any]) -> bool:
    """The reply cites the right article and states every fact."""
    said = f" {words(reply['text'])} "
    return reply["article"] == plan["article"] and all(f" {words(fact)} " in said for fact in plan["facts"])


def comparable(deed: dict[str, Any]) -> dict[str, str]:
    return {name: words(str(value)) for name, value in deed.items()}


def words(text: str) -> str:
    """The text without case and punctuation; amounts, dates and numbers stay whole, so `142.50` does not say `42.50`."""
    return " ".join(re.findall(r"\w+(?:[.-]\w+)*", text.casefold()))
