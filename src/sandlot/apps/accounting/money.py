"""Money: whole cents inside, decimals at the edge. No amount passes through binary fractions on the way."""

import re
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from sandlot.core.errors import ToolError

_CENT = Decimal("0.01")
_MOST = Decimal(10) ** 12
_YEARS = 1900, 2999
"""Years that reports can count from: they also look a year back, and due dates a month ahead."""


def decimal_of(value: float | str, what: str) -> Decimal:
    """A number of a call as a decimal; `ToolError` if it is too large or none."""
    try:
        number = Decimal(str(value))
    except InvalidOperation as error:
        raise ToolError(f"400 A validation exception occurred: {what} is not a number: {str(value)[:40]}") from error
    if not number.is_finite() or abs(number) >= _MOST:
        raise ToolError(f"400 A validation exception occurred: {what} must be smaller than 1,000,000,000,000")
    return number


def cents_of(value: float | str | Decimal, what: str = "The amount") -> int:
    """An amount in cents, rounded half up; `ToolError` if it is too large."""
    number = value if isinstance(value, Decimal) else decimal_of(value, what)
    if abs(number) >= _MOST:
        raise ToolError(f"400 A validation exception occurred: {what} must be smaller than 1,000,000,000,000")
    return int((number / _CENT).quantize(Decimal(1), rounding=ROUND_HALF_UP))


def exact_cents(value: float, what: str) -> int:
    """An amount that must be whole cents already; `ToolError` if it is not."""
    number = decimal_of(value, what)
    if number != number.quantize(_CENT):
        raise ToolError(f"400 A validation exception occurred: {what} cannot have more than 2 decimal places")
    return cents_of(number, what)


def tax_on(cents: int, rate: str) -> int:
    """The tax on a net amount, rounded half up to a cent, the same for credits and debits."""
    tax = (abs(cents) * Decimal(rate) / 100).quantize(Decimal(1), rounding=ROUND_HALF_UP)
    return int(tax) if cents >= 0 else -int(tax)


def shown(cents: int) -> str:
    """An amount as JavaScript prints numbers: `1200.5`."""
    whole, rest = divmod(abs(cents), 100)
    text = f"{whole}.{rest:02}".rstrip("0").rstrip(".")
    return f"-{text}" if cents < 0 else text


def printed(cents: int) -> str:
    """An amount as reports print it: `1200.50`."""
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02}"


def parse_day(text: str | None, default: date) -> date:
    """A date in the form YYYY-MM-DD; `ToolError` if it is none."""
    if not text:
        return default
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        raise ToolError(f"400 A validation exception occurred: '{text[:40]}' is not a date in the form YYYY-MM-DD")
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise ToolError(f"400 A validation exception occurred: '{text}' is not a date of the calendar") from error
    if not _YEARS[0] <= day.year <= _YEARS[1]:
        raise ToolError(f"400 A validation exception occurred: the year of '{text}' must be from {_YEARS[0]} to {_YEARS[1]}")
    return day


def month_end(day: date) -> date:
    """The last day of a date's month."""
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
