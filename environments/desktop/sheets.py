"""Jobs in the spreadsheet program: correct cells, add totals that calculate, and carry a figure into a letter."""

from random import Random
from typing import Any
from xml.sax.saxutils import escape

from .hands import Hands
from .job import DOCUMENTS, GOODS, PEOPLE, Family, Job, background, text_is, town_of

_NAMESPACE = "http://www.gnumeric.org/v10.dtd"


def workbook(name: str, rows: list[list[str | int | float]]) -> str:
    """A Gnumeric workbook of one sheet, as it is saved without compression."""
    cells = "".join(
        f'<gnm:Cell Row="{row}" Col="{column}" ValueType="{60 if isinstance(value, str) else 40}">{escape(str(value))}</gnm:Cell>'
        for row, values in enumerate(rows)
        for column, value in enumerate(values)
        if value != ""
    )
    size = '<gnm:SheetName gnm:Cols="256" gnm:Rows="65536">'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<gnm:Workbook xmlns:gnm="{_NAMESPACE}">'
        '<gnm:Version Epoch="1" Major="12" Minor="57" Full="1.12.57"/>'
        f"<gnm:SheetNameIndex>{size}{name}</gnm:SheetName></gnm:SheetNameIndex>"
        f"<gnm:Sheets><gnm:Sheet><gnm:Name>{name}</gnm:Name><gnm:MaxCol>{max(map(len, rows)) - 1}</gnm:MaxCol>"
        f"<gnm:MaxRow>{len(rows) - 1}</gnm:MaxRow><gnm:Cells>{cells}</gnm:Cells></gnm:Sheet></gnm:Sheets></gnm:Workbook>\n"
    )


def _places(rows: list[list[str | int | float]]) -> dict[str, str]:
    return {
        f"{'ABCDEFGH'[column]}{row}": str(value)
        for row, values in enumerate(rows, 1)
        for column, value in enumerate(values)
        if value != ""
    }


def _stock(rng: Random, count: int) -> list[list[str | int | float]]:
    rows: list[list[str | int | float]] = [["article", "pieces", "price"]]
    rows += [[good, rng.randrange(5, 400), rng.randrange(100, 9000) / 100] for good in rng.sample(GOODS, count)]
    return rows


# -- correct cells -----------------------------------------------------------------------------------------------------


def make_correct(rng: Random, level: int) -> Job:
    rows = _stock(rng, 5 + level)
    town = town_of(rng, level)
    path = f"{DOCUMENTS}/{town}/stock.gnumeric"
    changes: dict[str, str] = {}
    told: list[str] = []
    for row in sorted(rng.sample(range(1, len(rows)), level + 1)):
        column = rng.choice((1, 2))
        value = rng.randrange(401, 900) if column == 1 else rng.randrange(9001, 20000) / 100
        changes[f"{'ABC'[column]}{row + 1}"] = str(value)
        told.append(f"{rows[row][0]}: {'pieces' if column == 1 else 'price'} {value}")
    files: dict[str, str | bytes] = {**background(rng), path: workbook("Stock", rows)}
    files[f"{DOCUMENTS}/{town}/old/stock.gnumeric"] = workbook("Stock", _stock(rng, 4))
    where = ""
    if level > 1:
        files[f"{DOCUMENTS}/{town}/corrections.txt"] = "Corrections to the stock list\n\n" + "\n".join(told) + "\n"
        where = f"Documents/{town}/corrections.txt has corrections to the stock list beside it, stock.gnumeric. Enter them"
    asked = f"{where} and save the list under the same name." if where else ""
    keep = {place: value for place, value in _places(rows).items() if place not in changes}
    return Job(
        prompt=asked
        or f"Correct the stock list Documents/{town}/stock.gnumeric: {'; '.join(told)}. Save it under the same name.",
        files=files,
        wants=[{"kind": "cells", "path": path, "sheet": "Stock", "cells": changes, "keep": keep}],
        plan={"path": path, "cells": changes, "read": f"{DOCUMENTS}/{town}/corrections.txt" if where else ""},
    )


async def play_cells(hands: Hands, plan: dict[str, Any]) -> None:
    if plan.get("read"):
        await hands.open("editor", plan["read"], plan["read"].rpartition("/")[2])
        await hands.find("text", "")
    name = plan["path"].rpartition("/")[2]
    await hands.open("sheets", plan["path"], name)
    for place, text in plan["cells"].items():
        await hands.go_to_cell(place)
        await hands.type(f"{text[0] if isinstance(text, list) else text}\n")
    await hands.press("ctrl+s")


# -- totals that calculate ---------------------------------------------------------------------------------------------


def make_totals(rng: Random, level: int) -> Job:
    months = ["January", "February", "March", "April"][: level + 1]
    rows: list[list[str | int | float]] = [["cost", *months]]
    rows += [
        [kind, *(rng.randrange(100, 3000) for _ in months)]
        for kind in ("rent", "power", "wages", "travel", "paper")[: 3 + level // 2]
    ]
    town = town_of(rng, level)
    path = f"{DOCUMENTS}/{town}/costs.gnumeric"
    last = len(rows)
    cells: dict[str, str | list[str]] = {f"A{last + 1}": "total"}
    for column in range(1, len(months) + 1):
        letter = "ABCDE"[column]
        added = "+".join(f"{letter}{row}" for row in range(2, last + 1))
        cells[f"{letter}{last + 1}"] = [f"=SUM({letter}2:{letter}{last})", f"={added}", f"=+{added}"]
    return Job(
        prompt=f"In Documents/{town}/costs.gnumeric, add a row 'total' directly below the last row: for each month the sum of the"
        " costs, as a formula, so that it stays right when a number changes. Save it under the same name.",
        files={
            **background(rng),
            path: workbook("Costs", rows),
            f"{DOCUMENTS}/costs.gnumeric": workbook("Costs", rows[:3]),
        },
        wants=[
            {
                "kind": "cells",
                "path": path,
                "sheet": "Costs",
                "cells": cells,
                "labels": [f"A{last + 1}"],
                "keep": _places(rows),
            }
        ],
        plan={"path": path, "cells": cells},
    )


# -- a figure for a letter ---------------------------------------------------------------------------------------------


def make_quote(rng: Random, level: int) -> Job:
    rows = _stock(rng, 6)
    chosen = rng.sample(range(1, 7), level)
    person = rng.choice(PEOPLE)
    head = f"Dear {person},\n\nour prices today:\n"
    foot = "\nAda Quist\n"
    letter = head + "".join(f"{rows[row][0]}: ?\n" for row in chosen) + foot
    done = head + "".join(f"{rows[row][0]}: {rows[row][2]:.2f}\n" for row in chosen) + foot
    town = town_of(rng, level)
    path, sheet = f"{DOCUMENTS}/{town}/offer.txt", f"{DOCUMENTS}/{town}/prices.gnumeric"
    files: dict[str, str | bytes] = {**background(rng), path: letter, sheet: workbook("Prices", rows)}
    other = [[*row[:2], row[2] + 1 if isinstance(row[2], float) else row[2]] for row in rows]
    files[f"{DOCUMENTS}/{town}/old/prices.gnumeric"] = workbook("Prices", other)
    return Job(
        prompt=f"In Documents/{town}/offer.txt, put the price of each article in the place of its question mark, with two"
        " decimals. The prices are in prices.gnumeric in the same folder, which must not change.",
        files=files,
        wants=[text_is(path, done)],
        plan={
            "path": path,
            "sheet": sheet,
            "cells": [f"C{row + 1}" for row in chosen],
            "lines": [[3 + number, f"{rows[row][0]}: {rows[row][2]:.2f}"] for number, row in enumerate(chosen)],
        },
    )


async def play_quote(hands: Hands, plan: dict[str, Any]) -> None:
    await hands.open("sheets", plan["sheet"], "prices.gnumeric")
    for place in plan["cells"]:
        await hands.go_to_cell(place)
        await hands.do("tree", text="text")
    await hands.open("editor", plan["path"], "offer.txt")
    for number, text in plan["lines"]:
        await hands.press("ctrl+Home")
        await hands.do("press", keys="Down", count=number)
        await hands.press("End", "shift+Home")
        await hands.type(text)
    await hands.press("ctrl+s")


FAMILIES = {
    "correct-cells": Family(make_correct, play_cells),
    "add-totals": Family(make_totals, play_cells),
    "quote-prices": Family(make_quote, play_quote),
}
