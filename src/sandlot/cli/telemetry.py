"""What `--metrics`, `--otlp` and `--watch` ask for: opened before anything runs, closed after it."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sandlot.core.text import one_line
from sandlot.observe.events import AlarmRaised, RunEvent, Sink, fan_out

if TYPE_CHECKING:
    from sandlot.analysis.watch.rules import WatchRules
    from sandlot.analysis.watch.watch import Watch


class Telemetry:
    """What looks on while something runs: `receive` is a sink that passes events on to all of it."""

    def __init__(self, sinks: Sequence[Sink], watch: "Watch | None") -> None:
        self.receive = fan_out(*sinks)
        self._watch = watch

    def exit_code(self, code: int) -> int:
        """The exit code of a command that would end with `code`: 1 if all was well but a rule raised an alert."""
        if self._watch is None:
            return code
        self._watch.check(last=True)
        return 1 if self._watch.alerts and code == 0 else code


@contextmanager
def open_telemetry(metrics: str | None, otlp: str | None, rules: Path | None = None) -> Generator[Telemetry]:
    """Open what was asked for; at the end, say what could not be delivered."""
    sinks: list[Sink] = []
    watch: Watch | None = None
    with ExitStack() as stack:
        found = _read(rules)
        if metrics is not None:
            from sandlot.serve.metrics import serve_metrics  # noqa: PLC0415 - only who asks for it pays for it

            served = stack.enter_context(serve_metrics(metrics))
            typer.echo(f"metrics: {served.url}", err=True)
            sinks.append(served.receive)
        if otlp is not None:
            sinks.append(stack.enter_context(_exported(otlp)))
        if found is not None:
            watch = stack.enter_context(_watched(found, fan_out(*sinks, _print_alarm)))
            sinks.append(watch.receive)
        yield Telemetry(sinks, watch)


def _read(rules: Path | None) -> "WatchRules | None":
    if rules is None:
        return None
    from sandlot.analysis.watch.rules import read_rules  # noqa: PLC0415 - as above

    return read_rules(rules)


@contextmanager
def _watched(rules: "WatchRules", tell: Sink) -> "Generator[Watch]":
    from sandlot.analysis.watch.watch import Watch  # noqa: PLC0415 - as above

    watch = Watch(rules, tell)
    try:
        with watch:
            yield watch
    finally:
        hook = watch.webhook
        if hook is not None and hook.num_lost:
            why = hook.problem or "no answer"
            typer.echo(
                f"sandlot: {hook.num_lost} of {len(watch.alerts)} alerts were not delivered to {hook.host}: {why}", err=True
            )


def _print_alarm(event: RunEvent) -> None:
    if isinstance(event, AlarmRaised):
        typer.echo(f"alert: {one_line(event.sentence, 400)}", err=True)


@contextmanager
def _exported(url: str) -> Generator[Sink]:
    from sandlot.observe.otel import SpanExporter  # noqa: PLC0415 - as above

    spans = SpanExporter(url)
    try:
        yield spans.receive
    finally:
        spans.close()
        if spans.num_lost:
            total, why = spans.num_sent + spans.num_lost, one_line(spans.problem or "no answer", 200)
            typer.echo(f"sandlot: {spans.num_lost:,} of {total:,} spans were not delivered to {url}: {why}", err=True)
