"""Ready checks of office files: spreadsheets, text documents, slide decks. In a rubric, `sandlot:cell_value` and so on.

Spreadsheets:   workbook_opens, no_error_values, cell_value, cell_values, what_if, live_formula, table_rows, sheet_names,
                sheet_unchanged, number_format, cell_style, frozen_panes, conditional_format, data_validation, named_range,
                filtered_table, chart_shows, page_setup
Documents:      doc_headings, doc_has_text, doc_lacks_text, doc_paragraph_style, doc_format, doc_contents, doc_list, doc_table,
                doc_page, doc_header_footer, doc_changes, doc_paragraphs, doc_comments
Slides:         slide_titles, slide_layouts, slide_has_text, slides_lack_text, slide_bullets, slide_notes, slide_table,
                slide_objects, slides_within_bounds, slides_do_not_overlap, slides_filled, slides_readable

Values of formulas come from a recalculation in the grading sandbox, which needs an image with LibreOffice; the other checks read
the file itself, with strict limits. `rendered_pages` draws the pages for a judge that can see. `date_serial` is for keys.

For checks of your own: `read_workbook`, `read_document` and `read_presentation` parse a file, `recalculated` gives its values,
and `DRIVER` is the program that runs LibreOffice, for tools.

For example, in a rubric:
    {"kind": "python", "id": "total_is_live", "ref": "sandlot:what_if", "points": 3,
     "args": {"path": "/out/budget.xlsx", "changes": {"Plan!B2": 500}, "values": {"Plan!B9": 1730}}}
"""

from collections.abc import Callable
from typing import Any

from sandlot.checks.office.document import Document, read_document
from sandlot.checks.office.document_checks import (
    doc_changes,
    doc_comments,
    doc_contents,
    doc_format,
    doc_has_text,
    doc_header_footer,
    doc_headings,
    doc_lacks_text,
    doc_list,
    doc_page,
    doc_paragraph_style,
    doc_paragraphs,
    doc_table,
)
from sandlot.checks.office.presentation import Presentation, Slide, read_presentation, text_height
from sandlot.checks.office.recalculation import DRIVER, Recalculated, recalculated, rendered_pages
from sandlot.checks.office.reference import Area, parse_area
from sandlot.checks.office.sheet_checks import (
    cell_style,
    cell_value,
    cell_values,
    chart_shows,
    conditional_format,
    data_validation,
    date_serial,
    filtered_table,
    frozen_panes,
    live_formula,
    named_range,
    no_error_values,
    number_format,
    page_setup,
    sheet_names,
    sheet_unchanged,
    table_rows,
    what_if,
    workbook_opens,
)
from sandlot.checks.office.slide_checks import (
    slide_bullets,
    slide_has_text,
    slide_layouts,
    slide_notes,
    slide_objects,
    slide_table,
    slide_titles,
    slides_do_not_overlap,
    slides_filled,
    slides_lack_text,
    slides_readable,
    slides_within_bounds,
)
from sandlot.checks.office.workbook import Workbook, read_workbook

_SHEETS = (workbook_opens, no_error_values, cell_value, cell_values, what_if, live_formula, table_rows, sheet_names)
_SHEET_LOOKS = (sheet_unchanged, number_format, cell_style, frozen_panes, conditional_format, data_validation, named_range)
_SHEET_PARTS = (filtered_table, chart_shows, page_setup)
_DOCUMENTS = (doc_headings, doc_has_text, doc_lacks_text, doc_paragraph_style, doc_format, doc_contents, doc_list, doc_table)
_DOCUMENT_PARTS = (doc_page, doc_header_footer, doc_changes, doc_paragraphs, doc_comments)
_SLIDES = (slide_titles, slide_layouts, slide_has_text, slides_lack_text, slide_bullets, slide_notes, slide_table, slide_objects)
_SLIDE_LOOKS = (slides_within_bounds, slides_do_not_overlap, slides_filled, slides_readable)
OFFICE_CHECKS: tuple[Callable[..., Any], ...] = (
    *_SHEETS,
    *_SHEET_LOOKS,
    *_SHEET_PARTS,
    *_DOCUMENTS,
    *_DOCUMENT_PARTS,
    *_SLIDES,
    *_SLIDE_LOOKS,
)
"""Every check of this package."""

__all__ = [
    "DRIVER",
    "OFFICE_CHECKS",
    "Area",
    "Document",
    "Presentation",
    "Recalculated",
    "Slide",
    "Workbook",
    "cell_style",
    "cell_value",
    "cell_values",
    "chart_shows",
    "conditional_format",
    "data_validation",
    "date_serial",
    "doc_changes",
    "doc_comments",
    "doc_contents",
    "doc_format",
    "doc_has_text",
    "doc_header_footer",
    "doc_headings",
    "doc_lacks_text",
    "doc_list",
    "doc_page",
    "doc_paragraph_style",
    "doc_paragraphs",
    "doc_table",
    "filtered_table",
    "frozen_panes",
    "live_formula",
    "named_range",
    "no_error_values",
    "number_format",
    "page_setup",
    "parse_area",
    "read_document",
    "read_presentation",
    "read_workbook",
    "recalculated",
    "rendered_pages",
    "sheet_names",
    "sheet_unchanged",
    "slide_bullets",
    "slide_has_text",
    "slide_layouts",
    "slide_notes",
    "slide_objects",
    "slide_table",
    "slide_titles",
    "slides_do_not_overlap",
    "slides_filled",
    "slides_lack_text",
    "slides_readable",
    "slides_within_bounds",
    "table_rows",
    "text_height",
    "what_if",
    "workbook_opens",
]
