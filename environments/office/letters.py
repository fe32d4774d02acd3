"""Text documents: reports to a style guide, tracked changes, contents, mail merges, minutes, contracts."""

from datetime import date
from random import Random

from . import docx
from .job import PEOPLE, TOWNS, Job, check, title_of, working_day
from .xlsx import Sheet, workbook

SUBJECTS = (
    "Delivery times",
    "Returns",
    "Complaints",
    "Staffing",
    "Energy use",
    "Packaging",
    "Suppliers",
    "Opening hours",
    "Safety",
    "Training",
    "Vehicles",
    "Stock levels",
)
SENTENCES = (
    "The figures of the last two quarters are stable.",
    "Three of the five sites report fewer cases than a year ago.",
    "The main cause is the change of carrier in spring.",
    "We propose to keep the present rule until the end of the year.",
    "Costs rose by {n} percent, mostly because of overtime.",
    "The team in {town} has tested the new process since May.",
    "Customers mention the long way to the counter most often.",
    "A decision is needed before the budget meeting.",
    "The backlog fell from {n} to {m} orders.",
    "No accident was reported in this period.",
)


def sentences(rng: Random, count: int) -> str:
    chosen = rng.sample(SENTENCES, count)
    return " ".join(text.format(n=rng.randrange(12, 60), m=rng.randrange(2, 11), town=rng.choice(TOWNS)) for text in chosen)


# -- a report to the style guide ----------------------------------------------------------------------------------------

STYLE = "/out/report.docx"
STYLE_PROMPT = """
Please bring /inbox/report.docx into our house style and save it as /out/report.docx. The author formatted everything by hand: chapters are large bold lines, sections smaller bold lines, lists are typed dashes.

House style:
- The first line is the title: style Title. Chapters: Heading 1, sections: Heading 2. Body text: style Normal, {font} {size} pt, line spacing {spacing}. Titles and headings also in {font}.
- A4 (210 x 297 mm), margins {margin} mm on all sides.
- Lines that begin with a dash are bullet lists (style List Bullet), without the typed dash.
- Header: "{header}". Footer: the page number, as a field.
- The table gets a header row that repeats on every page.

Do not change the wording, and leave nothing out.
"""
STYLE_GOLDEN = """
import docx
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Mm, Pt
document = docx.Document("/inbox/report.docx")
first = True
for paragraph in document.paragraphs:
    runs = [run for run in paragraph.runs if run.text.strip()]
    if not runs:
        continue
    size = runs[0].font.size.pt if runs[0].font.size else 0
    if first:
        name, first = "Title", False
    elif runs[0].bold and size >= 15:
        name = "Heading 1"
    elif runs[0].bold:
        name = "Heading 2"
    elif paragraph.text.startswith("- "):
        name = "List Bullet"
        runs[0].text = runs[0].text[2:]
    else:
        name = "Normal"
    paragraph.style = document.styles[name]
    for run in paragraph.runs:
        run.font.size = run.font.bold = run.font.name = None
for name in ("Normal", "Title", "Heading 1", "Heading 2", "List Bullet"):
    style = document.styles[name]
    style.font.name = "FONT"
    if name == "Normal":
        style.font.size = Pt(SIZE)
        style.paragraph_format.line_spacing = SPACING
section = document.sections[0]
section.page_width, section.page_height = Mm(210), Mm(297)
section.left_margin = section.right_margin = section.top_margin = section.bottom_margin = Mm(MARGIN)
section.header.paragraphs[0].text = "HEADER"
field = OxmlElement("w:fldSimple")
field.set(qn("w:instr"), "PAGE")
section.footer.paragraphs[0]._p.append(field)
row = document.tables[0].rows[0]._tr.get_or_add_trPr()
row.append(OxmlElement("w:tblHeader"))
document.save("/out/report.docx")
"""


def style(rng: Random) -> Job:
    font, size, spacing, margin = (
        rng.choice(["Arial", "Liberation Sans", "DejaVu Serif"]),
        rng.choice([10, 10.5, 12]),
        rng.choice([1.15, 1.25, 1.5]),
        rng.choice([20, 25, 30]),
    )
    title = f"Quality report {rng.choice(TOWNS)} {rng.choice([2025, 2026])}"
    header = f"{rng.choice(['Internal', 'Draft', 'Confidential'])} - {rng.choice(PEOPLE)}"
    chapters = rng.sample(SUBJECTS, 3)
    body, headings, items, texts = [docx.para(title, bold=True, size=20)], [], [], []
    for chapter in chapters:
        body.append(docx.para(chapter, bold=True, size=16))
        headings.append([1, chapter])
        texts.append(sentences(rng, 2))
        body.append(docx.para(texts[-1], size=rng.choice([0, 9, 13])))
        for name in rng.sample(["Findings", "Measures", "Open points", "Outlook"], 2):
            body.append(docx.para(f"{name}: {chapter.lower()}", bold=True, size=13))
            headings.append([2, f"{name}: {chapter.lower()}"])
            if rng.random() < 0.6 or not items:
                listed = [sentences(rng, 1) for _ in range(3)]
                items += listed
                body += [docx.para(f"- {item}") for item in listed]
            texts.append(sentences(rng, 2))
            body.append(docx.para(texts[-1]))
    rows = [
        ["Site", "Cases", "Share"],
        *[[town, str(rng.randrange(5, 90)), f"{rng.randrange(5, 40)} %"] for town in rng.sample(TOWNS, 4)],
    ]
    body.append(docx.table(rows))
    key = {
        "title": title,
        "headings": headings,
        "chapters": [each for each in headings if each[0] == 1],
        "items": items,
        "texts": texts,
        "dashes": [f"- {item}" for item in items],
        "wording": [title, *[text for _, text in headings], *items, *texts],
        "rows": rows,
        "body": {"font": font, "size": size},
        "spacing": {"line_spacing": spacing},
        "font": {"font": font},
        "margins": dict.fromkeys(("top", "bottom", "left", "right"), margin),
        "header": header,
    }
    prompt = STYLE_PROMPT.format(font=font, size=f"{size:g}", spacing=f"{spacing:g}", margin=margin, header=header)
    golden = (
        STYLE_GOLDEN.replace("FONT", font)
        .replace("SIZE", f"{size:g}")
        .replace("SPACING", f"{spacing:g}")
        .replace("MARGIN", str(margin))
        .replace("HEADER", header)
    )
    return Job(prompt, {"/inbox/report.docx": docx.document(*body)}, golden, key, "medium")


STYLE_RUBRIC = [
    check("nothing_lost", "checks:wording_kept", 0, gate=True, tag="care", path=STYLE, texts="$key.wording", renamed=[]),
    check("chapters", "doc_headings", 3, path=STYLE, headings="$key.chapters", exact=False),
    check("headings", "doc_headings", 5, path=STYLE, headings="$key.headings"),
    check("title", "doc_paragraph_style", 2, path=STYLE, text="$key.title", style="Title"),
    check("body_font", "doc_format", 3, needs=("chapters",), path=STYLE, like="$key.body", style="Normal"),
    check("line_spacing", "doc_format", 2, needs=("chapters",), path=STYLE, like="$key.spacing", style="Normal"),
    check("heading_font", "doc_format", 1, needs=("chapters",), path=STYLE, like="$key.font", style="Heading 1"),
    check("section_font", "doc_format", 1, needs=("headings",), path=STYLE, like="$key.font", style="Heading 2"),
    check("title_font", "doc_format", 1, needs=("title",), path=STYLE, like="$key.font", style="Title"),
    check("page_size", "doc_page", 2, path=STYLE, size=[210, 297]),
    check("margins", "doc_page", 2, path=STYLE, margins="$key.margins"),
    check("bullets", "doc_list", 4, path=STYLE, items="$key.items", kind="bullet"),
    check("dashes_gone", "doc_lacks_text", 1, needs=("bullets",), path=STYLE, texts="$key.dashes"),
    check("header", "doc_header_footer", 2, path=STYLE, where="header", text="$key.header"),
    check("page_number", "doc_header_footer", 2, path=STYLE, where="footer", field="PAGE"),
    check("table_header", "checks:table_header_repeats", 2, path=STYLE, rows="$key.rows"),
    check("wording_kept", "doc_has_text", 2, needs=("chapters",), tag="care", path=STYLE, texts="$key.texts"),
    check("table_kept", "doc_table", 1, needs=("chapters",), tag="care", path=STYLE, rows="$key.rows"),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- tracked changes ----------------------------------------------------------------------------------------------------

REVIEW = "/out/contract.docx"
REVIEW_PROMPT = """
/inbox/contract.docx has tracked changes of {ours} (our side) and {theirs} (the other side). Please work through them and save the result as /out/contract.docx:

- Accept all changes of {ours}.
- Reject all changes of {theirs}, except those in the clause "{kept}": accept these.
- No change may stay open; nothing else in the text changes, and the headings keep their style.

Then write /out/changes.docx with a table of all changes you rejected: header Clause, Kind, Text; one row per rejected change in the order of the document; Kind is insertion or deletion, Text the inserted or deleted words.
"""
REVIEW_GOLDEN = """
import docx
from docx.oxml.ns import qn
document = docx.Document("/inbox/contract.docx")
clause, rejected = "", []
for paragraph in document.paragraphs:
    if paragraph.style.name.startswith("Heading"):
        clause = paragraph.text
    for change in list(paragraph._p):
        if change.tag not in (qn("w:ins"), qn("w:del")):
            continue
        insertion = change.tag == qn("w:ins")
        accept = change.get(qn("w:author")) == "OURS" or clause == "KEPT"
        text = "".join(each.text or "" for each in change.iter() if each.tag in (qn("w:t"), qn("w:delText")))
        if not accept:
            rejected.append([clause, "insertion" if insertion else "deletion", text.strip()])
        if accept == insertion:
            for run in list(change):
                for deleted in run.iter(qn("w:delText")):
                    deleted.tag = qn("w:t")
                change.addprevious(run)
        paragraph._p.remove(change)
document.save("/out/contract.docx")
report = docx.Document()
table = report.add_table(rows=1, cols=3)
for cell, text in zip(table.rows[0].cells, ["Clause", "Kind", "Text"]):
    cell.text = text
for row in rejected:
    for cell, text in zip(table.add_row().cells, row):
        cell.text = text
report.save("/out/changes.docx")
"""


ADDITIONS = (
    "unless agreed otherwise",
    "as far as the law allows",
    "unless the order says otherwise",
    "for the whole term of this contract",
    "unless the other party objects in writing",
    "notwithstanding other clauses",
    "without prejudice to other rights",
    "except in urgent cases",
    "in the absence of a special agreement",
    "subject to force majeure",
    "from the date of signature",
)
CLAUSES: dict[str, list[tuple[str, str, str, str, int, int]]] = {
    "Scope": [
        ("The supplier delivers ", "the goods in annex {n}", "the goods ordered in writing", ".", 1, 9),
        ("The customer orders at least ", "{n} units a year", "once in every quarter", ".", 100, 900),
    ],
    "Price": [
        ("Changes of the price need ", "the consent of both parties", "a notice of {n} days", ".", 20, 90),
        ("Prices are fixed for ", "{n} months", "the current year", " from the first order on.", 6, 24),
    ],
    "Payment": [
        ("Invoices are due ", "{n} days after receipt", "at the end of the quarter", " without deduction.", 14, 60),
        ("For late payment the customer owes ", "{n} percent interest a year", "the interest of the law", ".", 4, 9),
    ],
    "Liability": [
        ("The liability of the supplier is limited to ", "EUR {n},000", "the price of the single order", " per case.", 20, 90),
        ("The supplier is insured for ", "EUR {n} million", "the value of the goods in transit", ".", 1, 9),
    ],
    "Term": [
        ("The contract runs until ", "31 December 2027", "further notice, at least {n} months", ".", 12, 36),
        ("Either party may end this contract with ", "{n} days' notice", "immediate effect", " in writing.", 30, 180),
    ],
    "Confidentiality": [
        ("Information marked as confidential is kept secret for ", "{n} years", "an unlimited time", ".", 2, 10),
        ("Confidential documents are returned ", "within {n} days", "on request", " after the end of the contract.", 10, 60),
    ],
    "Delivery": [
        ("The goods leave the supplier's warehouse ", "within {n} days", "as soon as possible", " after the order.", 3, 30),
        ("The supplier bears the cost of transport ", "up to {n} kilometres", "within the country", ".", 100, 500),
    ],
    "Acceptance": [
        ("The customer inspects the goods ", "on arrival", "within {n} days", " and reports defects.", 3, 21),
        ("Goods are accepted if no defect is reported ", "within {n} days", "in writing", ".", 5, 30),
    ],
}
"""By clause its sentences: beginning, one wording, another one, end, and between which numbers `{n}` is."""


def review(rng: Random) -> Job:
    ours, theirs = rng.sample(PEOPLE, 2)
    clauses = rng.sample(list(CLAUSES), 5)
    kept = rng.choice(clauses[1:])
    additions = rng.sample(ADDITIONS, len(ADDITIONS))
    body, final, rejected, number, bits = [docx.para("Supply contract", "Title")], ["Supply contract"], [], 100, []
    for place, clause in enumerate(clauses):
        body.append(docx.para(clause, "Heading1"))
        final.append(clause)
        for before, first, second, ending, low, high in rng.sample(CLAUSES[clause], 2):
            old, new = first.format(n=rng.randint(low, high)), second.format(n=rng.randint(low, high))
            author = rng.choice([ours, theirs]) if place or bits else theirs
            accept = author == ours or clause == kept
            number, after = number + 2, ending
            if rng.random() < 0.6:
                changes = docx.deleted(old, author, number) + docx.inserted(new, author, number + 1)
                chosen = new if accept else old
                rejected += [] if accept else [[clause, "deletion", old], [clause, "insertion", new]]
                bits.append(before + (old if accept else new) + after)
            else:
                addition, sentence = additions.pop(), old + ending.removesuffix(".")
                changes, after = docx.run(sentence) + docx.inserted(f" {addition}", author, number), "."
                chosen = sentence + (f" {addition}" if accept else "")
                rejected += [] if accept else [[clause, "insertion", addition]]
                bits.append(before + sentence + ("" if accept else f" {addition}") + after)
            final.append(before + chosen + after)
            body.append(docx.para(docx.run(before) + changes + docx.run(after), raw=True))
    key = {
        "paragraphs": final,
        "headings": [[1, clause] for clause in clauses],
        "rejected": [["Clause", "Kind", "Text"], *rejected],
        "wrong": [text for text in bits if text not in final],
        "right": final[1:],
    }
    golden = REVIEW_GOLDEN.replace("OURS", ours).replace("KEPT", kept)
    return Job(
        REVIEW_PROMPT.format(ours=ours, theirs=theirs, kept=kept),
        {"/inbox/contract.docx": docx.document(*body)},
        golden,
        key,
        "hard",
    )


REVIEW_RUBRIC = [
    check("none_open", "doc_changes", 3, needs=("some_right",), path=REVIEW, insertions=[], deletions=[]),
    check("some_right", "checks:changes_decided", 0, path=REVIEW, texts="$key.paragraphs"),
    check("text", "doc_paragraphs", 8, needs=("some_right",), path=REVIEW, texts="$key.paragraphs"),
    check("whole_text", "checks:exact_paragraphs", 5, path=REVIEW, texts="$key.paragraphs"),
    check("accepted_there", "doc_has_text", 3, needs=("some_right",), path=REVIEW, texts="$key.right"),
    check("rejected_gone", "doc_lacks_text", 3, needs=("some_right",), path=REVIEW, texts="$key.wrong"),
    check("headings", "doc_headings", 1, needs=("none_open",), tag="care", path=REVIEW, headings="$key.headings"),
    check(
        "title_kept",
        "doc_paragraph_style",
        1,
        needs=("none_open",),
        tag="care",
        path=REVIEW,
        text="Supply contract",
        style="Title",
    ),
    check("rejections_listed", "doc_table", 6, path="/out/changes.docx", rows="$key.rejected"),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- contents, numbers and captions -------------------------------------------------------------------------------------

MANUAL = "/out/manual.docx"
MANUAL_PROMPT = """
/inbox/manual.docx is the manual of our {machine}. Its headings have their styles, but it cannot be navigated. Please save it as /out/manual.docx with these additions:

- After the title, a table of contents over levels 1 and 2 (a field, as Word makes it), showing the present headings; then a page break, so that the first chapter begins on a new page.
- A chapter "Revision history" (Heading 1) at the end, with a table: header Version, Date, Author, Change; rows {rows}.
- The section "{old}" is now called "{new}"; adjust the heading and every mention of it in the text.
- The steps below "{steps}" are a numbered list (style List Number), without the typed numbers.
- Footer: page number and number of pages, both as fields.

Change nothing else.
"""
MANUAL_GOLDEN = """
import re, docx
from docx.enum.text import WD_BREAK
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
document = docx.Document("/inbox/manual.docx")
for paragraph in document.paragraphs:
    for run in paragraph.runs:
        if "OLD" in run.text:
            run.text = run.text.replace("OLD", "NEW")
listing = False
for paragraph in document.paragraphs:
    if paragraph.style.name.startswith("Heading"):
        listing = paragraph.text == "STEPS"
    elif listing and re.match(r"\\d+\\. ", paragraph.text):
        paragraph.runs[0].text = re.sub(r"^\\d+\\. ", "", paragraph.runs[0].text)
        paragraph.style = document.styles["List Number"]
document.add_paragraph("Revision history", style="Heading 1")
rows = [["Version", "Date", "Author", "Change"]] + ROWS
table = document.add_table(rows=len(rows), cols=4)
for row, texts in zip(table.rows, rows):
    for cell, text in zip(row.cells, texts):
        cell.text = text
title = document.paragraphs[0]
entries = [p.text for p in document.paragraphs if p.style.name in ("Heading 1", "Heading 2")]
def field(paragraph, code, text):
    for kind, value in (("begin", None), (None, code), ("separate", None), ("text", text), ("end", None)):
        run = paragraph.add_run()
        if kind in ("begin", "separate", "end"):
            mark = OxmlElement("w:fldChar")
            mark.set(qn("w:fldCharType"), kind)
            run._r.append(mark)
        elif kind == "text":
            for number, line in enumerate(text.split("\\n")):
                if number:
                    run.add_break()
                run.add_text(line)
        else:
            mark = OxmlElement("w:instrText")
            mark.text = value
            run._r.append(mark)
after = document.paragraphs[1]
contents = after.insert_paragraph_before()
field(contents, 'TOC \\\\o "1-2" \\\\h', "\\n".join(entries))
after.insert_paragraph_before().add_run().add_break(WD_BREAK.PAGE)
footer = document.sections[0].footer.paragraphs[0]
field(footer, "PAGE", "1")
footer.add_run(" / ")
field(footer, "NUMPAGES", "1")
document.save("/out/manual.docx")
"""


def manual(rng: Random) -> Job:
    machine = rng.choice(["coffee roaster", "label printer", "band saw", "pallet wrapper"])
    names = rng.sample(["Set-up", "Cleaning", "Daily checks", "Faults", "Spare parts", "Transport", "Storage", "Disposal"], 4)
    old = rng.choice(["Start procedure", "Switching on", "First start"])
    new = rng.choice(["Starting the machine", "Start-up"])
    headings: list[list] = []
    body, texts = [docx.para(f"Manual: {machine}", "Title")], []
    steps = [
        f"{verb} the {part}."
        for verb, part in rng.sample(
            [
                ("Open", "valve"),
                ("Check", "belt"),
                ("Close", "hood"),
                ("Press", "green button"),
                ("Turn", "main switch"),
                ("Empty", "tray"),
            ],
            4,
        )
    ]
    for place, name in enumerate(names):
        body.append(docx.para(name, "Heading1"))
        headings.append([1, name])
        text = sentences(rng, 2) + (f" See also {old}." if place in {1, 3} else "")
        texts.append(text.replace(old, new))
        body.append(docx.para(text))
        for section in ([old] if place == 0 else []) + ["Safety notes" if place == 2 else f"{name}: details"]:
            body.append(docx.para(section, "Heading2"))
            headings.append([2, new if section == old else section])
            if section == old:
                body += [docx.para(f"{n}. {step}") for n, step in enumerate(steps, 1)]
            texts.append(sentences(rng, 1))
            body.append(docx.para(texts[-1]))
    days = [working_day(rng, 2026, month).isoformat() for month in sorted(rng.sample(range(1, 13), 2))]
    changes = ["First version", rng.choice(["New spare parts", "Safety notes revised"])]
    rows = [[f"1.{n}", days[n], rng.choice(PEOPLE), changes[n]] for n in range(2)]
    headings.append([1, "Revision history"])
    key = {
        "headings": headings,
        "new": [[2, new]],
        "entries": [text for _, text in headings],
        "rows": [["Version", "Date", "Author", "Change"], *rows],
        "old": [old],
        "steps": steps,
        "typed": [f"{n}. {step}" for n, step in enumerate(steps, 1)],
        "texts": texts,
        "wording": [*texts, *steps, *[text for _, text in headings[:-1]]],
        "renamed": [old, new],
        "first": names[0],
    }
    told = " and ".join(", ".join(row) for row in rows)
    prompt = MANUAL_PROMPT.format(machine=machine, rows=told, old=old, new=new, steps=old)
    golden = MANUAL_GOLDEN.replace("OLD", old).replace("NEW", new).replace("STEPS", new).replace("ROWS", repr(rows))
    return Job(prompt, {"/inbox/manual.docx": docx.document(*body)}, golden, key, "medium")


MANUAL_RUBRIC = [
    check(
        "nothing_lost", "checks:wording_kept", 0, gate=True, tag="care", path=MANUAL, texts="$key.wording", renamed="$key.renamed"
    ),
    check("contents_field", "doc_contents", 4, path=MANUAL),
    check("contents_levels", "doc_contents", 1, needs=("contents_field",), path=MANUAL, levels="1-2"),
    check("contents_shown", "doc_contents", 3, needs=("contents_field",), path=MANUAL, entries="$key.entries"),
    check("new_page", "checks:break_before", 2, path=MANUAL, text="$key.first", needs=("contents_field",)),
    check("renamed", "doc_headings", 2, path=MANUAL, headings="$key.new", exact=False),
    check("mentions_renamed", "doc_lacks_text", 2, needs=("renamed",), path=MANUAL, texts="$key.old"),
    check("revision_table", "doc_table", 3, path=MANUAL, rows="$key.rows"),
    check("all_headings", "doc_headings", 3, needs=("renamed",), path=MANUAL, headings="$key.headings"),
    check("steps", "doc_list", 3, path=MANUAL, items="$key.steps", kind="numbered"),
    check("numbers_gone", "doc_lacks_text", 1, needs=("steps",), path=MANUAL, texts="$key.typed"),
    check("page_field", "doc_header_footer", 2, path=MANUAL, where="footer", field="PAGE"),
    check("pages_field", "doc_header_footer", 1, path=MANUAL, where="footer", field="NUMPAGES"),
    check("text_kept", "doc_has_text", 2, needs=("renamed",), tag="care", path=MANUAL, texts="$key.texts"),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- a mail merge -------------------------------------------------------------------------------------------------------

MERGE = "/out/letters"
MERGE_PROMPT = """
We write to our members about their fees. /inbox/letter.docx is the letter with fields in double angle brackets, /inbox/members.xlsx the list. Make one letter per member whose fee is not paid, as /out/letters/NUMBER.docx with the member's number, everything filled in, layout as in the template.

- <<Salutation>>: "Dear Ms Surname" or "Dear Mr Surname" by the title in the list; if there is no title, "Dear First Surname".
- <<Fee>> with two decimals and the currency in front, like EUR 48.00; people under 18 on 1 January {year} pay half of the fee in the list.
- <<Deadline>>: {deadline}; for members who paid last year's fee late (column Late is yes), {early}.
- The paragraph that begins with "Reminder:" stays only in letters to members with Late = yes.

Members who left (column Left has a date) get no letter. Nothing in angle brackets may remain.
"""
MERGE_GOLDEN = """
import datetime, os, docx, openpyxl
os.makedirs("/out/letters", exist_ok=True)
sheet = openpyxl.load_workbook("/inbox/members.xlsx")["Members"]
head = [cell.value for cell in sheet[1]]
for values in sheet.iter_rows(min_row=2, values_only=True):
    row = dict(zip(head, values))
    if not row["Number"] or row["Paid"] == "yes" or row["Left"]:
        continue
    born = row["Born"].date() if isinstance(row["Born"], datetime.datetime) else row["Born"]
    young = (YEAR - born.year) - ((1, 1) < (born.month, born.day)) < 18
    fee = row["Fee"] / 2 if young else row["Fee"]
    name = f"{row['Title']} {row['Surname']}" if row["Title"] else f"{row['First']} {row['Surname']}"
    fields = {"<<Salutation>>": f"Dear {name}", "<<Name>>": f"{row['First']} {row['Surname']}", "<<Street>>": row["Street"], "<<Town>>": row["Town"],
        "<<Number>>": str(row["Number"]), "<<Fee>>": f"EUR {fee:.2f}", "<<Deadline>>": "EARLY" if row["Late"] == "yes" else "DEADLINE"}
    letter = docx.Document("/inbox/letter.docx")
    for paragraph in list(letter.paragraphs):
        if paragraph.text.startswith("Reminder:") and row["Late"] != "yes":
            paragraph._p.getparent().remove(paragraph._p)
            continue
        text = paragraph.text
        for field, value in fields.items():
            text = text.replace(field, value)
        if text != paragraph.text:
            for run in paragraph.runs[1:]:
                run.text = ""
            paragraph.runs[0].text = text
    letter.save(f"/out/letters/{row['Number']}.docx")
"""


def merge(rng: Random) -> Job:
    year = 2026
    deadline, early = f"{rng.randint(15, 28)} March {year}", f"{rng.randint(1, 14)} February {year}"
    home = rng.choice(TOWNS)
    club = f"{rng.choice(['Rowing Club', 'Chess Club', 'Choir', 'Alpine Club'])} {home}"
    treasurer, *names = rng.sample(PEOPLE, 10)
    template = [
        docx.para(club, "Title"),
        docx.para(docx.run("<<Na") + docx.run("me>>"), raw=True),
        docx.para("<<Street>>"),
        docx.para("<<Town>>"),
        docx.para("Your membership fee", "Heading1"),
        docx.para("<<Salutation>>,"),
        docx.para(f"your fee for {year} is <<Fee>>. Please pay it until <<Deadline>> and name your member number <<Number>>."),
        docx.para("Reminder: your last fee arrived late. Please set up a standing order."),
        docx.para("Kind regards"),
        docx.para(f"{treasurer}, treasurer"),
    ]
    rows, letters, none = [], {}, []
    for place, name in enumerate(names):
        first, surname = name.split()
        number = rng.randrange(100, 999) * 10 + place
        title = rng.choice([title_of(name), title_of(name), None])
        born = date(year - rng.choice([17, 30, 45, 60]), rng.randint(2, 11), rng.randint(1, 28))
        if place == 0:
            born = date(year - 18, 1, 2)
        elif place == 1:
            born = date(year - 18, 1, 1)
        fee, paid, late = (
            float(rng.choice([48, 60, 75, 90])),
            "yes" if place in {5, 6} else "no",
            "yes" if place in {1, 2, 7} else "no",
        )
        left = (date(2025, rng.randint(1, 12), 5) - date(1899, 12, 30)).days if place in {4, 8} else None
        street = f"{rng.choice(['Mill', 'Church', 'Lake', 'Station'])} Road {rng.randrange(1, 99)}"
        town = f"{rng.randrange(1000, 9999)} {home}"
        rows.append([number, title, first, surname, street, town, (born - date(1899, 12, 30)).days, fee, paid, late, left])
        if paid == "yes" or left:
            none.append(f"{MERGE}/{number}.docx")
            continue
        young = born > date(year - 18, 1, 1)
        amount = f"EUR {fee / 2 if young else fee:.2f}"
        until = early if late == "yes" else deadline
        who = f"{title} {surname}" if title else f"{first} {surname}"
        text = [
            club,
            f"{first} {surname}",
            street,
            town,
            "Your membership fee",
            f"Dear {who},",
            f"your fee for {year} is {amount}. Please pay it until {until} and name your member number {number}.",
        ]
        text += ["Reminder: your last fee arrived late. Please set up a standing order."] if late == "yes" else []
        letters[f"{MERGE}/{number}.docx"] = text
    order = list(range(len(rows)))
    rng.shuffle(order)
    sheet = Sheet("Members").rows(
        "A1", [["Number", "Title", "First", "Surname", "Street", "Town", "Born", "Fee", "Paid", "Late", "Left"]], ("head",) * 11
    )
    sheet.rows("A2", [rows[n] for n in order], ("", "", "", "", "", "", "date", "money", "", "", "date"))
    key = {
        "letters": letters,
        **{f"letter_{n + 1}": [path, text] for n, (path, text) in enumerate(letters.items())},
        "none": none,
        "late": [[path, text[-1]] for path, text in letters.items() if text[-1].startswith("Reminder:")],
        "in_time": [path for path, text in letters.items() if not text[-1].startswith("Reminder:")],
    }
    golden = MERGE_GOLDEN.replace("YEAR", str(year)).replace("EARLY", early).replace("DEADLINE", deadline)
    files = {"/inbox/letter.docx": docx.document(*template), "/inbox/members.xlsx": workbook(sheet)}
    return Job(MERGE_PROMPT.format(year=year, deadline=deadline, early=early), files, golden, key, "hard")


MERGE_RUBRIC = [
    *[check(f"letter_{n}", "checks:letter_says", 3, letter=f"$key.letter_{n}") for n in range(1, 6)],
    check("letters_complete", "checks:only_letters", 4, letters="$key.letters", none="$key.none"),
    check("reminders_right", "checks:reminders_right", 4, letters="$key.letters"),
    check("nothing_left", "checks:no_fields_left", 2, letters="$key.letters"),
    check("layout_kept", "checks:letter_layout", 2, letters="$key.letters", needs=("nothing_left",), tag="care"),
    check("wrong_people", "checks:letters_to_others", -4, none="$key.none", tag="care"),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- minutes from notes -------------------------------------------------------------------------------------------------

MINUTES = "/out/minutes.docx"
MINUTES_PROMPT = """
/inbox/notes.txt are my notes of the meeting of {day}. Please write the minutes as /out/minutes.docx:

- Title (style Title): Minutes: {subject}. Below it one line: the date as in "{shown}", a comma, the place.
- Heading 1 "Present": a bullet list of who was there, surnames in alphabetical order, name as "Surname, First"; those excused under Heading 1 "Excused", same form.
- Heading 1 "Decisions": a numbered list of the decisions, in the order and in the words of the notes. Things that were only talked about are no decisions; a decision that was taken back later in the meeting is left out.
- Heading 1 "Actions": a table with header Who, What, Until, sorted by date (as 2026-03-31), one row per action: full name, the words of the notes. Dates in the notes count from the day of the meeting, a {weekday}; "by Friday" is the first Friday after it.
- Heading 1 "Next meeting" with the date as above.
"""
MINUTES_GOLDEN = """
import docx
DATA = json_data
document = docx.Document()
document.add_paragraph(DATA["title"], style="Title")
document.add_paragraph(DATA["line"])
for heading, items, style in (("Present", DATA["present"], "List Bullet"), ("Excused", DATA["excused"], "List Bullet"), ("Decisions", DATA["decisions"], "List Number")):
    document.add_paragraph(heading, style="Heading 1")
    for item in items:
        document.add_paragraph(item, style=style)
document.add_paragraph("Actions", style="Heading 1")
table = document.add_table(rows=0, cols=3)
for row in [["Who", "What", "Until"]] + DATA["actions"]:
    for cell, text in zip(table.add_row().cells, row):
        cell.text = text
document.add_paragraph("Next meeting", style="Heading 1")
document.add_paragraph(DATA["next"])
document.save("/out/minutes.docx")
"""


def minutes(rng: Random) -> Job:
    from datetime import timedelta  # noqa: PLC0415 - only here

    day = date(2026, rng.randint(1, 11), rng.randint(1, 28))
    day -= timedelta(days=max(0, day.weekday() - 3))  # offices meet on working days; on a Friday, "by Friday" would be unclear
    subject, place = rng.choice(["Office move", "Summer fair", "New website", "Works council"]), f"room {rng.randrange(100, 400)}"
    people = rng.sample(PEOPLE, 6)
    present, excused = people[:4], people[4:]
    turned = lambda names: sorted(f"{name.split()[1]}, {name.split()[0]}" for name in names)  # noqa: E731 - twice
    decisions = rng.sample(
        [
            "The budget is raised by ten percent",
            "The supplier from {town} gets the order",
            "Parking stays free for visitors",
            "The old furniture is given away",
            "The newsletter appears monthly",
            "The kitchen is renovated in May",
        ],
        4,
    )
    decisions = [text.format(town=rng.choice(TOWNS)) for text in decisions]
    back = decisions[2]
    noted = lambda text: text[0].lower() + text[1:]  # noqa: E731 - four times
    talked = rng.sample(["a second printer", "longer opening hours", "a new logo", "the canteen prices"], 2)
    friday = day + timedelta(days=4 - day.weekday())
    whens = [
        ("by Friday", friday),
        (f"until {(day + timedelta(days=22)).strftime('%d.%m.%Y')}", day + timedelta(days=22)),
        ("within a week", day + timedelta(days=7)),
        ("by the end of the month after next", None),
    ]
    first = date(day.year + (day.month + 2) // 13, (day.month + 2 - 1) % 12 + 1, 1)
    after = date(first.year + first.month // 12, first.month % 12 + 1, 1) - timedelta(days=1)
    whens[3] = (whens[3][0], after)
    tasks = rng.sample(
        [
            "gets three offers",
            "writes to the landlord",
            "orders the boxes",
            "tests the booking form",
            "talks to the insurance",
            "draws a floor plan",
        ],
        4,
    )
    actions = [[who, what, text, when] for who, what, (text, when) in zip(rng.choices(present, k=4), tasks, whens, strict=True)]
    rng.shuffle(actions)
    following = day + timedelta(days=14)
    lines = [
        f"Meeting {day.strftime('%d.%m.%Y')}, {place}, {subject}",
        f"there: {', '.join(present)}. Sorry from {excused[0]} and {excused[1]}.",
        f"- decided: {noted(decisions[0])}",
        f"- talked about {talked[0]}, no result",
        f"- {actions[0][0].split()[0]} {actions[0][1]} {actions[0][2]}",
        f"- decided: {noted(back)}",
        f"- decided: {noted(decisions[1])}",
        f"- {actions[1][0].split()[0]} {actions[1][1]} {actions[1][2]}",
        f"- long talk about {talked[1]}, everyone likes it, decide next time",
        f"- {actions[2][0].split()[0]} {actions[2][1]} {actions[2][2]}; {actions[3][0].split()[0]} {actions[3][1]} {actions[3][2]}",
        f"- back to '{noted(back)}': no, we do not do that after all",
        f"- decided: {noted(decisions[3])}",
        "next time in two weeks, same place",
    ]
    told = lambda when: f"{when.day} {when.strftime('%B %Y')}"  # noqa: E731 - twice
    data = {
        "title": f"Minutes: {subject}",
        "line": f"{told(day)}, {place}",
        "present": turned(present),
        "excused": turned(excused),
        "decisions": [decisions[0], decisions[1], decisions[3]],
        "actions": [
            [who, what[0].upper() + what[1:], when.isoformat()] for who, what, _, when in sorted(actions, key=lambda row: row[3])
        ],
        "next": told(following),
    }
    key = {
        "headings": [[1, name] for name in ("Present", "Excused", "Decisions", "Actions", "Next meeting")],
        **data,
        "not_decided": [back, *talked],
        "dates": [[row[2]] for row in data["actions"]],
        "texts": [data["line"], data["next"]],
    }
    prompt = MINUTES_PROMPT.format(day=day.isoformat(), subject=subject, shown=told(date(2026, 3, 5)), weekday=day.strftime("%A"))
    return Job(
        prompt,
        {"/inbox/notes.txt": ("\n".join(lines) + "\n").encode()},
        MINUTES_GOLDEN.replace("json_data", repr(data)),
        key,
        "hard",
    )


MINUTES_RUBRIC = [
    check("title", "doc_paragraph_style", 1, needs=("present",), path=MINUTES, text="$key.title", style="Title"),
    check("date_and_place", "doc_has_text", 2, path=MINUTES, texts="$key.texts"),
    check("headings", "doc_headings", 2, needs=("present",), path=MINUTES, headings="$key.headings"),
    check("present", "doc_list", 3, path=MINUTES, items="$key.present", kind="bullet"),
    check("excused", "doc_list", 2, path=MINUTES, items="$key.excused", kind="bullet"),
    check("decisions", "doc_list", 5, path=MINUTES, items="$key.decisions", kind="numbered"),
    check(
        "only_decisions", "checks:list_has_only", 3, needs=("decisions",), path=MINUTES, items="$key.decisions", kind="numbered"
    ),
    check("nothing_invented", "doc_lacks_text", 2, needs=("decisions",), path=MINUTES, texts="$key.not_decided"),
    check("action_rows", "checks:action_rows", 5, path=MINUTES, actions="$key.actions"),
    check("action_dates", "checks:action_dates", 4, path=MINUTES, actions="$key.actions"),
    check("action_header", "checks:action_header", 1, needs=("action_rows",), path=MINUTES, header=["Who", "What", "Until"]),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]
