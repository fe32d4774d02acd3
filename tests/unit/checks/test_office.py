# ruff: noqa: E501 - XML
"""The checks of office files that read the file itself. What needs LibreOffice is in tests/system/test_office.py."""

import contextlib
import inspect
import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.evidence import make_evidence
from builders.office import (
    CHARTS,
    DRAWING,
    MAIN,
    RELATIONS,
    cells,
    deck,
    document,
    paragraph,
    relations,
    shape,
    workbook,
    workbook_parts,
    zipped,
)
from sandlot.checks import LIBRARY, office
from sandlot.checks.office import archive as archives
from sandlot.checks.office.archive import OfficeArchive
from sandlot.checks.office.document import read_document
from sandlot.checks.office.presentation import read_presentation
from sandlot.checks.office.reference import Area, areas_in, cell_name, column_letters, column_number, parse_area, shifted
from sandlot.checks.office.workbook import read_workbook
from sandlot.core.errors import NotInEvidence

BOOK, TEXT, DECK = "/out/book.xlsx", "/out/text.docx", "/out/deck.pptx"


async def value_of(name: str, data: bytes, /, **args) -> float:
    path = TEXT if name.startswith("doc_") else DECK if name.startswith("slide") else BOOK
    value, text = await LIBRARY[name](make_evidence({path: data}), path=path, **args)
    assert isinstance(text, str)
    return float(value)


# -- hostile files --------------------------------------------------------------------------------------------------------


def bomb() -> bytes:
    return zipped(workbook_parts({"A": cells(A1=1)}) | {"xl/worksheets/sheet1.xml": b"<worksheet>" + b" " * (20 * 2**20)})


def doubled() -> bytes:
    out = io.BytesIO(workbook({"A": cells(A1=1)}))
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("xl/worksheets/sheet1.xml", f'<worksheet xmlns="{MAIN}">{cells(A1=2)}</worksheet>')
    return out.getvalue()


ENTITIES = '<!DOCTYPE w [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><worksheet>&b;</worksheet>'
HOSTILE = {
    "not a zip": lambda: b"PK\x03\x04 but not really",
    "a text": lambda: b"total 42",
    "a zip bomb": bomb,
    "two parts of one name": doubled,
    "entities": lambda: zipped(workbook_parts({"A": ""}) | {"xl/worksheets/sheet1.xml": ENTITIES}),
    "an external entity": lambda: zipped(
        workbook_parts({"A": ""})
        | {"xl/worksheets/sheet1.xml": '<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/passwd">]><worksheet>&x;</worksheet>'}
    ),
    "depth": lambda: zipped(
        workbook_parts({"A": ""}) | {"xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}">' + "<r>" * 5000}
    ),
    "many parts": lambda: zipped(workbook_parts({"A": ""}) | {f"x{n}": "" for n in range(2100)}),
    "a sheet twice": lambda: zipped(
        workbook_parts({"A": ""})
        | {
            "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets><sheet name="A" r:id="rId1"/><sheet name="a" r:id="rId1"/></sheets></workbook>'
        }
    ),
    "a cell twice": lambda: workbook(
        {"A": '<sheetData><row r="1"><c r="A1"><v>1</v></c><c r="A1"><v>2</v></c></row></sheetData>'}
    ),
    "no number": lambda: workbook({"A": '<sheetData><row r="1"><c r="A1"><v>one</v></c></row></sheetData>'}),
    "a style that is not there": lambda: workbook({"A": '<sheetData><row r="1"><c r="A1" s="77"><v>1</v></c></row></sheetData>'}),
    "a document": lambda: document(paragraph("hello")),
    "a link out of the file": lambda: zipped(
        workbook_parts({"A": ""}) | {"xl/_rels/workbook.xml.rels": relations(("worksheet", "../../../../etc/passwd"))}
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_file_makes_a_check_not_met_and_grading_goes_on(kind):
    with pytest.raises(NotInEvidence) as caught:
        await value_of("live_formula", HOSTILE[kind](), cells="A!A1")
    assert caught.value.kind == "cut"  # a penalty counts as met: a broken file must not avoid it


def test_what_office_programs_do_not_show_is_dropped():
    parts = workbook_parts({"A": '<x:sheetData xmlns:x="urn:mine"><row r="1"><c r="A1"><v>7</v></c></row></x:sheetData>'})
    tree = OfficeArchive(zipped(parts), "x").tree("xl/worksheets/sheet1.xml")
    assert list(tree) == []


def test_the_elements_of_all_parts_together_are_limited(monkeypatch):
    monkeypatch.setattr(archives, "_MAX_ELEMENTS", 600)
    part = f'<worksheet xmlns="{MAIN}">' + "<c/>" * 250 + "</worksheet>"
    archive = OfficeArchive(zipped({f"{number}.xml": part for number in range(3)}), "x")
    for name in ("0.xml", "1.xml", "1.xml"):
        assert len(archive.tree(name)) == 250
    with pytest.raises(NotInEvidence, match="more than 600 elements"):
        archive.tree("2.xml")


@pytest.mark.parametrize("opened", [archives.open_office, read_document, read_workbook, read_presentation])
def test_few_files_are_kept_in_memory(opened):
    assert opened.cache_info().maxsize == 2


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(data):
    with contextlib.suppress(NotInEvidence):
        OfficeArchive(data, "x")


# -- spreadsheets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "met"),
    [
        ("=A1*2", 1.0),
        ("=SUM(A1:A2)", 1.0),
        ("=6*1", 0.0),
        (6.0, 0.0),
        ('="A1"', 0.0),
        ("=Other!A1", 1.0),
        ("=$A$1", 1.0),
        ("=LOG10(5)", 0.0),
    ],
)
async def test_a_formula_is_live_only_if_it_reads_cells(formula, met):
    book = workbook({"S": cells(A1=3, A2=4, B1=formula), "Other": cells(A1=1)})
    assert await value_of("live_formula", book, cells="S!B1") == met


async def test_what_a_formula_reads_is_followed_through_other_formulas_names_and_sheets():
    name = '<definedName name="Rate">Other!$A$1</definedName>'
    book = workbook({"S": cells(A1=1, B1="=A1*2", C1="=B1+Rate"), "Other": cells(A1=5)}, names=name)
    assert await value_of("live_formula", book, cells="S!C1", reads=["S!A1", "Other!A1"]) == 1.0
    assert await value_of("live_formula", book, cells="S!B1", reads=["Other!A1"]) == 0.0


async def test_a_circle_of_formulas_ends():
    assert await value_of("live_formula", workbook({"S": cells(A1="=B1", B1="=A1")}), cells="S!A1") == 1.0


async def test_a_shared_formula_is_read_in_every_cell():
    rows = '<row r="1"><c r="B1"><f t="shared" ref="B1:B2" si="0">A1*$C$1</f></c></row><row r="2"><c r="B2"><f t="shared" si="0"/></c></row>'
    book = workbook({"S": f"<sheetData>{rows}</sheetData>"})
    assert await value_of("live_formula", book, cells="S!B2", reads=["S!A2", "S!C1"]) == 1.0


STYLES = (
    '<numFmts><numFmt numFmtId="170" formatCode="#,##0.00 &quot;EUR&quot;"/></numFmts><fonts><font/><font><b/><color rgb="FFFFFFFF"/></font></fonts>'
    '<cellXfs><xf/><xf numFmtId="170" fontId="1"/><xf numFmtId="14"/></cellXfs>'
)


async def test_number_formats_and_styles_are_read_from_the_file():
    rows = '<sheetData><row r="1"><c r="A1" s="1"><v>1</v></c><c r="B1" s="2"><v>46000</v></c><c r="C1"><v>1</v></c></row></sheetData>'
    book = workbook({"S": rows}, styles=STYLES)
    assert await value_of("number_format", book, cells="S!A1", like=["currency", "thousands", "two_decimals"]) == 1.0
    assert await value_of("number_format", book, cells="S!A1:C1", like="date") == pytest.approx(1 / 3)
    assert await value_of("cell_style", book, cells="S!A1:B1", like={"bold": True}) == 0.5
    with pytest.raises(ValueError, match="no style `blink`"):
        await value_of("cell_style", book, cells="S!A1", like={"blink": True})


def chart_book(values: str, title: str = "Sales") -> bytes:
    series = f"<c:ser><c:cat><c:strRef><c:f>S!$A$2:$A$4</c:f></c:strRef></c:cat><c:val><c:numRef><c:f>{values}</c:f></c:numRef></c:val></c:ser>"
    text = f"<c:title><c:tx><c:rich><a:p><a:r><a:t>{title}</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    chart = f'<c:chartSpace xmlns:c="{CHARTS}" xmlns:a="{DRAWING}"><c:chart>{text}<c:plotArea><c:lineChart>{series}</c:lineChart><c:catAx/><c:valAx/></c:plotArea></c:chart></c:chartSpace>'
    drawing = '<wsDr xmlns="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing"/>'
    return zipped(
        workbook_parts({"S": cells(A2="Jan", B2=1)})
        | {
            "xl/worksheets/_rels/sheet1.xml.rels": relations(("drawing", "../drawings/drawing1.xml")),
            "xl/drawings/drawing1.xml": drawing,
        }
        | {"xl/drawings/_rels/drawing1.xml.rels": relations(("chart", "../charts/chart1.xml")), "xl/charts/chart1.xml": chart}
    )


async def test_a_chart_of_the_wrong_range_earns_nothing_however_it_is_titled():
    wanted = {"sheet": "S", "values": ["S!B2:B4"], "categories": "S!A2:A4", "kind": "line", "title": "sales"}
    assert await value_of("chart_shows", chart_book("S!$B$2:$B$4"), **wanted) == 1.0
    assert await value_of("chart_shows", chart_book("S!$B$2:$B$3"), **wanted) == 0.0
    assert await value_of("chart_shows", chart_book("S!$B$2:$B$4", title="Costs"), **wanted) == 0.75


async def test_rules_validations_names_panes_and_filters():
    rules = '<conditionalFormatting sqref="B2:B9"><cfRule type="cellIs" operator="lessThan"><formula>0</formula></cfRule></conditionalFormatting>'
    choices = '<dataValidations><dataValidation type="list" sqref="C2:C9"><formula1>"low,high"</formula1></dataValidation></dataValidations>'
    pane = '<sheetViews><sheetView><pane ySplit="1" state="frozen"/></sheetView></sheetViews>'
    book = workbook(
        {"S": f'{pane}{cells(A1=1)}<autoFilter ref="A1:C9"/>{rules}{choices}'},
        names='<definedName name="Total">S!$B$9</definedName>',
    )
    assert await value_of("conditional_format", book, cells="S!B2:B9", operator="lessThan") == 1.0
    assert await value_of("conditional_format", book, cells="S!B2:B10", operator="lessThan") == 0.0
    assert await value_of("data_validation", book, cells="S!C2:C9", kind="list", items=["low", "high"]) == 1.0
    assert await value_of("data_validation", book, cells="S!C2:C9", kind="list", items=["high", "low"]) == 0.0
    assert await value_of("frozen_panes", book, cell="S!A2") == 1.0
    assert await value_of("named_range", book, name="total", refers="S!B9") == 1.0
    assert await value_of("named_range", book, name="total", refers="S!B8") == 0.0
    assert await value_of("filtered_table", book, cells="S!A1:C9") == 1.0


async def test_a_sheet_is_unchanged_only_against_an_original_that_the_agent_left_alone():
    original, same, other = (workbook({"S": cells(A1=1, B1=formula)}) for formula in ("=A1*2", "=a1 * 2", "=A1*3"))
    evidence = make_evidence({"/inbox/a.xlsx": original, "/out/same.xlsx": same, "/out/other.xlsx": other})
    evidence.record.initial.update({"/inbox/a.xlsx": evidence.record.files["/inbox/a.xlsx"]})
    for path, met in (("/out/same.xlsx", 1.0), ("/out/other.xlsx", 0.0)):
        assert (await office.sheet_unchanged(evidence, path, "/inbox/a.xlsx", "S"))[0] == met
    evidence.record.initial["/inbox/a.xlsx"] = evidence.record.files["/out/other.xlsx"]
    with pytest.raises(NotInEvidence, match="not as setup left it"):
        await office.sheet_unchanged(evidence, "/out/same.xlsx", "/inbox/a.xlsx", "S")


async def test_hidden_sheets_are_not_listed():
    assert await value_of("sheet_names", workbook({"A": "", "B": ""}, hidden=("B",)), names=["A"]) == 1.0


# -- documents ------------------------------------------------------------------------------------------------------------

HEADING = '<w:pStyle w:val="Heading1"/>'


async def test_a_heading_is_a_style_and_not_bold_text():
    real, fake = document(paragraph("Scope", HEADING)), document(paragraph("Scope", run='<w:b/><w:sz w:val="32"/>'))
    assert await value_of("doc_headings", real, headings=[[1, "Scope"]]) == 1.0
    assert await value_of("doc_headings", fake, headings=[[1, "Scope"]]) == 0.0
    assert await value_of("doc_headings", real, headings=[[2, "Scope"]]) == 0.0


@pytest.mark.parametrize("run", ["<w:vanish/>", '<w:color w:val="FFFFFF"/>', '<w:sz w:val="2"/>'])
async def test_text_that_no_reader_sees_is_not_there(run):
    assert await value_of("doc_has_text", document(paragraph("The total is 42.", run=run)), texts=["42"]) == 0.0
    assert await value_of("doc_has_text", document(paragraph("The total is 42.")), texts=["total is 42"]) == 1.0


async def test_a_list_is_a_list_and_not_typed_dashes():
    listed = document(paragraph("Milk", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'))
    assert await value_of("doc_list", listed, items=["Milk"], kind="bullet") == 1.0
    assert await value_of("doc_list", document(paragraph("- Milk")), items=["Milk"]) == 0.0


async def test_contents_and_page_numbers_are_fields():
    field = '<w:p><w:r><w:instrText>TOC \\o "1-3"</w:instrText></w:r><w:r><w:t>Scope 1</w:t></w:r></w:p>'
    assert await value_of("doc_contents", document(field), entries=["Scope"], levels="1-3") == 1.0
    assert await value_of("doc_contents", document(paragraph("Contents: Scope 1")), entries=["Scope"]) == 0.0
    numbered = document("", footer='<w:p><w:fldSimple w:instr="PAGE"/></w:p>')
    assert await value_of("doc_header_footer", numbered, where="footer", field="PAGE") == 1.0
    assert await value_of("doc_header_footer", document("", footer=paragraph("1")), where="footer", field="PAGE") == 0.0


async def test_open_changes_are_counted_and_deleted_text_is_not_read():
    body = "<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del></w:p>"
    assert await value_of("doc_changes", document(body), insertions=["new"], deletions=["old"]) == 1.0
    assert await value_of("doc_changes", document(body), insertions=[], deletions=[]) == 0.0
    assert await value_of("doc_paragraphs", document(body), texts=["new"]) == 1.0


async def test_format_comes_from_styles_too():
    base = '<w:style w:type="paragraph" w:styleId="Body"><w:name w:val="Body"/><w:rPr><w:rFonts w:ascii="Arial"/><w:sz w:val="22"/></w:rPr></w:style>'
    body = paragraph("One", '<w:pStyle w:val="Body"/>') + paragraph("Two", '<w:pStyle w:val="Body"/>', run='<w:sz w:val="30"/>')
    made = document(body, styles=base)
    assert await value_of("doc_format", made, like={"font": "arial", "size": 11}) == 0.5
    assert await value_of("doc_format", made, like={"size": 15}, text="Two") == 1.0


# -- slides ---------------------------------------------------------------------------------------------------------------


async def test_a_title_is_a_placeholder_and_not_a_large_text_box():
    assert await value_of("slide_titles", deck(shape("Results", "title")), titles=["Results"]) == 1.0
    assert await value_of("slide_titles", deck(shape("Results", size=44)), titles=["Results"]) == 0.0


async def test_shapes_outside_of_the_slide_and_texts_larger_than_their_shapes_are_seen():
    inside, outside = shape("Fine"), shape("Off", place=(600, 40, 400, 100))
    full = shape("word " * 200, place=(40, 40, 200, 60))
    assert await value_of("slides_within_bounds", deck(inside, outside)) == 0.5
    assert await value_of("slides_within_bounds", deck(full)) == 0.0
    assert await value_of("slides_do_not_overlap", deck(inside + inside, inside)) == 0.5


async def test_empty_placeholders_and_small_print_are_seen():
    assert (
        await value_of("slides_filled", deck(shape("T", "title") + shape("", "body"), shape("T", "title") + shape("x", "body")))
        == 0.5
    )
    assert await value_of("slides_readable", deck(shape("tiny", size=8)), size=12) == 0.0


async def test_a_slide_that_is_not_there_is_not_met():
    with pytest.raises(NotInEvidence, match="no slide 3"):
        await value_of("slide_has_text", deck(shape("x")), slide=3, texts=["x"])


# -- references -----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 1_048_576), st.integers(1, 16_384))
def test_cell_names_and_numbers_are_inverse(row, column):
    area = parse_area(cell_name(row, column))
    assert (area.top, area.left, area.bottom, area.right) == (row, column, row, column)
    assert column_number(column_letters(column)) == column


@given(st.integers(1, 900), st.integers(1, 200), st.integers(0, 50), st.integers(0, 50))
def test_a_formula_moved_reads_cells_moved_as_far(row, column, down, right):
    before = areas_in(f"{cell_name(row, column)}+$A$1", "S")
    after = areas_in(shifted(f"{cell_name(row, column)}+$A$1", down, right), "S")
    assert after[0] == Area("S", row + down, column + right, row + down, column + right)
    assert after[1] == before[1]


def test_references_in_formulas():
    found = areas_in("""SUM('My sheet'!$B$2:C9)+Rates!A1*LOG10(D4)&"E5"+F:F""", "S")
    assert [(area.sheet, cell_name(area.top, area.left)) for area in found] == [
        ("My sheet", "B2"),
        ("Rates", "A1"),
        ("S", "D4"),
        ("S", "F1"),
    ]


def test_every_check_says_what_it_does():
    assert all(inspect.getdoc(check) for check in office.OFFICE_CHECKS)
    assert {check.__name__ for check in office.OFFICE_CHECKS} <= LIBRARY.keys()
