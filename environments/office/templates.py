"""Invoices from a template, models that were broken, grade books: work on what is already there."""

from datetime import date
from random import Random

from .job import PEOPLE, TOWNS, Job, check, working_day
from .xlsx import Sheet, workbook

# -- an invoice from a template -----------------------------------------------------------------------------------------

INVOICE = "/out/invoice.xlsx"
INVOICE_PROMPT = """
Please write the invoice for order {order}. /inbox/invoice.xlsx has our template (sheet "Invoice"), the orders (sheet "Orders") and the price list (sheet "Prices", prices without VAT). Save the finished workbook as /out/invoice.xlsx.

- B3 invoice number {number}; B4 invoice date {day}, B5 due date 30 days later (as a formula); B6 the customer and B7 the customer's VAT rate: both looked up in "Orders" by the order number that you put into B2.
- From row 10, one line per item of the order, in the order of the sheet "Orders": A article, B text, C quantity, D unit price, E amount. Text and unit price are looked up in "Prices" by formula; the price list has discounts: from {many} pieces of an article on, the "Bulk" price counts.
- E22 net, E23 VAT, E24 total to pay. VAT is rounded to cents.
- Dates look like dates, prices and amounts have two decimals. Unused lines between 10 and 21 stay empty. The sheets "Orders" and "Prices" stay as they are.
"""
INVOICE_GOLDEN = """
import datetime, openpyxl
book = openpyxl.load_workbook("/inbox/invoice.xlsx")
sheet, orders, prices = book["Invoice"], book["Orders"], book["Prices"]
end, last = orders.max_row, prices.max_row
sheet["B2"], sheet["B3"], sheet["B4"], sheet["B5"] = "ORDER", "NUMBER", datetime.date.fromisoformat("DAY"), "=B4+30"
sheet["B6"] = f"=INDEX(Orders!$B$2:$B${end},MATCH(B2,Orders!$A$2:$A${end},0))"
sheet["B7"] = f"=INDEX(Orders!$C$2:$C${end},MATCH(B2,Orders!$A$2:$A${end},0))"
sheet["B4"].number_format = sheet["B5"].number_format = "yyyy-mm-dd"
sheet["B7"].number_format = "0%"
row = 10
for line in range(2, end + 1):
    if orders.cell(line, 1).value != "ORDER":
        continue
    sheet[f"A{row}"], sheet[f"C{row}"] = f"=Orders!D{line}", f"=Orders!E{line}"
    found = f"MATCH(A{row},Prices!$A$2:$A${last},0)"
    sheet[f"B{row}"] = f"=INDEX(Prices!$B$2:$B${last},{found})"
    sheet[f"D{row}"] = f"=IF(C{row}>=MANY,INDEX(Prices!$D$2:$D${last},{found}),INDEX(Prices!$C$2:$C${last},{found}))"
    sheet[f"E{row}"] = f"=C{row}*D{row}"
    sheet[f"D{row}"].number_format = sheet[f"E{row}"].number_format = "#,##0.00"
    row += 1
sheet["E22"], sheet["E23"], sheet["E24"] = "=SUM(E10:E21)", "=ROUND(E22*B7,2)", "=E22+E23"
for cell in ("E22", "E23", "E24"):
    sheet[cell].number_format = "#,##0.00"
book.save("/out/invoice.xlsx")
"""


GOODS = {"shelf": (60, 180), "lamp": (30, 120), "tray": (8, 30), "box": (10, 40), "stool": (40, 120), "hook": (4, 12)}
"""Kinds of goods, and between which prices they are."""
VAT = {"GmbH": 0.19, "BV": 0.21, "SARL": 0.2, "Ltd": 0.23}
"""Forms of companies, and the rate of their countries."""


def invoice(rng: Random) -> Job:
    many = rng.choice([10, 20, 25])
    articles = [
        [
            f"{rng.choice('KLMN')}-{rng.randrange(100, 999)}{n}",
            f"{rng.choice(['Oak', 'Steel', 'Glass', 'Cork'])} {kind} {n + 1}",
            round(rng.uniform(*GOODS[kind]), 2),
        ]
        for n, kind in enumerate(rng.choices(list(GOODS), k=12))
    ]
    articles = [[*row, round(row[2] * rng.uniform(0.7, 0.9), 2)] for row in articles]
    price = {row[0]: row for row in articles}
    numbers = [f"A-{rng.randrange(2000, 9999)}" for _ in range(4)]
    rows = []
    for order in numbers:
        form, rate = rng.choice(list(VAT.items()))
        customer = f"{rng.choice(PEOPLE).split()[1]} {form}"
        rows += [
            [order, customer, rate, row[0], rng.choice([rng.randrange(1, many), rng.randrange(many, 3 * many)])]
            for row in rng.sample(articles, rng.randint(4, 7))
        ]
    order = rng.choice(numbers)
    rng.shuffle(rows)
    mine = [row for row in rows if row[0] == order]
    mine[0][4], mine[1][4] = many, many - 1
    day = working_day(rng, 2026, rng.randint(1, 12))
    number = f"2026-{rng.randrange(100, 999)}"

    def model(mine: list[list], rate: float) -> tuple[list[list[float]], list[float]]:
        lines = []
        for _, _, _, article, count in mine:
            unit = price[article][3] if count >= many else price[article][2]
            lines.append([float(count), unit, count * unit])
        net = sum(line[2] for line in lines)
        vat = int(net * rate * 100 + 0.5 + 1e-9) / 100
        return lines, [net, vat, net + vat]

    lines, sums = model(mine, mine[0][2])
    place = rows.index(mine[1])
    changed = [list(row) for row in mine]
    changed[1][4] = 3 * many
    after_lines, after = model(changed, mine[0][2])
    sheet = (
        Sheet("Invoice", widths={1: 16, 2: 26})
        .put("A1", "Invoice", "title")
        .rows("A2", [["Order"], ["Invoice number"], ["Date"], ["Due"], ["Customer"], ["VAT rate"]])
    )
    sheet.rows("A9", [["Article", "Text", "Quantity", "Unit price", "Amount"]], ("head",) * 5).put("D22", "Net").put(
        "D23", "VAT"
    ).put("D24", "Total", "bold").put("A27", "Payable without deduction. Thank you for your order.", "grey")
    ordered = Sheet("Orders").rows("A1", [["Order", "Customer", "VAT", "Article", "Quantity"], *rows])
    priced = Sheet("Prices").rows("A1", [["Article", "Text", "Price", "Bulk"], *articles])
    last = 9 + len(mine)
    serial = (day - date(1899, 12, 30)).days
    key = {
        "head": [[order], [number], [serial], [serial + 30], [mine[0][1]], [mine[0][2]]],
        "articles_at": f"Invoice!A10:B{last}",
        "articles": [[row[3], price[row[3]][1]] for row in mine],
        "quantities_at": f"Invoice!C10:C{last}",
        "quantities": [line[:1] for line in lines],
        "prices_at": f"Invoice!D10:D{last}",
        "prices": [line[1:2] for line in lines],
        "amounts_at": f"Invoice!E10:E{last}",
        "amounts": [line[2:] for line in lines],
        "looked_up_at": f"Invoice!D10:E{last}",
        "texts_at": f"Invoice!B10:B{last}",
        "rest_at": f"Invoice!A{last + 1}:E21",
        "rest": [[None] * 5 for _ in range(last + 1, 22)],
        "sums": [[value] for value in sums],
        "changes": [{f"Orders!E{2 + place}": 3 * many}, {"Invoice!C11": 3 * many}],
        "after": {f"Invoice!E{22 + n}": value for n, value in enumerate(after)} | {"Invoice!D11": after_lines[1][1]},
    }
    prompt = INVOICE_PROMPT.format(order=order, number=number, day=day.isoformat(), many=many)
    golden = (
        INVOICE_GOLDEN.replace("ORDER", order)
        .replace("NUMBER", number)
        .replace("DAY", day.isoformat())
        .replace("MANY", str(many))
    )
    return Job(prompt, {"/inbox/invoice.xlsx": workbook(sheet, ordered, priced)}, golden, key, "medium")


INVOICE_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=INVOICE, scenarios="$key.changes"),
    check(
        "number",
        "cell_values",
        1,
        needs=("articles",),
        path=INVOICE,
        cells="Invoice!B2:B3",
        values=["$key.head.0", "$key.head.1"],
    ),
    check("date", "cell_value", 1, needs=("articles",), path=INVOICE, cell="Invoice!B4", value="$key.head.2.0"),
    check("due", "cell_value", 1, needs=("date",), path=INVOICE, cell="Invoice!B5", value="$key.head.3.0"),
    check("due_is_live", "live_formula", 1, needs=("due",), path=INVOICE, cells="Invoice!B5", reads=["Invoice!B4"]),
    check("customer", "cell_value", 1, needs=("articles",), path=INVOICE, cell="Invoice!B6", value="$key.head.4.0"),
    check("rate", "cell_value", 1, needs=("articles",), path=INVOICE, cell="Invoice!B7", value="$key.head.5.0"),
    check("lookups_are_live", "live_formula", 1, needs=("customer",), path=INVOICE, cells="Invoice!B6:B7"),
    check("articles", "cell_values", 3, path=INVOICE, cells="$key.articles_at", values="$key.articles"),
    check("quantities", "cell_values", 2, path=INVOICE, cells="$key.quantities_at", values="$key.quantities"),
    check("prices", "cell_values", 4, path=INVOICE, cells="$key.prices_at", values="$key.prices"),
    check("amounts", "cell_values", 2, path=INVOICE, cells="$key.amounts_at", values="$key.amounts"),
    check("prices_are_live", "live_formula", 2, needs=("prices",), path=INVOICE, cells="$key.looked_up_at"),
    check("texts_are_live", "live_formula", 1, needs=("articles",), path=INVOICE, cells="$key.texts_at"),
    check("net", "cell_value", 2, path=INVOICE, cell="Invoice!E22", value="$key.sums.0.0"),
    check("vat", "cell_value", 2, path=INVOICE, cell="Invoice!E23", value="$key.sums.1.0"),
    check("total", "cell_value", 3, path=INVOICE, cell="Invoice!E24", value="$key.sums.2.0"),
    check("sums_are_live", "live_formula", 1, needs=("total",), path=INVOICE, cells="Invoice!E22:E24"),
    check("bulk_price_follows", "checks:either_what_if", 3, path=INVOICE, changes="$key.changes", values="$key.after"),
    check("unused_lines_empty", "cell_values", 1, needs=("articles",), path=INVOICE, cells="$key.rest_at", values="$key.rest"),
    check("date_format", "number_format", 1, needs=("due",), tag="format", path=INVOICE, cells="Invoice!B4:B5", like="date"),
    check(
        "money_format",
        "number_format",
        1,
        needs=("prices",),
        tag="format",
        path=INVOICE,
        cells="$key.looked_up_at",
        like="two_decimals",
    ),
    check(
        "orders_kept",
        "sheet_unchanged",
        1,
        needs=("articles",),
        tag="care",
        path=INVOICE,
        original="/inbox/invoice.xlsx",
        sheet="Orders",
    ),
    check(
        "prices_kept",
        "sheet_unchanged",
        1,
        needs=("articles",),
        tag="care",
        path=INVOICE,
        original="/inbox/invoice.xlsx",
        sheet="Prices",
    ),
    check(
        "template_kept",
        "sheet_unchanged",
        1,
        needs=("articles",),
        tag="care",
        path=INVOICE,
        original="/inbox/invoice.xlsx",
        sheet="Invoice",
        apart=["B2:B7", "A10:E21", "E22:E24"],
    ),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- a model that was broken ----------------------------------------------------------------------------------------

REPAIR = "/out/forecast.xlsx"
REPAIR_PROMPT = """
The forecast of {firm} does not add up any more. /inbox/forecast.xlsx worked until last week: "Inputs" (volumes, price, cost per unit, fixed costs), "Forecast" (12 months) and "Summary". Some formulas were typed over, one total leaves out a month, and there is an error value somewhere. Find what is wrong, repair it, and save it as /out/forecast.xlsx.

How it is meant: Forecast B = volume of the month from "Inputs", C revenue = volume times price, D variable cost = volume times cost per unit, E fixed cost, F profit = C - D - E, G profit so far this year. Summary B1 revenue, B2 profit, B3 margin (profit / revenue), B4 best month's profit, B5 months with a loss.

Repair only what is broken, with formulas like those around it; "Inputs" is right. List what you repaired on a new sheet "Repairs": header Sheet, Cell, Problem; one row for each cell you changed.
"""
REPAIR_GOLDEN = """
import openpyxl
book = openpyxl.load_workbook("/inbox/forecast.xlsx")
forecast, summary = book["Forecast"], book["Summary"]
wanted = {}
for row in range(2, 14):
    wanted[forecast, f"B{row}"] = f"=Inputs!B{row + 5}"
    wanted[forecast, f"C{row}"] = f"=B{row}*Inputs!$B$2"
    wanted[forecast, f"D{row}"] = f"=B{row}*Inputs!$B$3"
    wanted[forecast, f"E{row}"] = "=Inputs!$B$4"
    wanted[forecast, f"F{row}"] = f"=C{row}-D{row}-E{row}"
    wanted[forecast, f"G{row}"] = f"=SUM($F$2:F{row})"
for cell, formula in {"B1": "=SUM(Forecast!C2:C13)", "B2": "=SUM(Forecast!F2:F13)", "B3": "=B2/B1", "B4": "=MAX(Forecast!F2:F13)", "B5": '=COUNTIF(Forecast!F2:F13,"<0")'}.items():
    wanted[summary, cell] = formula
repairs = book.create_sheet("Repairs")
repairs.append(["Sheet", "Cell", "Problem"])
for (sheet, cell), formula in wanted.items():
    if str(sheet[cell].value) != formula:
        repairs.append([sheet.title, cell, f"was {str(sheet[cell].value).replace('=', '')}"])
        sheet[cell] = formula
book.save("/out/forecast.xlsx")
"""


def repair(rng: Random) -> Job:
    firm = f"{rng.choice(TOWNS)} {rng.choice(['Kayaks', 'Honey', 'Candles', 'Prints'])}"
    volumes = [float(rng.randrange(200, 1500)) for _ in range(12)]
    price, cost = round(rng.uniform(9, 30), 2), round(rng.uniform(3, 8), 2)
    fixed = float(rng.randrange(40, 90) * 100)
    inputs = (
        Sheet("Inputs")
        .put("A1", firm, "title")
        .rows("A2", [["Price", price], ["Cost per unit", cost], ["Fixed costs", fixed]])
        .rows("A6", [["Month", "Volume"], *[[n + 1, volume] for n, volume in enumerate(volumes)]])
    )
    forecast = Sheet("Forecast").rows(
        "A1", [["Month", "Volume", "Revenue", "Variable", "Fixed", "Profit", "Year to date"]], ("head",) * 7
    )
    for row in range(2, 14):
        forecast.rows(
            f"A{row}",
            [
                [
                    row - 1,
                    f"=Inputs!B{row + 5}",
                    f"=B{row}*Inputs!$B$2",
                    f"=B{row}*Inputs!$B$3",
                    "=Inputs!$B$4",
                    f"=C{row}-D{row}-E{row}",
                    f"=SUM($F$2:F{row})",
                ]
            ],
        )
    summary = Sheet("Summary").rows(
        "A1",
        [
            ["Revenue", "=SUM(Forecast!C2:C13)"],
            ["Profit", "=SUM(Forecast!F2:F13)"],
            ["Margin", "=B2/B1"],
            ["Best month", "=MAX(Forecast!F2:F13)"],
            ["Months with a loss", '=COUNTIF(Forecast!F2:F13,"<0")'],
        ],
    )
    typed, wrong, broken, typed_again = rng.sample(range(2, 14), 4)
    damage = {
        ("Forecast", f"C{typed}"): round(volumes[typed - 2] * price * 1.2),
        ("Forecast", f"{rng.choice('BE')}{typed_again}"): float(rng.randrange(100, 900)),
        ("Forecast", f"D{wrong}"): f"=B{wrong}*Inputs!$B${rng.choice([2, 4])}",
        ("Forecast", f"F{broken}"): f"=C{broken}-#REF!-E{broken}",
        ("Summary", rng.choice(["B1", "B2"])): "",
    }
    short = next(cell for sheet, cell in damage if sheet == "Summary")
    column = "C" if short == "B1" else "F"
    damage["Summary", short] = f"=SUM(Forecast!{column}2:{column}{rng.choice([11, 12])})"
    for (sheet, cell), value in damage.items():
        (forecast if sheet == "Forecast" else summary).put(cell, value)

    def model(volumes: list[float], price: float) -> tuple[list[list[float]], list[float]]:
        rows, so_far = [], 0.0
        for volume in volumes:
            profit = volume * price - volume * cost - fixed
            so_far += profit
            rows.append([volume, volume * price, volume * cost, fixed, profit, so_far])
        revenue, profit = sum(row[1] for row in rows), sum(row[4] for row in rows)
        return rows, [revenue, profit, profit / revenue, max(row[4] for row in rows), float(sum(row[4] < 0 for row in rows))]

    rows, sums = model(volumes, price)
    changed = [volume + 100.0 for volume in volumes]
    after = model(changed, price + 2)
    cells = sorted(damage)
    key = {
        "rows": rows,
        "sums": [[value] for value in sums],
        **{f"cell_{n + 1}": f"{sheet}!{cell}" for n, (sheet, cell) in enumerate(cells)},
        **{
            f"right_{n + 1}": sums[int(cell[1]) - 1] if sheet == "Summary" else rows[int(cell[1:]) - 2]["BCDEFG".index(cell[0])]
            for n, (sheet, cell) in enumerate(cells)
        },
        "repairs": sorted([sheet, cell] for sheet, cell in damage),
        "apart": [cell for sheet, cell in cells if sheet == "Forecast"],
        "summary_apart": [short],
        "changes": [{f"Inputs!B{7 + n}": volume for n, volume in enumerate(changed)} | {"Inputs!B2": price + 2}],
        "rows_after": {f"Forecast!{c}{2 + n}": after[0][n][k] for n in range(12) for k, c in enumerate("BCDEFG")},
        "sums_after": {f"Summary!B{1 + n}": value for n, value in enumerate(after[1])},
    }
    return Job(
        REPAIR_PROMPT.format(firm=firm), {"/inbox/forecast.xlsx": workbook(inputs, forecast, summary)}, REPAIR_GOLDEN, key, "hard"
    )


ALL_REPAIRED = tuple(f"damage_{n}_is_right" for n in range(1, 6))
"""Most cells were never broken, so sums and months count only where every repair is right."""
REPAIR_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=REPAIR, scenarios="$key.changes"),
    *[
        check(
            f"damage_{n}_is_right",
            "cell_value",
            2,
            needs=(f"damage_{n}_is_live", "something_repaired"),
            path=REPAIR,
            cell=f"$key.cell_{n}",
            value=f"$key.right_{n}",
        )
        for n in range(1, 6)
    ],
    *[check(f"damage_{n}_is_live", "live_formula", 0, path=REPAIR, cells=f"$key.cell_{n}") for n in range(1, 6)],
    check(
        "something_repaired",
        "checks:cells_changed",
        0,
        path=REPAIR,
        original="/inbox/forecast.xlsx",
        cells=[f"$key.cell_{n}" for n in range(1, 6)],
    ),
    check("all_months", "cell_values", 3, needs=ALL_REPAIRED, path=REPAIR, cells="Forecast!B2:G13", values="$key.rows"),
    check(
        "summary", "cell_values", 3, needs=ALL_REPAIRED, path=REPAIR, cells="Summary!B1:B5", values="$key.sums", tolerance=0.006
    ),
    check("no_errors", "no_error_values", 2, needs=("something_repaired",), path=REPAIR),
    check("months_follow", "what_if", 4, needs=ALL_REPAIRED, path=REPAIR, changes="$key.changes.0", values="$key.rows_after"),
    check(
        "summary_follows",
        "what_if",
        3,
        needs=ALL_REPAIRED,
        path=REPAIR,
        changes="$key.changes.0",
        values="$key.sums_after",
        tolerance=0.006,
    ),
    check("repairs_listed", "checks:repairs_listed", 4, needs=("no_errors",), path=REPAIR, repairs="$key.repairs"),
    check(
        "forecast_kept",
        "sheet_unchanged",
        2,
        needs=("something_repaired",),
        tag="care",
        path=REPAIR,
        original="/inbox/forecast.xlsx",
        sheet="Forecast",
        apart="$key.apart",
    ),
    check(
        "summary_kept",
        "sheet_unchanged",
        1,
        needs=("something_repaired",),
        tag="care",
        path=REPAIR,
        original="/inbox/forecast.xlsx",
        sheet="Summary",
        apart="$key.summary_apart",
    ),
    check(
        "inputs_kept",
        "sheet_unchanged",
        1,
        needs=("something_repaired",),
        tag="care",
        path=REPAIR,
        original="/inbox/forecast.xlsx",
        sheet="Inputs",
    ),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- a grade book, saved as .ods ----------------------------------------------------------------------------------------

GRADES = "/out/grades.ods"
GRADES_PROMPT = """
/inbox/grades.xlsx is the grade book of {course} (sheet "Points": one row per student, four tests; a test not taken is empty). The weights of the tests are in "Scheme"!B2:B5, the limits of the grades in "Scheme"!D2:E6 (from this percentage on, this grade; lowest first). The school uses OpenDocument: save the result as /out/grades.ods.

- Column G: weighted percentage: the sum of points divided by the full marks in row 3, weighted; a test not taken counts 0.
- Column H: grade by the limits, looked up. Column I: "resit" for students with grade F or with two or more tests not taken, otherwise "pass".
- K1:K5 on "Points" say Students, Average, Best, Resits, Median; put the figures into L1:L5 (average, best and median of column G).
- Percentages shown as percent. Formulas everywhere, the limits are still under discussion.
"""
GRADES_GOLDEN = """
import subprocess, openpyxl
book = openpyxl.load_workbook("/inbox/grades.xlsx")
sheet = book["Points"]
last = sheet.max_row
for row in range(4, last + 1):
    sheet[f"G{row}"] = "=" + "+".join(f"{c}{row}/{c}$3*Scheme!$B${n}" for n, c in enumerate("CDEF", start=2))
    sheet[f"H{row}"] = f"=LOOKUP(G{row}+0.0000001,Scheme!$D$2:$D$6,Scheme!$E$2:$E$6)"
    sheet[f"I{row}"] = f'=IF(OR(H{row}="F",COUNTBLANK(C{row}:F{row})>=2),"resit","pass")'
    sheet[f"G{row}"].number_format = "0.0%"
area = f"G4:G{last}"
for row, formula in enumerate([f"=COUNTA(A4:A{last})", f"=AVERAGE({area})", f"=MAX({area})", f'=COUNTIF(I4:I{last},"resit")', f"=MEDIAN({area})"], start=1):
    sheet[f"L{row}"] = formula
for cell in ("L2", "L3", "L5"):
    sheet[cell].number_format = "0.0%"
book.save("/tmp/grades.xlsx")
subprocess.run(["soffice", "--headless", "--convert-to", "ods", "--outdir", "/out", "/tmp/grades.xlsx"], check=True, capture_output=True)
"""


def grades(rng: Random) -> Job:
    course = rng.choice(["Statistics 1", "Organic chemistry", "Databases", "Micro economics"])
    full = [rng.choice([20, 30, 40]), rng.choice([20, 25, 50]), rng.choice([10, 15]), rng.choice([60, 80, 100])]
    weights = rng.choice([[0.2, 0.2, 0.1, 0.5], [0.25, 0.25, 0.2, 0.3], [0.1, 0.3, 0.2, 0.4]])
    limits = [0.0, rng.choice([0.45, 0.5]), 0.62, 0.75, rng.choice([0.87, 0.9])]
    students = [
        [
            f"s{rng.randrange(10_000, 99_999)}",
            name,
            *[rng.randrange(int(top * 0.3), top + 1) if rng.random() < 0.85 else None for top in full],
        ]
        for name in sorted(rng.sample(PEOPLE, 11))
    ]
    students[0][2:5] = [None, None, full[2]]
    sheet = (
        Sheet("Points", widths={2: 20})
        .put("A1", course, "title")
        .rows("A2", [["Student", "Name", "Test 1", "Test 2", "Test 3", "Test 4", "Percent", "Grade", "Result"]], ("head",) * 9)
        .rows("B3", [["Full marks", *full]])
        .rows("A4", students)
    )
    sheet.rows("K1", [["Students"], ["Average"], ["Best"], ["Resits"], ["Median"]])
    scheme = Sheet("Scheme").rows(
        "A1",
        [
            ["Test", "Weight", None, "From", "Grade"],
            *[[f"Test {n + 1}", weights[n], None, limits[n], "FDCBA"[n]] for n in range(4)],
            [None, None, None, limits[4], "A"],
        ],
    )
    scheme.put("E2", "F").put("E3", "D").put("E4", "C").put("E5", "B").put("E6", "A")

    def model(students: list[list], limits: list[float]) -> tuple[list[list], list[float]]:
        rows = []
        for _, _, *points in students:
            percent = sum((point or 0) / top * weight for point, top, weight in zip(points, full, weights, strict=True))
            grade = "FDCBA"[sum(percent + 1e-7 >= limit for limit in limits) - 1]
            rows.append([percent, grade, "resit" if grade == "F" or points.count(None) >= 2 else "pass"])
        ordered = sorted(row[0] for row in rows)
        return rows, [
            float(len(rows)),
            sum(ordered) / len(ordered),
            ordered[-1],
            float(sum(row[2] == "resit" for row in rows)),
            ordered[len(ordered) // 2],
        ]

    rows, sums = model(students, limits)
    harder = [0.0, *[limit + 0.06 for limit in limits[1:]]]
    changed = [list(row) for row in students]
    changed[5][5] = full[3]
    after = model(changed, harder)
    key = {
        "percent": [row[:1] for row in rows],
        "grades": [row[1:2] for row in rows],
        "results": [row[1:] for row in rows],
        "sums": [[value] for value in sums],
        "changes": [{f"Scheme!D{2 + n}": value for n, value in enumerate(harder)} | {"Points!F9": full[3]}],
        "after": {f"Points!{c}{4 + n}": after[0][n][k] for n in range(11) for k, c in enumerate("GHI")},
        "sums_after": {f"Points!L{1 + n}": value for n, value in enumerate(after[1])},
    }
    return Job(GRADES_PROMPT.format(course=course), {"/inbox/grades.xlsx": workbook(sheet, scheme)}, GRADES_GOLDEN, key, "medium")


GRADES_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=GRADES, scenarios="$key.changes"),
    check("percent", "cell_values", 4, path=GRADES, cells="Points!G4:G14", values="$key.percent", tolerance=0.0005),
    check("grades", "cell_values", 3, needs=("percent",), path=GRADES, cells="Points!H4:H14", values="$key.grades"),
    check("results", "cell_values", 3, needs=("grades",), path=GRADES, cells="Points!H4:I14", values="$key.results"),
    *[
        check(name, "cell_value", 1, path=GRADES, cell=f"Points!L{row}", value=f"$key.sums.{row - 1}.0", tolerance=0.0005)
        for row, name in ((2, "average"), (3, "best"), (5, "median"))
    ],
    *[
        check(name, "cell_value", 1, needs=("percent",), path=GRADES, cell=f"Points!L{row}", value=f"$key.sums.{row - 1}.0")
        for row, name in ((1, "students"), (4, "resits"))
    ],
    check("percent_is_live", "live_formula", 2, needs=("percent",), path=GRADES, cells="Points!G4:G14", reads=["Scheme!B2:B5"]),
    check("grades_are_live", "live_formula", 1, needs=("grades",), path=GRADES, cells="Points!H4:I14"),
    check("figures_are_live", "live_formula", 1, needs=("average",), path=GRADES, cells="Points!L1:L5"),
    check("follows_limits", "what_if", 4, path=GRADES, changes="$key.changes.0", values="$key.after", tolerance=0.0005),
    check("figures_follow", "what_if", 2, path=GRADES, changes="$key.changes.0", values="$key.sums_after", tolerance=0.0005),
    check(
        "percent_format", "number_format", 1, needs=("percent",), tag="format", path=GRADES, cells="Points!G4:G14", like="percent"
    ),
    check("no_errors", "no_error_values", 1, needs=("percent",), path=GRADES),
    check(
        "points_kept",
        "sheet_unchanged",
        1,
        needs=("percent",),
        tag="care",
        path=GRADES,
        original="/inbox/grades.xlsx",
        sheet="Points",
        apart=["G4:I14", "L1:L5"],
    ),
    check(
        "scheme_kept",
        "sheet_unchanged",
        1,
        needs=("percent",),
        tag="care",
        path=GRADES,
        original="/inbox/grades.xlsx",
        sheet="Scheme",
    ),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]
