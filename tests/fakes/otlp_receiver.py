"""A receiver of OTLP/HTTP in JSON, as strict as the specification: it refuses anything that a conforming one may refuse."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VALUES = {"stringValue": str, "boolValue": bool, "intValue": str, "doubleValue": (float, int, str), "arrayValue": dict}
FIELDS = {"traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status"}


@dataclass
class Span:
    id: str
    trace: str
    parent: str | None
    name: str
    start: int
    end: int
    failed: bool
    about: dict[str, object]
    children: list["Span"] = field(default_factory=list)


@dataclass
class Receiver:
    url: str
    spans: dict[str, Span] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    num_requests: int = 0
    bodies: list[bytes] = field(default_factory=list)

    def roots(self) -> list[Span]:
        """The spans without a parent, each with its children below it; every parent must have arrived."""
        for span in self.spans.values():
            span.children = []
        for span in self.spans.values():
            if span.parent is not None:
                self.spans[span.parent].children.append(span)
                assert span.trace == self.spans[span.parent].trace
        return [span for span in self.spans.values() if span.parent is None]


def value_of(value: dict) -> object:
    ((kind, found),) = value.items()
    assert isinstance(found, VALUES[kind]), value
    if kind == "intValue":
        return int(found)
    return [value_of(each) for each in found["values"]] if kind == "arrayValue" else found


def attributes_of(pairs: list[dict]) -> dict[str, object]:
    found = {pair["key"]: value_of(pair["value"]) for pair in pairs}
    assert len(found) == len(pairs), "an attribute twice"
    return found


def parse(body: bytes) -> list[Span]:
    spans = []
    for resource in json.loads(body)["resourceSpans"]:
        assert attributes_of(resource["resource"]["attributes"])["service.name"]
        for scoped in resource["scopeSpans"]:
            for span in scoped["spans"]:
                assert set(span) <= FIELDS, span
                assert re.fullmatch("[0-9a-f]{32}", span["traceId"]), span
                assert re.fullmatch("[0-9a-f]{16}", span["spanId"]), span
                assert re.fullmatch("[0-9a-f]{16}", span.get("parentSpanId", "0" * 16)), span
                start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
                assert isinstance(span["startTimeUnixNano"], str)
                assert 0 < start <= end, span
                assert span["kind"] in {1, 3}
                assert span["name"]
                failed = span["status"].get("code", 0) == 2
                about = attributes_of(span["attributes"])
                spans.append(
                    Span(span["spanId"], span["traceId"], span.get("parentSpanId"), span["name"], start, end, failed, about)
                )
    return spans


@contextmanager
def receiving(answer: Callable[[int], tuple[int, bytes]] = lambda _number: (200, b"{}")) -> Iterator[Receiver]:
    """A receiver; `answer` gives status and body for the number of the request, from 1. Spans count where the status is 200."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with lock:
                receiver.num_requests += 1
                number = receiver.num_requests
                receiver.bodies.append(body)
                receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            status, reply = answer(number)
            if status == 200:
                try:
                    assert self.path == "/v1/traces", self.path
                    assert self.headers["content-type"] == "application/json"
                    with lock:
                        for span in parse(body):
                            assert span.id not in receiver.spans, "a span twice"
                            receiver.spans[span.id] = span
                except (AssertionError, KeyError, ValueError) as error:
                    receiver.wrong.append(repr(error))
            self.send_response(status)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that went away is no news."""

    with Server(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
