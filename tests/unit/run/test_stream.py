"""A run streamed: live or ended, with a server that goes away and comes back."""

import os
import threading
import time
from pathlib import Path

import pytest

from fake_nats import fake_nats
from sandlot.core.errors import ConfigError
from sandlot.observe.event_log import FILE
from sandlot.observe.event_stream import FOLDER
from sandlot.run import stream as module
from sandlot.run.stream import open_run_stream
from sandlot.store.lock import write_lock


def line(number: int) -> bytes:
    return b'{"event":"turn","at":%d.0}\n' % number


@pytest.fixture
def run(tmp_path: Path) -> Path:
    place = tmp_path / "run"
    place.mkdir()
    (place / FILE).write_bytes(b"".join(map(line, range(600))))
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


def test_an_event_that_is_too_large_is_a_failure_that_is_seen(run: Path):
    append(run, b'{"event":"turn","x":"' + b"y" * 3000 + b'"}\n' + line(600))
    with fake_nats(info={"headers": True, "max_payload": 2000}) as server, open_run_stream(run, server.url) as stream:
        done = stream.follow()
    assert (done.sent, done.too_large, done.exit_code) == (601, 1, 1)


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
