# ruff: noqa: E501 - XML
"""Spreadsheets that people and attackers write, as grids of text."""

import io
import zipfile

import pytest

from builders import office as office_files
from sandlot.core.errors import ConfigError
from sandlot.interop.sheets.grid import Grid, GridCell, csv_text, read_sheet_file
from sandlot.interop.sheets.ods import ods_bytes
from sandlot.interop.sheets.xlsx import SheetPage, with_cells, xlsx_bytes

ODS = "urn:oasis:names:tc:opendocument:xmlns"
SPACES = f'xmlns:office="{ODS}:office:1.0" xmlns:table="{ODS}:table:1.0" xmlns:text="{ODS}:text:1.0"'


def texts(grid: Grid) -> dict[tuple[int, int], str]:
    return {at: cell.text for at, cell in grid.cells.items()}


def written(folder, name: str, data: bytes | str):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def xlsx(folder, inside: str, styles: str = "", more: dict | None = None):
    parts = office_files.workbook_parts({"Tasks": inside}, styles=styles) | (more or {})
    return written(folder, "a.xlsx", office_files.zipped(parts))


def ods(folder, rows: str):
    body = f'<office:body><office:spreadsheet><table:table table:name="Tasks">{rows}</table:table></office:spreadsheet></office:body>'
    return written(
        folder,
        "a.ods",
        office_files.zipped({"content.xml": f"<office:document-content {SPACES}>{body}</office:document-content>"}),
    )


def one(path) -> Grid:
    return read_sheet_file(path).grids[0]


def test_a_workbook_that_we_write_reads_back(tmp_path):
    rows = [["Task", "Prompt"], ["a", "two\nlines"], ["", "=1+1 <b> & \x00"]]
    grid = one(written(tmp_path, "a.xlsx", xlsx_bytes([SheetPage("Tasks", rows)])))
    assert texts(grid) == {(1, 1): "Task", (1, 2): "Prompt", (2, 1): "a", (2, 2): "two\nlines", (3, 2): "=1+1 <b> & \ufffd"}
    assert grid.cells[3, 2].problem == ""  # a text, not a formula
    assert xlsx_bytes([SheetPage("Tasks", rows)]) == xlsx_bytes([SheetPage("Tasks", rows)])


def test_an_ods_that_we_write_reads_back(tmp_path):
    grid = one(written(tmp_path, "a.ods", ods_bytes({"Tasks": [["Task"], ["a  b\tc\nd"], [], ["=x"]]})))
    assert texts(grid) == {(1, 1): "Task", (2, 1): "a  b\tc\nd", (4, 1): "=x"}
    assert grid.cells[4, 1].problem == ""


def test_numbers_dates_and_booleans_are_as_their_author_reads_them(tmp_path):
    styles = (
        '<numFmts count="1"><numFmt numFmtId="170" formatCode="yyyy\\-mm\\-dd\\ hh:mm"/></numFmts><fonts><font/></fonts><fills><fill/></fills>'
        '<borders><border/></borders><cellXfs><xf/><xf numFmtId="14"/><xf numFmtId="10"/><xf numFmtId="170"/><xf numFmtId="21"/></cellXfs>'
    )
    cells = (
        '<c r="A1"><v>12</v></c><c r="B1"><v>0.1</v></c><c r="C1" s="1"><v>46085</v></c><c r="D1" s="2"><v>0.125</v></c>'
        '<c r="E1" s="3"><v>46085.5</v></c><c r="F1" t="b"><v>1</v></c><c r="G1" s="4"><v>0.5</v></c><c r="H1" t="e"><v>#REF!</v></c>'
    )
    grid = one(xlsx(tmp_path, f'<sheetData><row r="1">{cells}</row></sheetData>', styles))
    assert [grid.text(1, column) for column in range(1, 9)] == [
        "12", "0.1", "2026-03-04", "12.5%", "2026-03-04T12:00:00", "TRUE", "12:00:00", "#REF!",
    ]  # fmt: skip
    assert grid.cells[1, 8].problem == "an error value"


def test_values_of_an_ods_are_text_without_a_problem(tmp_path):
    cells = "".join(
        f'<table:table-cell office:value-type="{kind}" office:{name}="{value}"/>'
        for kind, name, value in (
            ("float", "value", "4"),
            ("currency", "value", "2.50"),
            ("float", "value", "1E21"),
            ("date", "date-value", "2026-03-04"),
            ("boolean", "boolean-value", "true"),
        )
    )
    grid = one(ods(tmp_path, f"<table:table-row>{cells}</table:table-row>"))
    assert list(grid.cells.values()) == [GridCell(text) for text in ("4", "2.5", "1e+21", "2026-03-04", "TRUE")]


def test_formulas_are_marked_and_their_cached_values_do_not_count(tmp_path):
    inside = '<sheetData><row r="1"><c r="A1"><f>WEBSERVICE("x")</f><v>42</v></c></row></sheetData>'
    assert one(xlsx(tmp_path, inside)).cells[1, 1] == GridCell('=WEBSERVICE("x")', "a formula")
    rows = '<table:table-row><table:table-cell table:formula="of:=[.A2]" office:value-type="float" office:value="4"/></table:table-row>'
    assert one(ods(tmp_path, rows)).cells[1, 1] == GridCell("=[.A2]", "a formula")
    assert one(written(tmp_path, "a.csv", "=cmd|'/c calc'!A1\n")).cells[1, 1].problem == "a formula"


def test_macros_and_links_to_other_files_are_named_and_ignored(tmp_path):
    more = {"xl/vbaProject.bin": b"\0", "xl/externalLinks/externalLink1.xml": b"<a/>"}
    file = read_sheet_file(xlsx(tmp_path, '<sheetData><row r="1"><c r="A1"><v>1</v></c></row></sheetData>', more=more))
    assert file.notes == (
        "it has macros; they are ignored and never run",
        "it has links to other workbooks; they are not followed",
    )


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;">]>'


@pytest.mark.parametrize("name", ["a.xlsx", "a.ods"])
def test_entities_are_refused(tmp_path, name):
    part = "content.xml" if name.endswith("ods") else "xl/workbook.xml"
    parts = office_files.workbook_parts({"Tasks": ""}) | {part: f"{BOMB}<x>&c;</x>"}
    with pytest.raises(ConfigError, match="document type"):
        read_sheet_file(written(tmp_path, name, office_files.zipped(parts)))


def test_a_part_that_unpacks_to_far_more_is_refused(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", b" " * (120 * 2**20))
    with pytest.raises(ConfigError, match="unpacks to more"):
        read_sheet_file(written(tmp_path, "a.ods", out.getvalue()))


def test_two_parts_of_one_name_are_refused(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("content.xml", "<a/>")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("content.xml", "<b/>")
    with pytest.raises(ConfigError, match="two parts of one name"):
        read_sheet_file(written(tmp_path, "a.ods", out.getvalue()))


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (
            '<table:table-row table:number-rows-repeated="999999999"><table:table-cell office:value-type="string"><text:p>x</text:p></table:table-cell></table:table-row>',
            "cells",
        ),
        (
            '<table:table-row><table:table-cell table:number-columns-repeated="999999999" office:value-type="string"><text:p>x</text:p></table:table-cell></table:table-row>',
            "cells",
        ),
        ('<table:table-row table:number-rows-repeated="-1"/>', "number-rows-repeated"),
        ('<table:table-row table:number-rows-repeated="99999999999999999999"/>', "number-rows-repeated"),
    ],
)
def test_repeated_cells_do_not_fill_the_memory(tmp_path, rows, why):
    with pytest.raises(ConfigError, match=why):
        read_sheet_file(ods(tmp_path, rows))


def test_the_empty_million_rows_of_an_ordinary_ods_are_nothing(tmp_path):
    cell = '<table:table-cell office:value-type="string"><text:p>x</text:p><office:annotation><text:p>a comment</text:p></office:annotation></table:table-cell>'
    rows = f'<table:table-row>{cell}<table:table-cell table:number-columns-repeated="16383"/></table:table-row><table:table-row table:number-rows-repeated="1048575"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
    assert texts(one(ods(tmp_path, rows))) == {(1, 1): "x"}


def test_sheets_larger_than_a_person_fills_in_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="rows"):
        one(written(tmp_path, "a.csv", "x\n" * 20_002))
    with pytest.raises(ConfigError, match="columns"):
        one(written(tmp_path, "a.csv", "x," * 300))
    with pytest.raises(ConfigError, match="characters"):
        one(written(tmp_path, "a.csv", "x" * 120_000))
    with pytest.raises(ConfigError, match="rows"):
        one(xlsx(tmp_path, '<sheetData><row r="1048576"><c r="A1048576"><v>1</v></c></row></sheetData>'))


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.xlsx", b"not a zip", "not an office file"),
        ("a.ods", office_files.zipped({"content.xml": "<a/>"}), "."),
        ("a.csv", b"\xff\xfe\x00", "UTF-8"),
        ("a.csv", b'"open', "CSV"),
        ("a.xls", b"", "save it as .xlsx"),
        ("a.xlsm", b"", "save it as .xlsx"),
        ("a.txt", b"", "spreadsheet"),
    ],
)
def test_what_is_no_spreadsheet_is_refused(tmp_path, name, data, why):
    with pytest.raises(ConfigError, match=why):
        read_sheet_file(written(tmp_path, name, data))


def test_a_link_is_not_followed(tmp_path):
    written(tmp_path, "b.csv", "x")
    (tmp_path / "a.csv").symlink_to(tmp_path / "b.csv")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_sheet_file(tmp_path / "a.csv")


@pytest.mark.parametrize(("text", "delimiter"), [("a;b\n1,5;2\n", ";"), ("a\tb\n1,5\t2\n", "\t"), ("\ufeffa,b\n1.5,2\n", ",")])
def test_csv_files_of_all_countries_are_read(tmp_path, text, delimiter):
    grid = one(written(tmp_path, "a.csv", text))
    assert [grid.text(1, 1), grid.text(1, 2), grid.text(2, 2)] == ["a", "b", "2"]


def test_the_sheets_of_a_csv_are_files_beside_it(tmp_path):
    written(tmp_path, "a.checks.csv", "Kind\n")
    written(tmp_path, "ab.files.csv", "Path\n")
    assert [grid.name for grid in read_sheet_file(written(tmp_path, "a.csv", "Task\n")).grids] == ["Tasks", "Checks"]


@pytest.mark.parametrize("text", ["=cmd|'/c calc'!A0", "@SUM(1)", "+cmd", "-2+3", "\t=1", "\r=1"])
def test_a_written_csv_has_no_formula(tmp_path, text):
    lines = csv_text(Grid("Tasks", {(1, 1): GridCell("Task"), (2, 1): GridCell(text)}))
    assert lines.partition("\n")[2].lstrip('"').startswith("'")
    assert one(written(tmp_path, "a.csv", lines)).cells[2, 1].text == text


def test_numbers_stay_numbers_in_a_written_csv():
    assert csv_text(Grid("T", {(1, 1): GridCell("-5.5"), (1, 2): GridCell("+3")})) == "-5.5,+3\r\n"


def test_cells_are_added_and_every_other_byte_of_the_workbook_stays(tmp_path):
    inside = '<cols><col min="1" max="1" width="33"/></cols><sheetData><row r="2" spans="1:2"><c r="A2"><v>1</v></c><c r="D2" s="0"/></row></sheetData><!-- kept -->'
    before = xlsx(tmp_path, inside, more={"xl/media/image.png": b"\x89PNG"}).read_bytes()
    after = with_cells(before, "a.xlsx", {"tasks": {(2, 2): "<new> & =1"}})
    old, new = (zipfile.ZipFile(io.BytesIO(data)) for data in (before, after))
    assert old.namelist() == new.namelist()
    changed = [name for name in old.namelist() if old.read(name) != new.read(name)]
    assert changed == ["xl/worksheets/sheet1.xml"]
    sheet = new.read(changed[0]).decode()
    assert "<!-- kept -->" in sheet
    assert 'width="33"' in sheet
    assert "spans" not in sheet
    assert sheet.index('r="A2"') < sheet.index('r="B2"') < sheet.index('r="D2"')
    assert one(written(tmp_path, "b.xlsx", after)).cells[2, 2] == GridCell("<new> & =1")
    again = with_cells(after, "b.xlsx", {"Tasks": {(2, 2): "other"}})
    assert texts(one(written(tmp_path, "c.xlsx", again))) == {(2, 1): "1", (2, 2): "other"}


def test_cells_are_added_to_workbooks_with_prefixes(tmp_path):
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    parts = office_files.workbook_parts({"Tasks": ""})
    parts["xl/worksheets/sheet1.xml"] = (
        f'<x:worksheet xmlns:x="{space}"><x:sheetData><x:row r="1"><x:c r="A1"><x:v>1</x:v></x:c></x:row></x:sheetData></x:worksheet>'
    )
    data = with_cells(office_files.zipped(parts), "a", {"Tasks": {(1, 2): "new"}})
    assert texts(one(written(tmp_path, "a.xlsx", data))) == {(1, 1): "1", (1, 2): "new"}
