"""`/metrics` of a run or a training, for Prometheus: served while the run goes on, by a thread of its own.

The thread answers also while the run's event loop is blocked. The server binds to the loopback address unless a host is given,
answers only GET /metrics, refuses requests from web pages, and beyond this machine asks for a token.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from anyio.from_thread import start_blocking_portal
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sandlot.core.access import require_token, token_of
from sandlot.core.address import read_address
from sandlot.model.wire.listening import serve_app
from sandlot.observe.events import Sink
from sandlot.observe.metrics import CONTENT_TYPE
from sandlot.observe.prometheus import RunMetrics
from sandlot.serve.guard import Guard

TOKEN_VARIABLE = "SANDLOT_METRICS_TOKEN"  # noqa: S105 - a name
_DRAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class ServedMetrics:
    """Metrics that are served: pass `receive`, a sink, to what runs."""

    url: str
    """Where Prometheus finds them."""
    receive: Sink


@contextmanager
def serve_metrics(where: str | int, *, token: str | None = None) -> Generator[ServedMetrics]:
    """Serve the metrics of what runs in this block, at `PORT` or `HOST:PORT`; port 0 takes any free one.

    With a token, Prometheus must send it: `Authorization: Bearer TOKEN`. An address beyond this machine needs one; by default it
    is that of the variable `SANDLOT_METRICS_TOKEN`.

    ```python
    import sandlot
    from sandlot.serve.metrics import serve_metrics

    with serve_metrics(0) as metrics:
        sandlot.run("arithmetic", "scripted:golden", sink=metrics.receive)
    ```
    """
    address = read_address("metrics at", str(where))
    token = require_token(address, token_of(TOKEN_VARIABLE) if token is None else token, f"set `{TOKEN_VARIABLE}`")
    metrics = RunMetrics()

    async def answer(_request: Request) -> Response:
        return PlainTextResponse(metrics.text(), media_type=CONTENT_TYPE)

    app = Guard(
        Starlette(routes=[Route("/metrics", answer)]), address.host, token=token, fix="listen at that name: `--metrics NAME:PORT`"
    )
    with start_blocking_portal() as portal:
        served = portal.wrap_async_context_manager(serve_app(app, host=address.host, port=address.port, drain_s=_DRAIN_S))
        with served as url:
            yield ServedMetrics(f"{url}/metrics", metrics.receive)
