import io

from rich.console import Console
from rich.progress import BarColumn, TextColumn

from sandlot.cli.views.bars import Bars
from sandlot.core.concurrency.clock import Clock


def written(*, terminal: bool) -> list[str]:
    now = [0.0]
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100)
    clock = Clock(monotonic=lambda: now[0], wall=lambda: now[0])
    with Bars(TextColumn("{task.description}"), BarColumn(), console=console, clock=clock) as bars:
        line = bars.add_task("running", total=1000, said="")
        for second in range(60):
            now[0] = float(second)
            bars.update(line, advance=2, said="[red]1 failed[/]")
    return stream.getvalue().splitlines()


def test_a_file_gets_a_line_now_and_then():
    assert written(terminal=False) == [
        "running 22/1000  1 failed",
        "running 52/1000  1 failed",
        "running 98/1000  1 failed",
    ]


def test_a_terminal_gets_a_bar_and_no_lines():
    assert not [line for line in written(terminal=True) if "22/1000" in line]
