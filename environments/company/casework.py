"""A case: the request, what arrives with it, who knows what, what is expected. A family makes several of one kind of work."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sandlot import Rubric, Task

from .hands import Hands
from .records import Firm
from .sheet import Sheet


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    task: Task
    rubric: Rubric


@dataclass
class Draft:
    """A case while it is written."""

    prompt: str
    level: str
    """`easy`, `medium` or `hard`."""
    sheet: Sheet = field(default_factory=Sheet)
    mails: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)
    posts: list[dict[str, Any]] = field(default_factory=list)
    bills: list[dict[str, Any]] = field(default_factory=list)
    colleagues: list[dict[str, Any]] = field(default_factory=list)
    key: dict[str, Any] = field(default_factory=dict)

    def mail(
        self, sender: str, to: str, subject: str, body: str, *, name: str = "", cc: tuple[str, ...] = (), at: str = ""
    ) -> None:
        """A mail that has come in."""
        arrived = {"sender": sender, "name": name, "to": [to], "cc": list(cc), "subject": subject, "body": body}
        self.mails.append(arrived | ({"at": at} if at else {}))

    def issue(
        self,
        key: str,
        summary: str,
        text: str,
        *,
        status: str = "To Do",
        kind: str = "Task",
        comments: tuple[tuple[str, str, str], ...] = (),
        **fields: Any,
    ) -> None:
        """A ticket that is there; a comment is author, text, time."""
        made = {
            "summary": summary,
            "description": text,
            "status": status,
            "type": kind,
            "priority": "Medium",
            "created": "2026-06-09T07:40:00Z",
        }
        self.issues.append({"key": key, "fields": made | fields, "comments": [list(each) for each in comments]})

    def post(self, channel: str, who: str, text: str, at: str, *, thread: int | None = None) -> None:
        """A post in a channel; `thread` is the place of the post in this list that it answers."""
        self.posts.append({"channel": channel, "who": who, "text": text, "at": at, "thread": thread})

    def bill(self, number: str, supplier: str, order: str, net: int, vat: int, day: str, due: str) -> None:
        """A bill that is in the books, not paid."""
        self.bills.append(
            {"number": number, "supplier": supplier, "order": order, "net": net, "vat": vat, "date": day, "due": due}
        )

    def knows(self, email: str, asked: tuple[str, ...], says: str, *, unsure: str = "", minutes: float = 20) -> None:
        """A colleague who says something when asked for it (`asked`: words, each with alternatives `a|b`)."""
        known = next((each for each in self.colleagues if each["email"] == email), None)
        if known is None:
            known = {"email": email, "facts": [], "unsure": unsure, "minutes": minutes}
            self.colleagues.append(known)
        known["facts"].append({"asked": list(asked), "says": says})

    def finish(self, family: str, number: int) -> Case:
        trade, _, kind = family.partition(".")
        name = f"{trade}-{kind}-{number}"
        data = {
            "mails": self.mails,
            "rows": self.rows,
            "updates": self.updates,
            "issues": self.issues,
            "posts": self.posts,
            "bills": self.bills,
        }
        data |= {"colleagues": self.colleagues}
        self.sheet.inside += [each["email"] for each in self.colleagues]
        rubric = self.sheet.rubric()
        task = Task(
            name,
            prompt=self.prompt,
            data={part: value for part, value in data.items() if value},
            key={"family": family, **self.key},
            rubric=name,
            tags=(trade, family, self.level),
        )
        return Case(name, task, rubric)


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    draft: Callable[[Firm, Random], Iterable[Draft]]
    solve: Callable[[Hands, dict[str, Any]], Awaitable[None]]
