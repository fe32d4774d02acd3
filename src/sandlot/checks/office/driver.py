# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# ruff: noqa: ANN001, ANN201, D103, FBT003, PLC0415, PTH103, PTH123 - a script for the sandbox's own Python, where `uno` has no types
"""Runs inside a sandbox, never on the host: one LibreOffice that loads, recalculates, changes, converts and draws a file.

`python3 driver.py < request.json > answer.json`. A request: `path`, `scenarios` (each maps `Sheet!B2` to a new value), `convert`
(a file name to save to), `pdf` and `text` (others). The answer says how far it came, so that the caller can tell a LibreOffice
that does not start from a file that cannot be loaded. Macros never run, links are never updated.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

MAX_CELLS = 100_000
FILTERS = {
    "xlsx": "Calc MS Excel 2007 XML",
    "ods": "calc8",
    "docx": "MS Word 2007 XML",
    "odt": "writer8",
    "pptx": "Impress MS PowerPoint 2007 XML",
    "odp": "impress8",
}
PDF_FILTERS = {"SpreadsheetDocument": "calc_pdf_Export", "TextDocument": "writer_pdf_Export"}
PROGRAM = "/usr/lib/libreoffice/program"
START_S = 40
SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema">
<item oor:path="/org.openoffice.Setup/L10N"><prop oor:name="ooLocale" oor:op="fuse"><value>en-US</value></prop></item>
<item oor:path="/org.openoffice.Setup/Office"><prop oor:name="ooSetupInstCompleted" oor:op="fuse"><value>true</value></prop>
</item>
</oor:items>
"""


def main() -> None:
    answer = {"started": False, "loaded": False, "error": "", "books": []}
    try:
        work(json.load(sys.stdin), answer)
    except Exception as error:  # noqa: BLE001 - whatever LibreOffice raises is an answer, not a crash
        answer["error"] = f"{type(error).__name__}: {str(error)[:300]}"
    json.dump(answer, sys.stdout)


def work(request: dict, answer: dict) -> None:
    profile = tempfile.mkdtemp(prefix="office-profile-")
    write_profile(profile)
    pipe = f"sandlot{os.getpid()}"
    command = [f"{PROGRAM}/soffice.bin", "--headless", "--invisible", "--norestore", "--nologo", "--nodefault"]
    command += [f"-env:UserInstallation=file://{profile}", f"--accept=pipe,name={pipe};urp"]
    nothing = subprocess.DEVNULL
    office = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)  # noqa: S603 - a fixed command
    try:
        desktop = connected(pipe, office)
        answer["started"] = True
        for changes in request.get("scenarios") or [{}]:
            document = load(desktop, request["path"])
            answer["loaded"] = True
            if hasattr(document, "calculateAll"):
                answer["books"].append(recalculated(document, changes))
            if not changes:
                save(document, request)
            document.close(True)
    finally:
        office.kill()
        office.wait()


def write_profile(folder: str) -> None:
    """A profile that LibreOffice takes as its own: without the settings and its build, it first makes one and starts again."""
    os.makedirs(f"{folder}/user/extensions")
    with open(f"{folder}/user/registrymodifications.xcu", "w") as out:
        out.write(SETTINGS)
    with open(f"{PROGRAM}/versionrc") as versions, open(f"{folder}/user/extensions/buildid", "w") as out:
        out.write("".join(line.partition("=")[2].strip() for line in versions if line.startswith("buildid=")))


def connected(pipe: str, office: subprocess.Popen):
    import uno  # there is none on the host

    local = uno.getComponentContext()
    resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
    end = time.monotonic() + START_S
    while True:
        try:
            context = resolver.resolve(f"uno:pipe,name={pipe};urp;StarOffice.ComponentContext")
            return context.ServiceManager.createInstanceWithContext("com.sun.star.frame.Desktop", context)
        except Exception:
            if time.monotonic() > end or office.poll() is not None:
                raise
            time.sleep(0.02)


def setting(name: str, value):
    import uno  # there is none on the host

    made = uno.createUnoStruct("com.sun.star.beans.PropertyValue")
    made.Name, made.Value = name, value
    return made


def load(desktop, path: str):
    safe = {"Hidden": True, "MacroExecutionMode": 0, "UpdateDocMode": 0, "ReadOnly": False}
    document = desktop.loadComponentFromURL(f"file://{path}", "_blank", 0, tuple(setting(*each) for each in safe.items()))
    if document is None:
        raise ValueError("LibreOffice does not load this file")
    return document


def recalculated(document, changes: dict) -> dict:
    """The cells after these changes, or why there are none: a sheet to change may not be there."""
    try:
        for place, value in changes.items():
            put(document, place, value)
        document.calculateAll()
        return {"cells": cells_of(document)}
    except Exception as error:  # noqa: BLE001 - whatever LibreOffice raises is an answer, not a crash
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}


def put(document, place: str, value) -> None:
    sheet, _, name = place.rpartition("!")
    cell = document.Sheets.getByName(sheet).getCellRangeByName(name)
    if isinstance(value, str):
        cell.setString(value)
    else:
        cell.setValue(value)


def cells_of(document) -> dict:
    """Sheet -> row and column (from 1) of every cell that has content -> a number, a text, or an error in a list."""
    book, num_cells = {}, 0
    for sheet in document.Sheets:
        cells = {}
        for area in sheet.queryContentCells(1 | 2 | 4 | 16):
            at = area.RangeAddress
            num_cells += (at.EndRow - at.StartRow + 1) * (at.EndColumn - at.StartColumn + 1)
            if num_cells > MAX_CELLS:
                raise ValueError(f"more than {MAX_CELLS} cells have content")
            for down, row in enumerate(area.DataArray):
                for right, value in enumerate(row):
                    cells[f"{at.StartRow + down + 1},{at.StartColumn + right + 1}"] = value
        for area in sheet.queryFormulaCells(4):
            at = area.RangeAddress
            for row in range(at.StartRow, at.EndRow + 1):
                for column in range(at.StartColumn, at.EndColumn + 1):
                    cells[f"{row + 1},{column + 1}"] = [sheet.getCellByPosition(column, row).String or "error"]
        book[sheet.Name] = cells
    return book


def text_of(document) -> str:
    """The text of a document, or of the shapes of a deck, slide by slide."""
    if hasattr(document, "Text"):
        return document.Text.String
    if not hasattr(document, "DrawPages") or hasattr(document, "Sheets"):
        return ""
    pages = []
    for number, page in enumerate(document.DrawPages, start=1):
        texts = [shape.String for shape in page if hasattr(shape, "String") and shape.String]
        pages.append("\n".join([f"[slide {number}]", *texts]))
    return "\n\n".join(pages)


def save(document, request: dict) -> None:
    if request.get("convert"):
        kind = request["convert"].rpartition(".")[2]
        document.storeToURL(f"file://{request['convert']}", (setting("FilterName", FILTERS[kind]),))
    if request.get("text"):
        with open(request["text"], "w") as out:
            out.write(text_of(document))
    if request.get("pdf"):
        kinds = [kind for service, kind in PDF_FILTERS.items() if any(service in name for name in document.SupportedServiceNames)]
        document.storeToURL(f"file://{request['pdf']}", (setting("FilterName", [*kinds, "impress_pdf_Export"][0]),))


if __name__ == "__main__":
    main()
