"""JetStream as the receiver: the stream is found or made, and what it answers is believed only if it makes sense."""

import json

import pytest

from fakes.nats import FakeNats, Stored, fake_nats
from sandlot.core.errors import ConfigError
from sandlot.observe.event_stream import Acknowledgement, StreamMessage, StreamUnavailable
from sandlot.observe.jetstream import JetStream, _covers
from sandlot.observe.nats import read_nats_target

MESSAGES = [StreamMessage(f"id-{number}", kind, b"%d" % number) for number, kind in enumerate(("turn", "of a.future>", "turn"))]
CONFIG = {"name": "ev", "subjects": ["ev.>"]}


def connect(server: FakeNats, run: str = "my.run 1") -> JetStream:
    return JetStream(read_nats_target(server.url, {}), run)


def reply(value: dict | list) -> bytes:
    body = json.dumps(value).encode()
    return b"MSG INBOX 1 %d\r\n%s\r\n" % (len(body), body)


def test_a_stream_is_created_and_events_go_to_safe_subjects():
    with fake_nats() as server:
        stream = connect(server)
        assert list(stream.publish(MESSAGES)) == [Acknowledgement(number, duplicate=False) for number in (1, 2, 3)]
        assert list(stream.publish(MESSAGES[2:])) == [Acknowledgement(3, duplicate=True)]
        stream.close()
    assert server.config == CONFIG | {"storage": "file"}
    assert [message.subject for message in server.stored] == ["ev.my_run_1.turn", "ev.my_run_1.of_a_future_", "ev.my_run_1.turn"]


def test_what_the_stream_has_already_is_not_sent_even_if_its_window_is_over():
    stored = [Stored("ev.other.turn", "id-2", b""), Stored("ev.run.turn", "id-0", b""), Stored("ev.run.turn", "id-1", b"")]
    with fake_nats(config=CONFIG, stored=stored, remembers=False) as server:
        stream = connect(server, "run")
        stream.look_up(1)
        found = list(stream.publish(MESSAGES))
        stream.close()
    assert [each.duplicate for each in found] == [True, True, False]
    assert [each.sequence for each in found] == [2, 3, 4]


def test_a_stream_that_refuses_when_it_is_full_is_sent_one_event_at_a_time():
    def full(subject: str, body: bytes) -> bytes | None:
        return reply({"error": {"code": 400, "description": "maximum bytes exceeded"}}) if body == b"1" else None

    with fake_nats(config=CONFIG | {"discard": "new"}, intercept=full) as server:
        stream = connect(server)
        with pytest.raises(StreamUnavailable, match="maximum bytes exceeded"):
            list(stream.publish(MESSAGES))
        stream.close()
    assert [message.id for message in server.stored] == ["id-0"]  # the last one did not overtake


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"name": "part", "subjects": ["ev.my_run_1.turn"]}, "stream (`part`) holds some of the subjects `ev.my_run_1.>`"),
        (CONFIG | {"no_ack": True}, "acknowledges nothing"),
    ],
)
def test_a_stream_that_cannot_be_used_is_an_error_with_the_fix(config: dict, says: str):
    with fake_nats(config=config) as server, pytest.raises(ConfigError) as refused:
        connect(server)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HMSG INBOX 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", "start nats-server with -js"),
        (reply({"error": {"code": 503, "description": "JetStream not enabled for account"}}), "start nats-server with -js"),
        (reply({"streams": ["a\r\nPUB b 0"]}), "names a stream that no request can name"),
        (reply({"streams": "ev"}), "cannot be read"),
        (reply([1]), "cannot be read"),
        (b"-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.NAMES\"'\r\n", "Permissions Violation"),
    ],
)
def test_jetstream_that_is_off_or_forbidden_or_mad_is_an_error(answer: bytes, says: str):
    with fake_nats(intercept=lambda _subject, _body: answer) as server, pytest.raises(StreamUnavailable, match=says):
        connect(server)


@pytest.mark.parametrize(
    "answer",
    [reply({}), reply({"stream": "ev", "seq": -1}), reply({"stream": "ev", "seq": 2**70}), b"MSG INBOX 1 2\r\nok\r\n",
     b"HMSG INBOX 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", reply({"error": {"description": "no space"}})],
)  # fmt: skip
def test_only_an_acknowledgement_is_taken_for_one(answer: bytes):
    with fake_nats(intercept=lambda subject, _body: None if subject.startswith("$JS") else answer) as server:
        stream = connect(server)
        with pytest.raises(StreamUnavailable):
            list(stream.publish(MESSAGES[:1]))
        stream.close()


def test_a_server_that_has_endless_messages_of_the_run_is_asked_a_limited_number_of_times(monkeypatch):
    monkeypatch.setattr("sandlot.observe.jetstream._MOST_LOOKED_UP", 20)
    asked = []

    def endless(subject: str, body: bytes) -> bytes | None:
        if "MSG.GET" not in subject:
            return None
        asked.append(json.loads(body)["seq"])
        return reply({"message": {"seq": asked[-1] + 5, "hdrs": "%%%"}})

    with fake_nats(config=CONFIG, intercept=endless) as server:
        stream = connect(server)
        stream.look_up(0)
        monkeypatch.setattr("sandlot.observe.jetstream._MOST_LOOKED_UP", 10**9)
        monkeypatch.setattr("sandlot.observe.jetstream._LOOK_UP_S", 0.05)
        stream.look_up(0)  # ends too
        stream.close()
    assert asked[:20] == list(range(1, 121, 6))
    assert asked[20:21] in ([], [1])  # it began again


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": 503, "description": "no quorum"}},
        {"error": {"description": "?"}},
        {},
        {"message": {"seq": 5}},  # not the number of a later message
    ],
)
def test_only_a_message_that_is_not_found_ends_the_look_up(answer: dict[str, object]):
    """Else what is stored already would be sent again."""
    said = reply(answer)
    with fake_nats(config=CONFIG, intercept=lambda subject, _body: said if "MSG.GET" in subject else None) as server:
        stream = connect(server)
        with pytest.raises(StreamUnavailable, match="does not say which events it has"):
            stream.look_up(5)
        stream.close()


def test_the_largest_event_that_is_sent_can_be_looked_up():
    """The stream answers in base64, which is a third longer."""
    with fake_nats(info={"headers": True, "max_payload": 64 * 2**20}) as server:
        stream = connect(server, "run")
        messages = [StreamMessage("id", "k" * 100, b"x" * stream.max_bytes)]
        list(stream.publish(messages))
        assert stream.max_bytes > 5 * 2**20
        stream.look_up(0)
        assert list(stream.publish(messages)) == [Acknowledgement(1, duplicate=True)]
        stream.close()


def test_a_stream_that_was_wiped_has_another_name_and_an_earlier_end():
    with fake_nats() as server:
        first = connect(server)
        list(first.publish(MESSAGES))
        again = connect(server)
        assert (again.store, again.last_sequence) == (first.store, 3)
        server.lose_everything()
        wiped = connect(server)
        assert wiped.last_sequence == 0
        assert wiped.store != first.store
        for stream in (first, again, wiped):
            stream.close()


def test_a_stream_that_is_made_again_while_we_publish_is_noticed():
    with fake_nats(remembers=False) as server:
        stream = connect(server)
        list(stream.publish(MESSAGES))
        server.stored.clear()
        with pytest.raises(StreamUnavailable, match="counts its messages anew"):
            list(stream.publish(MESSAGES))
        stream.close()


@pytest.mark.parametrize(
    ("max_payload", "max_msg_size", "limit"),
    [
        (2**20, 5000, "5,000 bytes, `max_msg_size` of the stream `ev`"),
        (5000, -1, "5,000 bytes, `max_payload` of the server"),
        (64 * 2**20, -1, "of Sandlot"),
    ],
)
def test_the_size_limit_that_holds_is_named(max_payload: int, max_msg_size: int, limit: str):
    info = {"headers": True, "max_payload": max_payload}
    with fake_nats(info=info, config=CONFIG | {"max_msg_size": max_msg_size}) as server:
        stream = connect(server)
        assert limit in stream.size_limit
        assert stream.max_bytes > 4000
        stream.close()


@pytest.mark.parametrize(("max_payload", "max_msg_size"), [(1023, -1), (0, -1), (-5, -1), (2**20, 100)])
def test_a_limit_below_any_event_is_refused(max_payload: int, max_msg_size: int):
    info = {"headers": True, "max_payload": max_payload}
    with (
        fake_nats(info=info, config=CONFIG | {"max_msg_size": max_msg_size}) as server,
        pytest.raises(StreamUnavailable, match="at least 1,024"),
    ):
        connect(server)


def test_a_server_with_countless_streams_is_asked_about_a_few():
    asked = []

    def many(subject: str, _body: bytes) -> bytes | None:
        asked.append(subject)
        return reply({"streams": [f"s{number}" for number in range(5000)]} if "NAMES" in subject else {})

    with fake_nats(intercept=many) as server, pytest.raises(ConfigError, match="holds some of the subjects"):
        connect(server)
    assert len(asked) < 100


def test_the_name_of_a_stream_is_shown_on_one_short_line():
    name = "a\x1b[2J\n" + "b" * 5000
    for config in (CONFIG | {"name": name, "no_ack": True}, {"name": name, "subjects": []}):
        names = reply({"streams": ["ev"]})
        intercept = lambda subject, _body, names=names: names if "NAMES" in subject else None  # noqa: E731
        with fake_nats(config=config, intercept=intercept) as server, pytest.raises(ConfigError) as refused:
            connect(server)
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 500
    with fake_nats(config=CONFIG | {"name": name}, intercept=intercept) as server:
        stream = connect(server)
        assert stream.stream == "ev"
        stream.close()


@pytest.mark.parametrize(
    ("pattern", "covers"),
    [
        (">", True), ("ev.>", True), ("ev.run.>", True), ("ev.*.*", True), ("*.run.*", True), ("ev.run.*", True),
        ("ev.*.>", True), ("ev.run", False), ("ev.*", False), ("ev.run.turn", False), ("ev.other.>", False),
        ("ev.run.*.>", False), ("ev.run.*.*", False),
    ],
)  # fmt: skip
def test_a_pattern_covers_every_kind_of_event_or_not(pattern: str, covers: bool):
    assert _covers(pattern, "ev.run") is covers
