"""What `--metrics` and `--otlp` ask for: opened before anything runs, closed after it."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import typer

from sandlot.core.text import one_line
from sandlot.observe.events import Sink, fan_out


@contextmanager
def open_telemetry(metrics: str | None, otlp: str | None) -> Generator[Sink]:
    """A sink that passes events on to what was asked for; at the end, say what could not be delivered."""
    sinks: list[Sink] = []
    with ExitStack() as stack:
        if metrics is not None:
            from sandlot.serve.metrics import serve_metrics  # noqa: PLC0415 - only who asks for it pays for it

            served = stack.enter_context(serve_metrics(metrics))
            typer.echo(f"metrics: {served.url}", err=True)
            sinks.append(served.receive)
        if otlp is not None:
            sinks.append(stack.enter_context(_exported(otlp)))
        yield fan_out(*sinks)


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
