"""Department budgets, timesheets, inventories: tables that must become live models."""

from random import Random

from .job import PEOPLE, Job, check
from .xlsx import Sheet, workbook

BUDGET = "/out/budget.xlsx"
BUDGET_PROMPT = """
/inbox/budget.xlsx is the {dept} budget for {year}. Please finish the sheet "Plan" and save it as /out/budget.xlsx.

1. A few of the quarterly figures were pasted from a mail and are stored as text (some with a blank as thousands separator). Turn them into numbers.
2. Fill in for every category: Actual (column G, the four quarters), Variance (H, budget minus actual) and Used % (I, actual as a share of the budget).
3. Add a row "Total" directly below the last category, for columns B to H, and Used % of the whole budget in I.
4. Money in B to H with thousands separators and two decimals, Used % as a percentage.
5. Mark negative variances with a conditional format on the categories of column H ("less than 0"), and freeze the rows down to the header, so that row 4 is the first that scrolls.
6. Name the cell with the total budget TotalBudget.

We change the figures every month, so everything must follow its inputs. Leave the sheet "Notes" as it is.
"""
CATEGORIES = (
    "Salaries",
    "Travel",
    "Software",
    "Training",
    "Rent",
    "Hardware",
    "Advertising",
    "Consulting",
    "Insurance",
    "Recruiting",
    "Catering",
    "Cloud",
)
CONTRACTS = ("Rent", "Insurance", "Software", "Cloud")
BUDGET_GOLDEN = """
import openpyxl
from openpyxl.formatting.rule import CellIsRule
from openpyxl.styles import PatternFill
from openpyxl.workbook.defined_name import DefinedName
book = openpyxl.load_workbook("/inbox/budget.xlsx")
sheet = book["Plan"]
last = max(row for row in range(4, sheet.max_row + 1) if sheet.cell(row, 1).value)
for row in range(4, last + 1):
    for column in range(2, 7):
        value = sheet.cell(row, column).value
        if isinstance(value, str):
            sheet.cell(row, column).value = float(value.replace(" ", "").replace("\\u00a0", ""))
    sheet.cell(row, 7).value = f"=SUM(C{row}:F{row})"
    sheet.cell(row, 8).value = f"=B{row}-G{row}"
    sheet.cell(row, 9).value = f"=G{row}/B{row}"
total = last + 1
sheet.cell(total, 1).value = "Total"
for column in "BCDEFGH":
    sheet[f"{column}{total}"] = f"=SUM({column}4:{column}{last})"
sheet[f"I{total}"] = f"=G{total}/B{total}"
for row in range(4, total + 1):
    for column in "BCDEFGH":
        sheet[f"{column}{row}"].number_format = "#,##0.00"
    sheet[f"I{row}"].number_format = "0.0%"
sheet.conditional_formatting.add(f"H4:H{last}", CellIsRule(operator="lessThan", formula=["0"], fill=PatternFill("solid", bgColor="FFC7CE")))
sheet.freeze_panes = "A4"
book.defined_names["TotalBudget"] = DefinedName("TotalBudget", attr_text=f"Plan!$B${total}")
book.save("/out/budget.xlsx")
"""


def quarters_of(rng: Random, name: str, plan: float) -> list[float]:
    """What was spent in four quarters; contracts cost the same in each."""
    if name in CONTRACTS:
        return [round(plan / 4 * rng.uniform(0.9, 1.1), 2)] * 4
    return [round(plan / 4 * rng.uniform(0.7, 1.3), 2) for _ in range(4)]


def budget(rng: Random) -> Job:
    dept, year = rng.choice(["Marketing", "Operations", "Research", "IT", "Sales"]), rng.choice([2025, 2026])
    names = rng.sample(CATEGORIES, rng.randint(6, 9))
    plans = [rng.randrange(80, 900) * 50.0 for _ in names]
    actuals = [quarters_of(rng, name, plan) for name, plan in zip(names, plans, strict=True)]
    sheet = Sheet("Plan", widths={1: 22}).put("A1", f"{dept} budget {year}", "title")
    sheet.merged.append("A1:I1")
    sheet.rows("A3", [["Category", "Budget", "Q1", "Q2", "Q3", "Q4", "Actual", "Variance", "Used %"]], ("head",) * 9)
    spoiled = rng.sample([(row, column) for row in range(len(names)) for column in range(4)], 3)
    for row, (name, plan, quarters) in enumerate(zip(names, plans, actuals, strict=True)):
        cells: list = [name, plan, *quarters]
        for column in range(4):
            if (row, column) in spoiled:
                cells[2 + column] = f"{quarters[column]:,.2f}".replace(",", " ")
        sheet.rows(f"A{4 + row}", [cells])
    notes = Sheet("Notes").rows("A1", [["Owner", rng.choice(PEOPLE)], ["Approved", f"{year - 1}-11-28"], ["Check", "=Plan!B4"]])
    last, total = 3 + len(names), 4 + len(names)

    def model(plans: list[float], actuals: list[list[float]]) -> dict[str, list[list[float]]]:
        sums = [sum(row) for row in actuals]
        columns = [sum(plans), *[sum(row[q] for row in actuals) for q in range(4)], sum(sums), sum(plans) - sum(sums)]
        lines = [[used, plan - used, used / plan] for plan, used in zip(plans, sums, strict=True)]
        return {"lines": lines, "total": [[*columns, sum(sums) / sum(plans)]]}

    now = model(plans, actuals)
    place, quarter, value = rng.randrange(len(names)), rng.randrange(4), float(rng.randrange(2000, 9000))
    changed = [list(row) for row in actuals]
    changed[place][quarter] = value
    plan = [*plans[:place], plans[place] + 1000.0, *plans[place + 1 :]]
    then = model(plan, changed)
    cell = "CDEF"[quarter]
    key = {
        "inputs": [[p, *row] for p, row in zip(plans, actuals, strict=True)],
        "inputs_at": f"Plan!B4:F{last}",
        "lines": now["lines"],
        "actual": [[row[0]] for row in now["lines"]],
        "variance": [[row[1]] for row in now["lines"]],
        "used": [[row[2]] for row in now["lines"]],
        "actual_at": f"Plan!G4:G{last}",
        "variance_at": f"Plan!H4:H{last}",
        "used_at": f"Plan!I4:I{last}",
        "total": now["total"],
        "total_at": f"Plan!B{total}:I{total}",
        "total_label": f"Plan!A{total}",
        "money_at": f"Plan!B4:H{total}",
        "percent_at": f"Plan!I4:I{total}",
        "total_cell": f"Plan!$B${total}",
        "apart": [f"A4:I{total}"],
        "changes": [{f"Plan!{cell}{4 + place}": value, f"Plan!B{4 + place}": plan[place]}],
        "line_after": {f"Plan!{c}{4 + place}": then["lines"][place][n] for n, c in enumerate("GHI")},
        "total_after": {f"Plan!{c}{total}": then["total"][0][n] for n, c in enumerate("BCDEFGHI")},
    }
    return Job(
        BUDGET_PROMPT.format(dept=dept, year=year), {"/inbox/budget.xlsx": workbook(sheet, notes)}, BUDGET_GOLDEN, key, "medium"
    )


BUDGET_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=BUDGET, scenarios="$key.changes"),
    check("figures_are_numbers", "cell_values", 3, needs=("actual",), path=BUDGET, cells="$key.inputs_at", values="$key.inputs"),
    check("actual", "cell_values", 3, path=BUDGET, cells="$key.actual_at", values="$key.actual"),
    check("variance", "cell_values", 3, path=BUDGET, cells="$key.variance_at", values="$key.variance"),
    check("used", "cell_values", 2, path=BUDGET, cells="$key.used_at", values="$key.used", tolerance=0.00005),
    check("total_row", "cell_values", 4, path=BUDGET, cells="$key.total_at", values="$key.total", tolerance=0.01),
    check("total_label", "cell_value", 1, needs=("total_row",), path=BUDGET, cell="$key.total_label", value="Total"),
    check("actual_is_live", "live_formula", 2, needs=("actual",), path=BUDGET, cells="$key.actual_at"),
    check("variance_is_live", "live_formula", 2, needs=("variance",), path=BUDGET, cells="$key.variance_at"),
    check("used_is_live", "live_formula", 1, needs=("used",), path=BUDGET, cells="$key.used_at"),
    check("total_is_live", "live_formula", 2, needs=("total_row",), path=BUDGET, cells="$key.total_at"),
    check("line_follows_inputs", "what_if", 3, path=BUDGET, changes="$key.changes.0", values="$key.line_after"),
    check("total_follows_inputs", "what_if", 3, path=BUDGET, changes="$key.changes.0", values="$key.total_after", tolerance=0.01),
    check(
        "money_format",
        "number_format",
        2,
        needs=("actual",),
        tag="format",
        path=BUDGET,
        cells="$key.money_at",
        like=["thousands", "two_decimals"],
    ),
    check(
        "percent_format", "number_format", 1, needs=("used",), tag="format", path=BUDGET, cells="$key.percent_at", like="percent"
    ),
    check(
        "negative_marked",
        "conditional_format",
        2,
        tag="format",
        path=BUDGET,
        cells="$key.variance_at",
        kind="cellIs",
        operator="lessThan",
    ),
    check("header_frozen", "frozen_panes", 1, tag="format", path=BUDGET, cell="Plan!A4"),
    check("named", "named_range", 2, path=BUDGET, name="TotalBudget", refers="$key.total_cell"),
    check("no_errors", "no_error_values", 1, needs=("total_row",), path=BUDGET),
    check(
        "notes_kept",
        "sheet_unchanged",
        1,
        needs=("actual",),
        tag="care",
        path=BUDGET,
        original="/inbox/budget.xlsx",
        sheet="Notes",
    ),
    check(
        "rest_kept",
        "sheet_unchanged",
        1,
        needs=("actual",),
        tag="care",
        path=BUDGET,
        original="/inbox/budget.xlsx",
        sheet="Plan",
        apart="$key.apart",
    ),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]
