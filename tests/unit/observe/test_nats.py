"""The NATS client: addresses as people write them, and servers that are broken or hostile."""

import socket
import threading
from contextlib import suppress

import pytest

from fakes.nats import fake_nats
from sandlot.core.errors import ConfigError
from sandlot.observe import nats as module
from sandlot.observe.event_stream import StreamUnavailable
from sandlot.observe.nats import NatsConnection, read_nats_target

INFO = b'INFO {"headers":true,"max_payload":1000}\r\n'


@pytest.mark.parametrize(
    ("url", "shown", "login"),
    [
        ("nats://127.0.0.1/ev", "nats://127.0.0.1:4222/ev", {}),
        ("nats://u:p%40ss@host:1/a.b", "nats://host:1/a.b", {"user": "u", "pass": "p@ss"}),
        ("tls://t0ken@[::1]:7/a", "tls://[::1]:7/a", {"auth_token": "t0ken"}),
    ],
)
def test_an_address_is_read_and_shown_without_its_secret(url: str, shown: str, login: dict):
    target = read_nats_target(url, {})
    assert (str(target), target.login) == (shown, login)
    assert "t0ken" not in repr(target)
    assert "p@ss" not in repr(target)


def test_a_user_comes_from_the_environment_unless_the_address_has_one():
    variables = {"NATS_USER": "u", "NATS_PASSWORD": "p", "NATS_TOKEN": "t"}
    assert read_nats_target("nats://h/ev", variables).login == {"user": "u", "pass": "p"}
    assert read_nats_target("nats://h/ev", {"NATS_TOKEN": "t"}).login == {"auth_token": "t"}
    assert read_nats_target("nats://a:b@h/ev", variables).login == {"user": "a", "pass": "b"}


@pytest.mark.parametrize(
    "url",
    [
        "localhost:4222/ev", "http://u:hunter22@h/ev", "nats://h", "nats://h/", "nats://h/a..b", "nats://h/a.*", "nats://h/a.>",
        "nats://h/a b", "nats://h/a%0d%0aPUB", "nats://h/$JS.API", "nats://h:99999/a", "nats://u:hunter/22@h/ev", "nats://u:hunter22@/ev",
        "nats://h/ev?hunter22", "nats://h/é", "nats://hunter/22@h/ev", f"nats://h/{'a' * 1000}",
    ],
)  # fmt: skip
def test_a_wrong_address_is_refused_with_an_example_and_without_its_secret(url: str):
    with pytest.raises(ConfigError, match=r"nats://127\.0\.0\.1:4222/sandlot\.events") as refused:
        read_nats_target(url, {})
    assert "22" not in str(refused.value).replace("4222", "")
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize(
    ("greeting", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "is no NATS server"),
        (b"SSH-2.0-\x1b[31mred\r\n", "is no NATS server"),
        (b"INFO {\r\n", "cannot be read"),
        (b'INFO {"headers":true,"max_payload":"x"}\r\n', "cannot be read"),
        (b'INFO {"x":' + b"[" * 5000 + b"]" * 5000 + b"}\r\n", "cannot be read"),
        (b"INFO {}\r\n", "takes no message headers"),
        (b"x" * 200_000, "a line of more than 65,536 bytes"),
        (INFO + b"MSG a 1 99999999999\r\n", "a message of 99,999,999,999 bytes"),
        (INFO + b"MSG a 1 -5\r\n", "without a size"),
        (INFO + b"HMSG a 1 9 5\r\n", "sends a message"),
        (INFO + b"MSG\r\n", "without a size"),
        (INFO + b"-ERR 'Authorization Violation'\r\n", "refuses the user and password or the token"),
        (INFO + b"-ERR 'swordfish \x1b[2J swordfi\\u0073h'\r\n", r"answers with an error: \[redacted\] \\x1b\[2J \[redacted\]"),
    ],
)
def test_a_server_that_speaks_something_else_is_an_error_that_says_so(greeting: bytes, says: str):
    with fake_nats(greeting=greeting) as server, pytest.raises(StreamUnavailable, match=says) as failed:
        NatsConnection(read_nats_target(server.url.replace("//", "//u:swordfish@"), {}))
    assert "swordfish" not in str(failed.value)
    assert "\x1b" not in str(failed.value)


def test_no_part_of_a_secret_is_shown_where_an_error_is_cut():
    secret = "correct-horse-battery-staple" * 8
    for before in range(0, 240, 20):
        greeting = INFO + b"-ERR '%s'\r\n" % (b"x" * before + secret.encode() * 20)
        with fake_nats(greeting=greeting) as server, pytest.raises(StreamUnavailable) as failed:
            NatsConnection(read_nats_target(server.url.replace("//", f"//u:{secret}@"), {}))
        assert "horse" not in str(failed.value)


@pytest.mark.parametrize("greeting", [b" ", INFO[:-2], INFO + b"MSG a 1 99\r\nhalf"])
def test_a_server_that_says_too_little_is_given_up_in_time(greeting: bytes, monkeypatch):
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.2)
    with fake_nats(greeting=greeting) as server, pytest.raises(StreamUnavailable, match="has not answered"):
        NatsConnection(read_nats_target(server.url, {}))


def test_a_server_that_talks_on_and_on_is_given_up_in_time(monkeypatch):
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.5)
    done = threading.Event()

    def flood(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with suppress(OSError), connection:
            connection.sendall(INFO)
            while not done.is_set():
                connection.sendall(b"+OK\r\nINFO {}\r\n" * 1000)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=flood, args=(listener,))
        thread.start()
        with pytest.raises(StreamUnavailable, match="has not answered"):
            NatsConnection(read_nats_target(f"nats://127.0.0.1:{listener.getsockname()[1]}/ev", {}))
        done.set()
        thread.join()


def test_a_connection_that_must_be_encrypted_is_not_used_without():
    with fake_nats() as server, pytest.raises(StreamUnavailable, match="TLS"):
        NatsConnection(read_nats_target(server.url.replace("nats", "tls"), {}))
    assert server.connects == []  # no password was sent


def test_bytes_sent_before_encryption_are_refused():
    with (
        fake_nats(greeting=b'INFO {"headers":true,"tls_required":true}\r\nPONG\r\n') as server,
        pytest.raises(StreamUnavailable, match="before the connection is encrypted"),
    ):
        NatsConnection(read_nats_target(server.url, {}))


def test_replies_come_in_any_order_and_others_are_ignored():
    def twice(subject: str, body: bytes) -> bytes:
        if subject == "first":
            return b"MSG elsewhere.1 1 1\r\n?\r\nMSG INBOX9999 1 1\r\n?\r\nPING\r\n"
        ours = b"MSG INBOX 1 1\r\n2\r\n"
        return ours + ours  # the second is not asked for

    with fake_nats(intercept=twice) as server:
        connection = NatsConnection(read_nats_target(server.url, {}))
        numbers = [connection.post(subject, b"") for subject in ("second", "third")]
        connection.post("first", b"")
        connection.flush()
        assert [connection.reply_to(number).body for number in reversed(numbers)] == [b"2", b"2"]
        assert connection._replies == {}
        connection.close()
