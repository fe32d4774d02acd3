import io

from rich.console import Console

from sandlot.cli.views.columns import print_columns


def test_columns_align_without_cutting_long_cells():
    out = io.StringIO()
    print_columns(Console(file=out, width=20, soft_wrap=True), ("name", "score"), [("a" * 30, "1"), ("[red]b[/]", "2")])
    assert out.getvalue() == f"{'name':<30}  score\n{'a' * 30}  1\n{'b':<30}  2\n"
