"""Triage on the screen: clusters with their size, how they differ, and the command that shows an example."""

import sys
from collections import Counter

import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.analysis.triage.agreement import ReaderAgreement
from sandlot.analysis.triage.clusters import Cluster
from sandlot.analysis.triage.labels import ENOUGH, Review, read_labels
from sandlot.analysis.triage.oddities import Odd
from sandlot.analysis.triage.signature import NONE
from sandlot.analysis.triage.triage import Triage
from sandlot.cli.views.summary import clean
from sandlot.core.text import printable_json
from sandlot.run.results import Run

_SHOWN = 12
"""Maximum clusters on the screen; `--json` has all."""
_INDENT = " " * 13


def export_labels(run: Run) -> int:
    """Print every label, then every note on a message, as JSON Lines.

    Returns 1 if a line of the file could not be read; stderr has its number.
    """
    labels = read_labels(run.path)
    for each in (*labels.given, *labels.notes):
        sys.stdout.buffer.write(printable_json(msgspec.json.encode(each)) + b"\n")
    sys.stdout.flush()
    if labels.damaged:
        print(f"sandlot: labels.jsonl: {_damaged(labels.damaged)}", file=sys.stderr)
    return 1 if labels.damaged else 0


def print_triage(triage: Triage) -> None:
    """Print a triage to stdout."""
    console = Console(highlight=False, soft_wrap=True)
    wrong = sum(count for label, count in triage.labels.items() if label not in {"ok", "cancelled"})
    drawn = f", {triage.opened:,} traces read (a random sample, seed {triage.seed})" if triage.opened < triage.rollouts else ""
    console.print(
        f"[bold]{escape(triage.environment)}[/] with [bold]{escape(triage.model)}[/]: "
        f"{triage.rollouts:,} rollouts, {wrong:,} without full marks[dim]{drawn}[/]"
    )
    console.print("[dim]    labels[/]  " + ", ".join(f"{name} {count:,}" for name, count in triage.labels.items()))
    for cluster in triage.clusters[:_SHOWN]:
        _print_cluster(console, triage.run, cluster)
    if len(triage.clusters) > _SHOWN:
        rest = triage.clusters[_SHOWN:]
        console.print(f"[dim]{_INDENT}and {len(rest)} more clusters with {sum(each.size for each in rest):,} rollouts: --json[/]")
    if triage.odd:
        console.print("\n[bold]suspicious successes[/]  [dim]only leads: each may have a good reason[/]")
    for odd in triage.odd[:_SHOWN]:
        _print_odd(console, triage.run, odd)
    _print_reading(console, triage)


def _print_cluster(console: Console, run: str, cluster: Cluster) -> None:
    signature = cluster.signature
    style = "red" if cluster.blames_environment else "yellow"
    console.print(
        f"\n{cluster.size:>5,} {cluster.share:>5.0%}  [{style}]{signature.label}[/]  [dim]{escape(signature.kind)}[/]  "
        f"{escape(clean(signature.cause))}"
    )
    last = f", last tool `{signature.last_tool}`" if signature.last_tool != NONE else ""
    tasks = f"{cluster.tasks} task{'s' if cluster.tasks != 1 else ''}"
    console.print(f"{_INDENT}[dim]{tasks}{escape(clean(last))}[/]   sandlot show {escape(clean(f'{run}/{cluster.examples[0]}'))}")
    if cluster.concentration is not None:
        at = cluster.concentration
        console.print(
            f"{_INDENT}[cyan]concentrated in tag `{escape(clean(at.tag))}`: {at.these_with} of its {at.these} tasks, "
            f"and {at.passing_with} of {at.passing} tasks that pass[/]"
        )
    if cluster.contrast is not None:
        console.print(f"{_INDENT}[cyan]{escape(clean(cluster.contrast.said))}[/]")
        console.print(f"{_INDENT}[dim]compare with:[/] sandlot show {escape(clean(f'{run}/{cluster.contrast.pair[0]}'))}")


def _print_odd(console: Console, run: str, odd: Odd) -> None:
    text = f'  [dim]"{escape(clean(odd.text))}"[/]' if odd.text else ""
    elsewhere = f", and {odd.elsewhere:.0%} of the others" if odd.text else ""
    console.print(f"{odd.size:>5,} {odd.share:>5.0%}  [yellow]{odd.why}[/]  {odd.said}[dim]{elsewhere}[/]{text}")
    console.print(f"{_INDENT}[dim]sandlot show {escape(clean(f'{run}/{odd.examples[0]}'))}[/]")


def _print_reading(console: Console, triage: Triage) -> None:
    review = triage.review
    strata = Counter(each.why for each in triage.proposed)
    listed = "; ".join(f"{count} {why}" for why, count in strata.items())
    console.print()
    if triage.proposed:
        console.print(f"[bold]to read[/]  {len(triage.proposed)} rollouts: {listed}")
        console.print(f"{_INDENT}[dim]sandlot triage {escape(triage.run)} --review[/]")
    if review.rollouts or review.damaged:
        console.print(f"[bold]labels[/]   {_review_text(review)}")
    for pair in triage.agreement:
        console.print(f"{_INDENT}[dim]{escape(_agreement_text(pair))}[/]")


def _review_text(review: Review) -> str:
    people = f"{review.people} {'person' if review.people == 1 else 'people'}"
    labels = ", ".join(f"{name} {count}" for name, count in review.labels.items())
    said = f"{review.rollouts} rollouts by {people}: {escape(labels)}"
    if review.enough:
        said += f"; [green]no new label in the last {review.since_new}: more reading will hardly find one[/]"
    else:
        said += f"; no new label in the last {review.since_new}; {ENOUGH} in a row are enough"
    if review.twice:
        said += f"; several people read {review.twice} and agree on {review.agreed}"
    if review.damaged:
        said += f"; [red]labels.jsonl: {_damaged(review.damaged)}[/]"
    return said


def _agreement_text(pair: ReaderAgreement) -> str:
    kappa = pair.kappa
    if kappa.value is None:
        value = "kappa unknown: all labels are equal"
    else:
        value = f"kappa {kappa.value:.2f}" + (f" ({kappa.note})" if kappa.note else f" [{kappa.low:.2f}, {kappa.high:.2f}]")
    return f"{clean(pair.first)} and {clean(pair.second)}: {pair.agreed} of {pair.both} alike, {value}"


def _damaged(lines: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, lines[:5])) + (", ..." if len(lines) > 5 else "")
    return f"{len(lines)} line{'s' if len(lines) != 1 else ''} cannot be read ({shown}); nothing was removed"
