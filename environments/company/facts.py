"""Whether a text states a fact. Facts are written as `kind:value`, so that they can stand in a rubric:

    money:123450           1234.50 in any usual spelling (€1,234.50, EUR 1234.5, 1.234,50)
    date:2026-06-18        18 June, June 18th, 18.06.2026, 2026-06-18, 18/06/2026; a year, if one is written, must be right
    time:14:30             14:30, 2.30 pm, 14h30
    number:7               the number 7, as digits or (up to twelve) as a word
    id:INV-2417            exactly this id
    name:Aoife Kelly       the whole name, or the mail address made from it
    word:a|b|c             one of these words or phrases
    claim:a|b|c            one of these words or phrases, in a clause without a negation before it

Limits: words can be negated ("not €500") and a fact can be stated about the wrong thing. So a required fact is asked for *near* its
subject where a message has several subjects, and amounts, dates and ids other than the allowed ones are held against the message.
"""
# ruff: noqa: E501, PLR0911 - records, wordings and tables stand on one line

import html
import re
import unicodedata
from datetime import date

MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
SMALL = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
_NUMBER = re.compile(
    r"(?<![\w.,-])(?:€|EUR)?\s?(\d{1,3}(?:[,.]\d{3})+|(?<!\d )\d{1,3}(?: \d{3})+(?!\d)|\d+)(?:([.,])(\d{1,2}))?(?![\d]|[.,]\d)",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"(?:€|\bEUR)\s?(\d{1,3}(?:[,.]\d{3})+|(?<!\d )\d{1,3}(?: \d{3})+(?!\d)|\d+)(?:[.,](\d{1,2}))?(?!\d)"
    r"|(?<![\w.,-])(\d{1,3}(?:[,.]\d{3})+|(?<!\d )\d{1,3}(?: \d{3})+(?!\d)|\d+)(?:[.,](\d{2}))?\s?(?:€|EUR\b|euros?\b)"
    r"|(?<![\w.,:-])(\d{1,3}(?:[,.]\d{3})+|(?<!\d )\d{1,3}(?: \d{3})+(?!\d)|\d+)[.,](\d{2})(?![\d:]|[.,]\d|\.\s?\d|\s?(?:%|am\b|pm\b))",
    re.IGNORECASE,
)
_DURATION = re.compile(r"\b(\d{1,3})\s?h(?:ours?|rs?)?,?\s?(?:and\s)?(\d{1,2})\s?m(?:in(?:ute)?s?)?\b", re.IGNORECASE)
_ISO = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_DAY_MONTH = re.compile(
    r"(?<!\d)(\d{1,2})(?:st|nd|rd|th)?(?:\s+of)?[ -]([A-Z][a-z]{2,8}|[A-Z]{3,9})\b\.?,?(?:[ -](\d{4}|'2\d|2[4-8](?![\d:]|[.,]\d)))?"
)
_MONTH_DAY = re.compile(r"\b([A-Z][a-z]{2,8}|[A-Z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?(?!\d)(?:,? (\d{4}))?")
_NUMERIC = re.compile(r"(?<!\d)(\d{1,2})[./](\d{1,2})[./](\d{4}|2[4-8](?!\d|\.\d))?(?!\d)")
_TIME = re.compile(r"(?<![\d:])(\d{1,2})(?:[:.h](\d{2}))?(?::\d{2})?\s?(am|pm|a\.m\.|p\.m\.|h\b)?(?!\d|:\d)", re.IGNORECASE)
_ID = re.compile(r"\b[A-Z]{1,5}-\d{1,6}\b")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_HYPHEN = re.compile("[\u2010-\u2015\u2212\ufe63\uff0d]")
_CLAUSE = re.compile(r"[.,;:!?](?=\s|$)|\n")
_NEGATION = re.compile(
    r"\b(?:not|never|no|cannot|nobody|nothing|without|until|before|instead|whether|if|once|unless|pending|awaiting|false)\b|n't\b",
    re.IGNORECASE,
)
LONGEST_RECORD = 8_000
MOST_VALUES = 50
"""Different numbers, times or ids of one text; the golden solutions need 11 at most."""
NEAR = 220
"""Characters around a subject in which a fact about it must stand."""


def plain(text: str) -> str:
    """Without markup, entities, odd spaces, odd hyphens and invisible characters."""
    bare = html.unescape(re.sub(r"</?[a-zA-Z][a-zA-Z0-9]{0,9}(?:\s[^<>]{0,200})?/?>", " ", text[:20_000]))
    bare = unicodedata.normalize("NFKC", _INVISIBLE.sub("", re.sub(r"[*_`#|]", " ", bare)))
    return _HYPHEN.sub("-", bare).replace("\u2019", "'")


def amounts_in(text: str) -> set[int]:
    """Everything written as an amount of money, in cents."""
    found = set()
    for match in _MONEY.finditer(plain(text)):
        groups = match.groups()
        whole, part = next((groups[i], groups[i + 1]) for i in (0, 2, 4) if groups[i] is not None)
        found.add(int(re.sub(r"\D", "", whole)) * 100 + int((part or "0").ljust(2, "0")))
    return found


def numbers_in(text: str) -> set[int]:
    """Every number, in hundredths."""
    found = set()
    for match in _NUMBER.finditer(plain(text)):
        found.add(int(re.sub(r"\D", "", match[1])) * 100 + int((match[3] or "0").ljust(2, "0")))
    for hours, minutes in _DURATION.findall(plain(text)):
        found.add((int(hours) * 60 + int(minutes)) * 100)
    return found


def dates_in(text: str) -> set[tuple[int | None, int, int]]:
    """Every date as year (None if it is not written), month, day."""
    text = plain(text)
    found: set[tuple[int | None, int, int]] = {(int(y), int(m), int(d)) for y, m, d in _ISO.findall(text)}
    for day, word, year in _DAY_MONTH.findall(text):
        if month := month_of(word):
            found.add((year_of(year), month, int(day)))
    for word, day, year in _MONTH_DAY.findall(text):
        if month := month_of(word):
            found.add((year_of(year), month, int(day)))
    for day, month, year in _NUMERIC.findall(text):
        if 1 <= int(month) <= 12:
            found.add((year_of(year), int(month), int(day)))
    return found


def year_of(digits: str) -> int | None:
    """`2026` and `'26` are the same year; None if it is not written."""
    year = int(digits.lstrip("'") or 0)
    return (year + 2000 if year < 100 else year) or None if digits else None


def month_of(word: str) -> int | None:
    low = word.casefold()
    return next((number for number, name in enumerate(MONTHS, start=1) if len(low) >= 3 and name.startswith(low)), None)


def times_in(text: str) -> set[tuple[int, int]]:
    found = set()
    for hour, minute, half in _TIME.findall(plain(text)):
        if minute or half:
            late = half.casefold().startswith("p") and int(hour) < 12
            midnight = half.casefold().startswith("a") and int(hour) == 12
            found.add(((0 if midnight else int(hour) + 12 * late), int(minute or 0)))
    return found


def is_dump(text: str) -> bool:
    """True for a text with so much in it that it would state any fact: too long, or too many different numbers, times or ids."""
    bare = plain(text)
    most = max(len(numbers_in(bare)), len(times_in(bare)), len(set(_ID.findall(bare))))
    return len(text) > LONGEST_RECORD or most > MOST_VALUES


def states(text: str, fact: str) -> bool:
    """True if the text states the fact."""
    kind, _, value = fact.partition(":")
    match kind:
        case "money":
            return int(value) in amounts_in(text) | numbers_in(text)
        case "date":
            day = date.fromisoformat(value)
            return bool({(None, day.month, day.day), (day.year, day.month, day.day)} & dates_in(text))
        case "time":
            hour, minute = map(int, value.split(":"))
            return (hour, minute) in times_in(text)
        case "number":
            small = int(value) < len(SMALL) and re.search(rf"\b{SMALL[int(value)]}\b", plain(text), re.IGNORECASE)
            return bool(small) or int(value) * 100 in numbers_in(text)
        case "id":
            return re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", plain(text), re.IGNORECASE) is not None
        case "name":
            return has_words(text, value) or has_words(text, value.replace(" ", "."))
        case "word":
            return any(has_words(text, word) for word in value.split("|"))
        case "claim":
            return any(claims(clause, words) for clause in _CLAUSE.split(plain(text)) for words in value.split("|"))
        case _:
            raise ValueError(f"no kind of fact `{kind}`")


def claims(clause: str, words: str) -> bool:
    """True if a clause has these words, and no negation before them."""
    found = words_in(words).search(clause)
    return found is not None and _NEGATION.search(clause[: found.start()]) is None


def has_words(text: str, words: str) -> bool:
    return words_in(per_cent(words)).search(per_cent(plain(text))) is not None


def per_cent(text: str) -> str:
    """`15%` and `15 percent` in the spelling of the records."""
    return re.sub(r"\s?%|\bpercent\b", " per cent", text)


def words_in(words: str) -> re.Pattern[str]:
    pattern = r"\W+".join(re.escape(word) for word in words.split())
    return re.compile(rf"(?<!\w){pattern}(?!\w)", re.IGNORECASE)


def around(text: str, subject: str) -> list[str]:
    """The parts of a text that are about a subject: some characters on both sides of it, up to the next subject of its kind."""
    text = plain(text)
    kind, _, value = subject.partition(":")
    pattern = rf"(?<![\w-]){re.escape(value)}(?![\w-])" if kind == "id" else rf"(?<!\w){re.escape(value)}(?!\w)"
    places = [(match.start(), match.end()) for match in re.finditer(pattern, text, re.IGNORECASE)]
    head = value.split("-")[0] + "-" if kind == "id" else None
    others = [
        match.span() for match in _ID.finditer(text) if head and match[0].startswith(head) and match[0].upper() != value.upper()
    ]
    parts = []
    for start, end in places:
        low = max([0, start - NEAR, *(after for _, after in others if after <= start)])
        high = min([len(text), end + NEAR, *(before for before, _ in others if before >= end)])
        parts.append(text[low:high])
    return parts


def states_near(text: str, fact: str, subject: str) -> bool:
    """True if the fact stands near its subject."""
    return any(states(part, fact) for part in around(text, subject))
