"""Posting alerts: a receiver that is down, slow or hostile costs the sender nothing."""

import socket
import threading
from contextlib import contextmanager

from fakes.otlp_receiver import receiving
from sandlot.observe import webhook as module
from sandlot.observe.webhook import Webhook


def test_bodies_arrive_in_order():
    with receiving(lambda _number: (204, b"")) as receiver:
        hook = Webhook(f"{receiver.url}/alerts?key=1")
        for number in range(5):
            hook.post(b'{"number": %d}' % number)
        hook.close()
    assert (hook.num_delivered, hook.num_lost, receiver.num_requests) == (5, 0, 5)


def test_a_receiver_that_is_busy_is_asked_again_and_one_that_refuses_is_not():
    with receiving(lambda number: ((503, b""), (200, b"{}"), (403, b"secret"))[number - 1]) as receiver:
        hook = Webhook(receiver.url)
        hook.post(b"{}")
        hook.post(b"{}")
        hook.close()
    assert receiver.num_requests == 3
    assert (hook.num_delivered, hook.num_lost, hook.problem) == (1, 1, "HTTP 403")


def test_a_redirect_is_not_followed():
    with receiving(lambda _number: (302, b"")) as receiver:
        hook = Webhook(receiver.url)
        hook.post(b"{}")
        hook.close()
    assert (receiver.num_requests, hook.num_lost, hook.problem) == (1, 1, "HTTP 302")


def test_one_that_is_down_loses_what_was_posted_and_says_why():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    hook = Webhook(f"http://127.0.0.1:{port}/secret")
    hook.post(b"{}")
    hook.close()
    assert (hook.num_lost, hook.problem, hook.host) == (1, "ConnectionRefusedError", "127.0.0.1")


@contextmanager
def silent():
    """Accepts, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_one_that_never_answers_holds_nothing_and_what_waits_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "END_S", 0.2)
    with silent() as url:
        hook = Webhook(url)
        for _ in range(1000):
            hook.post(b"{}")
        assert len(hook._waiting) <= 100
        hook.close()
    assert (hook.num_delivered, hook.num_lost) == (0, 1000)


def test_nonsense_instead_of_http_is_a_problem_like_any_other(monkeypatch):
    monkeypatch.setattr(module, "_PAUSES_S", (0, 0, 0))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def babble() -> None:
            for _ in range(3):
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"\xff" * 100_000)

        thread = threading.Thread(target=babble)
        thread.start()
        hook = Webhook(f"http://127.0.0.1:{server.getsockname()[1]}")
        hook.post(b"{}")
        thread.join(20)
        hook.close()
    assert hook.num_lost == 1
    assert hook.problem in {"BadStatusLine", "LineTooLong", "ConnectionResetError", "BrokenPipeError"}
