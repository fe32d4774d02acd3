"""OpenTelemetry: the spans of a run, sent to any OTLP/HTTP receiver as JSON.

The spans of a rollout are sent together when it has ended, so a receiver has its whole tree or nothing of it. A thread of its own
sends them: a receiver that is down, slow or broken never delays the run. What cannot be delivered is dropped and counted.
"""

import http.client
import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.observe.events import RolloutEnded, RolloutEvent, RunBegan, RunEnded, RunEvent, StepLearned
from sandlot.observe.spans import OpenRun, encode_spans, num_spans, spans_of

_log = logging.getLogger(__name__)
_PATH = "/v1/traces"
_MOST_WAITING = 50_000
"""Spans that wait to be sent; a rollout beyond that is dropped."""
_MOST_EVENTS = 5_000
"""Events of a rollout that become spans; further ones are dropped."""
_BATCH = 2_000
"""Spans of a request, about."""
_PAUSES_S = (0.0, 1.0, 4.0)
"""Before each attempt to send a request."""
_TIMEOUT_S = 5.0
_END_S = 5.0
"""Longest wait at the end for what is not sent yet."""
_RETRIED = frozenset({429, 502, 503, 504})


@contextmanager
def export_spans(url: str) -> Generator["SpanExporter"]:
    """Send the spans of what runs in this block to the OTLP/HTTP receiver at `url`; pass on `receive`, a sink.

    Headers, such as a key, are read from the environment variable `OTEL_EXPORTER_OTLP_HEADERS`.

    ```python
    import sandlot
    from sandlot.observe.otel import export_spans

    with export_spans("http://127.0.0.1:4318") as spans:
        sandlot.run("arithmetic", "scripted:golden", sink=spans.receive)
    print(spans.num_sent, spans.num_lost, spans.problem)
    ```
    """
    exporter = SpanExporter(url)
    try:
        yield exporter
    finally:
        exporter.close()
        if exporter.num_lost:
            figures = {"lost": exporter.num_lost, "sent": exporter.num_sent, "problem": exporter.problem}
            _log.warning("spans lost", extra=figures)


@dataclass(frozen=True, slots=True)
class _Tree:
    """Finished events that become spans when they are sent."""

    run: OpenRun
    events: Sequence[RunEvent]
    num_spans: int


class SpanExporter:
    """Collects events and sends them as spans: `receive` is a sink."""

    def __init__(self, url: str) -> None:
        self._place = _parse(url)
        self._headers = _headers()
        self._runs: dict[str, OpenRun] = {}
        self._waiting: deque[_Tree] = deque()
        self._num_waiting = 0
        self._changed = threading.Condition()  # guards what both threads change
        self._closed_s: float | None = None
        self._num_made = self.num_sent = 0
        self.problem: str | None = None
        """Why spans were lost, as the receiver last answered."""
        self._thread = threading.Thread(target=self._work, name="sandlot-otlp", daemon=True)
        self._thread.start()

    @property
    def num_lost(self) -> int:
        """Spans that were not delivered; while the run goes on, with those that wait."""
        return self._num_made - self.num_sent

    def receive(self, event: RunEvent) -> None:
        """Take an event; never waits."""
        match event:
            case RolloutEnded():
                run = self._runs.get(event.run)
                if run is not None:
                    self._put(run, [*run.rollouts.pop((event.task, event.rollout), []), event])
            case RolloutEvent():
                self._note(event)
            case RunBegan():
                outer = next(iter(self._runs.values()), None)  # an evaluation belongs to its training
                trace, parent = (outer.trace, outer.id) if outer else (secrets.token_hex(16), "")
                self._runs[event.run] = OpenRun(event, trace, parent)
            case RunEnded():
                self._end_run(event)
            case StepLearned() if self._runs:
                self._put(next(iter(self._runs.values())), [event])
            case _:
                pass

    def close(self) -> None:
        """Send what is left, for a limited time."""
        for run in list(self._runs):
            self._end_run(RunEnded(run=run, stopped="ended without a last event"))
        with self._changed:
            self._closed_s = time.monotonic()
            self._changed.notify()
        self._thread.join(_END_S + 1)

    def _note(self, event: RolloutEvent) -> None:
        run = self._runs.get(event.run)
        if run is None:
            return
        events = run.rollouts.setdefault((event.task, event.rollout), [])
        if len(events) < _MOST_EVENTS:
            events.append(event)
        else:
            self._num_made += num_spans(event)
            self.problem = f"a rollout has more than {_MOST_EVENTS:,} turns and tool calls"

    def _end_run(self, event: RunEnded) -> None:
        run = self._runs.pop(event.run, None)
        if run is not None:
            for events in run.rollouts.values():
                self._put(run, [*events, event])
            self._put(run, [event])

    def _put(self, run: OpenRun, events: Sequence[RunEvent]) -> None:
        num = sum(map(num_spans, events))
        with self._changed:
            self._num_made += num
            if self._num_waiting + num > _MOST_WAITING:
                self.problem = self.problem or f"more than {_MOST_WAITING:,} spans waited"
                return
            self._num_waiting += num
            self._waiting.append(_Tree(run, events, num))
            if self._num_waiting >= _BATCH:
                self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._num_waiting >= _BATCH or self._closed_s is not None, timeout=1.0)
                trees: list[_Tree] = []
                while self._waiting and sum(tree.num_spans for tree in trees) < _BATCH:
                    trees.append(self._waiting.popleft())
                self._num_waiting -= sum(tree.num_spans for tree in trees)
                if not trees and self._closed_s is not None:
                    return
            if trees:
                self._deliver(trees)

    def _deliver(self, trees: Sequence[_Tree]) -> None:
        """Send a request; try again if that may help. After the end of the run, only while there is time."""
        body = encode_spans(span for tree in trees for span in spans_of(tree.run, tree.events))
        for pause_s in _PAUSES_S:
            with self._changed:
                self._changed.wait_for(lambda: self._closed_s is not None, timeout=pause_s)
            left_s = _END_S if self._closed_s is None else self._closed_s + _END_S - time.monotonic()
            if left_s <= 0:
                return
            try:
                status, reply = self._post(body, min(_TIMEOUT_S, left_s))
            except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: the name is no host's
                self.problem = f"{type(error).__name__}: {error}"
                continue
            if 200 <= status < 300:
                partial = _rejected(reply)
                self.num_sent += sum(tree.num_spans for tree in trees) - partial.rejected_spans
                self.problem = partial.error_message or self.problem
                return
            self.problem = f"HTTP {status}"
            if status not in _RETRIED:
                return

    def _post(self, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        kind = http.client.HTTPSConnection if self._place.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._place.hostname or "", self._place.port, timeout=timeout_s)
        try:
            connection.request("POST", self._place.path, body, self._headers)
            reply = connection.getresponse()
            return reply.status, reply.read(65536)
        finally:
            connection.close()


def _parse(url: str) -> SplitResult:
    try:
        place = urlsplit(url)
        usable = place.scheme in {"http", "https"} and place.hostname and place.port != 0
    except ValueError:
        place, usable = urlsplit(""), False
    if not usable:
        raise ConfigError(f"OTLP receiver `{url}`: write an address such as `http://127.0.0.1:4318`")
    if place.username is not None:
        raise ConfigError("OTLP receiver: the address holds a password; set OTEL_EXPORTER_OTLP_HEADERS instead")
    path = place.path.rstrip("/")
    return place._replace(path=path if path.endswith(_PATH) else path + _PATH)


def _headers() -> dict[str, str]:
    """The headers of a request, with those of `OTEL_EXPORTER_OTLP_HEADERS`: `name=value,name=value`, values percent-encoded."""
    given = os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    pairs = [piece.split("=", 1) for piece in given.split(",") if "=" in piece]
    headers = {name.strip(): unquote(value.strip()) for name, value in pairs}
    if not all(text.isascii() and text.isprintable() for text in (*headers, *headers.values())):
        raise ConfigError("OTEL_EXPORTER_OTLP_HEADERS holds a character that no header may hold; write `name=value,name=value`")
    return headers | {"Content-Type": "application/json"}


class _Partial(msgspec.Struct, frozen=True, rename="camel"):
    rejected_spans: int = 0
    error_message: str | None = None


class _Reply(msgspec.Struct, frozen=True, rename="camel"):
    partial_success: _Partial | None = None


def _rejected(reply: bytes) -> _Partial:
    """Spans that a receiver accepted the request without, and why; none if the body is empty or foreign."""
    try:
        return msgspec.json.decode(reply, type=_Reply, strict=False).partial_success or _Partial()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Partial()
