"""`/metrics` while a run goes on: only that path, only reading, only from here, and gone with the run."""

import http.client
import socket

import pytest

from sandlot.core.errors import ConfigError
from sandlot.observe.events import LoopLagged
from sandlot.serve.metrics import serve_metrics


def ask(url: str, method: str = "GET", path: str = "/metrics", **headers: str) -> tuple[int, str, str]:
    host, port = url.removeprefix("http://").removesuffix("/metrics").rsplit(":", 1)
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=10)
    try:
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.headers.get("content-type", ""), reply.read().decode()
    finally:
        connection.close()


def test_events_are_seen_at_once_and_the_server_ends_with_the_block() -> None:
    with serve_metrics(0) as metrics:
        metrics.receive(LoopLagged(max_s=0.5))
        status, kind, text = ask(metrics.url)
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert "\nsandlot_event_loop_lag_seconds 0.5\n" in text
    with pytest.raises(ConnectionRefusedError):
        ask(metrics.url)


def test_only_get_metrics_is_answered() -> None:
    with serve_metrics("127.0.0.1:0") as metrics:
        assert metrics.url.startswith("http://127.0.0.1:")
        for method, path, status in (
            ("POST", "/metrics", 415),
            ("PUT", "/metrics", 405),
            ("DELETE", "/metrics", 405),
            ("GET", "/", 404),
            ("GET", "/metrics/../../etc/passwd", 404),
        ):
            assert ask(metrics.url, method, path)[0] == status


def test_web_pages_cannot_read_it() -> None:
    with serve_metrics(0) as metrics:
        assert ask(metrics.url, Host="evil.example")[0] == 421
        assert ask(metrics.url, Origin="http://evil.example")[0] == 403


def test_a_host_that_is_given_is_bound_and_asks_for_the_token_in_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDLOT_METRICS_TOKEN", "correct horse battery")
    with serve_metrics("0.0.0.0:0") as metrics:
        here = metrics.url.replace("0.0.0.0", "127.0.0.1")
        assert ask(here)[0] == 401
        assert ask(here, Authorization="Bearer correct horse battery")[0] == 200
        status, _, text = ask(here, Authorization="Bearer correct horse battery", Host="trainer-7.cluster")
        assert (status, "`--metrics NAME:PORT`" in text) == (421, True)


def test_a_port_in_use_is_refused_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=f"cannot listen at 127.0.0.1 port {port}.*in use.*choose another port"),
            serve_metrics(port),
        ):
            pytest.fail("it started")


@pytest.mark.parametrize("where", ["", "http", "127.0.0.1", "host:70000", "9464/metrics", "-1", "9464 "])
def test_a_place_that_is_none_is_refused(where: str) -> None:
    with pytest.raises(ConfigError, match="write PORT or HOST:PORT"), serve_metrics(where):
        pytest.fail("it started")


def test_a_client_that_sends_half_a_request_does_not_hold_the_end() -> None:
    with socket.socket() as idle:
        with serve_metrics(0) as metrics:
            idle.connect(("127.0.0.1", int(metrics.url.removesuffix("/metrics").rsplit(":", 1)[1])))
            idle.sendall(b"GET /metrics HTTP/1.1\r\n")
            assert ask(metrics.url)[0] == 200
        assert idle.recv(1) == b""  # closed, and the block has ended
