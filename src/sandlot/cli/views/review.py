"""Labels of people on the screen: what was stored, and a review that shows one trace after the other and asks for a label."""

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from sandlot.analysis.own_labels import choose_label, label_choices
from sandlot.analysis.triage.labels import ENOUGH, LabelledTrace, add_label, read_labels, review_of
from sandlot.analysis.triage.strata import Chosen
from sandlot.cli.views.show import show_trace
from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ConfigError
from sandlot.run.results import Run

_SHOWN_CHARS = 2000
"""Maximum characters of a message; `sandlot show` prints all of it."""
_QUESTION = "label (Enter: `{given}`, `?`: list, `s`: skip, `q`: stop; words after it are your note)"


def print_labels(labels: Sequence[LabelledTrace]) -> None:
    """Say on stderr what was stored."""
    for each in labels:
        typer.echo(f"{each.task}/{each.rollout} labelled `{each.label}` by {each.by}", err=True)


def review(run: Run, proposed: Sequence[Chosen], *, by: str) -> None:
    """Show each rollout, ask for a label and store it, until all are read or the person stops."""
    told_enough = False
    for number, chosen in enumerate(proposed, start=1):
        print(f"\n--- {number} of {len(proposed)}: {chosen.task}/{chosen.rollout}  ({chosen.why}) ---")
        show_trace(run.path, chosen.task, chosen.rollout, json=False, most=_SHOWN_CHARS)
        answer = _ask(run.path, chosen.label)
        if answer is None:
            break
        label, note = answer
        if label:
            add_label(run.path, task=chosen.task, rollout=chosen.rollout, label=label, by=by, note=note, at=SYSTEM_CLOCK.wall())
        found = review_of(read_labels(run.path))
        if found.enough and not told_enough:
            told_enough = True
            typer.echo(f"no new label in the last {found.since_new} ({ENOUGH} are enough); `q` stops here", err=True)
    found = review_of(read_labels(run.path))
    typer.echo(
        f"{found.rollouts} rollouts labelled, with {len(found.labels)} different labels; the same command continues",
        err=True,
    )


def _ask(run: Path, given: str) -> tuple[str, str] | None:
    """Read a label and a note from stdin; an empty label to skip, None to stop."""
    while True:
        typer.echo(_QUESTION.format(given=given) + ": ", err=True, nl=False)
        line = sys.stdin.readline()
        word, _, note = line.strip().partition(" ")
        if not line or word in {"q", "quit"}:
            return None
        if word in {"s", "skip"}:
            return "", ""
        if word == "?":
            for label in label_choices(run):
                typer.echo(f"  {label.name:<18} {label.what}", err=True)
            continue
        try:
            return choose_label(run, word or given).name, note
        except ConfigError as error:
            typer.echo(str(error), err=True)
