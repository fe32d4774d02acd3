"""A live run is streamed to a real JetStream while server and sender are killed: a consumer gets each event once."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from drive.command_line import environ, refused, started
from drive.ports import free_port
from sandlot.observe.event_log import FILE
from sandlot.observe.event_stream import FOLDER

pytestmark = pytest.mark.system
SERVER = shutil.which("nats-server", path=f"{os.environ['PATH']}:/usr/sbin") or "nats-server"
GATED = Path(__file__).parents[1] / "worlds" / "gated.py"
PATIENCE_S = 60


def until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Server:
    """A nats-server of our own, which can be killed and started again."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.port, self._folder, self._words = free_port(), folder, words
        self.url = f"nats://127.0.0.1:{self.port}/sandlot.events"
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        command = [SERVER, "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self._folder / "jetstream"), *self._words]
        with (self._folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._answers, "the server answers")

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            return connection.recv(4) == b"INFO"
        return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def ask(self, subject: str, request: dict) -> dict:
        """Publish with an inbox of our own and read the reply: a client that shares nothing with the one that is tested."""
        body = json.dumps(request).encode()
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as connection, connection.makefile("rb") as lines:
            lines.readline()
            connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB _INBOX.t 1\r\n')
            connection.sendall(b"PUB %s _INBOX.t %d\r\n%s\r\n" % (subject.encode(), len(body), body))
            words = lines.readline().split()
            assert words[0] == b"MSG", words
            return json.loads(lines.read(int(words[-1])))

    def consume(self) -> list[tuple[str, bytes]]:
        """Subjects and bodies of all messages, by an ordinary consumer that acknowledges each."""
        config = {"durable_name": "reader", "ack_policy": "explicit", "deliver_policy": "all"}
        made = self.ask(
            "$JS.API.CONSUMER.DURABLE.CREATE.sandlot_events.reader", {"stream_name": "sandlot_events", "config": config}
        )
        num_pending = made["num_pending"]
        found: list[tuple[str, bytes]] = []
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as connection, connection.makefile("rb") as lines:
            lines.readline()
            connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB _INBOX.t 1\r\n')
            request = b'{"batch":%d}' % (num_pending + 10)
            connection.sendall(
                b"PUB $JS.API.CONSUMER.MSG.NEXT.sandlot_events.reader _INBOX.t %d\r\n%s\r\n" % (len(request), request)
            )
            while len(found) < num_pending:
                words = lines.readline().split()
                if words[0] == b"PING":
                    connection.sendall(b"PONG\r\n")
                    continue
                assert words[0] == b"HMSG", words
                head, size = int(words[-2]), int(words[-1])
                found.append((words[1].decode(), lines.read(size + 2)[head:-2]))
                connection.sendall(b"PUB %s 4\r\n+ACK\r\n" % words[3])
        return found


@contextmanager
def nats(folder: Path, *words: str) -> Iterator[Server]:
    server = Server(folder, *words)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def sandlot(*words: object, cwd: Path, gates: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "sandlot", *map(str, words)]
    return subprocess.Popen(command, cwd=cwd, env=environ(GATES=str(gates)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def num_stored(server: Server) -> int:
    with suppress(OSError, IndexError, ValueError):
        info = server.ask("$JS.API.STREAM.INFO.sandlot_events", {})
        return info["state"]["messages"] if "state" in info else 0
    return -1


def test_each_event_of_a_live_run_arrives_once_whatever_is_killed(tmp_path: Path):
    gates, run = tmp_path / "gates", tmp_path / "runs" / "live.1"
    gates.mkdir()
    with nats(tmp_path, "-js") as server:
        follow = ("stream", run, server.url, "--json")
        opened: list[subprocess.Popen] = []
        going = sandlot("run", GATED, "-m", "scripted:golden", "--group", 40, "--run", run, cwd=tmp_path, gates=gates)
        opened.append(going)
        try:
            until(lambda: (run / FILE).exists() and (run / FILE).stat().st_size, "the run has begun")
            first = sandlot(*follow, cwd=tmp_path, gates=gates)
            opened.append(first)
            until(lambda: num_stored(server) > 0, "the first events arrive")
            first.kill()  # in the middle of something, or not
            first.communicate(timeout=PATIENCE_S)
            second = sandlot(*follow, cwd=tmp_path, gates=gates)
            opened.append(second)
            (gates / "early").touch()
            before = num_stored(server)
            until(lambda: num_stored(server) > before, "more events arrive")
            server.kill()
            (gates / "late").touch()  # what happens now cannot be sent yet
            going.communicate(timeout=PATIENCE_S)
            server.start()
            out, err = second.communicate(timeout=PATIENCE_S)
            done = json.loads(out)
            assert (second.returncode, done["ended"], done["problem"]) == (0, True, None), err
            assert b"trying again" in err
        finally:
            for process in opened:
                process.kill()
                process.communicate()
        # The run is continued with the rollouts that failed, and the same command streams the rest.
        started("requeue", run, cwd=tmp_path)
        started("run", GATED, "-m", "scripted:golden", "--group", 40, "--run", run, cwd=tmp_path, GATES=str(gates))
        third = started(*follow, cwd=tmp_path)
        assert (third.code, third.json["ended"]) == (0, True), third
        assert third.json["sent"] > 0
        events = (run / FILE).read_bytes().splitlines()
        found = server.consume()
        assert [body for _, body in found] == events
        assert [subject for subject, _ in found] == [f"sandlot.events.live_1.{json.loads(body)['event']}" for body in events]


def test_a_sender_that_was_killed_before_its_note_doubles_nothing_even_after_the_window(tmp_path: Path):
    run = tmp_path / "runs" / "one"
    started("run", "arithmetic", "-m", "scripted:golden", "--rollouts", 50, "--run", run, cwd=tmp_path)
    events = (run / FILE).read_bytes().splitlines()
    with nats(tmp_path, "-js") as server:
        config = {"name": "sandlot_events", "subjects": ["sandlot.>"], "storage": "file", "duplicate_window": 100_000_000}
        server.ask("$JS.API.STREAM.CREATE.sandlot_events", config)
        assert started("stream", run, server.url, "--json", cwd=tmp_path).json["sent"] == len(events)
        (note,) = (run / FOLDER).glob("*.json")
        note.unlink()
        time.sleep(1)  # the window, which is a tenth of that, is over
        again = started("stream", run, server.url, "--json", cwd=tmp_path).json
        assert (again["sent"], again["duplicates"]) == (0, len(events))
        assert [body for _, body in server.consume()] == events


def test_ctrl_c_ends_with_what_was_sent_and_the_command_continues(tmp_path: Path):
    gates, run = tmp_path / "gates", tmp_path / "runs" / "live"
    gates.mkdir()
    with nats(tmp_path, "-js") as server:
        going = sandlot("run", GATED, "-m", "scripted:golden", "--run", run, cwd=tmp_path, gates=gates)
        try:
            until(lambda: (run / FILE).exists() and (run / FILE).stat().st_size, "the run has begun")
            follower = sandlot("stream", run, server.url, "--json", cwd=tmp_path, gates=gates)
            until(lambda: list((run / FOLDER).glob("*.json")) if (run / FOLDER).exists() else None, "something is noted")
            follower.send_signal(signal.SIGINT)
            out, err = follower.communicate(timeout=PATIENCE_S)
            assert (follower.returncode, json.loads(out)["ended"]) == (3, False), err
            for gate in ("early", "late"):
                (gates / gate).touch()
            going.communicate(timeout=PATIENCE_S)
        finally:
            going.kill()
            going.communicate()
        rest = started("stream", run, server.url, "--json", cwd=tmp_path)
        assert (rest.code, rest.json["duplicates"]) == (0, 0)
        assert [body for _, body in server.consume()] == (run / FILE).read_bytes().splitlines()


def test_what_is_wrong_with_a_server_is_said_with_the_fix_and_without_the_password(tmp_path: Path):
    run = tmp_path / "runs" / "one"
    started("run", "arithmetic", "-m", "scripted:golden", "--rollouts", 2, "--run", run, cwd=tmp_path)
    assert "start it: nats-server -js" in refused(started("stream", run, f"nats://127.0.0.1:{free_port()}/ev", cwd=tmp_path))
    with nats(tmp_path) as server:
        assert "start nats-server with -js" in refused(started("stream", run, server.url, cwd=tmp_path))
    with nats(tmp_path, "-js", "--user", "someone", "--pass", "correct-horse") as server:
        wrong = refused(started("stream", run, server.url.replace("//", "//someone:battery-staple@"), cwd=tmp_path))
        assert "refuses the user and password" in wrong
        assert "battery-staple" not in wrong
        right = started("stream", run, server.url, cwd=tmp_path, NATS_USER="someone", NATS_PASSWORD="correct-horse")
        assert right.code == 0, right
        assert "correct-horse" not in right.out + right.err


def test_a_server_that_lost_its_store_is_sent_everything_and_one_that_was_killed_is_not(tmp_path: Path):
    run = tmp_path / "runs" / "one"
    started("run", "arithmetic", "-m", "scripted:golden", "--rollouts", 5, "--run", run, cwd=tmp_path)
    events = (run / FILE).read_bytes().splitlines()
    with nats(tmp_path, "-js") as server:
        sent = []
        for what in ("first", "killed", "wiped"):
            if what != "first":
                server.kill()
            if what == "wiped":
                shutil.rmtree(tmp_path / "jetstream")
            if what != "first":
                server.start()
            done = started("stream", run, server.url, "--json", cwd=tmp_path)
            assert (done.code, done.json["duplicates"]) == (0, 0), done
            sent.append(done.json["sent"])
        assert sent == [len(events), 0, len(events)]
        assert [body for _, body in server.consume()] == events


def test_a_large_event_is_sent_when_the_limit_allows_it_and_found_again(tmp_path: Path):
    run, config = tmp_path / "runs" / "one", tmp_path / "nats.conf"
    started("run", "arithmetic", "-m", "scripted:golden", "--rollouts", 2, "--run", run, cwd=tmp_path)
    *lines, end = (run / FILE).read_bytes().splitlines(keepends=True)
    (run / FILE).write_bytes(b"".join([*lines, b'{"event":"large","x":"' + b"y" * 6_200_000 + b'"}\n', end]))
    num_events = len(lines) + 2
    follow = ("stream", run, "--json")
    config.write_text("max_payload: 1MB\n")
    with nats(tmp_path, "-js", "-c", str(config)) as server:
        for sent in (num_events - 1, 0):
            done = started(*follow, server.url, cwd=tmp_path)
            assert (done.code, done.json["sent"], done.json["too_large"]) == (1, sent, 1), done
            assert "`max_payload` of the server" in done.json["size_limit"]
        server.kill()
        config.write_text("max_payload: 8MB\n")
        server.start()
        done = started(*follow, server.url, cwd=tmp_path)
        assert (done.code, done.json["sent"], done.json["too_large"]) == (0, 1, 0), done
        (note,) = (run / FOLDER).glob("*.json")
        note.unlink()
        done = started(*follow, server.url, cwd=tmp_path)
        assert (done.code, done.json["sent"], done.json["duplicates"]) == (0, 0, num_events), done


def test_a_log_without_the_end_of_its_run_is_not_said_to_be_delivered(tmp_path: Path):
    run = tmp_path / "runs" / "one"
    started("run", "arithmetic", "-m", "scripted:golden", "--rollouts", 2, "--run", run, cwd=tmp_path)
    *lines, _end = (run / FILE).read_bytes().splitlines(keepends=True)
    (run / FILE).write_bytes(b"".join(lines))  # as of a run that was killed, or goes on in another container
    with nats(tmp_path, "-js") as server:
        done = started("stream", run, server.url, cwd=tmp_path)
    assert done.code == 3, done
    assert "the log does not say that the run has ended" in done.out
