"""Checks of tables: CSV and TSV files with a header.

A cell is compared as a number if the expected value is a number, and as text (white space around it ignored) if not. Numbers may
have thousands separators and a currency sign. Rows that were not asked for always count against the table, so that listing every
possible row does not pass.
"""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from sandlot.checks.found import Said, shown, text_of
from sandlot.checks.numerals import plain_number
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence

_MAX_CELLS = 2_000_000
_MAX_MATCHED_ROWS = 2_000
"""Rows compared with a tolerance and no key: each is compared with each."""
_MOST_NAMED = 3

_Row = Mapping[str, Any]
_Tolerance = float | Mapping[str, float]


def csv_rows(evidence: Evidence, path: str, *, rows: int | None = None, columns: list[str] | None = None) -> Said:
    """The CSV file has this many rows below its header, and at least these columns. It says nothing about their content.

    >>> csv_rows(evidence, "/out/orders.csv", rows=3, columns=["id", "amount"])
    (True, '`/out/orders.csv` has 3 rows')
    """
    try:
        table = list(csv.reader(io.StringIO(evidence.read_text(path), newline="")))
    except csv.Error as error:
        raise NotInEvidence(f"`{path}` is not CSV: {error}") from error
    header, count = (table[0] if table else []), max(len(table) - 1, 0)
    missing = [name for name in columns or [] if name not in header]
    text = f"`{path}` has {count} rows" + (f", no column {', '.join(missing)}" if missing else "")
    return not missing and (rows is None or rows == count), text


def table_equals(
    evidence: Evidence,
    path: str,
    rows: Sequence[_Row],
    *,
    key: str | Sequence[str] = (),
    tolerance: _Tolerance = 0.0,
    ordered: bool = False,
    other_columns: bool = False,
) -> Said:
    """The table has exactly these rows, in any order unless `ordered`.

    - `key`: column or columns that identify a row; differences are then reported by row. Two rows with one key are an error.
    - `tolerance`: how far numbers may differ, for all columns or per column.
    - `other_columns`: more columns than the rows name are allowed.

    >>> rows = [{"id": "a", "amount": 12.5}, {"id": "b", "amount": 7}, {"id": "c", "amount": 1204}]
    >>> table_equals(evidence, "/out/orders.csv", rows, key="id", tolerance={"amount": 0.01})
    (True, '3 of 3 rows are right')
    """
    share, reason = table_share(evidence, path, rows, key=key, tolerance=tolerance, ordered=ordered, other_columns=other_columns)
    return share == 1.0, reason


def table_share(
    evidence: Evidence,
    path: str,
    rows: Sequence[_Row],
    *,
    key: str | Sequence[str] = (),
    tolerance: _Tolerance = 0.0,
    ordered: bool = False,
    other_columns: bool = False,
) -> tuple[float, str]:
    """The share of right rows, for partial credit: right rows out of the rows expected or found, whichever is more.

    >>> rows = [{"id": "a", "amount": 12.5}, {"id": "b", "amount": 8}, {"id": "c", "amount": 1204}]
    >>> table_share(evidence, "/out/orders.csv", rows, key="id")
    (0.6666666666666666, "2 of 3 rows are right; row 'b': `amount` is '7', not 8")
    """
    header, found = _read_table(evidence, path)
    if not rows:
        raise ValueError("`rows` is empty: an empty table would pass; use `csv_rows` with `rows=0`")
    columns = list(rows[0])
    missing = [name for name in columns if name not in header]
    extra = [name for name in header if name not in columns]
    if missing or (extra and not other_columns):
        return (
            0.0,
            f"`{path}` has no column {shown(missing)}" if missing else f"`{path}` has columns not asked for: {shown(extra)}",
        )
    keys = [key] if isinstance(key, str) else list(key)
    if keys:
        right, wrong = _compare_keyed(found, rows, keys, tolerance)
    elif ordered:
        right = sum(_same_row(one, other, tolerance) for one, other in zip(found, rows, strict=False))
        wrong = [f"row {place} differs" for place, (one, other) in enumerate(zip(found, rows, strict=False), 1)
                 if not _same_row(one, other, tolerance)]  # fmt: skip
    else:
        right, wrong = _compare_as_bags(found, rows, tolerance)
    if ordered and keys and right == len(rows) == len(found):
        moved = [
            place for place, (one, other) in enumerate(zip(found, rows, strict=True), 1) if not _same_row(one, other, tolerance)
        ]
        right, wrong = right - len(moved), [f"row {place} is not in its place" for place in moved]
    most = max(len(rows), len(found))
    text = f"{right} of {most} rows are right" + (
        f"; the table has {len(found)}, not {len(rows)}" if len(found) != len(rows) else ""
    )
    return right / most, "; ".join([text, *wrong[:_MOST_NAMED]])


def table_sorted(evidence: Evidence, path: str, by: str, *, descending: bool = False, rows: int = 2) -> Said:
    """The rows are in order of column `by` (numbers as numbers), and there are at least `rows` of them.

    >>> table_sorted(evidence, "/out/orders.csv", "id")
    (True, 'the 3 rows of `/out/orders.csv` are sorted by `id`')
    """
    header, found = _read_table(evidence, path)
    if by not in header:
        return False, f"`{path}` has no column `{by}`"
    if len(found) < rows:
        return False, f"`{path}` has {len(found)} rows; the order is looked at from {rows}"
    cells = [row[by] for row in found]
    numbers = [plain_number(cell) for cell in cells]
    ranked: list[Any] = cells if None in numbers else numbers
    pairs = enumerate(pairwise(reversed(ranked) if descending else ranked), 1)
    wrong = next((place for place, (one, other) in pairs if one > other), None)
    if wrong is None:
        return True, f"the {len(found)} rows of `{path}` are sorted by `{by}`"
    return False, f"`{path}` is not sorted by `{by}`: see row {len(found) - wrong if descending else wrong}"


def table_unique(evidence: Evidence, path: str, columns: Sequence[str], *, rows: int = 1) -> Said:
    """No two rows have the same values in these columns, and there are at least `rows` rows.

    >>> table_unique(evidence, "/out/orders.csv", ["id"])
    (True, 'no 2 of the 3 rows of `/out/orders.csv` are the same')
    """
    header, found = _read_table(evidence, path)
    missing = [name for name in columns if name not in header]
    if missing or len(found) < rows:
        return False, f"`{path}` has no column {shown(missing)}" if missing else f"`{path}` has {len(found)} rows, not {rows}"
    counts = Counter(tuple(row[name].strip() for name in columns) for row in found)
    twice = [values for values, count in counts.items() if count > 1]
    if twice:
        return False, f"{len(twice)} values come more than once, such as {shown(list(twice[0]))}"
    return True, f"no 2 of the {len(found)} rows of `{path}` are the same"


def table_total(
    evidence: Evidence, path: str, column: str, value: float, *, tolerance: float = 0.0, rows: int | None = None
) -> Said:
    """The column adds up to `value`. Every cell must be a number. Rows that cancel out are not noticed unless `rows` is given.

    >>> table_total(evidence, "/out/orders.csv", "amount", 1223.5, rows=3)
    (True, '`amount` adds up to 1223.5')
    """
    header, found = _read_table(evidence, path)
    if column not in header:
        return False, f"`{path}` has no column `{column}`"
    numbers = [plain_number(row[column]) for row in found]
    bad = next((row[column] for row, number in zip(found, numbers, strict=True) if number is None), None)
    if bad is not None or not found:
        return False, f"{shown(bad)} in `{column}` is not a number" if bad is not None else f"`{path}` has no rows"
    total = sum(number for number in numbers if number is not None)
    fits = abs(float(total) - value) <= tolerance and rows in {None, len(found)}
    return fits, f"`{column}` adds up to {float(total):.12g}" + (
        f" in {len(found)} rows" if rows not in {None, len(found)} else ""
    )


def _read_table(evidence: Evidence, path: str) -> tuple[list[str], list[dict[str, str]]]:
    """The header and the rows. Rows of the wrong width, an empty or repeated name of a column: `NotInEvidence`."""
    text = text_of(evidence, path).removeprefix("\ufeff")
    first = text.partition("\n")[0]
    delimiter = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
    try:
        table = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except csv.Error as error:
        raise NotInEvidence(f"`{path}` is not a table: {error}") from error
    if not table:
        raise NotInEvidence(f"`{path}` is empty; a table has a header")
    header = [name.strip() for name in table[0]]
    if len(set(header)) != len(header) or not all(header):
        raise NotInEvidence(f"the header of `{path}` has an empty or repeated name: {shown(header)}")
    if len(header) * len(table) > _MAX_CELLS:
        raise NotInEvidence(f"`{path}` has {len(header) * len(table):,} cells; this check reads {_MAX_CELLS:,}", kind="cut")
    ragged = next((place for place, row in enumerate(table[1:], 1) if len(row) != len(header)), None)
    if ragged is not None:
        raise NotInEvidence(f"row {ragged} of `{path}` has {len(table[ragged])} cells; the header has {len(header)}")
    return header, [dict(zip(header, row, strict=True)) for row in table[1:]]


def _same_cell(cell: str, expected: Any, tolerance: float) -> bool:
    if isinstance(expected, bool):
        return cell.strip().casefold() == str(expected).casefold()
    if isinstance(expected, int | float):
        number = plain_number(cell)
        return number is not None and abs(float(number) - expected) <= tolerance
    return cell.strip() == ("" if expected is None else str(expected).strip())


def _same_row(row: Mapping[str, str], expected: _Row, tolerance: _Tolerance) -> bool:
    return all(_same_cell(row[name], value, _of_column(tolerance, name)) for name, value in expected.items())


def _of_column(tolerance: _Tolerance, name: str) -> float:
    return tolerance.get(name, 0.0) if isinstance(tolerance, Mapping) else tolerance


def _compare_keyed(
    found: Sequence[Mapping[str, str]], rows: Sequence[_Row], keys: Sequence[str], tolerance: _Tolerance
) -> tuple[int, list[str]]:
    """How many rows are right, and what is wrong, by key. A key that comes twice in the table has no right row."""
    named = Counter(tuple(row[name].strip() for name in keys) for row in found)
    by_key = {tuple(row[name].strip() for name in keys): row for row in found}
    right, wrong = 0, list[str]()
    for expected in rows:
        name = tuple(str(expected[key]).strip() for key in keys)
        row = by_key.pop(name, None)
        if row is None:
            wrong.append(f"row {shown(name[0] if len(name) == 1 else list(name))} is missing")
            continue
        bad = [key for key, value in expected.items() if not _same_cell(row[key], value, _of_column(tolerance, key))]
        label = shown(name[0] if len(name) == 1 else list(name))
        if named[name] > 1:
            wrong.append(f"row {label} comes {named[name]} times")
        elif bad:
            wrong.append(f"row {label}: `{bad[0]}` is {shown(row[bad[0]])}, not {expected[bad[0]]}")
        else:
            right += 1
    wrong += [f"row {shown(list(name))} is not expected" for name in list(by_key)[:_MOST_NAMED]]
    return right, wrong


def _compare_as_bags(found: Sequence[Mapping[str, str]], rows: Sequence[_Row], tolerance: _Tolerance) -> tuple[int, list[str]]:
    """How many expected rows have a row of their own in the table (the first that fits), in any order."""
    if max(len(found), len(rows)) > _MAX_MATCHED_ROWS:
        raise NotInEvidence(
            f"{len(found):,} rows are too many to compare without a key; the limit is {_MAX_MATCHED_ROWS:,}", kind="cut"
        )
    left = list(found)
    wrong: list[str] = []
    for expected in rows:
        place = next((number for number, row in enumerate(left) if _same_row(row, expected, tolerance)), None)
        if place is None:
            wrong.append(f"no row is {shown(dict(expected))}")
        else:
            del left[place]
    return len(rows) - len(wrong), wrong
