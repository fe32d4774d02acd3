"""D07: the environment's data compared with a sample of real data, field by field.

Compared are the share of missing values, the distribution of numbers and lengths (Kolmogorov-Smirnov), categories and words
(chi-square with Cramer's V, Jensen-Shannon), repeated values, and characters beyond ASCII. A difference counts if it is large
(each test has a minimum effect size) and significant (Holm within each kind of test, Benjamini-Hochberg over all). Records of one
task resemble each other, so each field is compared with its effective sample size. Without a sample, data that looks too clean
is only mentioned.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from random import Random
from typing import Any

import msgspec

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.static.records import Pool, matching_pool, pools_of, read_records
from sandlot.core.groups import group_by_key
from sandlot.core.stats.tests import TestResult, benjamini_hochberg, chi_square, fisher, holm, jensen_shannon, ks
from sandlot.core.types import Json

_LEVEL = 0.01
_FEWEST = 20
"""Fewest values on each side for a comparison."""
_MOST = 4_000
"""Most values on each side that are compared."""
_CATEGORIES = 20
_GATES = {"missing": 0.1, "numbers": 0.2, "categories": 0.2, "lengths": 0.2, "words": 0.15, "repeats": 0.15, "letters": 0.1}
"""Minimum effect size per kind: difference of shares, Kolmogorov-Smirnov's D, Cramer's V, bits."""
_PLACEHOLDER = re.compile(r"\b(?:lorem ipsum|foo ?bar|john doe|jane doe|asdf|test ?user|example\.(?:com|org))\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _FieldDifference:
    """One comparison of one field."""

    field: str
    kind: str
    comparison: TestResult
    here: str
    real: str


async def _look(case: Case) -> list[Finding]:
    """The data resembles a sample of real data; without a sample, it does not look synthetic."""
    pools = pools_of(case.description.tasks)
    if case.reference is None:
        return _too_clean(pools)
    sample = read_records(case.reference)
    pool = matching_pool(pools, sample, case.reference.stem)
    if pool is None:
        return [_nothing_to_compare(case, pools, sample)]
    names = sorted(pool.fields | _fields(sample))
    differences = [difference for name in names for difference in compare_field(name, _independent(pool, name), sample)]
    differences += _repeated_rows(pool.rows, sample)
    return [_finding(pool, len(sample), name, found) for name, found in significant_differences(differences).items()]


def _fields(rows: Sequence[Json]) -> set[str]:
    return {name for row in rows for name in row}


# -- comparing one field -----------------------------------------------------------------------------------------------


def compare_field(name: str, here: Sequence[Json], real: Sequence[Json]) -> Iterator[_FieldDifference]:
    """All comparisons that fit the field's type."""
    ours, theirs = _sampled(here), _sampled(real)
    left = [row[name] for row in ours if not _missing(row.get(name))]
    right = [row[name] for row in theirs if not _missing(row.get(name))]
    if min(len(ours), len(theirs)) < _FEWEST:
        return
    gone, lost = len(ours) - len(left), len(theirs) - len(right)
    shares = (f"{gone / len(ours):.0%} missing", f"{lost / len(theirs):.0%} missing")
    yield _FieldDifference(name, "missing", fisher(gone, len(ours), lost, len(theirs)), *shares)
    if min(len(left), len(right)) < _FEWEST:
        return
    numbers, reals = _as_numbers(left), _as_numbers(right)
    if numbers and reals and any(_is_number(value) for value in (*left, *right)):
        yield _FieldDifference(name, "numbers", ks(numbers, reals), _spread(numbers), _spread(reals))
        return
    texts, others = [str(value) for value in left], [str(value) for value in right]
    if len(set(texts) | set(others)) <= _CATEGORIES:
        yield _categories(name, texts, others)
    else:
        yield from _texts(name, texts, others)


def _independent(pool: Pool, name: str) -> list[Json]:
    """The effective sample for a field: fewer records if those of one task are alike, spread over the tasks.

    By the intraclass correlation: if all records of a task agree, a task counts as one record; if they differ as much as records
    of different tasks, all of them count.
    """
    groups = group_by_key(zip(pool.homes, pool.rows, strict=True))
    if len(groups) < 2:
        return pool.rows
    values = group_by_key(zip(pool.homes, _measured([row.get(name) for row in pool.rows]), strict=True))
    size = len(pool.rows) / len(groups)
    worth = len(pool.rows) / (1 + (size - 1) * intraclass(list(values.values())))
    for rows in groups.values():
        Random(0).shuffle(rows)  # noqa: S311 - seeded, not secret
    return [row for each in zip_longest(*groups.values()) for row in each if row is not None][: math.ceil(worth)]


def _measured(values: list[Any]) -> list[float]:
    """A number for each value: the rank of a number or category, the length of a text; -1 if missing."""
    if all(_is_number(value) for value in values if not _missing(value)):
        ordered = sorted({float(value) for value in values if not _missing(value)})
        ranks = {value: float(rank) for rank, value in enumerate(ordered)}  # ranks, so that one outlier does not dominate
        return [-1.0 if _missing(value) else ranks[float(value)] for value in values]
    common = [word for word, _ in Counter(str(value) for value in values).most_common(_CATEGORIES + 1)]
    if len(common) <= _CATEGORIES:
        return [float(common.index(str(value))) for value in values]
    return [-1.0 if _missing(value) else float(len(str(value))) for value in values]


def intraclass(groups: Sequence[Sequence[float]]) -> float:
    """Intraclass correlation by analysis of variance: 0 if groups do not matter, 1 if values of a group are equal."""
    count = sum(len(group) for group in groups)
    if len(groups) < 2 or count <= len(groups):
        return 0.0
    mean = math.fsum(value for group in groups for value in group) / count
    means = [math.fsum(group) / len(group) for group in groups]
    between = math.fsum(len(group) * (middle - mean) ** 2 for group, middle in zip(groups, means, strict=True)) / (
        len(groups) - 1
    )
    within = math.fsum((value - middle) ** 2 for group, middle in zip(groups, means, strict=True) for value in group) / (
        count - len(groups)
    )
    size = (count - sum(len(group) ** 2 for group in groups) / count) / (len(groups) - 1)
    whole = between + (size - 1) * within
    return min(1.0, max(0.0, (between - within) / whole)) if whole > 0 else 0.0


def _sampled(rows: Sequence[Json]) -> list[Json]:
    """All rows, or a seeded sample of the size that is compared."""
    return list(rows) if len(rows) <= _MOST else Random(0).sample(list(rows), _MOST)  # noqa: S311 - seeded, not secret


def _missing(value: Any) -> bool:
    return value is None or value in ("", [], {}) or (isinstance(value, float) and math.isnan(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_numbers(values: list[Any]) -> list[float]:
    """All values as numbers, also from texts; empty if one is not a number."""
    try:
        numbers = [math.nan if isinstance(value, bool) else float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        return []
    return [] if any(math.isnan(number) for number in numbers) else numbers


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    low, middle, high = (ordered[int(share * (len(ordered) - 1))] for share in (0.05, 0.5, 0.95))
    return f"median {middle:g}, 5 % to 95 %: {low:g} to {high:g}"


def _categories(name: str, left: list[str], right: list[str]) -> _FieldDifference:
    ours, theirs = Counter(left), Counter(right)
    every = sorted(ours.keys() | theirs.keys())
    comparison = chi_square([[ours[each] for each in every], [theirs[each] for each in every]])
    return _FieldDifference(name, "categories", comparison, _common(ours), _common(theirs))


def _common(counts: Counter[str]) -> str:
    total = counts.total()
    return ", ".join(f"{word[:30]!r} {count / total:.0%}" for word, count in counts.most_common(4))


def _texts(name: str, left: list[str], right: list[str]) -> Iterator[_FieldDifference]:
    long, longer = [float(len(text)) for text in left], [float(len(text)) for text in right]
    yield _FieldDifference(name, "lengths", ks(long, longer), f"characters: {_spread(long)}", f"characters: {_spread(longer)}")
    odd, others = (sum(not text.isascii() for text in texts) for texts in (left, right))
    shares = (f"{odd / len(left):.0%} beyond ASCII", f"{others / len(right):.0%} beyond ASCII")
    yield _FieldDifference(name, "letters", fisher(odd, len(left), others, len(right)), *shares)
    words = _words(name, left, right)
    if words is not None:
        yield words
    size = min(len(left), len(right))
    twice, again = (size - len(set(Random(0).sample(texts, size))) for texts in (left, right))  # noqa: S311 - seeded, not secret
    shares = (f"{twice / size:.0%} repeated", f"{again / size:.0%} repeated")
    yield _FieldDifference(name, "repeats", fisher(twice, size, again, size), *shares)


def _words(name: str, left: list[str], right: list[str]) -> _FieldDifference | None:
    """Compare the 50 most common words; None if they are less than half of the text. Numbers count as one word."""
    ours, theirs = _word_counts(left), _word_counts(right)
    together = ours + theirs
    if not ours or not theirs:
        return None
    kept = [word for word, _ in together.most_common(50)]
    if sum(together[word] for word in kept) * 2 < together.total():
        return None
    rows = [[counts[word] for word in kept] + [counts.total() - sum(counts[word] for word in kept)] for counts in (ours, theirs)]
    named = [dict(zip([*kept, " rest"], row, strict=True)) for row in rows]
    return _FieldDifference(name, "words", TestResult(jensen_shannon(*named), chi_square(rows).p), _common(ours), _common(theirs))


def _word_counts(texts: Sequence[str]) -> Counter[str]:
    return Counter(re.sub(r"\d+", "0", word) for text in texts for word in re.findall(r"\w+|[^\w\s]", text.casefold()[:2_000]))


def _repeated_rows(here: Sequence[Json], real: Sequence[Json]) -> Iterator[_FieldDifference]:
    size = min(len(here), len(real), _MOST)
    if size < _FEWEST:
        return
    twice, again = (size - len({_encoded_row(row) for row in Random(0).sample(list(rows), size)}) for rows in (here, real))  # noqa: S311 - seeded, not secret
    shares = (f"{twice / size:.0%} of rows repeated", f"{again / size:.0%} of rows repeated")
    yield _FieldDifference("(whole rows)", "repeats", fisher(twice, size, again, size), *shares)


def _encoded_row(row: Json) -> bytes:
    return msgspec.json.encode(row, order="deterministic", enc_hook=repr)


# -- deciding ----------------------------------------------------------------------------------------------------------


def significant_differences(differences: Sequence[_FieldDifference]) -> dict[str, list[_FieldDifference]]:
    """The large and significant differences, by field: Holm within each kind, Benjamini-Hochberg over all."""
    kinds = group_by_key((difference.kind, at) for at, difference in enumerate(differences))
    within = [0.0] * len(differences)
    for places in kinds.values():
        for at, p in zip(places, holm([differences[at].comparison.p for at in places]), strict=True):
            within[at] = p
    pairs = zip(differences, benjamini_hochberg(within), strict=True)
    return group_by_key((each.field, each) for each, p in pairs if p < _LEVEL and each.comparison.effect > _GATES[each.kind])


def _finding(pool: Pool, real: int, field: str, found: list[_FieldDifference]) -> Finding:
    worst = max(found, key=lambda each: each.comparison.effect / _GATES[each.kind])
    kinds = ", ".join(each.kind for each in found)
    witness = Witness(
        inputs={
            "field": field,
            "records": {"here": len(pool.rows), "tasks": pool.tasks, "real": real},
            "differs_in": {
                each.kind: {"effect": round(each.comparison.effect, 3), "gate": _GATES[each.kind], "p": each.comparison.p}
                for each in found
            },
            "compared": f"`{pool.place}` in the tasks' data with the sample, by effect size and significance",
        },
        expected=f"real data: {worst.real}",
        observed=f"{worst.here} (differs in {kinds})",
    )
    title = f"`{field}` of `{pool.place}` differs from the real data: {worst.here}; real: {worst.real}"
    fix = "draw this field from the sample, or from a distribution fitted to it"
    return make_finding(f"D07.{worst.kind}", title, witness, where=f"{pool.place}.{field}", count=len(found), fix=fix)


def _nothing_to_compare(case: Case, pools: Sequence[Pool], sample: Sequence[Json]) -> Finding:
    there = ", ".join(f"`{pool.place}`" for pool in pools[:5]) or "none"
    wanted = ", ".join(sorted(_fields(sample))[:8])
    title = f"no records in the tasks' data have the sample's fields ({wanted}); records there: {there}"
    fix = "give a sample with the field names of the tasks' data"
    where = case.reference.name if case.reference else None
    return make_finding("D07.unmatched", title, severity=Severity.INFO, where=where, fix=fix)


# -- without a sample --------------------------------------------------------------------------------------------------


def _too_clean(pools: Sequence[Pool]) -> list[Finding]:
    """Signs of synthetic data, as information only."""
    found: list[Finding] = []
    for pool in pools:
        if len(pool.rows) < 2 * _FEWEST:
            continue
        texts = [value for row in pool.rows[:_MOST] for value in row.values() if isinstance(value, str)]
        signs = [
            ("no value is missing", all(not _missing(value) for row in pool.rows for value in row.values())),
            ("all text is ASCII", bool(texts) and all(text.isascii() for text in texts)),
            ("some text is a placeholder", any(_PLACEHOLDER.search(text) for text in texts)),
        ]
        seen = [sign for sign, there in signs if there]
        if len(seen) > 1:
            title = f"records at `{pool.place}` look synthetic: {', '.join(seen)}"
            fix = "compare them with a sample of real data: `--reference FILE`"
            count = len(pool.rows)
            found.append(make_finding("D07.clean", title, severity=Severity.INFO, where=pool.place, count=count, fix=fix))
    return found


PROBE = Probe("real-data", Layer.STATIC, ("D07",), _look)
