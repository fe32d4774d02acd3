"""What `sandlot diagnose` prints and the pages that it writes. Names that others wrote are made printable."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from sandlot.audit.diagnose import Diagnosis, choose_telling
from sandlot.cli.views.summary import clean
from sandlot.web.saved import SavedNote, SavedNotes, save_pages

_PAGE = "diagnosis.html"


def write_pages(found: Diagnosis, out: Path | None) -> list[Path]:
    """One page for each run of a diagnosis that has rollouts, with what it shows; returns their paths."""
    written: list[Path] = []
    for place in found.runs:
        chosen = choose_telling(found, place)
        if not chosen:
            continue
        notes = [
            SavedNote(symptom.wrong, symptom.said, symptom.rollouts, (symptom.show, symptom.again))
            for symptom in found.symptoms
            if symptom.run == place
        ]
        file = Path(place) / _PAGE
        if out is not None:
            file = out if not written else out.with_name(f"{out.stem}-model{out.suffix}")
        file.write_text(save_pages(Path(place), chosen, notes=SavedNotes(_about(found, place), notes)).text)
        written.append(file)
    return written


def _about(found: Diagnosis, place: str) -> str:
    """Who played, in a sentence or two."""
    played = f"{len(found.tasks):,} of {found.num_tasks:,} tasks were played"
    if place != found.runs[0]:
        return f"{played} by {found.model}."
    players = ", ".join(f"{number} {player}" for number, player in enumerate(found.players))
    return f"{played} by scripted players. The number of a rollout says by which: {players}."


def print_diagnosis(found: Diagnosis, pages: Sequence[Path]) -> None:
    """The result, to stdout."""
    console = Console(highlight=False, soft_wrap=True)
    wrong = sum(symptom.wrong for symptom in found.symptoms)
    verdict = f"[red]{wrong} wrong[/]" if wrong else "[green]nothing wrong found[/]"
    look = len(found.symptoms) - wrong
    stopped = "" if found.complete else "  [yellow]a run was stopped[/]"
    console.print(
        f"[bold]{escape(clean(found.environment))}[/]: {verdict}, {look} to look at{stopped}  "
        f"[dim]{found.rollouts:,} rollouts of {len(found.tasks):,} of {found.num_tasks:,} tasks[/]"
    )
    means = ", ".join(f"{player} {'-' if score is None else f'{score:.3f}'}" for player, score in found.scores.items())
    console.print(f"[dim]    scores[/]  {means}")
    for symptom in found.symptoms:
        word = "[red]wrong[/]" if symptom.wrong else " [yellow]look[/]"
        console.print(f"{word}  {escape(clean(symptom.said))}")
        console.print(f"       [dim]{escape(clean(symptom.show))}[/]")
        console.print(f"       [dim]{escape(clean(symptom.again))}[/]")
    for file in pages:
        console.print(f"[dim]page[/]  {escape(str(file))}")
    if found.recordings:
        console.print(f"[dim]{len(found.recordings)} terminal recordings[/]  {escape(str(Path(found.recordings[0]).parent))}")
