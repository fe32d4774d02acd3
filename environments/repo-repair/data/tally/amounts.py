"""Amounts: reading, writing, dividing."""


def parse(text):
    """Cents of an amount like `12`, `12.3`, `-1,234.50`."""
    text = text.strip().replace(",", "")
    sign = -1 if text.startswith("-") else 1
    whole, _, part = text.lstrip("+-").partition(".")
    return sign * (int(whole or 0) * 100 + int(part.ljust(2, "0")[:2]))


def shown(cents):
    """Cents as `1,234.50`, with a minus sign in front if there is one."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02}"


def split(cents, people):
    """Shares that differ by at most one cent, larger ones first, and add up exactly."""
    each, rest = divmod(cents, people)
    return [each + 1 if place < rest else each for place in range(people)]


def percent(cents, rate):
    """A whole percentage of an amount, halves rounded up, away from zero for debts."""
    sign = -1 if cents < 0 else 1
    return sign * ((abs(cents) * rate + 50) // 100)
