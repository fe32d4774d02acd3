"""Columns that are never cut: a long cell makes its line long, so that what is piped or copied is whole."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text


def print_columns(console: Console, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A dim header and one line per row; cells may hold markup."""
    for line in column_lines(header, rows):
        console.print(line)


def column_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Text]:
    """The lines that `print_columns` prints."""
    cells = [[Text(name, style="dim") for name in header], *([Text.from_markup(cell) for cell in row] for row in rows)]
    widths = [max(row[place].cell_len for row in cells) for place in range(len(header))]
    for row in cells:
        line = Text()
        for place, cell in enumerate(row):
            line.append_text(cell)
            if place < len(row) - 1:
                line.append(" " * (widths[place] - cell.cell_len + 2))
        line.rstrip()
        yield line
