"""Ready checks for environments: `from sandlot.checks import file_equals`, or `sandlot:file_equals` in a rubric.

Every check takes the evidence first and returns `(met, reason)`; `table_share` and `text_states` give a share from 0 to 1.
A check reads only the stored evidence, is safe on anything an agent may leave, and gives the same verdict each time. What is
not in the evidence, or is not of the expected form, makes it not met.

Files:                  file_exists, file_absent, file_equals, file_contains, file_size, file_hash, tree_equals,
                        only_changed, unchanged
Tables:                 csv_rows, table_equals, table_share, table_sorted, table_unique, table_total
JSON and state:         json_value, json_equals, json_schema, state_equals
SQLite:                 sql_rows, sql_value, sql_schema
Git:                    git_commits, git_file, git_contains, git_clean, git_lacks
Mail:                   mail_message, mailbox_message
Pictures:               image_size, image_colors, image_like
Text:                   text_states, text_like, word_count
The last message:       answer_equals, answer_number, answer_matches
Numbers:                number_equals
Quantities:             quantity_equals, quantity_between
Dates:                  date_equals, moment_equals, duration_equals
Mathematics:            math_equals, choice_equals
What the agent did:     tool_called, tool_not_called, max_calls

For checks of your own: `final_text` finds the final answer in a message, `same_math` and `same_quantity` compare texts, and
`image_hash` makes the hash for `image_like`.

For example:
    @env.check(points=2)
    def total_is_right(evidence, task):
        return json_value(evidence, "/out/report.json", "total", task.key["total"], tolerance=0.005)

The reference is docs/reference/checks.md. `LIBRARY` has every check by name. Each name is imported when it is first used.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandlot.checks.answers import answer_equals as answer_equals
    from sandlot.checks.answers import answer_matches as answer_matches
    from sandlot.checks.answers import answer_number as answer_number
    from sandlot.checks.answers import final_text as final_text
    from sandlot.checks.calls import max_calls as max_calls
    from sandlot.checks.calls import tool_called as tool_called
    from sandlot.checks.calls import tool_not_called as tool_not_called
    from sandlot.checks.databases import sql_rows as sql_rows
    from sandlot.checks.databases import sql_schema as sql_schema
    from sandlot.checks.databases import sql_value as sql_value
    from sandlot.checks.dates import date_equals as date_equals
    from sandlot.checks.dates import duration_equals as duration_equals
    from sandlot.checks.dates import moment_equals as moment_equals
    from sandlot.checks.files import file_absent as file_absent
    from sandlot.checks.files import file_contains as file_contains
    from sandlot.checks.files import file_equals as file_equals
    from sandlot.checks.files import file_exists as file_exists
    from sandlot.checks.files import file_hash as file_hash
    from sandlot.checks.files import file_size as file_size
    from sandlot.checks.files import only_changed as only_changed
    from sandlot.checks.files import tree_equals as tree_equals
    from sandlot.checks.files import unchanged as unchanged
    from sandlot.checks.images import image_colors as image_colors
    from sandlot.checks.images import image_hash as image_hash
    from sandlot.checks.images import image_like as image_like
    from sandlot.checks.images import image_size as image_size
    from sandlot.checks.json_values import json_equals as json_equals
    from sandlot.checks.json_values import json_schema as json_schema
    from sandlot.checks.json_values import json_value as json_value
    from sandlot.checks.json_values import state_equals as state_equals
    from sandlot.checks.mail import mail_message as mail_message
    from sandlot.checks.mail import mailbox_message as mailbox_message
    from sandlot.checks.mathematics import choice_equals as choice_equals
    from sandlot.checks.mathematics import math_equals as math_equals
    from sandlot.checks.mathematics import same_math as same_math
    from sandlot.checks.numerals import number_equals as number_equals
    from sandlot.checks.quantities import quantity_between as quantity_between
    from sandlot.checks.quantities import quantity_equals as quantity_equals
    from sandlot.checks.quantities import same_quantity as same_quantity
    from sandlot.checks.repositories import git_clean as git_clean
    from sandlot.checks.repositories import git_commits as git_commits
    from sandlot.checks.repositories import git_contains as git_contains
    from sandlot.checks.repositories import git_file as git_file
    from sandlot.checks.repositories import git_lacks as git_lacks
    from sandlot.checks.tables import csv_rows as csv_rows
    from sandlot.checks.tables import table_equals as table_equals
    from sandlot.checks.tables import table_share as table_share
    from sandlot.checks.tables import table_sorted as table_sorted
    from sandlot.checks.tables import table_total as table_total
    from sandlot.checks.tables import table_unique as table_unique
    from sandlot.checks.text import text_like as text_like
    from sandlot.checks.text import text_states as text_states
    from sandlot.checks.text import word_count as word_count

_CHECKS = {
    "file_exists": "files",
    "file_absent": "files",
    "file_equals": "files",
    "file_contains": "files",
    "file_size": "files",
    "file_hash": "files",
    "tree_equals": "files",
    "only_changed": "files",
    "unchanged": "files",
    "csv_rows": "tables",
    "table_equals": "tables",
    "table_share": "tables",
    "table_sorted": "tables",
    "table_unique": "tables",
    "table_total": "tables",
    "json_value": "json_values",
    "json_equals": "json_values",
    "json_schema": "json_values",
    "state_equals": "json_values",
    "sql_rows": "databases",
    "sql_value": "databases",
    "sql_schema": "databases",
    "git_commits": "repositories",
    "git_file": "repositories",
    "git_contains": "repositories",
    "git_clean": "repositories",
    "git_lacks": "repositories",
    "mail_message": "mail",
    "mailbox_message": "mail",
    "image_size": "images",
    "image_colors": "images",
    "image_like": "images",
    "text_states": "text",
    "text_like": "text",
    "word_count": "text",
    "answer_equals": "answers",
    "answer_number": "answers",
    "answer_matches": "answers",
    "number_equals": "numerals",
    "quantity_equals": "quantities",
    "quantity_between": "quantities",
    "date_equals": "dates",
    "moment_equals": "dates",
    "duration_equals": "dates",
    "math_equals": "mathematics",
    "choice_equals": "mathematics",
    "tool_called": "calls",
    "tool_not_called": "calls",
    "max_calls": "calls",
}
"""Each check, and the file that has it."""
_OFFICE_CHECKS = (
    "workbook_opens",
    "no_error_values",
    "cell_value",
    "cell_values",
    "what_if",
    "live_formula",
    "table_rows",
    "sheet_names",
    "sheet_unchanged",
    "number_format",
    "cell_style",
    "frozen_panes",
    "conditional_format",
    "data_validation",
    "named_range",
    "filtered_table",
    "chart_shows",
    "page_setup",
    "doc_headings",
    "doc_has_text",
    "doc_lacks_text",
    "doc_paragraph_style",
    "doc_format",
    "doc_contents",
    "doc_list",
    "doc_table",
    "doc_page",
    "doc_header_footer",
    "doc_changes",
    "doc_paragraphs",
    "doc_comments",
    "slide_titles",
    "slide_layouts",
    "slide_has_text",
    "slides_lack_text",
    "slide_bullets",
    "slide_notes",
    "slide_table",
    "slide_objects",
    "slides_within_bounds",
    "slides_do_not_overlap",
    "slides_filled",
    "slides_readable",
)
"""Checks that `sandlot.checks.office` has; rubrics name them as any other."""
_TEXTS = {
    "image_hash": "images",
    "final_text": "answers",
    "same_quantity": "quantities",
    "same_math": "mathematics",
}
"""Functions that take text or bytes, not evidence."""

__all__ = ["LIBRARY", *_CHECKS, *_TEXTS]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll] - lazy


_FILES = _CHECKS | dict.fromkeys(_OFFICE_CHECKS, "office")


class _Library(Mapping[str, Callable[..., Any]]):
    """The checks by name, each imported when it is first asked for."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return getattr(import_module(f"sandlot.checks.{_FILES[name]}"), name)

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)

    def __contains__(self, name: object) -> bool:
        return name in _FILES


LIBRARY: Mapping[str, Callable[..., Any]] = _Library()
"""Every check by name."""


def __getattr__(name: str) -> Any:
    if name not in _CHECKS and name not in _TEXTS:
        raise AttributeError(f"module `sandlot.checks` has no check `{name}`; it has: {', '.join(_CHECKS)}")
    value = getattr(import_module(f"sandlot.checks.{(_CHECKS | _TEXTS)[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
