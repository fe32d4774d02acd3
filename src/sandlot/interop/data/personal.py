"""Finds secrets and personal data in text: keys, passwords, e-mail addresses, phone, card and account numbers.

Numbers with a checksum count only if it is right (Luhn for cards, ISO 7064 for IBANs). No rule finds names, addresses or dates of
birth; these need people or a model.
"""

import re
from collections.abc import Callable, Iterator

from sandlot.core.redaction import SHAPES

_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AT": 20, "BE": 16, "BG": 22, "CH": 21, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "EE": 20, "ES": 24,
    "FI": 18, "FR": 27, "GB": 22, "GR": 27, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IS": 26, "IT": 27, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "MC": 27, "MT": 31, "NL": 18, "NO": 15, "PL": 28, "PT": 25, "RO": 24, "SA": 24, "SE": 24, "SI": 19,
    "SK": 24, "SM": 27, "TR": 26, "UA": 29,
}  # fmt: skip
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}")
_CARD = re.compile(r"(?<![\d.-])[2-6]\d(?:[ -]?\d){11,17}(?![\d-]|\.\d)")
_PHONES = re.compile(
    r"(?<![\w+])\+\d(?:[ ./(-]{0,2}+\d\)?){7,14}+(?![\w]|[ ./-]\d)"  # possessive: hostile text is read once
    r"|(?<![\w-])(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])"
)
_SSN = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
_URL_PASSWORD = re.compile(r"(?<=://)[^\s/:@\[]{1,64}:[^\s/@\[]{1,128}(?=@)")
_ASSIGNED = re.compile(
    r"(?i)\b(?:password|passwd|pwd|passphrase|api[_-]?key|secret(?:[_-]?key)?|access[_-]?token|auth[_-]?token)\b"
    r"[\"']?\s{0,3}[:=]\s{0,3}[\"']?([^\s\"',;<>\[\]{}()]{6,200})"
)
NAMED = re.compile(
    r"(?i)(?:^|[._-])(?:password|passwd|pwd|passphrase|api[_-]?key|secret|secret[_-]?key|private[_-]?key|access[_-]?token|"
    r"auth[_-]?token|ssn|iban|card[_-]?number|credit[_-]?card)$"
)
"""Names of fields whose whole value is a secret."""

Span = tuple[int, int]
_Finder = Callable[[str], Iterator[Span]]


def luhn_valid(digits: str) -> bool:
    """True if the last digit is the Luhn check digit of the others."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def iban_valid(text: str) -> bool:
    """True for an IBAN without blanks whose length and check digits are right."""
    if _IBAN_LENGTHS.get(text[:2]) != len(text):
        return False
    return int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1


def _spans(pattern: re.Pattern[str], group: int = 0) -> _Finder:
    return lambda text: (match.span(group) for match in pattern.finditer(text))


def _cards(text: str) -> Iterator[Span]:
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match.group())
        if 13 <= len(digits) <= 19 and len(set(digits)) > 1 and luhn_valid(digits):
            yield match.span()


def _ibans(text: str) -> Iterator[Span]:
    for match in _IBAN.finditer(text):
        found = match.group()
        length = _IBAN_LENGTHS.get(found[:2], 0)
        places = [at for at, char in enumerate(found) if char not in " -"][:length]
        if length and len(places) == length and iban_valid("".join(found[at] for at in places)):
            yield match.start(), match.start() + places[-1] + 1


def _phone_numbers(text: str) -> Iterator[Span]:
    for match in _PHONES.finditer(text):
        if 8 <= len(re.sub(r"\D", "", match.group())) <= 15:
            yield match.span()


FINDERS: dict[str, _Finder] = {
    "private_key": _spans(SHAPES["private_key"][1]),
    "api_key": _spans(SHAPES["api_key"][1]),
    "service_token": _spans(SHAPES["service_token"][1]),
    "aws_key": _spans(SHAPES["aws_key"][1]),
    "login_token": _spans(SHAPES["login_token"][1]),
    "url_password": _spans(_URL_PASSWORD),
    "email": _spans(SHAPES["email"][1]),
    "iban": _ibans,
    "card": _cards,
    "ssn": _spans(_SSN),
    "phone": _phone_numbers,
    "password": _spans(_ASSIGNED, 1),
}
"""Each kind, and what finds it. Earlier kinds win where two overlap."""
