"""Taxes, loans, depreciation, currencies: calculations whose inputs will change."""

from random import Random

from .job import MONTHS, PEOPLE, TOWNS, Job, check
from .xlsx import Sheet, workbook

# -- income tax by brackets ---------------------------------------------------------------------------------------------

TAX = "/out/tax.xlsx"
TAX_PROMPT = """
/inbox/tax.xlsx has the tax table (sheet "Table"), the rules (sheet "Rules") and the client's figures (sheet "Client") for {client}. Complete the sheet "Form" and save the workbook as /out/tax.xlsx.

The lines of the form say what goes into column C. In short: total income, less the allowable expenses and the pension contributions (these only up to the cap in the rules), less the personal allowance, but never below zero; tax by the bands of the table, each rate on the part of the income inside its band; less the child credit per child and the tax already withheld. The last line is what is still to pay; a refund is a negative number.

All amounts in column C are formulas on the other sheets, so that we can reuse the form next year with other figures and rates. Show them with two decimals. Do not change the other three sheets.
"""
TAX_LINES = (
    "Total income",
    "Allowable expenses",
    "Pension contributions allowed",
    "Personal allowance",
    "Taxable income",
    "Tax by bands",
    "Child credit",
    "Tax due",
    "Tax withheld",
    "Still to pay",
)
TAX_GOLDEN = """
import openpyxl
book = openpyxl.load_workbook("/inbox/tax.xlsx")
form, client, table = book["Form"], book["Client"], book["Table"]
where = {client.cell(row, 1).value: f"Client!$B${row}" for row in range(1, client.max_row + 1)}
rule = {book["Rules"].cell(row, 1).value: f"Rules!$B${row}" for row in range(1, book["Rules"].max_row + 1)}
incomes = [row for row in range(1, client.max_row + 1) if str(client.cell(row, 1).value).startswith("Income")]
bands = [row for row in range(4, table.max_row + 1) if isinstance(table.cell(row, 3).value, (int, float))]
tax = "+".join(f"MAX(0,MIN(C8,{f'Table!$B${row}' if table.cell(row, 2).value is not None else '1E+99'})-Table!$A${row})*Table!$C${row}" for row in bands)
formulas = [
    f"=SUM(Client!$B${incomes[0]}:$B${incomes[-1]})", f"={where['Expenses']}", f"=MIN({where['Pension contributions']},{rule['Pension cap']})",
    f"={rule['Personal allowance']}", "=MAX(0,C4-C5-C6-C7)", f"={tax}", f"={where['Children']}*{rule['Credit per child']}", "=C9-C10",
    f"={where['Tax withheld']}", "=C11-C12",
]
for row, formula in enumerate(formulas, start=4):
    form.cell(row, 3).value = formula
    form.cell(row, 3).number_format = "#,##0.00"
book.save("/out/tax.xlsx")
"""


def tax(rng: Random) -> Job:
    client = rng.choice(PEOPLE)
    tops = sorted(rng.sample(range(8, 60), 3))
    edges = [0.0, *[top * 1000.0 for top in tops]]
    rates = [0.0, *sorted(rng.sample([0.10, 0.14, 0.20, 0.24, 0.32, 0.38], 3))]
    rules = {
        "Personal allowance": rng.randrange(40, 120) * 100.0,
        "Pension cap": rng.randrange(30, 70) * 100.0,
        "Credit per child": rng.randrange(20, 60) * 10.0,
    }
    incomes = {
        f"Income: {kind}": float(rng.randrange(3_000, 62_000))
        for kind in rng.sample(["salary", "freelance", "rent", "interest", "royalties"], rng.randint(2, 4))
    }
    facts = {
        "Expenses": float(rng.randrange(200, 4000)),
        "Pension contributions": float(rng.randrange(1000, 9000)),
        "Children": float(rng.randrange(0, 4)),
        "Tax withheld": float(rng.randrange(500, 12000)),
    }
    table = Sheet("Table").put("A1", "Income tax bands", "title").rows("A3", [["From", "To", "Rate"]], ("head",) * 3)
    for row, (low, high, rate) in enumerate(zip(edges, [*edges[1:], None], rates, strict=True)):
        table.rows(f"A{4 + row}", [[low, high, rate]], ("money", "money", "percent"))
    ruled = Sheet("Rules", widths={1: 24}).rows("A1", [[name, value] for name, value in rules.items()])
    given = list((incomes | facts).items())
    clients = Sheet("Client", widths={1: 26}).rows(
        "A1", [["Client", client], ["Town", rng.choice(TOWNS)], *[list(pair) for pair in given]]
    )
    form = (
        Sheet("Form", widths={2: 34})
        .put("A1", "Income tax form", "title")
        .rows("A3", [["Line", "Item", "Amount"]], ("head",) * 3)
    )
    form.rows("A4", [[number, line] for number, line in enumerate(TAX_LINES, start=1)])

    def model(incomes: dict[str, float], facts: dict[str, float], rates: list[float]) -> list[float]:
        total, pension = sum(incomes.values()), min(facts["Pension contributions"], rules["Pension cap"])
        taxable = max(0.0, total - facts["Expenses"] - pension - rules["Personal allowance"])
        due = sum(
            max(0.0, min(taxable, high) - low) * rate for low, high, rate in zip(edges, [*edges[1:], 1e99], rates, strict=True)
        )
        credit = facts["Children"] * rules["Credit per child"]
        return [
            total,
            facts["Expenses"],
            pension,
            rules["Personal allowance"],
            taxable,
            due,
            credit,
            due - credit,
            facts["Tax withheld"],
            due - credit - facts["Tax withheld"],
        ]

    first = next(iter(incomes))
    raised = incomes | {first: incomes[first] + 30_000.0}
    poor = dict.fromkeys(incomes, 100.0)
    other_rates = [rate + 0.05 if rate else rate for rate in rates]
    place = {name: f"Client!B{3 + row}" for row, (name, _) in enumerate(given)}
    changes = [
        {place[first]: raised[first]},
        {place[name]: 100.0 for name in incomes},
        {f"Table!C{4 + row}": rate for row, rate in enumerate(other_rates)},
    ]
    results = [model(raised, facts, rates), model(poor, facts, rates), model(incomes, facts, other_rates)]
    key = {
        "amounts": [[value] for value in model(incomes, facts, rates)],
        "changes": changes,
        "after": [{f"Form!C{4 + row}": value for row, value in enumerate(values)} for values in results],
    }
    return Job(
        TAX_PROMPT.format(client=client), {"/inbox/tax.xlsx": workbook(form, clients, table, ruled)}, TAX_GOLDEN, key, "hard"
    )


TAX_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=TAX, scenarios="$key.changes"),
    *[
        check(f"line_{number}", "cell_value", points, path=TAX, cell=f"Form!C{3 + number}", value=f"$key.amounts.{number - 1}.0")
        for number, points in enumerate([2, 1, 2, 1, 3, 4, 1, 2, 1, 3], start=1)
    ],
    *[
        check(f"line_{number}_is_live", "live_formula", 1, needs=(f"line_{number}",), path=TAX, cells=f"Form!C{3 + number}")
        for number in range(1, 11)
    ],
    check("more_income", "what_if", 4, path=TAX, changes="$key.changes.0", values="$key.after.0"),
    check("hardly_any_income", "what_if", 3, needs=("line_6",), path=TAX, changes="$key.changes.1", values="$key.after.1"),
    check("other_rates", "what_if", 3, needs=("line_6",), path=TAX, changes="$key.changes.2", values="$key.after.2"),
    check(
        "two_decimals", "number_format", 1, needs=("line_1",), tag="format", path=TAX, cells="Form!C4:C13", like="two_decimals"
    ),
    *[
        check(
            f"{sheet.lower()}_kept",
            "sheet_unchanged",
            1,
            needs=("line_5",),
            tag="care",
            path=TAX,
            original="/inbox/tax.xlsx",
            sheet=sheet,
        )
        for sheet in ("Client", "Table", "Rules")
    ],
    check(
        "form_kept",
        "sheet_unchanged",
        1,
        needs=("line_5",),
        tag="care",
        path=TAX,
        original="/inbox/tax.xlsx",
        sheet="Form",
        apart=["C4:C13"],
    ),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- loan schedule ------------------------------------------------------------------------------------------------------

LOAN = "/out/loan.xlsx"
LOAN_PROMPT = """
Please build a repayment schedule for a loan to {client}. /inbox/loan.xlsx has the terms on the sheet "Terms" (amount, yearly rate, months, fee). Save your workbook as /out/loan.xlsx.

On a new sheet "Schedule": header in row 1 (Month, Opening, Payment, Interest, Principal, Closing), one row per month from row 2. It is an annuity loan with equal monthly payments at the end of the month; the monthly rate is a twelfth of the yearly rate. Do not round. On "Terms", fill in B6 (monthly payment), B7 (total interest) and B8 (total cost: interest and fee).

The bank has not fixed the rate yet, so everything must follow the amount, the rate and the fee in B2, B3 and B5; the number of months is settled. Amounts with thousands separators and two decimals, header row bold and frozen, landscape and one page wide when printed.
"""
LOAN_GOLDEN = """
import openpyxl
from openpyxl.styles import Font
book = openpyxl.load_workbook("/inbox/loan.xlsx")
terms = book["Terms"]
months = int(terms["B4"].value)
sheet = book.create_sheet("Schedule")
sheet.append(["Month", "Opening", "Payment", "Interest", "Principal", "Closing"])
for month in range(1, months + 1):
    row = month + 1
    opening = "=Terms!$B$2" if month == 1 else f"=F{row - 1}"
    sheet.append([month, opening, "=Terms!$B$6", f"=B{row}*Terms!$B$3/12", f"=C{row}-D{row}", f"=B{row}-E{row}"])
    for column in "BCDEF":
        sheet[f"{column}{row}"].number_format = "#,##0.00"
for cell in sheet[1]:
    cell.font = Font(bold=True)
sheet.freeze_panes = "A2"
sheet.page_setup.orientation = "landscape"
sheet.sheet_properties.pageSetUpPr = openpyxl.worksheet.properties.PageSetupProperties(fitToPage=True)
sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight = 1, 0
terms["B6"] = "=PMT(B3/12,B4,-B2)"
terms["B7"] = f"=SUM(Schedule!D2:D{months + 1})"
terms["B8"] = "=B7+B5"
for cell in ("B6", "B7", "B8"):
    terms[cell].number_format = "#,##0.00"
book.save("/out/loan.xlsx")
"""


def loan(rng: Random) -> Job:
    amount, rate, months, fee = (
        rng.randrange(40, 400) * 250.0,
        rng.randrange(20, 95) / 1000,
        rng.choice([12, 18, 24, 36]),
        rng.randrange(10, 60) * 10.0,
    )
    client = f"{rng.choice(TOWNS)} {rng.choice(['Bakery', 'Joinery', 'Cycles', 'Dental', 'Print'])}"
    terms = Sheet("Terms", widths={1: 26}).put("A1", f"Loan to {client}", "title")
    terms.rows(
        "A2",
        [
            ["Amount", amount],
            ["Yearly rate", rate],
            ["Months", months],
            ["Fee", fee],
            ["Monthly payment"],
            ["Total interest"],
            ["Total cost"],
        ],
    )

    def model(amount: float, rate: float, fee: float) -> tuple[list[list[float]], list[float]]:
        monthly = rate / 12
        payment = amount * monthly / (1 - (1 + monthly) ** -months)
        rows, left = [], amount
        for month in range(1, months + 1):
            interest = left * monthly
            rows.append([float(month), left, payment, interest, payment - interest, left - payment + interest])
            left = rows[-1][-1]
        whole = sum(row[3] for row in rows)
        return rows, [payment, whole, whole + fee]

    rows, summary = model(amount, rate, fee)
    other = model(amount * 1.5, rate + 0.015, fee + 90)
    last = months + 1
    key = {
        "rows": rows,
        "summary": [[value] for value in summary],
        "first_at": "Schedule!A2:F2",
        "first": rows[:1],
        "last_at": f"Schedule!A{last}:F{last}",
        "last": rows[-1:],
        "columns": {
            name: f"Schedule!{letter}2:{letter}{last}"
            for name, letter in zip(("opening", "payment", "interest", "principal", "closing"), "BCDEF", strict=True)
        },
        "money_at": f"Schedule!B2:F{last}",
        "changes": [{"Terms!B2": amount * 1.5, "Terms!B3": rate + 0.015, "Terms!B5": fee + 90}],
        "summary_after": {f"Terms!B{6 + row}": value for row, value in enumerate(other[1])},
        "rows_after": {
            f"Schedule!{letter}{2 + row}": other[0][row][1 + n]
            for row in (0, months // 2, months - 1)
            for n, letter in enumerate("BCDEF")
        },
    }
    return Job(LOAN_PROMPT.format(client=client), {"/inbox/loan.xlsx": workbook(terms)}, LOAN_GOLDEN, key, "medium")


LOAN_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=LOAN, scenarios="$key.changes"),
    check("payment", "cell_value", 3, path=LOAN, cell="Terms!B6", value="$key.summary.0.0"),
    check("interest", "cell_value", 2, path=LOAN, cell="Terms!B7", value="$key.summary.1.0"),
    check("cost", "cell_value", 2, path=LOAN, cell="Terms!B8", value="$key.summary.2.0"),
    check(
        "header",
        "cell_values",
        1,
        needs=("first_row",),
        path=LOAN,
        cells="Schedule!A1:F1",
        values=[["Month", "Opening", "Payment", "Interest", "Principal", "Closing"]],
    ),
    check("first_row", "cell_values", 2, path=LOAN, cells="$key.first_at", values="$key.first"),
    check("last_row", "cell_values", 2, path=LOAN, cells="$key.last_at", values="$key.last"),
    check("all_rows", "table_rows", 4, path=LOAN, start="Schedule!A2", rows="$key.rows"),
    *[
        check(f"{name}_is_live", "live_formula", 1, needs=("first_row",), path=LOAN, cells=f"$key.columns.{name}")
        for name in ("opening", "payment", "interest", "principal", "closing")
    ],
    check("summary_is_live", "live_formula", 1, needs=("payment",), path=LOAN, cells="Terms!B6:B8"),
    check("summary_follows_terms", "what_if", 3, path=LOAN, changes="$key.changes.0", values="$key.summary_after"),
    check("schedule_follows_terms", "what_if", 4, path=LOAN, changes="$key.changes.0", values="$key.rows_after"),
    check(
        "money_format",
        "number_format",
        1,
        needs=("first_row",),
        tag="format",
        path=LOAN,
        cells="$key.money_at",
        like=["thousands", "two_decimals"],
    ),
    check(
        "summary_format",
        "number_format",
        1,
        needs=("payment",),
        tag="format",
        path=LOAN,
        cells="Terms!B6:B8",
        like=["thousands", "two_decimals"],
    ),
    check(
        "header_bold", "cell_style", 1, needs=("first_row",), tag="format", path=LOAN, cells="Schedule!A1:F1", like={"bold": True}
    ),
    check("header_frozen", "frozen_panes", 1, needs=("first_row",), tag="format", path=LOAN, cell="Schedule!A2"),
    check(
        "prints_wide",
        "page_setup",
        1,
        needs=("first_row",),
        tag="format",
        path=LOAN,
        sheet="Schedule",
        landscape=True,
        fit_to_width=True,
    ),
    check("no_errors", "no_error_values", 1, needs=("first_row",), path=LOAN),
    check(
        "terms_kept",
        "sheet_unchanged",
        1,
        needs=("payment",),
        tag="care",
        path=LOAN,
        original="/inbox/loan.xlsx",
        sheet="Terms",
        apart=["B6:B8"],
    ),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- depreciation -------------------------------------------------------------------------------------------------------

ASSETS = "/out/assets.xlsx"
ASSETS_PROMPT = """
/inbox/assets.xlsx lists the fixed assets of {firm} (sheet "Assets"): cost, salvage value, life in years and method, SL for straight line or DB for declining balance. Please add the depreciation and save it as /out/assets.xlsx.

On "Assets", columns F to K are the years {year} to {last}; every asset was bought on 1 January {year}. Fill in the depreciation of each asset and year with formulas:
- SL: (cost minus salvage) divided by the life, in each year of the life, nothing afterwards.
- DB: the rate in B1 of the sheet "Policy" on the book value at the start of the year, but never so much that the book value falls below the salvage value. The life does not limit it.
Column L is the book value at the end of {last}. Below the last asset, in the row that says "Total", put the sums of columns F to L. Format F to L with thousands separators and no decimals.

We will try other lives, costs and rates, so the formulas have to cope with that.
"""
ASSETS_GOLDEN = """
import openpyxl
book = openpyxl.load_workbook("/inbox/assets.xlsx")
sheet = book["Assets"]
total = next(row for row in range(4, sheet.max_row + 1) if sheet.cell(row, 1).value == "Total")
for row in range(4, total):
    for number, column in enumerate("FGHIJK"):
        before = f"SUM($F{row}:{chr(ord(column) - 1)}{row})" if number else "0"
        straight = f"IF({number + 1}<=$D{row},($B{row}-$C{row})/$D{row},0)"
        declining = f"MAX(0,MIN(($B{row}-{before})*Policy!$B$1,$B{row}-{before}-$C{row}))"
        sheet[f"{column}{row}"] = f'=IF($E{row}="SL",{straight},{declining})'
    sheet[f"L{row}"] = f"=B{row}-SUM(F{row}:K{row})"
for column in "FGHIJKL":
    sheet[f"{column}{total}"] = f"=SUM({column}4:{column}{total - 1})"
    for row in range(4, total + 1):
        sheet[f"{column}{row}"].number_format = "#,##0"
book.save("/out/assets.xlsx")
"""


def assets(rng: Random) -> Job:
    year = rng.choice([2023, 2024, 2025])
    firm = f"{rng.choice(TOWNS)} {rng.choice(['Logistics', 'Foods', 'Labs', 'Textiles'])}"
    names = rng.sample(
        [
            "Delivery van",
            "Lathe",
            "Server rack",
            "Forklift",
            "Oven",
            "Cold room",
            "Laser cutter",
            "Furniture",
            "Packing line",
            "Solar panels",
        ],
        rng.randint(5, 7),
    )
    given = [
        [
            name,
            rng.randrange(20, 300) * 200.0,
            rng.randrange(0, 20) * 100.0,
            rng.choice([3, 4, 5, 6, 8]),
            rng.choice(["SL", "DB"]),
        ]
        for name in names
    ]
    given[0][4], given[1][4], given[0][3] = "SL", "DB", 3
    rate = rng.choice([0.2, 0.25, 0.3, 0.4])
    sheet = Sheet("Assets", widths={1: 20}).put("A1", f"Fixed assets of {firm}", "title")
    sheet.rows("A3", [["Asset", "Cost", "Salvage", "Life", "Method", *range(year, year + 6), "Book value"]], ("head",) * 12)
    sheet.rows("A4", given).put(f"A{4 + len(names)}", "Total", "bold")
    policy = Sheet("Policy").rows("A1", [["Declining rate", rate], ["Approved by", rng.choice(PEOPLE)]])

    def model(given: list[list], rate: float) -> list[list[float]]:
        rows = []
        for _, cost, salvage, life, method in given:
            book, amounts = cost, []
            for number in range(6):
                amount = (
                    ((cost - salvage) / life if number < life else 0.0)
                    if method == "SL"
                    else max(0.0, min(book * rate, book - salvage))
                )
                amounts.append(amount)
                book -= amount
            rows.append([*amounts, book])
        return rows

    total = 4 + len(names)
    rows = model(given, rate)
    changed = [list(row) for row in given]
    changed[0][3], changed[1][1] = 5, given[1][1] + 10_000.0
    after = model(changed, rate + 0.1)
    sums = lambda rows: [sum(row[n] for row in rows) for n in range(7)]  # noqa: E731 - twice
    key = {
        "straight": [rows[0]],
        "declining": [rows[1]],
        "rows_at": f"Assets!F4:K{total - 1}",
        "rows": [row[:6] for row in rows],
        "values_at": f"Assets!L4:L{total - 1}",
        "values": [row[6:] for row in rows],
        "total_at": f"Assets!F{total}:L{total}",
        "total": [sums(rows)],
        "all_at": f"Assets!F4:L{total}",
        "changes": [{"Assets!D4": 5, "Assets!B5": changed[1][1], "Policy!B1": rate + 0.1}],
        "straight_after": {f"Assets!{c}4": after[0][n] for n, c in enumerate("FGHIJKL")},
        "declining_after": {f"Assets!{c}5": after[1][n] for n, c in enumerate("FGHIJKL")},
        "total_after": {f"Assets!{c}{total}": value for c, value in zip("FGHIJKL", sums(after), strict=True)},
        "apart": [f"F4:L{total}"],
    }
    prompt = ASSETS_PROMPT.format(firm=firm, year=year, last=year + 5)
    return Job(prompt, {"/inbox/assets.xlsx": workbook(sheet, policy)}, ASSETS_GOLDEN, key, "hard")


ASSETS_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=ASSETS, scenarios="$key.changes"),
    check("straight_line", "cell_values", 3, path=ASSETS, cells="Assets!F4:L4", values="$key.straight"),
    check("declining", "cell_values", 3, path=ASSETS, cells="Assets!F5:L5", values="$key.declining"),
    check("all_years", "cell_values", 5, path=ASSETS, cells="$key.rows_at", values="$key.rows"),
    check("book_values", "cell_values", 3, path=ASSETS, cells="$key.values_at", values="$key.values"),
    check("totals", "cell_values", 3, path=ASSETS, cells="$key.total_at", values="$key.total", tolerance=0.01),
    check("years_are_live", "live_formula", 2, needs=("straight_line",), path=ASSETS, cells="$key.rows_at"),
    check("book_values_are_live", "live_formula", 1, needs=("book_values",), path=ASSETS, cells="$key.values_at"),
    check("totals_are_live", "live_formula", 1, needs=("totals",), path=ASSETS, cells="$key.total_at"),
    check("other_life", "what_if", 3, path=ASSETS, changes="$key.changes.0", values="$key.straight_after"),
    check("other_rate", "what_if", 3, path=ASSETS, changes="$key.changes.0", values="$key.declining_after"),
    check("totals_follow", "what_if", 2, path=ASSETS, changes="$key.changes.0", values="$key.total_after", tolerance=0.01),
    check(
        "format",
        "number_format",
        1,
        needs=("straight_line",),
        tag="format",
        path=ASSETS,
        cells="$key.all_at",
        like=["thousands", "integer"],
    ),
    check(
        "list_kept",
        "sheet_unchanged",
        1,
        needs=("straight_line",),
        tag="care",
        path=ASSETS,
        original="/inbox/assets.xlsx",
        sheet="Assets",
        apart="$key.apart",
    ),
    check(
        "policy_kept",
        "sheet_unchanged",
        1,
        needs=("straight_line",),
        tag="care",
        path=ASSETS,
        original="/inbox/assets.xlsx",
        sheet="Policy",
    ),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- currency consolidation ---------------------------------------------------------------------------------------------

GROUP = "/out/group.xlsx"
GROUP_PROMPT = """
Consolidate our {count} companies. /inbox/group.xlsx has one sheet per company ({names}), each in its own currency with the same chart of accounts but not the same order or the same number of lines, and the sheet "Rates" (euros for one unit of the currency: Average for income and costs, Closing for assets and debts).

Add a sheet "Group" as the first sheet: row 1 header Account, Type, then one column per company in the order {names}, then Group; one row per account in the order of the sheet "Accounts", amounts in euros; companies that do not have an account show 0. Accounts of type P are income and costs, accounts of type B are assets and debts. Last row "Check": the sum of each column over the B accounts.

Use lookups, not copied numbers: the companies send corrections, and the rates change. Amounts with thousands separators and two decimals. The other sheets stay as they are. Save as /out/group.xlsx.
"""
GROUP_GOLDEN = """
import openpyxl
book = openpyxl.load_workbook("/inbox/group.xlsx")
accounts = book["Accounts"]
companies = [name for name in book.sheetnames if name not in ("Accounts", "Rates")]
rates = {book["Rates"].cell(row, 1).value: row for row in range(2, book["Rates"].max_row + 1)}
sheet = book.create_sheet("Group", 0)
sheet.append(["Account", "Type", *companies, "Group"])
count = accounts.max_row - 1
for row in range(2, count + 2):
    sheet[f"A{row}"], sheet[f"B{row}"] = f"=Accounts!A{row}", f"=Accounts!B{row}"
    for number, name in enumerate(companies):
        rate = rates[book[name]["B2"].value]
        column = "CDEFGH"[number]
        sheet[f"{column}{row}"] = f"=SUMIF('{name}'!$A$5:$A$60,$A{row},'{name}'!$B$5:$B$60)*IF($B{row}=\\"P\\",Rates!$B${rate},Rates!$C${rate})"
    last = "CDEFGH"[len(companies)]
    sheet[f"{last}{row}"] = f"=SUM(C{row}:{'CDEFGH'[len(companies) - 1]}{row})"
end = count + 2
sheet[f"A{end}"] = "Check"
for column in "CDEFGH"[: len(companies) + 1]:
    sheet[f"{column}{end}"] = f'=SUMIF($B$2:$B${end - 1},"B",{column}2:{column}{end - 1})'
    for row in range(2, end + 1):
        sheet[f"{column}{row}"].number_format = "#,##0.00"
book.save("/out/group.xlsx")
"""


COMPANIES = {"Berg AS": "NOK", "Leeds Ltd": "GBP", "Basel AG": "CHF", "Malmo AB": "SEK", "Boston Inc": "USD", "Gdansk SA": "PLN"}
EUROS = {"NOK": 0.086, "GBP": 1.17, "CHF": 1.05, "SEK": 0.088, "USD": 0.92, "PLN": 0.23}
SHARES = {
    "Revenue": (0.98, 1.02),
    "Cost of sales": (-0.55, -0.4),
    "Salaries": (-0.3, -0.2),
    "Rent": (-0.05, -0.02),
    "Interest": (-0.02, -0.005),
    "Cash": (0.05, 0.2),
    "Receivables": (0.1, 0.2),
    "Stock": (0.05, 0.2),
    "Machines": (0.1, 0.4),
    "Payables": (-0.15, -0.05),
    "Bank loan": (-0.3, -0.1),
}
"""By account, its amount as a share of a year's revenue: between these two."""


def group(rng: Random) -> Job:
    names = rng.sample(list(COMPANIES), 3)
    money = {name: COMPANIES[name] for name in names}
    accounts = [
        ("Revenue", "P"),
        ("Cost of sales", "P"),
        ("Salaries", "P"),
        ("Rent", "P"),
        ("Interest", "P"),
        ("Cash", "B"),
        ("Receivables", "B"),
        ("Stock", "B"),
        ("Machines", "B"),
        ("Payables", "B"),
        ("Bank loan", "B"),
    ]
    rates = {code: [round(EUROS[code] * rng.uniform(0.97, 1.03), 4), 0.0] for code in money.values()}
    for pair in rates.values():
        pair[1] = round(pair[0] * rng.uniform(0.95, 1.05), 4)
    books: dict[str, dict[str, float]] = {}
    sheets = []
    for name in names:
        left_out = set(rng.sample(["Rent", "Interest", "Stock", "Machines", "Bank loan"], rng.randint(1, 2)))
        lines = [(account, kind) for account, kind in accounts if account not in left_out]
        rng.shuffle(lines)
        revenue = rng.uniform(400_000, 900_000)
        books[name] = {account: round(revenue * rng.uniform(*SHARES[account]), 2) for account, _ in lines}
        sheet = (
            Sheet(name)
            .rows("A1", [["Company", name], ["Currency", money[name]]])
            .rows("A4", [["Account", "Amount"]], ("head",) * 2)
        )
        sheets.append(sheet.rows("A5", [[account, value] for account, value in books[name].items()]))
    listed = Sheet("Accounts").rows("A1", [["Account", "Type"], *[list(pair) for pair in accounts]])
    rated = Sheet("Rates").rows(
        "A1", [["Currency", "Average", "Closing"], *[[code, *pair] for code, pair in sorted(rates.items())]]
    )

    def model(books: dict[str, dict[str, float]], rates: dict[str, list[float]]) -> list[list[float]]:
        rows = []
        for account, kind in accounts:
            amounts = [books[name].get(account, 0.0) * rates[money[name]][kind == "B"] for name in names]
            rows.append([*amounts, sum(amounts)])
        return [*rows, [sum(rows[n][c] for n, (_, kind) in enumerate(accounts) if kind == "B") for c in range(4)]]

    rows = model(books, rates)
    code = money[names[1]]
    other_rates = rates | {code: [rates[code][0] * 1.1, rates[code][1] * 1.2]}
    changed = {name: dict(lines) for name, lines in books.items()}
    changed[names[0]]["Revenue"] += 5000.0
    row = 5 + list(books[names[0]]).index("Revenue")
    rate_row = 2 + sorted(rates).index(code)
    after = model(changed, other_rates)
    end = len(accounts) + 2
    key = {
        "header": [["Account", "Type", *names, "Group"]],
        "labels": [[account, kind] for account, kind in accounts],
        "companies": [row[:3] for row in rows[:-1]],
        "group": [row[3:] for row in rows[:-1]],
        "check_row": rows[-1:],
        "sheets": ["Group", *names, "Accounts", "Rates"],
        "changes": [
            {
                f"{names[0]}!B{row}": changed[names[0]]["Revenue"],
                f"Rates!B{rate_row}": other_rates[code][0],
                f"Rates!C{rate_row}": other_rates[code][1],
            }
        ],
        "after": {f"Group!{c}{2 + n}": after[n][k] for n in range(len(accounts) + 1) for k, c in enumerate("CDEF")},
        "names": names,
    }
    assert end == 13
    prompt = GROUP_PROMPT.format(count=len(names), names=", ".join(names))
    return Job(prompt, {"/inbox/group.xlsx": workbook(*sheets, listed, rated)}, GROUP_GOLDEN, key, "hard")


GROUP_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=GROUP, scenarios="$key.changes"),
    check("sheets", "sheet_names", 1, needs=("companies",), path=GROUP, names="$key.sheets"),
    check("header", "cell_values", 1, needs=("companies",), path=GROUP, cells="Group!A1:F1", values="$key.header"),
    check("labels", "cell_values", 1, needs=("companies",), path=GROUP, cells="Group!A2:B12", values="$key.labels"),
    check("companies", "cell_values", 6, path=GROUP, cells="Group!C2:E12", values="$key.companies"),
    check("group_column", "cell_values", 4, path=GROUP, cells="Group!F2:F12", values="$key.group"),
    check("check_row", "cell_values", 3, path=GROUP, cells="Group!C13:F13", values="$key.check_row", tolerance=0.01),
    check("check_label", "cell_value", 1, needs=("check_row",), path=GROUP, cell="Group!A13", value="Check"),
    check("companies_are_live", "live_formula", 3, needs=("companies",), path=GROUP, cells="Group!C2:E12"),
    check("group_is_live", "live_formula", 1, needs=("group_column",), path=GROUP, cells="Group!F2:F12"),
    check("check_is_live", "live_formula", 1, needs=("check_row",), path=GROUP, cells="Group!C13:F13"),
    check("reads_rates", "live_formula", 1, needs=("companies",), path=GROUP, cells="Group!F2:F12", reads=["Rates!B2:B4"]),
    check("follows_corrections", "what_if", 6, path=GROUP, changes="$key.changes.0", values="$key.after", tolerance=0.01),
    check(
        "format",
        "number_format",
        1,
        needs=("companies",),
        tag="format",
        path=GROUP,
        cells="Group!C2:F13",
        like=["thousands", "two_decimals"],
    ),
    *[
        check(
            f"company_{n + 1}_kept",
            "sheet_unchanged",
            1,
            needs=("companies",),
            tag="care",
            path=GROUP,
            original="/inbox/group.xlsx",
            sheet=f"$key.names.{n}",
        )
        for n in range(3)
    ],
    check(
        "rates_kept",
        "sheet_unchanged",
        1,
        needs=("companies",),
        tag="care",
        path=GROUP,
        original="/inbox/group.xlsx",
        sheet="Rates",
    ),
    check("no_errors", "no_error_values", 1, needs=("companies",), path=GROUP),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- a chart of monthly sales -------------------------------------------------------------------------------------------

CHART = "/out/sales.xlsx"
CHART_PROMPT = """
/inbox/sales.xlsx has the monthly sales of two product lines, in thousands of euros (sheet "Sales"; the rows below the months are remarks). For the board meeting I need a chart, please; save the workbook as /out/sales.xlsx.

- A {kind} chart on the sheet "Board" (make it), with the months as categories and both product lines as series, taken from the cells of "Sales", so that corrections show. Only the months, no totals and no remarks.
- Title "{title}"; the category axis is called "Month", the value axis "EUR thousand".
- Next to it on "Board", in A1:D4, a small table: header Product, Total, Best month, Average; one row each for {one} and {two}, one row "Both" (its best month is the month with the highest sum). Formulas, please, Total with thousands separators and no decimals.

Leave the sheet "Sales" alone.
"""
CHART_GOLDEN = """
import openpyxl
from openpyxl.chart import BarChart, LineChart, Reference
book = openpyxl.load_workbook("/inbox/sales.xlsx")
sales = book["Sales"]
board = book.create_sheet("Board")
first, last = 4, 15
chart = LineChart() if "KIND" == "line" else BarChart()
chart.title, chart.x_axis.title, chart.y_axis.title = "TITLE", "Month", "EUR thousand"
chart.x_axis.delete = chart.y_axis.delete = False
chart.add_data(Reference(sales, min_col=2, max_col=3, min_row=first - 1, max_row=last), titles_from_data=True)
chart.set_categories(Reference(sales, min_col=1, min_row=first, max_row=last))
board.add_chart(chart, "A8")
board.append(["Product", "Total", "Best month", "Average"])
for row, column in ((2, "B"), (3, "C")):
    area = f"Sales!${column}${first}:${column}${last}"
    board.append([f"=Sales!{column}{first - 1}", f"=SUM({area})", f"=INDEX(Sales!$A${first}:$A${last},MATCH(MAX({area}),{area},0))", f"=AVERAGE({area})"])
both = f"Sales!$B${first}:$B${last}+Sales!$C${first}:$C${last}"
board["A4"], board["B4"], board["D4"] = "Both", "=B2+B3", "=B4/12"
sums = ",".join(f"Sales!B{row}+Sales!C{row}" for row in range(first, last + 1))
tests = "".join(f"IF(Sales!B{row}+Sales!C{row}=MAX({sums}),Sales!A{row}," for row in range(first, last + 1))
board["C4"] = f'={tests}""' + ")" * 12
for row in (2, 3, 4):
    board[f"B{row}"].number_format = "#,##0"
book.save("/out/sales.xlsx")
"""


def chart(rng: Random) -> Job:
    one, two = rng.sample(["Tents", "Backpacks", "Stoves", "Jackets", "Boots", "Lamps"], 2)
    kind, year = rng.choice(["line", "column"]), rng.choice([2024, 2025])
    title = f"Sales of {one} and {two} {year}"
    while True:
        rows = [[month, float(rng.randrange(800, 4200)), float(rng.randrange(600, 3800))] for month in MONTHS]
        if all(len({row[n] for row in rows}) == 12 for n in (1, 2)) and len({row[1] + row[2] for row in rows}) == 12:
            break
    sheet = (
        Sheet("Sales")
        .put("A1", f"Monthly sales {year}, EUR thousand", "title")
        .rows("A3", [["Month", one, two]], ("head",) * 3)
        .rows("A4", rows)
    )
    sheet.put("A16", "Total").put("B16", "=SUM(B4:B15)", cached=1).put("C16", "=SUM(C4:C15)", cached=1)
    sheet.put("A18", f"{two}: deliveries were late in {rng.choice(MONTHS)}", "grey").put("B18", 99_999.0)

    def table(rows: list[list]) -> list[list]:
        best = lambda score: max(rows, key=score)[0]  # noqa: E731 - three times
        totals = [sum(row[1] for row in rows), sum(row[2] for row in rows)]
        bests = [best(lambda row: row[1]), best(lambda row: row[2]), best(lambda row: row[1] + row[2])]
        return [
            [one, totals[0], bests[0], totals[0] / 12],
            [two, totals[1], bests[1], totals[1] / 12],
            ["Both", sum(totals), bests[2], sum(totals) / 12],
        ]

    changed = [list(row) for row in rows]
    place = rng.randrange(12)
    changed[place][1] = 9_000.0
    now, after = table(rows), table(changed)
    key = {
        "kind": kind,
        "title": title,
        "totals": [[row[1]] for row in now],
        "best": [[row[2]] for row in now],
        "average": [[row[3]] for row in now],
        "labels": [[row[0]] for row in now],
        "changes": [{f"Sales!B{4 + place}": 9_000.0}],
        "after": {f"Board!{c}{2 + n}": after[n][k] for n in range(3) for k, c in ((1, "B"), (2, "C"), (3, "D"))},
    }
    prompt = CHART_PROMPT.format(kind=kind, title=title, one=one, two=two)
    return Job(
        prompt, {"/inbox/sales.xlsx": workbook(sheet)}, CHART_GOLDEN.replace("KIND", kind).replace("TITLE", title), key, "medium"
    )


_SERIES = ["Sales!B4:B15", "Sales!C4:C15"]
CHART_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=CHART, scenarios="$key.changes"),
    check("series", "chart_shows", 4, path=CHART, sheet="Board", values=_SERIES),
    check("categories", "chart_shows", 2, path=CHART, sheet="Board", values=_SERIES, categories="Sales!A4:A15"),
    check("kind", "chart_shows", 2, path=CHART, sheet="Board", values=_SERIES, kind="$key.kind"),
    check("title", "chart_shows", 2, path=CHART, sheet="Board", values=_SERIES, title="$key.title"),
    check("axes", "chart_shows", 2, path=CHART, sheet="Board", values=_SERIES, axis_titles=["Month", "EUR thousand"]),
    check(
        "header",
        "cell_values",
        1,
        needs=("totals",),
        path=CHART,
        cells="Board!A1:D1",
        values=[["Product", "Total", "Best month", "Average"]],
    ),
    check("labels", "cell_values", 1, needs=("totals",), path=CHART, cells="Board!A2:A4", values="$key.labels"),
    check("totals", "cell_values", 2, path=CHART, cells="Board!B2:B4", values="$key.totals"),
    check("best_months", "cell_values", 3, path=CHART, cells="Board!C2:C4", values="$key.best"),
    check("averages", "cell_values", 2, path=CHART, cells="Board!D2:D4", values="$key.average"),
    check("totals_are_live", "live_formula", 1, needs=("totals",), path=CHART, cells="Board!B2:B4"),
    check("table_follows", "what_if", 3, path=CHART, changes="$key.changes.0", values="$key.after"),
    check(
        "format",
        "number_format",
        1,
        needs=("totals",),
        tag="format",
        path=CHART,
        cells="Board!B2:B4",
        like=["thousands", "integer"],
    ),
    check(
        "sales_kept", "sheet_unchanged", 1, needs=("totals",), tag="care", path=CHART, original="/inbox/sales.xlsx", sheet="Sales"
    ),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]
