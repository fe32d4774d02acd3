"""A run streamed: live or ended, with a server that goes away and comes back."""

import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from fakes.nats import fake_nats
from sandlot.core.errors import ConfigError
from sandlot.observe.event_log import FILE
from sandlot.observe.event_stream import FOLDER
from sandlot.observe.events import AlarmRaised, RunBegan, RunEnded, RunEvent
from sandlot.run import stream as module
from sandlot.run.stream import open_run_stream
from sandlot.store.lock import write_lock


def encoded(event: RunEvent) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def began(name: str) -> bytes:
    return encoded(
        RunBegan(run=name, path="p", environment="e", model="m", num_tasks=1, num_planned=1, num_done=0, at=1.0),
    )


def ended(name: str) -> bytes:
    return encoded(RunEnded(run=name, at=2.0))


LINES = [began("r/0"), *[encoded(AlarmRaised(kind="k", sentence=str(number), at=1.5)) for number in range(598)], ended("r/0")]


def line(number: int) -> bytes:
    return LINES[number] if number < 600 else encoded(AlarmRaised(kind="k", sentence=str(number), at=3.0))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    place = tmp_path / "run"
    place.mkdir()
    (place / FILE).write_bytes(b"".join(LINES))
    return place


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(module, "_PAUSES_S", (0.01, 0.02))
    monkeypatch.setattr(module, "_EVERY_S", 0.01)


def append(run: Path, data: bytes) -> None:
    with (run / FILE).open("ab") as log:
        log.write(data)


def test_a_run_that_has_ended_is_sent_and_the_second_time_nothing_is(run: Path):
    with fake_nats() as server:
        for sent in (600, 0):
            with open_run_stream(run, server.url) as stream:
                done = stream.follow()
            assert (done.sent, done.duplicates, done.ended, done.exit_code) == (sent, 0, True, 0)
        assert done.position == (run / FILE).stat().st_size
    assert [message.body + b"\n" for message in server.stored] == [line(number) for number in range(600)]


def test_a_live_run_is_followed_until_it_ends(run: Path):
    with fake_nats() as server, open_run_stream(run, server.url) as stream:
        with write_lock(run):
            follower = threading.Thread(target=stream.follow)
            follower.start()
            append(run, line(600))
            while len(server.stored) < 601:
                time.sleep(0.005)
            append(run, line(601))
        follower.join(30)
        assert (stream.summary.ended, stream.summary.sent) == (True, 602)


@pytest.mark.parametrize(
    ("rest", "has_ended"),
    [
        (b"", True),
        (line(600), True),  # an alarm after the end
        (began("r/0"), False),
        (began("r/0") + ended("r/0"), True),
        (began("r/0") + began("r/0/evaluation") + ended("r/0/evaluation"), False),
        (b'{"event":"run_beg', False),
        (b'{"event":' + b"[" * 5000 + b"]" * 5000 + b"}\n", True),
    ],
)
def test_a_run_has_ended_only_if_its_log_says_so(run: Path, rest: bytes, has_ended: bool):
    """The lock of a run in another container is not seen, and a run that was killed has not ended."""
    append(run, rest)
    with fake_nats() as server, open_run_stream(run, server.url) as stream:
        done = stream.follow()
    assert (done.ended, done.live, done.exit_code) == (has_ended, False, 0 if has_ended else 3)


def test_a_log_without_events_has_not_ended(run: Path):
    (run / FILE).unlink()
    with fake_nats() as server, open_run_stream(run, server.url) as stream:
        assert stream.follow().exit_code == 3


def test_a_server_that_lost_its_store_is_sent_everything_again(run: Path):
    with fake_nats() as server:
        with open_run_stream(run, server.url) as stream:
            stream.follow()
        server.lose_everything()
        append(run, line(600))
        with open_run_stream(run, server.url) as stream:
            done = stream.follow()
    assert (done.sent, done.ended, done.exit_code) == (601, True, 0)
    assert [message.body + b"\n" for message in server.stored] == [line(number) for number in range(601)]


def test_a_log_that_is_another_one_is_compared_with_what_the_stream_has(run: Path):
    with fake_nats(remembers=False) as server, open_run_stream(run, server.url) as stream:
        stream.follow()
        (run / FILE).write_bytes(b"".join(LINES[:300]) + line(601))
        done = stream.follow()
    assert (done.sent, done.duplicates) == (601, 300)


def test_once_sends_what_is_there_and_says_that_the_run_goes_on(run: Path):
    with fake_nats() as server, write_lock(run), open_run_stream(run, server.url) as stream:
        done = stream.follow(once=True)
    assert (done.sent, done.ended, done.exit_code) == (600, False, 3)


@pytest.mark.parametrize("remembers", [True, False])
def test_a_connection_that_breaks_before_the_acknowledgement_costs_nothing_and_doubles_nothing(run: Path, remembers: bool):
    told: list[str] = []
    with fake_nats(deaf_after=300, remembers=remembers) as server, open_run_stream(run, server.url, tell=told.append) as stream:
        timer = threading.Thread(target=lambda: _hear_again(server, told))
        timer.start()
        done = stream.follow()
        timer.join()
    assert [message.body + b"\n" for message in server.stored] == [line(number) for number in range(600)]
    assert done.sent + done.duplicates == 600
    assert done.duplicates > 0
    assert "trying again" in told[0]
    assert told[-1].startswith("connected again")


def _hear_again(server, told: list[str]) -> None:
    while not told:
        time.sleep(0.005)
    server.deaf_after = None


def test_a_server_that_stays_away_is_given_up_when_the_run_has_ended(run: Path):
    with fake_nats(deaf_after=300) as server, open_run_stream(run, server.url, patience_s=0.1) as stream:
        server.greeting = b"-ERR 'closing'\r\n"
        done = stream.follow()
    assert (done.ended, done.exit_code) == (False, 3)
    assert "closing" in (done.problem or "")


def test_an_event_that_is_too_large_is_a_failure_until_it_is_sent(run: Path):
    append(run, b'{"event":"turn","x":"' + b"y" * 3000 + b'"}\n' + line(600))
    with fake_nats(info={"headers": True, "max_payload": 2000}) as server:
        for sent, max_payload in ((601, 2000), (0, 2000), (1, 5000), (0, 2000)):
            server.info["max_payload"] = max_payload
            with open_run_stream(run, server.url) as stream:
                done = stream.follow()
            left = server.stored[-1].body == line(600)[:-1]
            assert (done.sent, done.duplicates, done.too_large, done.exit_code) == (sent, 0, left, left)
            assert f"{max_payload:,} bytes, `max_payload` of the server" == done.size_limit
    assert len(server.stored[-1].body) > 3000


def test_one_sender_per_target(run: Path):
    with (
        fake_nats() as server,
        open_run_stream(run, server.url),
        pytest.raises(ConfigError, match=f"process {os.getpid()} streams"),
        open_run_stream(run, server.url),
    ):
        pass
    with fake_nats() as one, fake_nats() as two, open_run_stream(run, one.url), open_run_stream(run, two.url) as stream:
        assert stream.follow().sent == 600


def test_no_secret_is_written(run: Path):
    with fake_nats() as server, open_run_stream(run, server.url.replace("//", "//user:hunter22@")) as stream:
        done = stream.follow()
    assert server.connects[0]["pass"] == "hunter22"
    assert "hunter22" not in repr(done)
    assert all(b"hunter22" not in path.read_bytes() for path in (run / FOLDER).iterdir())
