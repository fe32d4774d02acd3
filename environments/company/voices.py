"""How people here write: each has a greeting, a closing and habits; the same news is never put in the same words twice."""
# ruff: noqa: E501 - a wording stands on one line

from datetime import datetime
from random import Random

from .records import Firm, Mail, Person, Post

GREETINGS = ("Hi {},", "Hello {},", "{},", "Dear {},", "Hi {} -", "Good morning {},", "Hey {},", "{} -")
CLOSINGS = (
    "Best regards",
    "Thanks",
    "Kind regards",
    "Cheers",
    "Best",
    "Many thanks",
    "Regards",
    "Thank you",
    "All the best",
    "Talk soon",
)
ASIDES = (
    "Shout if anything is unclear.", "Happy to talk it through by phone.", "No need to answer if this is fine.", "I am at my desk until five.",
    "Sorry for the short note, I am between two meetings.", "I hope you had a good weekend.", "I will be in the office tomorrow as well.",
    "Copying the team so that everybody has it.", "Let me know if I should send it again.", "That is all from my side.",
    "Please keep the subject line so that it stays in one thread.", "The details are below.", "I am travelling this afternoon, so mail is best.",
)  # fmt: skip
HOUSE_STYLE = ("lower", "plain", "plain", "plain", "dash")


class Pen:
    """Writes mails and posts. Keeps what was written, so that no two texts are the same."""

    def __init__(self, firm: Firm, rng: Random) -> None:
        self.firm, self.rng = firm, rng
        self.written: set[str] = set()

    def mail(
        self,
        at: datetime,
        sender: str,
        to: list[str],
        subject: str,
        parts: list[tuple[str, ...]],
        *,
        cc: tuple[str, ...] = (),
        thread: str | None = None,
    ) -> Mail:
        """A mail whose body has one of each part's wordings; wordings are tried until the body is new."""
        who = self.firm.people.get(sender)
        address = who.email if who else sender
        for attempt in range(12):
            body = self.body(
                who, address, to[0], [self.rng.choice(part) for part in parts], aside=attempt > 0 or self.rng.random() < 0.3
            )
            if body not in self.written:
                break
        self.written.add(body)
        name = f"m{len(self.firm.mails) + 1:05}"
        receivers = tuple(self.firm.people[each].email if each in self.firm.people else each for each in to)
        copies = tuple(self.firm.people[each].email if each in self.firm.people else each for each in cc)
        mail = Mail(name, thread or name, at, address, receivers, copies, subject, body)
        self.firm.mails.append(mail)
        return mail

    def body(self, who: Person | None, address: str, to: str, words: list[str], *, aside: bool) -> str:
        voice = who.voice if who else sum(map(ord, address))
        login = to.removesuffix("@northlight.example")
        reader = self.firm.people[login].first if login in self.firm.people else name_in(to)
        text = " ".join(words) if voice % 3 else "\n\n".join(words)
        if aside:
            text += " " + self.rng.choice(ASIDES)
        closing = CLOSINGS[voice // 8 % len(CLOSINGS)]
        name = who.name if who else " ".join(part.capitalize() for part in address.split("@", maxsplit=1)[0].split("."))
        sign = f"{name}\n{who.title}, Northlight Systems" if who and voice % 5 == 0 else name if voice % 2 else name.split()[0]
        return f"{GREETINGS[voice % len(GREETINGS)].format(reader)}\n\n{text}\n\n{closing}\n{sign}"

    def post(self, channel: str, at: datetime, who: str, *wordings: str, thread: str | None = None) -> Post:
        style = HOUSE_STYLE[self.firm.people[who].voice % len(HOUSE_STYLE)]
        for _ in range(12):
            text = self.rng.choice(wordings)
            if style == "lower" and not text.startswith(("INC", "INV", "PO", "ENG", "SUP")):
                text = text[0].lower() + text[1:]
            if style == "dash":
                text = text.replace("; ", " - ")
            if text not in self.written:
                break
        self.written.add(text)
        name = f"p{len(self.firm.posts) + 1:05}"
        made = Post(name, channel, at, who, text, thread)
        self.firm.posts.append(made)
        return made


def name_in(address: str) -> str:
    """`aoife.kelly@x` -> `Aoife`; a team's address -> `all`."""
    local = address.split("@", maxsplit=1)[0]
    return local.split(".")[0].capitalize() if "." in local else "all"
