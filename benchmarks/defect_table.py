"""The table of `audit_defects.py`: recall and precision by class and direction, with intervals, and what was missed, by name."""

import math
from collections.abc import Callable
from typing import Any

from report import Row

Record = dict[str, Any]


def wilson(hits: int, of: int) -> str:
    """The share with its 95 % interval."""
    if not of:
        return ""
    z, share = 1.96, hits / of
    centre = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return f"{share:.2f} ({max(0.0, centre - half):.2f}-{min(1.0, centre + half):.2f})"


def table_rows(records: list[Record]) -> list[Row]:
    """All rows, of cases and of clean subjects alike."""
    pairs = [each for each in records if "before" in each["verdicts"]]
    clean = [each for each in records if "before" not in each["verdicts"]]
    rows = [Row("audited: cases, clean subjects", f"{len(pairs)}, {len(clean)}")]
    rows += [_recall("recall", pairs), *_by("direction", pairs), *_by("kind", pairs), *_by("project", pairs)] if pairs else []
    rows += [_precision(records)]
    rows += [_ship("clean subjects that SHIP", clean, "fix")] if clean else []
    rows += [_ship("fixed twins that SHIP", pairs, "fix")] if pairs else []
    rows += [_named("false SHIPs", pairs, lambda each: each["verdicts"]["before"] == "SHIP")] if pairs else []
    rows += (
        [_named("missed, verdict not SHIP", pairs, lambda each: not each["hits"] and each["verdicts"]["before"] != "SHIP")]
        if pairs
        else []
    )
    rows += [_named("found", pairs, lambda each: bool(each["hits"]), "hits")] if pairs else []
    rows += [
        _named("false serious findings at the fix or in a clean subject", records, lambda each: bool(each["false"]), "false")
    ]
    rows += [_named("not ended in its time, or no report (a case of these is a miss)", records, _has_no_report)]
    rows += [_named("INCOMPLETE at the fix or clean", records, lambda each: each["verdicts"]["fix"] == "INCOMPLETE")]
    spent = sorted(second for each in records for second in each["cpu_s"].values())
    rows += [Row("CPU-seconds of an audit: median, longest", f"{spent[len(spent) // 2]:.0f}, {spent[-1]:.0f}")] if spent else []
    return rows


def _has_no_report(record: Record) -> bool:
    return bool({"NO REPORT", "DID NOT END"} & set(record["verdicts"].values()))


def _recall(what: str, records: list[Record]) -> Row:
    hits = sum(bool(each["hits"]) for each in records)
    ships = sum(each["verdicts"]["before"] == "SHIP" for each in records)
    return Row(what, f"{hits} of {len(records)}", {"share (95 %)": wilson(hits, len(records)), "false SHIPs": str(ships)})


def _by(field: str, records: list[Record]) -> list[Row]:
    names = sorted({each[field] for each in records})
    return [_recall(f"recall, {field} {name}", [each for each in records if each[field] == name]) for name in names]


def _precision(records: list[Record]) -> Row:
    true = sum(len(each["hits"]) + len(set(each["real"]) - set(each["hits"])) for each in records)
    false = sum(len(each["false"]) for each in records)
    return Row(
        "precision of serious findings: codes that are right, of all judged",
        f"{true} of {true + false}",
        {"share (95 %)": wilson(true, true + false)},
    )


def _ship(what: str, records: list[Record], side: str) -> Row:
    ships = sum(each["verdicts"][side] == "SHIP" for each in records)
    return Row(what, f"{ships} of {len(records)}", {"share (95 %)": wilson(ships, len(records))})


def _named(what: str, records: list[Record], chosen: Callable[[Record], Any], codes: str = "") -> Row:
    names = [each["case"] + (f" ({', '.join(each[codes])})" if codes else "") for each in records if chosen(each)]
    return Row(what, f"{len(names)}: {', '.join(names)}" if names else "0")
