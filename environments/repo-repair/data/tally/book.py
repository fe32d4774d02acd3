"""A book of entries: (day, account, cents)."""

from .amounts import percent


def balances(entries, opening=None):
    """Each account's balance after all entries; the opening balances are not changed."""
    result = dict(opening or {})
    for _, account, cents in entries:
        result[account] = result.get(account, 0) + cents
    return result


def running(entries, account, start=0):
    """The balance of an account after each of its entries."""
    total, result = start, []
    for day, name, cents in entries:
        if name == account:
            total += cents
            result.append((day, total))
    return result


def between(entries, first, last):
    """The entries of the days from `first` to `last`, both included."""
    return [entry for entry in entries if first <= entry[0] <= last]


def largest(entries, count=3):
    """The entries that move the most money, either way; of equal ones the earlier first."""
    return sorted(entries, key=lambda entry: (-abs(entry[2]), entry[0]))[:count]


def with_tax(entries, rate=20, exempt=()):
    """The entries with tax added, except those of exempt accounts."""
    return [(day, account, cents if account in exempt else cents + percent(cents, rate)) for day, account, cents in entries]


def merged(*books):
    """Several balances as one: accounts in more than one book are added up."""
    result = {}
    for book in books:
        for account, cents in book.items():
            result[account] = result.get(account, 0) + cents
    return result
