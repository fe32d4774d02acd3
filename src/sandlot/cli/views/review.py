"""Judging rollouts: one label on the command line, or one trace after the other with a question below it."""

import sys
from collections.abc import Sequence

import typer

from sandlot.analysis.taxonomy import LABELS, label_named
from sandlot.analysis.triage.labels import ENOUGH, LabelledTrace, add_label, read_labels, review_of
from sandlot.analysis.triage.strata import Chosen
from sandlot.cli.views.show import show_trace
from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ConfigError
from sandlot.run.results import Run

_SHOWN_CHARS = 2000
"""Of a message; `sandlot show` has all of it."""
_ASKED = "label (Enter: `{given}`, `?`: list, `s`: skip, `q`: stop; words after it are your note)"


def keep(run: Run, judgements: Sequence[str], *, by: str, note: str) -> list[LabelledTrace]:
    """Keep judgements written as `TASK/ROLLOUT=LABEL`; nothing is kept if any of them is wrong."""
    read = [_read(run, judgement) for judgement in judgements]
    at = SYSTEM_CLOCK.wall()
    kept = [
        add_label(run.path, task=task, rollout=rollout, label=label, by=by, note=note, at=at) for task, rollout, label in read
    ]
    for each in kept:
        typer.echo(f"{each.task}/{each.rollout} labelled `{each.label}` by {each.by}", err=True)
    return kept


def _read(run: Run, judgement: str) -> tuple[str, int, str]:
    place, _, label = judgement.rpartition("=")
    task, _, rollout = place.rpartition("/")
    if not task or not (rollout.isascii() and rollout.isdigit()):
        raise ConfigError(f"`{judgement}` is not a label; write TASK/ROLLOUT=LABEL, for example `add-3/0=model_wrong`")
    run.trace(task, int(rollout))  # refused by name if there is none
    return task, int(rollout), label_named(label).name


def review(run: Run, proposed: Sequence[Chosen], *, by: str) -> None:
    """Show each, ask, keep; until there are no more, the person stops, or nothing new has come up for long."""
    told = False
    for number, chosen in enumerate(proposed, start=1):
        print(f"\n--- {number} of {len(proposed)}: {chosen.task}/{chosen.rollout}  ({chosen.why}) ---")
        show_trace(run.path, chosen.task, chosen.rollout, json=False, most=_SHOWN_CHARS)
        answer = _asked(chosen.label)
        if answer is None:
            break
        label, note = answer
        if label:
            add_label(run.path, task=chosen.task, rollout=chosen.rollout, label=label, by=by, note=note, at=SYSTEM_CLOCK.wall())
        found = review_of(read_labels(run.path))
        if found.enough and not told:
            told = True
            typer.echo(f"the last {found.since_new} brought no new class ({ENOUGH} are enough); `q` stops here", err=True)
    found = review_of(read_labels(run.path))
    typer.echo(
        f"{found.rollouts} rollouts labelled, {len(found.labels)} classes; the labels are stored, and the same command continues",
        err=True,
    )


def _asked(given: str) -> tuple[str, str] | None:
    """A label and a note; an empty label to skip, None to stop."""
    while True:
        typer.echo(_ASKED.format(given=given) + ": ", err=True, nl=False)
        line = sys.stdin.readline()
        word, _, note = line.strip().partition(" ")
        if not line or word in {"q", "quit"}:
            return None
        if word in {"s", "skip"}:
            return "", ""
        if word == "?":
            for label in LABELS:
                typer.echo(f"  {label.name:<18} {label.what}", err=True)
            continue
        try:
            return label_named(word or given).name, note
        except ConfigError as error:
            typer.echo(str(error), err=True)
