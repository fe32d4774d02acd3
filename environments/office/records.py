"""Bank statements, order lists, time sheets, stock: records that must be cleaned, matched, summed up."""

from datetime import date
from random import Random

from sandlot.checks.office import date_serial

from .job import PEOPLE, TOWNS, Job, check, working_day
from .xlsx import Sheet, workbook

# -- bank reconciliation ------------------------------------------------------------------------------------------------

BANK = "/out/reconciliation.xlsx"
BANK_PROMPT = """
Please reconcile our bank account at the end of {month}. /inbox/bank.xlsx has the bank statement (sheet "Bank") and our cash book (sheet "Book"). Money in is positive. An entry of the book belongs to a line of the bank if the reference and the amount are the same; a reference may be written in lower case or with blanks around it.

Save /out/reconciliation.xlsx with both sheets as they are, except that column E says "matched" or "open" for every line (header "Status" in E1), and a new sheet "Reconciliation":
- A1 "Bank balance", B1 the sum of all bank lines; A2 "Book balance", B2 the sum of all book entries.
- A3 "In bank only", B3 the sum of the open bank lines; A4 "In book only", B4 the sum of the open book entries.
- A5 "Difference", B5: bank balance minus in bank only, minus (book balance minus in book only); it must come to 0.
- From row 8 (header in row 7: Where, Date, Reference, Amount): the open items, those of the bank first, each in the order of its sheet, with "Bank" or "Book" in the first column. These rows may be values; references in upper case without blanks around them, dates as real dates.

B1 to B5 and the status columns are formulas.
"""
BANK_GOLDEN = """
import openpyxl
book = openpyxl.load_workbook("/inbox/bank.xlsx")
bank, cash = book["Bank"], book["Book"]
tidy = lambda text: str(text).strip().upper()
lines = {name: [[cell.value for cell in row[:4]] for row in sheet.iter_rows(min_row=2) if row[1].value] for name, sheet in (("Bank", bank), ("Book", cash))}
ends = {name: len(rows) + 1 for name, rows in lines.items()}
for name, other in (("Bank", "Book"), ("Book", "Bank")):
    sheet = book[name]
    sheet["E1"] = "Status"
    end = ends[other]
    for row in range(2, ends[name] + 1):
        test = f"SUMPRODUCT((UPPER(TRIM({other}!$B$2:$B${end}))=UPPER(TRIM(B{row})))*({other}!$D$2:$D${end}=D{row}))"
        sheet[f"E{row}"] = f'=IF({test}>0,"matched","open")'
out = book.create_sheet("Reconciliation")
labels = ["Bank balance", "Book balance", "In bank only", "In book only", "Difference"]
formulas = [f"=SUM(Bank!D2:D{ends['Bank']})", f"=SUM(Book!D2:D{ends['Book']})", f'=SUMIF(Bank!E2:E{ends["Bank"]},"open",Bank!D2:D{ends["Bank"]})',
    f'=SUMIF(Book!E2:E{ends["Book"]},"open",Book!D2:D{ends["Book"]})', "=ROUND((B1-B3)-(B2-B4),2)"]
for row, (label, formula) in enumerate(zip(labels, formulas), start=1):
    out.cell(row, 1).value, out.cell(row, 2).value = label, formula
for column, text in enumerate(["Where", "Date", "Reference", "Amount"], start=1):
    out.cell(7, column).value = text
seen = {name: {(tidy(row[1]), row[3]) for row in rows} for name, rows in lines.items()}
row = 8
for name, other in (("Bank", "Book"), ("Book", "Bank")):
    for day, reference, _, amount in lines[name]:
        if (tidy(reference), amount) not in seen[other]:
            for column, value in enumerate([name, day, str(reference).strip().upper(), amount], start=1):
                out.cell(row, column).value = value
            out.cell(row, 2).number_format = "yyyy-mm-dd"
            row += 1
book.save("/out/reconciliation.xlsx")
"""


def bank(rng: Random) -> Job:
    month = rng.randint(1, 12)
    signs = {"INV": 1, "PAY": -1, "REF": -1}  # customers pay invoices; we pay suppliers, and refund
    items = []
    for number in range(rng.randint(14, 20)):
        kind = rng.choice(["INV", "INV", "PAY", "REF"])
        reference = f"{kind}-{rng.randrange(1000, 9999)}{number % 10}"
        cents = rng.randrange(900, 90_000 if kind == "REF" else 600_000)
        when = date_serial(working_day(rng, 2026, month).isoformat())
        items.append([when, reference, rng.choice(PEOPLE), signs[kind] * cents / 100])
    items.sort(key=lambda item: item[0])
    in_book, in_bank = rng.sample(range(len(items)), 3), []
    rest = [n for n in range(len(items)) if n not in in_book]
    in_bank = rng.sample(rest, 3)
    typo = rng.choice([n for n in rest if n not in in_bank])
    bank_rows = [[*items[n]] for n in range(len(items)) if n not in in_book]
    book_rows = [[*items[n]] for n in range(len(items)) if n not in in_bank]
    for row in book_rows:
        if row[1] == items[typo][1]:
            row[3] = round(row[3] + 9.0, 2)
        elif rng.random() < 0.3:
            row[1] = rng.choice([row[1].lower(), f" {row[1]}", f"{row[1]} "])
    rng.shuffle(book_rows)
    book_rows.sort(key=lambda row: row[0])
    tidy = lambda row: (row[1].strip().upper(), row[3])  # noqa: E731 - short
    bank_keys, book_keys = {tidy(row) for row in bank_rows}, {tidy(row) for row in book_rows}
    bank_status = [["matched" if tidy(row) in book_keys else "open"] for row in bank_rows]
    book_status = [["matched" if tidy(row) in bank_keys else "open"] for row in book_rows]
    open_bank = [row for row, (status,) in zip(bank_rows, bank_status, strict=True) if status == "open"]
    open_book = [row for row, (status,) in zip(book_rows, book_status, strict=True) if status == "open"]
    total = lambda rows: round(sum(row[3] for row in rows), 2)  # noqa: E731 - short
    sheets = []
    for name, rows in (("Bank", bank_rows), ("Book", book_rows)):
        sheets.append(
            Sheet(name, widths={2: 14, 3: 20})
            .rows("A1", [["Date", "Reference", "Name", "Amount"]], ("head",) * 4)
            .rows("A2", rows, ("date", "", "", "money"))
        )
    extra = open_bank[0]
    key = {
        "bank_at": f"Bank!E2:E{len(bank_rows) + 1}",
        "bank_status": bank_status,
        "book_at": f"Book!E2:E{len(book_rows) + 1}",
        "book_status": book_status,
        "summary": [[total(bank_rows)], [total(book_rows)], [total(open_bank)], [total(open_book)], [0.0]],
        "items": [["Bank", row[0], row[1].strip().upper(), row[3]] for row in open_bank]
        + [["Book", row[0], row[1].strip().upper(), row[3]] for row in open_book],
        "dates_at": f"Reconciliation!B8:B{7 + len(open_bank) + len(open_book)}",
        "changes": [{f"Bank!D{2 + bank_rows.index(extra)}": extra[3] + 250.0}],
        "after": {
            "Reconciliation!B1": total(bank_rows) + 250.0,
            "Reconciliation!B3": total(open_bank) + 250.0,
            "Reconciliation!B5": 0.0,
        },
        "bank_apart": [f"E1:E{len(bank_rows) + 1}"],
        "book_apart": [f"E1:E{len(book_rows) + 1}"],
    }
    name = date(2026, month, 1).strftime("%B %Y")
    return Job(BANK_PROMPT.format(month=name), {"/inbox/bank.xlsx": workbook(*sheets)}, BANK_GOLDEN, key, "hard")


BANK_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=BANK, scenarios="$key.changes"),
    check(
        "bank_status", "cell_values", 4, needs=("open_items_found",), path=BANK, cells="$key.bank_at", values="$key.bank_status"
    ),
    check(
        "book_status", "cell_values", 4, needs=("open_items_found",), path=BANK, cells="$key.book_at", values="$key.book_status"
    ),
    check("open_items_found", "table_rows", 6, path=BANK, start="Reconciliation!A8", rows="$key.items", ordered=False),
    check(
        "open_items_ordered",
        "table_rows",
        2,
        needs=("open_items_found",),
        path=BANK,
        start="Reconciliation!A8",
        rows="$key.items",
    ),
    check(
        "dates_are_dates",
        "number_format",
        1,
        needs=("open_items_found",),
        tag="format",
        path=BANK,
        cells="$key.dates_at",
        like="date",
    ),
    *[
        check(name, "cell_value", 2, path=BANK, cell=f"Reconciliation!B{row}", value=f"$key.summary.{row - 1}.0")
        for row, name in enumerate(["bank_balance", "book_balance", "bank_only", "book_only"], start=1)
    ],
    check("difference", "cell_value", 2, needs=("bank_only", "book_only"), path=BANK, cell="Reconciliation!B5", value=0.0),
    check(
        "labels",
        "cell_values",
        1,
        needs=("bank_balance",),
        path=BANK,
        cells="Reconciliation!A1:A5",
        values=[["Bank balance"], ["Book balance"], ["In bank only"], ["In book only"], ["Difference"]],
    ),
    check("summary_is_live", "live_formula", 1, needs=("bank_balance",), path=BANK, cells="Reconciliation!B1:B5"),
    check("status_is_live", "live_formula", 2, needs=("bank_status",), path=BANK, cells="$key.bank_at", reads=["Book!B2:B5"]),
    check("summary_follows", "what_if", 2, needs=("bank_only",), path=BANK, changes="$key.changes.0", values="$key.after"),
    check(
        "bank_kept",
        "sheet_unchanged",
        1,
        needs=("bank_balance",),
        tag="care",
        path=BANK,
        original="/inbox/bank.xlsx",
        sheet="Bank",
        apart="$key.bank_apart",
    ),
    check(
        "book_kept",
        "sheet_unchanged",
        1,
        needs=("bank_balance",),
        tag="care",
        path=BANK,
        original="/inbox/bank.xlsx",
        sheet="Book",
        apart="$key.book_apart",
    ),
    check("no_errors", "no_error_values", 1, needs=("bank_balance",), path=BANK),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- cleaning an export -------------------------------------------------------------------------------------------------

CLEAN = "/out/clean.xlsx"
CLEAN_PROMPT = """
/inbox/export.xlsx is an export of our order system and a mess: merged title rows, blank rows, the header repeated in the middle, the same order twice, dates as real dates and as text in the form day.month.year, amounts as numbers and as text ("1.234,50 EUR"), countries in all spellings.

Make /out/clean.xlsx with one sheet "Orders": header Order, Date, Customer, Country, Amount in row 1, one row per order from row 2, sorted by order number.
- Dates are real dates, shown as such. Amounts are numbers. Customers without blanks around them or double blanks inside, otherwise as written.
- Countries as two-letter codes: DE, FR, NL. (Germany, Deutschland, GER; France, Frankreich, FRA; Netherlands, Holland, NED; any case.)
- If an order number occurs more than once, keep the last row with it.
- Orders marked "cancelled" in the remarks are left out.

Bold header, filter buttons on the whole table. Then a sheet "Summary": A1:B1 Country, Amount, below DE, FR, NL with formulas that sum the amounts from "Orders", and a row "All".
"""
CLEAN_GOLDEN = """
import datetime, re, openpyxl
from openpyxl.styles import Font
source = openpyxl.load_workbook("/inbox/export.xlsx")["Export"]
codes = {"germany": "DE", "deutschland": "DE", "ger": "DE", "de": "DE", "france": "FR", "frankreich": "FR", "fra": "FR", "fr": "FR", "netherlands": "NL", "holland": "NL", "ned": "NL", "nl": "NL"}
orders = {}
for number, day, customer, country, amount, remark in source.iter_rows(min_col=1, max_col=6, values_only=True):
    if not re.fullmatch(r"\\d{5}", str(number or "").strip()):
        continue
    if isinstance(day, str):
        day = datetime.datetime.strptime(day.strip(), "%d.%m.%Y")
    if isinstance(amount, str):
        amount = float(re.sub(r"[^0-9,-]", "", amount).replace(",", "."))
    orders[int(number)] = [int(number), day, " ".join(customer.split()), codes[country.strip().lower()], amount, str(remark or "").strip().lower()]
book = openpyxl.Workbook()
sheet = book.active
sheet.title = "Orders"
sheet.append(["Order", "Date", "Customer", "Country", "Amount"])
for number in sorted(orders):
    if orders[number][5] != "cancelled":
        sheet.append(orders[number][:5])
for row in range(2, sheet.max_row + 1):
    sheet[f"B{row}"].number_format = "yyyy-mm-dd"
    sheet[f"E{row}"].number_format = "#,##0.00"
for cell in sheet[1]:
    cell.font = Font(bold=True)
sheet.auto_filter.ref = f"A1:E{sheet.max_row}"
summary = book.create_sheet("Summary")
summary.append(["Country", "Amount"])
for row, code in enumerate(["DE", "FR", "NL"], start=2):
    summary.append([code, f"=SUMIF(Orders!$D$2:$D${sheet.max_row},A{row},Orders!$E$2:$E${sheet.max_row})"])
summary.append(["All", "=SUM(B2:B4)"])
book.save("/out/clean.xlsx")
"""
SPELLINGS = {
    "DE": ("Germany", "Deutschland", "GER", "germany", "de"),
    "FR": ("France", "Frankreich", "FRA", "france", "fr"),
    "NL": ("Netherlands", "Holland", "NED", "holland", "nl"),
}


def clean(rng: Random) -> Job:
    numbers = rng.sample(range(10_000, 99_999), rng.randint(16, 24))
    orders, rows = {}, []
    known = {number: (working_day(rng, 2026, rng.randint(1, 12)), rng.choice(list(SPELLINGS))) for number in numbers}
    customers = {number: rng.choice(PEOPLE) for number in numbers}
    for number in [*numbers, *rng.sample(numbers, 3)]:
        day, country = known[number]
        customer = customers[number]
        amount = round(rng.uniform(20, 9000), 2)  # an order that comes again was corrected
        remark = "cancelled" if rng.random() < 0.12 else rng.choice(["", "", "gift", "call first"])
        orders[number] = [float(number), date_serial(day.isoformat()), customer, country, amount, remark]
        written = f"{amount:,.2f}".translate(str.maketrans(",.", ".,")) + " EUR"
        name = rng.choice([customer, f" {customer}", customer.replace(" ", "  ")])
        shown = float(number) if rng.random() < 0.7 else str(number)
        when = orders[number][1] if rng.random() < 0.6 else day.strftime("%d.%m.%Y")
        rows.append(
            [
                shown,
                when,
                name,
                rng.choice(SPELLINGS[country]),
                amount if rng.random() < 0.6 else written,
                rng.choice([remark, remark.upper()]) or None,
            ]
        )
    kept = sorted(row[:5] for row in orders.values() if row[5] != "cancelled")
    sheet = (
        Sheet("Export")
        .put("A1", f"Order export {rng.choice(TOWNS)}", "title")
        .put("A2", "printed by the system, do not edit", "grey")
    )
    sheet.merged += ["A1:F1", "A2:F2"]
    header, at = ["Order no.", "Date", "Customer", "Country", "Amount", "Remarks"], 5
    sheet.rows("A4", [header], ("head",) * 6)
    for number, row in enumerate(rows):
        if number and number % 7 == 0:
            at += 1
        if number == len(rows) // 2:
            sheet.rows(f"A{at}", [header], ("head",) * 6)
            at += 1
        sheet.rows(f"A{at}", [row], ("", "date" if not isinstance(row[1], str) else ""))
        at += 1
    sums = {code: round(sum(row[4] for row in kept if row[3] == code), 2) for code in SPELLINGS}
    last = len(kept) + 1
    first = next((n for n, row in enumerate(kept) if row[3] == "DE"), 0)
    code = kept[first][3]
    after = {c: value + (1000.0 if c == code else 0.0) for c, value in sums.items()}
    key = {
        "rows": kept,
        "orders": [[row[0]] for row in kept],
        "orders_at": f"Orders!A2:A{last}",
        **{name: [[row[n]] for row in kept] for n, name in ((1, "dates"), (2, "customers"), (3, "countries"), (4, "amounts"))},
        **{
            f"{name}_at": f"Orders!{letter}2:{letter}{last}"
            for name, letter in (("dates", "B"), ("customers", "C"), ("countries", "D"), ("amounts", "E"))
        },
        "table_at": f"Orders!A1:E{last}",
        "sums": [[value] for value in (*sums.values(), round(sum(sums.values()), 2))],
        "changes": [{f"Orders!E{2 + first}": kept[first][4] + 1000.0}],
        "after": {f"Summary!B{2 + n}": value for n, value in enumerate([*after.values(), sum(after.values())])},
    }
    return Job(CLEAN_PROMPT, {"/inbox/export.xlsx": workbook(sheet)}, CLEAN_GOLDEN, key, "medium")


CLEAN_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=CLEAN, scenarios="$key.changes"),
    check("orders", "cell_values", 3, path=CLEAN, cells="$key.orders_at", values="$key.orders"),
    check("dates", "cell_values", 2, path=CLEAN, cells="$key.dates_at", values="$key.dates"),
    check("customers", "cell_values", 2, path=CLEAN, cells="$key.customers_at", values="$key.customers"),
    check("countries", "cell_values", 2, path=CLEAN, cells="$key.countries_at", values="$key.countries"),
    check("amounts", "cell_values", 2, path=CLEAN, cells="$key.amounts_at", values="$key.amounts"),
    check("whole_rows", "table_rows", 6, path=CLEAN, start="Orders!A2", rows="$key.rows", ordered=False),
    check(
        "header",
        "cell_values",
        1,
        needs=("orders",),
        path=CLEAN,
        cells="Orders!A1:E1",
        values=[["Order", "Date", "Customer", "Country", "Amount"]],
    ),
    check("sheets", "sheet_names", 1, needs=("orders",), path=CLEAN, names=["Orders", "Summary"]),
    check("dates_shown", "number_format", 1, needs=("dates",), tag="format", path=CLEAN, cells="$key.dates_at", like="date"),
    check("header_bold", "cell_style", 1, needs=("orders",), tag="format", path=CLEAN, cells="Orders!A1:E1", like={"bold": True}),
    check("filter", "filtered_table", 1, needs=("orders",), tag="format", path=CLEAN, cells="$key.table_at"),
    check("summary", "cell_values", 3, path=CLEAN, cells="Summary!B2:B5", values="$key.sums"),
    check(
        "summary_labels",
        "cell_values",
        1,
        needs=("summary",),
        path=CLEAN,
        cells="Summary!A1:A5",
        values=[["Country"], ["DE"], ["FR"], ["NL"], ["All"]],
    ),
    check("summary_is_live", "live_formula", 1, needs=("summary",), path=CLEAN, cells="Summary!B2:B5", reads=["Orders!E2:E10"]),
    check("summary_follows", "what_if", 2, needs=("summary",), path=CLEAN, changes="$key.changes.0", values="$key.after"),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- a summary by region and quarter ------------------------------------------------------------------------------------

PIVOT = "/out/summary.xlsx"
PIVOT_PROMPT = """
/inbox/deals.xlsx has all deals of {year} on the sheet "Deals" (Date, Region, Seller, Amount, Stage). I need a summary of the won deals; save it as /out/summary.xlsx, with "Deals" as it is and a new sheet "Summary":

- A1:F1 header Region, Q1, Q2, Q3, Q4, Year; one row per region in alphabetical order from row 2, then a row "Total".
- Below, with one empty row between: header Seller, Deals, Amount, Average; one row per seller in alphabetical order with the number, sum and average of their won deals; 0 where there are none.
- Formulas over the sheet "Deals" (we add and correct deals), amounts with thousands separators and no decimals, both headers bold with a coloured fill, the total row bold.
"""
PIVOT_GOLDEN = """
import openpyxl
from openpyxl.styles import Font, PatternFill
book = openpyxl.load_workbook("/inbox/deals.xlsx")
deals = book["Deals"]
end = deals.max_row
regions = sorted({deals.cell(row, 2).value for row in range(2, end + 1)})
sellers = sorted({deals.cell(row, 3).value for row in range(2, end + 1)})
year = deals["A2"].value.year
sheet = book.create_sheet("Summary")
sheet.append(["Region", "Q1", "Q2", "Q3", "Q4", "Year"])
column = lambda letter: f"Deals!${letter}$2:${letter}${end}"
for row, region in enumerate(regions, start=2):
    sheet[f"A{row}"] = region
    for quarter, letter in enumerate("BCDE"):
        first = f"DATE({year},{3 * quarter + 1},1)"
        then = f"DATE({year},{3 * quarter + 4},1)"
        sheet[f"{letter}{row}"] = f'=SUMIFS({column("D")},{column("B")},$A{row},{column("E")},"won",{column("A")},">="&{first},{column("A")},"<"&{then})'
    sheet[f"F{row}"] = f"=SUM(B{row}:E{row})"
total = len(regions) + 2
sheet[f"A{total}"] = "Total"
for letter in "BCDEF":
    sheet[f"{letter}{total}"] = f"=SUM({letter}2:{letter}{total - 1})"
start = total + 2
for letter, text in zip("ABCD", ["Seller", "Deals", "Amount", "Average"]):
    sheet[f"{letter}{start}"] = text
for row, seller in enumerate(sellers, start=start + 1):
    sheet[f"A{row}"] = seller
    sheet[f"B{row}"] = f'=COUNTIFS({column("C")},A{row},{column("E")},"won")'
    sheet[f"C{row}"] = f'=SUMIFS({column("D")},{column("C")},A{row},{column("E")},"won")'
    sheet[f"D{row}"] = f"=IF(B{row}=0,0,C{row}/B{row})"
fill = PatternFill("solid", fgColor="DDEBF7")
for cells in (sheet[f"A1:F1"], sheet[f"A{start}:D{start}"]):
    for cell in cells[0]:
        cell.font, cell.fill = Font(bold=True), fill
for cell in sheet[f"A{total}:F{total}"][0]:
    cell.font = Font(bold=True)
for row in range(2, total + 1):
    for letter in "BCDEF":
        sheet[f"{letter}{row}"].number_format = "#,##0"
for row in range(start + 1, start + 1 + len(sellers)):
    for letter in "CD":
        sheet[f"{letter}{row}"].number_format = "#,##0"
book.save("/out/summary.xlsx")
"""


def pivot(rng: Random) -> Job:
    year = rng.choice([2025, 2026])  # their quarters end on working days
    regions, sellers = (
        sorted(rng.sample(["North", "South", "East", "West", "Export", "Online"], 4)),
        sorted(rng.sample(PEOPLE, 4)),
    )
    deals = [
        [
            working_day(rng, year, rng.randint(1, 12)),
            rng.choice(regions),
            rng.choice(sellers),
            float(rng.randrange(500, 40_000)),
            rng.choice(["won", "won", "won", "lost", "open"]),
        ]
        for _ in range(60)
    ]
    deals += [
        [date(year, 3, 31), regions[0], sellers[0], 4321.0, "won"],
        [date(year, 12, 31), regions[1], sellers[1], 8765.0, "won"],
    ]
    for number in range(4):
        deals[number][1:3] = [regions[number], sellers[number]]
    rng.shuffle(deals)
    serial = lambda day: (day - date(1899, 12, 30)).days  # noqa: E731 - short
    sheet = Sheet("Deals", widths={3: 20}).rows("A1", [["Date", "Region", "Seller", "Amount", "Stage"]], ("head",) * 5)
    sheet.rows("A2", [[serial(row[0]), *row[1:]] for row in deals], ("date", "", "", "money"))

    def model(deals: list[list]) -> tuple[list[list[float]], list[list[float]]]:
        won = [row for row in deals if row[4] == "won"]
        table = [
            [sum(row[3] for row in won if row[1] == region and (row[0].month - 1) // 3 == q) for q in range(4)]
            for region in regions
        ]
        table = [[*row, sum(row)] for row in table]
        table.append([sum(row[n] for row in table) for n in range(5)])
        people = []
        for seller in sellers:
            mine = [row[3] for row in won if row[2] == seller]
            people.append([float(len(mine)), sum(mine), sum(mine) / len(mine) if mine else 0.0])
        return table, people

    table, people = model(deals)
    place = next(n for n, row in enumerate(deals) if row[4] == "open")
    changed = [list(row) for row in deals]
    changed[place][4], changed[place][3] = "won", 12_345.0
    after_table, after_people = model(changed)
    key = {
        "quarters": [row[:4] for row in table[:4]],
        "year": [row[4:] for row in table[:4]],
        "total": table[4:],
        "labels": [["Region"], *[[region] for region in regions], ["Total"]],
        "sellers": [["Seller"], *[[name] for name in sellers]],
        "people": people,
        "changes": [{f"Deals!E{2 + place}": "won", f"Deals!D{2 + place}": 12_345.0}],
        "table_after": {f"Summary!{c}{2 + n}": after_table[n][k] for n in range(5) for k, c in enumerate("BCDEF")},
        "people_after": {f"Summary!{c}{9 + n}": after_people[n][k] for n in range(4) for k, c in enumerate("BCD")},
    }
    return Job(PIVOT_PROMPT.format(year=year), {"/inbox/deals.xlsx": workbook(sheet)}, PIVOT_GOLDEN, key, "medium")


PIVOT_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=PIVOT, scenarios="$key.changes"),
    check("labels", "cell_values", 1, needs=("year",), path=PIVOT, cells="Summary!A1:A6", values="$key.labels"),
    check(
        "header",
        "cell_values",
        1,
        needs=("quarters",),
        path=PIVOT,
        cells="Summary!A1:F1",
        values=[["Region", "Q1", "Q2", "Q3", "Q4", "Year"]],
    ),
    check("quarters", "cell_values", 5, path=PIVOT, cells="Summary!B2:E5", values="$key.quarters"),
    check("year", "cell_values", 2, path=PIVOT, cells="Summary!F2:F5", values="$key.year"),
    check("total", "cell_values", 2, path=PIVOT, cells="Summary!B6:F6", values="$key.total"),
    check("sellers", "cell_values", 1, needs=("people",), path=PIVOT, cells="Summary!A8:A12", values="$key.sellers"),
    check("people", "cell_values", 4, path=PIVOT, cells="Summary!B9:D12", values="$key.people"),
    check(
        "people_header",
        "cell_values",
        1,
        needs=("people",),
        path=PIVOT,
        cells="Summary!A8:D8",
        values=[["Seller", "Deals", "Amount", "Average"]],
    ),
    check(
        "table_is_live",
        "live_formula",
        2,
        needs=("quarters",),
        path=PIVOT,
        cells="Summary!B2:E5",
        reads=["Deals!D2:D63", "Deals!E2:E63"],
    ),
    check("total_is_live", "live_formula", 1, needs=("total",), path=PIVOT, cells="Summary!B6:F6"),
    check("people_are_live", "live_formula", 1, needs=("people",), path=PIVOT, cells="Summary!B9:C12", reads=["Deals!E2:E63"]),
    check("table_follows", "what_if", 3, path=PIVOT, changes="$key.changes.0", values="$key.table_after"),
    check("people_follow", "what_if", 3, path=PIVOT, changes="$key.changes.0", values="$key.people_after"),
    check(
        "format",
        "number_format",
        1,
        needs=("quarters",),
        tag="format",
        path=PIVOT,
        cells="Summary!B2:F6",
        like=["thousands", "integer"],
    ),
    check(
        "headers_styled",
        "cell_style",
        1,
        needs=("quarters",),
        tag="format",
        path=PIVOT,
        cells="Summary!A1:F1",
        like={"bold": True, "fill": "any"},
    ),
    check(
        "second_header_styled",
        "cell_style",
        1,
        needs=("people",),
        tag="format",
        path=PIVOT,
        cells="Summary!A8:D8",
        like={"bold": True, "fill": "any"},
    ),
    check("total_bold", "cell_style", 1, needs=("total",), tag="format", path=PIVOT, cells="Summary!A6:F6", like={"bold": True}),
    check("no_errors", "no_error_values", 1, needs=("people",), path=PIVOT),
    check(
        "deals_kept", "sheet_unchanged", 1, needs=("year",), tag="care", path=PIVOT, original="/inbox/deals.xlsx", sheet="Deals"
    ),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- time sheets --------------------------------------------------------------------------------------------------------

HOURS = "/out/timesheet.xlsx"
HOURS_PROMPT = """
/inbox/timesheet.xlsx is {name}'s time sheet for week {week} (sheet "Week"): start, end and break for each day, as clock times. {name} sometimes works past midnight; then the end is earlier than the start. Please complete it and save it as /out/timesheet.xlsx.

- Column E: hours worked that day as a number (7.5, not 07:30), 0 for days without times.
- Column F: regular hours, at most {daily} per day; column G: overtime, the rest.
- Row 11 "Week": sums of E to G. B13: pay, regular hours at the rate in B14, overtime at the rate times the factor in B15.
- Two decimals for E to G, B13 as an amount in euros with a currency symbol.
- Typing errors should be caught: for B4:C10 allow only times from 0:00 to 23:59 (data validation of kind time or decimal).

Times get corrected, so use formulas. Nothing else changes.
"""
HOURS_GOLDEN = """
import openpyxl
from openpyxl.worksheet.datavalidation import DataValidation
book = openpyxl.load_workbook("/inbox/timesheet.xlsx")
sheet = book["Week"]
for row in range(4, 11):
    sheet[f"E{row}"] = f'=IF(OR(B{row}="",C{row}=""),0,(MOD(C{row}-B{row},1)-D{row})*24)'
    sheet[f"F{row}"] = f"=MIN(E{row},DAILY)"
    sheet[f"G{row}"] = f"=E{row}-F{row}"
for letter in "EFG":
    sheet[f"{letter}11"] = f"=SUM({letter}4:{letter}10)"
    for row in range(4, 12):
        sheet[f"{letter}{row}"].number_format = "0.00"
sheet["B13"] = "=F11*B14+G11*B14*B15"
sheet["B13"].number_format = '#,##0.00 "\\u20ac"'
rule = DataValidation(type="time", operator="between", formula1="0", formula2="0.999988425925926")
rule.add("B4:C10")
sheet.add_data_validation(rule)
book.save("/out/timesheet.xlsx")
"""


def hours(rng: Random) -> Job:
    name, week, daily = rng.choice(PEOPLE), rng.randint(2, 50), rng.choice([7.5, 8.0])
    rate, factor = rng.randrange(18, 45) * 1.0, rng.choice([1.25, 1.5])
    days: list[list[float | None]] = []
    for number in range(7):
        if number >= 5 and rng.random() < 0.6:
            days.append([None, None, None])
            continue
        start = rng.randrange(24, 40) * 15
        length = rng.randrange(24, 48) * 15
        days.append([start / 1440, (start + length) / 1440, rng.choice([0, 30, 45, 60]) / 1440])
    late = rng.randrange(5)
    days[late] = [20 / 24, (4 + rng.randrange(4) / 4) / 24, 30 / 1440]
    if all(day[0] is not None for day in days):
        days[6] = [None, None, None]

    def model(days: list[list[float | None]]) -> list[list[float]]:
        rows = []
        for start, end, pause in days:
            worked = ((end - start) % 1 - (pause or 0)) * 24 if start is not None and end is not None else 0.0
            rows.append([worked, min(worked, daily), max(worked - daily, 0.0)])
        return [*rows, [sum(row[n] for row in rows) for n in range(3)]]

    sheet = (
        Sheet("Week", widths={1: 14})
        .put("A1", f"{name}, week {week}", "title")
        .rows("A3", [["Day", "Start", "End", "Break", "Hours", "Regular", "Overtime"]], ("head",) * 7)
    )
    for number, (label, times) in enumerate(zip(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), days, strict=True)):
        sheet.rows(f"A{4 + number}", [[label, *times]])
    sheet.put("A11", "Week", "bold").put("A13", "Pay").rows(
        "A14", [["Rate", rate], ["Overtime factor", factor], ["Daily limit", daily]]
    )
    rows = model(days)
    changed = [list(day) for day in days]
    place = next(n for n, day in enumerate(days) if day[0] is not None and n != late)
    changed[place] = [8 / 24, 20 / 24, 60 / 1440]
    after = model(changed)
    pay = lambda rows: rows[7][1] * rate + rows[7][2] * rate * factor  # noqa: E731 - twice
    key = {
        "hours": [row[:1] for row in rows[:7]],
        "late_at": f"Week!E{4 + late}",
        "late": rows[late][0],
        "split": [row[1:] for row in rows[:7]],
        "week": rows[7:],
        "pay": pay(rows),
        "changes": [
            {f"Week!{c}{4 + place}": value for c, value in zip("BCD", changed[place], strict=True)},
            {"Week!B14": rate + 5},
        ],
        "after": {f"Week!{c}{row}": after[row - 4][n] for row in (4 + place, 11) for n, c in enumerate("EFG")}
        | {"Week!B13": pay(after)},
        "pay_after": {"Week!B13": rows[7][1] * (rate + 5) + rows[7][2] * (rate + 5) * factor},
    }
    prompt = HOURS_PROMPT.format(name=name, week=week, daily=f"{daily:g}")
    return Job(prompt, {"/inbox/timesheet.xlsx": workbook(sheet)}, HOURS_GOLDEN.replace("DAILY", f"{daily:g}"), key, "medium")


HOURS_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=HOURS, scenarios="$key.changes"),
    check("hours", "cell_values", 4, needs=("week_hours",), path=HOURS, cells="Week!E4:E10", values="$key.hours"),
    check("past_midnight", "cell_value", 3, path=HOURS, cell="$key.late_at", value="$key.late"),
    check("week_hours", "cell_value", 2, path=HOURS, cell="Week!E11", value="$key.week.0.0"),
    check("split", "cell_values", 3, needs=("week_hours",), path=HOURS, cells="Week!F4:G10", values="$key.split"),
    check("week", "cell_values", 2, path=HOURS, cells="Week!E11:G11", values="$key.week"),
    check("pay", "cell_value", 3, path=HOURS, cell="Week!B13", value="$key.pay"),
    check("hours_are_live", "live_formula", 1, needs=("hours",), path=HOURS, cells="Week!E4:E10"),
    check("split_is_live", "live_formula", 1, needs=("split",), path=HOURS, cells="Week!F4:G10"),
    check("pay_is_live", "live_formula", 1, needs=("pay",), path=HOURS, cells="Week!B13", reads=["Week!B14:B15"]),
    check("follows_times", "what_if", 3, path=HOURS, changes="$key.changes.0", values="$key.after"),
    check("follows_rate", "what_if", 2, path=HOURS, changes="$key.changes.1", values="$key.pay_after"),
    check(
        "two_decimals",
        "number_format",
        1,
        needs=("week_hours",),
        tag="format",
        path=HOURS,
        cells="Week!E4:G11",
        like="two_decimals",
    ),
    check("currency", "number_format", 1, needs=("pay",), tag="format", path=HOURS, cells="Week!B13", like="currency"),
    check("validated", "checks:times_validated", 2, path=HOURS, cells="Week!B4:C10"),
    check(
        "rest_kept",
        "sheet_unchanged",
        1,
        needs=("week_hours",),
        tag="care",
        path=HOURS,
        original="/inbox/timesheet.xlsx",
        sheet="Week",
        apart=["E4:G11", "B13"],
    ),
    check("no_errors", "no_error_values", 1, needs=("week_hours",), path=HOURS),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- stock and reorders -------------------------------------------------------------------------------------------------

STOCK = "/out/stock.xlsx"
STOCK_PROMPT = """
/inbox/stock.xlsx is the stock list of {firm} (sheet "Stock") with the suppliers' terms (sheet "Suppliers": lead time in days, lot size, unit price by article). Set up the reorder calculation and save it as /out/stock.xlsx. For every article:

- E: lead time, looked up at the suppliers; F: reorder level = daily use times (lead time plus the safety days in "Stock"!B1), rounded up;
- G: "order" if stock plus open orders is below the reorder level, otherwise "ok";
- H: quantity to order, only where G says order: what is missing up to twice the reorder level, rounded up to full lots of the supplier; otherwise 0;
- I: order value (quantity times unit price).
Total order value in B2. A conditional format on G marks "order". Column J "Priority" gets a dropdown with high, normal, low (leave the cells empty).

The list is long-lived: formulas, please. Order values in euros with two decimals and a currency symbol.
"""
STOCK_GOLDEN = """
import openpyxl
from openpyxl.formatting.rule import CellIsRule
from openpyxl.styles import PatternFill
from openpyxl.worksheet.datavalidation import DataValidation
book = openpyxl.load_workbook("/inbox/stock.xlsx")
sheet, suppliers = book["Stock"], book["Suppliers"]
end, last = suppliers.max_row, sheet.max_row
for row in range(5, last + 1):
    look = lambda column: f"INDEX(Suppliers!${column}$2:${column}${end},MATCH($A{row},Suppliers!$A$2:$A${end},0))"
    sheet[f"E{row}"] = "=" + look("C")
    sheet[f"F{row}"] = f"=ROUNDUP(D{row}*(E{row}+$B$1),0)"
    sheet[f"G{row}"] = f'=IF(B{row}+C{row}<F{row},"order","ok")'
    sheet[f"H{row}"] = f'=IF(G{row}="order",ROUNDUP((2*F{row}-B{row}-C{row})/{look("D")},0)*{look("D")},0)'
    sheet[f"I{row}"] = f"=H{row}*{look('E')}"
    sheet[f"I{row}"].number_format = '#,##0.00 "\\u20ac"'
sheet["B2"] = f"=SUM(I5:I{last})"
sheet["B2"].number_format = '#,##0.00 "\\u20ac"'
sheet.conditional_formatting.add(f"G5:G{last}", CellIsRule(operator="equal", formula=['"order"'], fill=PatternFill("solid", bgColor="FFEB9C")))
rule = DataValidation(type="list", formula1='"high,normal,low"')
rule.add(f"J5:J{last}")
sheet.add_data_validation(rule)
book.save("/out/stock.xlsx")
"""


def stock(rng: Random) -> Job:
    firm = f"{rng.choice(TOWNS)} {rng.choice(['Hardware', 'Garden', 'Cycles', 'Office Supply'])}"
    articles = [f"{rng.choice('ABCDEFG')}{rng.randrange(100, 999)}{n}" for n in range(rng.randint(8, 12))]
    safety = rng.choice([3, 5, 7])
    terms = {
        article: [
            rng.choice(PEOPLE).split()[1] + " GmbH",
            rng.randrange(2, 21),
            rng.choice([5, 10, 12, 25, 50]),
            round(rng.uniform(0.8, 60), 2),
        ]
        for article in articles
    }
    given = [[article, rng.randrange(0, 220), rng.choice([0, 0, 20, 50]), round(rng.uniform(0.5, 12), 1)] for article in articles]
    given[0][1:] = [3, 0, 8.4]
    given[1][1:] = [900, 0, 2.5]
    sheet = (
        Sheet("Stock")
        .rows("A1", [["Safety days", safety], ["Order value"]])
        .rows(
            "A4",
            [
                [
                    "Article",
                    "In stock",
                    "On order",
                    "Daily use",
                    "Lead time",
                    "Reorder level",
                    "Action",
                    "Quantity",
                    "Value",
                    "Priority",
                ]
            ],
            ("head",) * 10,
        )
        .rows("A5", given)
    )
    listed = list(terms.items())
    rng.shuffle(listed)
    suppliers = Sheet("Suppliers").rows(
        "A1", [["Article", "Supplier", "Lead time", "Lot size", "Unit price"], *[[article, *row] for article, row in listed]]
    )

    def model(given: list[list], safety: int) -> list[list]:
        rows = []
        for article, there, coming, use in given:
            _, lead, lot, price = terms[article]
            level = -(-round(use * (lead + safety), 6) // 1)
            action = "order" if there + coming < level else "ok"
            quantity = -(-(2 * level - there - coming) // lot) * lot if action == "order" else 0.0
            rows.append([lead, level, action, quantity, quantity * price])
        return rows

    rows = model(given, safety)
    changed = [list(row) for row in given]
    changed[1][1], changed[0][1] = 0, 5000
    after = model(changed, safety + 4)
    last = 4 + len(articles)
    key = {
        **{name: [[row[n]] for row in rows] for n, name in enumerate(("lead", "level", "action", "quantity", "value"))},
        **{
            f"{name}_at": f"Stock!{letter}5:{letter}{last}"
            for name, letter in (
                ("lead", "E"),
                ("level", "F"),
                ("action", "G"),
                ("quantity", "H"),
                ("value", "I"),
                ("priority", "J"),
            )
        },
        "orders": [[row[2], row[3]] for row in rows],
        "orders_at": f"Stock!G5:H{last}",
        "total": sum(row[4] for row in rows),
        "changes": [{"Stock!B1": safety + 4, "Stock!B6": 0, "Stock!B5": 5000}],
        "after": {f"Stock!{c}{row}": after[row - 5][n] for row in (5, 6, last) for n, c in enumerate("EFGHI")},
        "total_after": {"Stock!B2": sum(row[4] for row in after)},
        "apart": ["B2", f"E5:J{last}"],
    }
    return Job(STOCK_PROMPT.format(firm=firm), {"/inbox/stock.xlsx": workbook(sheet, suppliers)}, STOCK_GOLDEN, key, "hard")


STOCK_RUBRIC = [
    check("opens", "workbook_opens", 0, gate=True, path=STOCK, scenarios="$key.changes"),
    check("lead_times", "cell_values", 2, path=STOCK, cells="$key.lead_at", values="$key.lead"),
    check("levels", "cell_values", 3, path=STOCK, cells="$key.level_at", values="$key.level"),
    check("actions", "cell_values", 2, needs=("levels",), path=STOCK, cells="$key.action_at", values="$key.action"),
    check("quantities", "cell_values", 3, needs=("actions",), path=STOCK, cells="$key.orders_at", values="$key.orders"),
    check("values", "cell_values", 2, needs=("quantities",), path=STOCK, cells="$key.value_at", values="$key.value"),
    check("total", "cell_value", 3, path=STOCK, cell="Stock!B2", value="$key.total", tolerance=0.01),
    check("lead_is_live", "live_formula", 1, needs=("lead_times",), path=STOCK, cells="$key.lead_at", reads=["Suppliers!C2:C9"]),
    check("level_is_live", "live_formula", 1, needs=("levels",), path=STOCK, cells="$key.level_at", reads=["Stock!B1"]),
    check("action_is_live", "live_formula", 1, needs=("actions",), path=STOCK, cells="$key.action_at"),
    check("quantity_is_live", "live_formula", 1, needs=("quantities",), path=STOCK, cells="$key.quantity_at"),
    check("value_is_live", "live_formula", 1, needs=("values",), path=STOCK, cells="$key.value_at"),
    check("follows", "what_if", 4, path=STOCK, changes="$key.changes.0", values="$key.after"),
    check("total_follows", "what_if", 2, path=STOCK, changes="$key.changes.0", values="$key.total_after", tolerance=0.01),
    check("orders_marked", "conditional_format", 2, tag="format", path=STOCK, cells="$key.action_at", mentions=['"order"']),
    check(
        "dropdown",
        "data_validation",
        2,
        tag="format",
        path=STOCK,
        cells="$key.priority_at",
        kind="list",
        items=["high", "normal", "low"],
    ),
    check(
        "currency",
        "number_format",
        1,
        needs=("values",),
        tag="format",
        path=STOCK,
        cells="$key.value_at",
        like=["currency", "two_decimals"],
    ),
    check(
        "list_kept",
        "sheet_unchanged",
        1,
        needs=("levels",),
        tag="care",
        path=STOCK,
        original="/inbox/stock.xlsx",
        sheet="Stock",
        apart="$key.apart",
    ),
    check(
        "suppliers_kept",
        "sheet_unchanged",
        1,
        needs=("levels",),
        tag="care",
        path=STOCK,
        original="/inbox/stock.xlsx",
        sheet="Suppliers",
    ),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]
