"""The checks of office files that need LibreOffice: every one attacked with a file that looks right and is not."""

import tomllib
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from builders.evidence import make_evidence
from builders.office import cells, document, paragraph, workbook
from sandlot import Task
from sandlot.checks import office
from sandlot.core.errors import GradeError, NotInEvidence
from sandlot.core.ports.sandbox import Command
from sandlot.env.world import LiveWorld
from sandlot.sandbox.command import run_command
from sandlot.sandbox.native.backend import open_native

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]  # the first time, the image is installed
ROOT = Path(__file__).parents[2]
IMAGE = tomllib.loads((ROOT / "environments/office/environment.toml").read_text())["image"]
BOOK = "/out/book.xlsx"
WHITE = '<fonts><font/><font><color rgb="FFFFFFFF"/></font></fonts><cellXfs><xf/><xf fontId="1"/></cellXfs>'


@asynccontextmanager
async def graded(files: dict[str, bytes], image: str = IMAGE):
    """Evidence over these files whose grading sandboxes are real."""
    async with open_native() as backend:

        @asynccontextmanager
        async def open_sandbox(given, replace):
            async with backend.open(image) as machine:
                for path, data in given.items():
                    await machine.write(path, data)
                yield LiveWorld({}, Task("t", prompt=""), Random(0), machine)

        evidence = make_evidence(files)
        evidence._open_sandbox = open_sandbox
        yield evidence


async def test_cached_values_are_not_believed_and_inputs_can_be_changed():
    live, typed = workbook({"S": cells(A1=2, A2=4, B1="=A1+A2")}), workbook({"S": cells(A1=2, A2=4, B1=6)})
    fixed = workbook({"S": cells(A1=2, A2=4, B1="=6*1")})
    async with graded({BOOK: live, "/out/typed.xlsx": typed, "/out/fixed.xlsx": fixed}) as evidence:
        changes, after = {"S!A1": 10}, {"S!B1": 14}
        assert (await office.workbook_opens(evidence, BOOK, scenarios=[changes]))[0] == 1.0
        assert (await office.cell_value(evidence, BOOK, "S!B1", 999))[0] == 0.0  # what the file says
        assert (await office.cell_value(evidence, BOOK, "S!B1", 6))[0] == 1.0
        assert (await office.what_if(evidence, BOOK, changes, after))[0] == 1.0
        for path in ("/out/typed.xlsx", "/out/fixed.xlsx"):
            assert (await office.cell_value(evidence, path, "S!B1", 6))[0] == 1.0
            assert (await office.what_if(evidence, path, changes, after))[0] == 0.0
            assert (await office.live_formula(evidence, path, "S!B1"))[0] == 0.0


async def test_a_value_counts_where_a_reader_sees_it_and_as_what_it_is():
    rows = (
        '<sheetData><row r="1"><c r="A1" s="1"><v>42</v></c></row><row r="2" hidden="1"><c r="A2"><v>42</v></c></row></sheetData>'
    )
    book = workbook(
        {"S": cells(A1="42", B1=42, C1="=1/0"), "White": rows, "Hidden": cells(A1=42)}, styles=WHITE, hidden=("Hidden",)
    )
    async with graded({BOOK: book}) as evidence:
        assert (await office.cell_value(evidence, BOOK, "S!B1", 42))[0] == 1.0
        for place in ("S!A1", "White!A1", "White!A2", "Hidden!A1", "S!C1", "S!D9", "None!A1"):
            assert (await office.cell_value(evidence, BOOK, place, 42))[0] == 0.0, place
        assert (await office.no_error_values(evidence, BOOK))[0] == 0.0
        assert (await office.table_rows(evidence, BOOK, "S!A1", [["42", 42]]))[0] == 1.0


async def test_a_file_that_libreoffice_cannot_use_is_not_met_and_a_missing_libreoffice_is_our_failure():
    book = workbook({"S": cells(A1=1)})
    async with graded({"/out/a.ods": b"not an office file at all", "/out/b.ods": b""}) as evidence:
        for path in ("/out/a.ods", "/out/b.ods"):
            with pytest.raises(NotInEvidence):
                await office.live_formula(evidence, path, "S!A1")
    async with graded({BOOK: book}, image="host") as evidence:
        with pytest.raises(GradeError, match="LibreOffice did not start"):
            await office.cell_value(evidence, BOOK, "S!A1", 1)


MADE_BY_OTHERS = """
import docx, openpyxl
from openpyxl.chart import BarChart, Reference
book = openpyxl.Workbook()
sheet = book.active
sheet.title = "S"
for row in (["Month", "Sales"], ["Jan", 3], ["Feb", 5]):
    sheet.append(row)
sheet["B4"] = "=SUM(B2:B3)"
sheet["B4"].number_format = '0.00 "EUR"'
chart = BarChart()
chart.title = "Sales"
chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
chart.set_categories(Reference(sheet, min_col=1, min_row=2, max_row=3))
sheet.add_chart(chart, "D2")
book.save("/out/a.xlsx")
text = docx.Document()
text.add_heading("Scope", 1)
text.add_paragraph("Milk", style="List Bullet")
text.save("/out/a.docx")
"""


async def test_files_of_openpyxl_python_docx_and_libreoffice_are_read_alike():
    names = ("a.xlsx", "a.ods", "again.xlsx", "a.docx", "a.odt")
    async with open_native() as backend, backend.open(IMAGE) as machine:
        await machine.write("/work/make.py", MADE_BY_OTHERS.encode())
        convert = "soffice --headless --convert-to {} --outdir /out{} /out/{} >/dev/null"
        steps = [
            "mkdir -p /out /out2",
            "python3 /work/make.py",
            convert.format("ods", "", "a.xlsx"),
            convert.format("odt", "", "a.docx"),
        ]
        steps += [convert.format("xlsx", "2", "a.ods"), "mv /out2/a.xlsx /out/again.xlsx"]
        done = await run_command(machine, Command(argv=("sh", "-ec", "\n".join(steps))))
        assert done.code == 0, done.stderr
        files = {f"/out/{name}": await machine.read(f"/out/{name}") for name in names}
    async with graded(files) as evidence:
        for name in names[:3]:
            path = f"/out/{name}"
            assert (await office.cell_value(evidence, path, "S!B4", 8))[0] == 1.0
            assert (await office.live_formula(evidence, path, "S!B4", reads=["S!B2:B3"]))[0] == 1.0
            assert (await office.number_format(evidence, path, "S!B4", ["currency", "two_decimals"]))[0] == 1.0
            chart = await office.chart_shows(evidence, path, "S", ["S!B2:B3"], categories="S!A2:A3", kind="column", title="Sales")
            assert chart[0] == 1.0, (path, chart)
        for name in names[3:]:
            assert (await office.doc_headings(evidence, f"/out/{name}", [[1, "Scope"]]))[0] == 1.0
            assert (await office.doc_list(evidence, f"/out/{name}", ["Milk"], kind="bullet"))[0] == 1.0


async def test_pages_are_drawn_as_png_images():
    async with graded({"/out/a.docx": document(paragraph("Hello"))}) as evidence:
        pages = await office.rendered_pages(evidence, "/out/a.docx")
    assert len(pages) == 1
    assert pages[0].startswith(b"\x89PNG")
