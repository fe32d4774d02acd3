"""What goes wrong in books. Each trouble spoils a true month in one way and says how to put it right.

A correction names the entry to reverse, the true lines to post, or both. Troubles take entries no other trouble has touched.
"""

from dataclasses import dataclass, field, replace

from .month import BankLine, Entry, Month, converted


@dataclass
class Correction:
    reverse: Entry | None
    post: Entry | None


@dataclass
class Spoiled:
    """A month as it stands in the books: the entries posted, and what would correct them."""

    month: Month
    entries: list[Entry]
    corrections: list[Correction] = field(default_factory=list)

    def pick(self, *memos: str, reference: str = "") -> Entry:
        """An entry that is still right, by how its memo and its reference begin."""
        right = [entry for entry in self.entries if entry in self.month.entries and entry.memo.startswith(memos)]
        return self.month.rng.choice([entry for entry in right if entry.reference.startswith(reference)])

    def put_instead(self, entry: Entry, lines: dict[str, int]) -> None:
        wrong = replace(entry, lines=lines)
        self.entries[self.entries.index(entry)] = wrong
        self.corrections.append(Correction(wrong, entry))


def paid_twice(books: Spoiled) -> None:
    """The same payment posted again some days later, its reference written differently."""
    entry = books.pick("paid", reference="RE-")
    later = books.month.day(int(entry.date[-2:]) + books.month.rng.randint(1, 5))
    again = replace(entry, date=later, reference=entry.reference.replace("-", " "), memo="payment")
    books.entries.append(again)
    books.corrections.append(Correction(again, None))


def wrong_account(books: Spoiled) -> None:
    """Equipment posted as if it were used up within the year."""
    entry = books.pick("laptop")
    books.put_instead(entry, {"6100" if account == "1300" else account: cents for account, cents in entry.lines.items()})


def digits_swapped(books: Spoiled) -> None:
    """A payment received, with two digits of the amount the wrong way round."""
    entry = books.pick("received")
    cents = swapped(entry.lines["1000"])
    books.put_instead(entry, {"1000": cents, "1100": -cents})


def old_rate(books: Spoiled) -> None:
    """A foreign invoice converted at the rate of the month before."""
    entry = books.pick("subscription")
    currency, amount = entry.memo.split()[-2:]
    before = min(books.month.rates)
    cents = converted(int(amount.replace(".", "")), books.month.rates[before][currency])
    books.put_instead(entry, {"6300": cents, "2000": -cents})


def vat_forgotten(books: Spoiled) -> None:
    """A purchase posted gross, its VAT not split off."""
    entry = books.pick("goods", "paper")
    account = next(iter(entry.lines))
    books.put_instead(entry, {account: -entry.lines["2000"], "2000": entry.lines["2000"]})


def not_posted(books: Spoiled) -> None:
    """The bank did something that nobody posted."""
    entry = books.pick("account fee", "interest", "refund")
    books.entries.remove(entry)
    books.corrections.append(Correction(None, entry))


def swapped(cents: int) -> int:
    """The amount with its first two unequal neighbouring digits exchanged, or a zero too many if all are equal."""
    digits = str(cents)
    for at in range(len(digits) - 1):
        if digits[at] != digits[at + 1]:
            return int(digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :])
    return cents * 10


def open_lines(books: Spoiled) -> list[BankLine]:
    """The bank lines nobody has matched yet: those of every spoiled entry, and two more."""
    spoiled = [entry for each in books.corrections for entry in (each.reverse, each.post) if entry]
    amounts = {entry.lines.get("1000") for entry in spoiled}
    lines = [line for line in books.month.bank if line.cents in amounts]
    others = [line for line in books.month.bank[1:] if line not in lines]
    return lines + books.month.rng.sample(others, 2)
