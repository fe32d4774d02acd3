"""What `--metrics` asks for: opened before anything runs, closed after it."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import typer

from sandlot.observe.events import Sink, fan_out


@contextmanager
def open_telemetry(metrics: str | None) -> Generator[Sink]:
    """A sink that passes events on to what was asked for."""
    sinks: list[Sink] = []
    with ExitStack() as stack:
        if metrics is not None:
            from sandlot.serve.metrics import serve_metrics  # noqa: PLC0415 - only who asks for it pays for it

            served = stack.enter_context(serve_metrics(metrics))
            typer.echo(f"metrics: {served.url}", err=True)
            sinks.append(served.receive)
        yield fan_out(*sinks)
