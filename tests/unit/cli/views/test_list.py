import pytest

from sandlot.cli.views.list import print_list
from sandlot.env.load import FoundEnvironment
from sandlot.run.catalog import CatalogEntry


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "\u202egnp.exe", "\x9b2J", "[bold]x[/bold]", "two\nlines"])
def test_names_that_others_wrote_reach_the_terminal_as_plain_text(capsys, hostile):
    entry = CatalogEntry(run=f"runs/{hostile}", environment=hostile, model=hostile, state="complete", score=0.5)
    broken = CatalogEntry(run="runs/broken", state="unreadable", problem=hostile)
    print_list([FoundEnvironment(name=hostile, form="file", place=hostile)], [entry, broken])
    out = capsys.readouterr().out
    assert all(char == "\n" or char.isprintable() for char in out)
    assert len(out.splitlines()) == 7
    assert hostile in out or not hostile.isprintable()


@pytest.mark.parametrize("created", [1e300, float("inf"), float("nan"), -1e18])
def test_a_date_that_is_none_does_not_hide_the_other_runs(capsys, created):
    print_list(
        [], [CatalogEntry(run="runs/odd", state="complete", created=created), CatalogEntry(run="runs/b", state="complete")]
    )
    assert "runs/b" in capsys.readouterr().out
