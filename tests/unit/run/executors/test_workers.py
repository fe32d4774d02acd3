"""Workers that join over the network, honest ones and attackers. What holds for all workers is in `test_pool.py`."""

import os
import secrets
import signal
import socket
import stat
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import anyio
import msgspec
import pytest
from anyio.streams.tls import TLSStream

from builders.certificates import certificate_of
from drive.command_line import environ, refused
from drive.ports import free_port
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Cancelled, Node, Trace, text_message
from sandlot.core.types import End, Role
from sandlot.env.load import load
from sandlot.observe.events import ToolCalled
from sandlot.run.executors import connection as connections
from sandlot.run.executors import join, workers
from sandlot.run.executors.connection import open_connection
from sandlot.run.executors.executor import WorkerLost
from sandlot.run.executors.join import JoinOptions, join_run
from sandlot.run.executors.messages import (
    CancelRollout,
    DismissWorker,
    EventHappened,
    FromWorker,
    JoinAdmitted,
    JoinChallenge,
    JoinRefused,
    JoinReply,
    JoinRequest,
    RolloutDone,
    RolloutReturned,
    SentFiles,
    SetUp,
    TakeRollout,
    ToWorker,
    WorkerGone,
    WorkerLeaving,
    WorkerReady,
)
from sandlot.run.executors.token import found_token, given_token, own_token, prove, worker_context
from sandlot.run.executors.workers import open_workers
from sandlot.store.blobs import MemoryBlobs
from worlds.executors import CHORES, chores, config_of, joining, plan_of

pytestmark = pytest.mark.timeout(300)
TOKEN = "a token of more than sixteen characters"


def nothing(event) -> None: ...


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("SANDLOT_WORKER_TOKEN", TOKEN)


@asynccontextmanager
async def listening(tmp_path, **plan):
    """A pool that waits for workers, and its port."""
    port = free_port()
    async with open_workers(str(port), plan_of(tmp_path, **plan)) as pool:
        yield pool, port


class Client:
    """A program that speaks the protocol and does as it likes."""

    def __init__(self, connection) -> None:
        self._connection = connection
        self._replies = connection.messages(msgspec.msgpack.Decoder(JoinReply))
        self._orders = connection.messages(msgspec.msgpack.Decoder(ToWorker))

    async def join(self, token: str = TOKEN, **changed) -> JoinAdmitted | JoinRefused | None:
        challenge = await anext(self._replies)
        assert isinstance(challenge, JoinChallenge)
        facts = {"host": "here", "pid": 1, "sandlot": version("sandlot"), "at_once": 2, **changed}
        request = JoinRequest(nonce=secrets.token_bytes(32), proof=b"", **facts)
        self.say(msgspec.structs.replace(request, proof=prove(token, "worker", challenge.nonce, request)))
        return await anext(self._replies, None)

    async def be_ready(self, fingerprint: str | None = None) -> SetUp:
        assert isinstance(await self.join(), JoinAdmitted)
        setup = await self.hear()
        assert isinstance(setup, SetUp)
        self.say(WorkerReady(fingerprint=fingerprint or setup.fingerprint))
        return setup

    def say(self, message: FromWorker | JoinRequest) -> None:
        self._connection.say(message)

    async def hear(self) -> ToWorker | None:
        with anyio.fail_after(20):
            return await anext(self._orders, None)


@asynccontextmanager
async def client(port: int):
    async with open_connection(await anyio.connect_tcp("127.0.0.1", port), beats=True) as connection:
        yield Client(connection)


def finished(order: TakeRollout, **changed) -> RolloutDone:
    facts = {
        "run": order.run,
        "task": order.task,
        "rollout": order.rollout,
        "seed": 0,
        "end": End.DONE,
        "outcome": Cancelled("x"),
    }
    return RolloutDone(number=order.number, trace=Trace(**facts | changed), blobs=())


async def until(true) -> None:
    with anyio.fail_after(60):
        while not true():  # noqa: ASYNC110 - other processes make it so
            await anyio.sleep(0.02)


async def until_closed(stream) -> None:
    """Return when the other side has closed."""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await stream.receive()


# -- Strangers ---------------------------------------------------------------------------------------------------------


async def test_a_wrong_token_is_refused_and_the_right_one_never_travels(tmp_path):
    async with listening(tmp_path) as (pool, port):
        async with client(port) as stranger:
            reply = await stranger.join("another token of the same length ......")
            assert isinstance(reply, JoinRefused)
            assert "its token is not that of the run" in reply.reason
            assert await stranger.hear() is None, "the connection is closed"
        assert pool.load.num_workers == 0


async def test_a_proof_cannot_be_used_twice(tmp_path):
    async with listening(tmp_path) as (pool, port):
        async with client(port) as first:
            challenge = await anext(first._replies)
            request = JoinRequest(nonce=bytes(32), proof=b"", host="h", pid=1, sandlot=version("sandlot"), at_once=1)
            request = msgspec.structs.replace(request, proof=prove(TOKEN, "worker", challenge.nonce, request))
            first.say(request)
            assert isinstance(await anext(first._replies), JoinAdmitted)
        async with client(port) as second:
            await anext(second._replies)
            second.say(request)
            assert isinstance(await anext(second._replies), JoinRefused)
        assert pool.load.num_workers == 0


async def test_another_version_of_sandlot_is_refused_by_name(tmp_path):
    async with listening(tmp_path) as (_, port), client(port) as old:
        reply = await old.join(sandlot="0.0.0")
        assert isinstance(reply, JoinRefused)
        assert "it has Sandlot 0.0.0, the run has" in reply.reason


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",  # read as a frame of 1,195,725,856 bytes
        (2**31).to_bytes(4, "big"),
        (5000).to_bytes(4, "big") + bytes(5000),
        (5).to_bytes(4, "big") + b"\xff\xff\xff\xff\xff",
        (3).to_bytes(4, "big") + b"\x91\x91\x91",
        (4000).to_bytes(4, "big") + b"\x91" * 4000,
        (7).to_bytes(4, "big") + b"\x81\xa4type\xc0",
    ],
    ids=["http", "huge", "oversized", "garbage", "cut", "nested", "no type"],
)
async def test_what_is_no_message_closes_the_connection_and_nothing_else(tmp_path, sent):
    async with listening(tmp_path) as (pool, port):
        async with await anyio.connect_tcp("127.0.0.1", port) as stranger:
            await stranger.send(sent)
            with anyio.fail_after(9):
                await until_closed(stranger)
        async with client(port) as honest:
            await honest.be_ready()
            await until(lambda: pool.load.num_workers == 1)


async def test_strangers_that_drip_or_say_nothing_are_cut_off_and_keep_nobody_out(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "JOIN_S", 1.0)
    monkeypatch.setattr(workers, "_MOST_STRANGERS", 4)

    async def drip() -> None:
        async with await anyio.connect_tcp("127.0.0.1", port) as stranger, anyio.create_task_group() as group:
            group.start_soon(send_slowly, stranger)
            await until_closed(stranger)
            group.cancel_scope.cancel()

    async def send_slowly(stranger) -> None:
        with suppress(anyio.BrokenResourceError):
            for byte in (200).to_bytes(4, "big") + bytes(100):
                await stranger.send(bytes([byte]))
                await anyio.sleep(0.1)
        await anyio.sleep_forever()

    async with listening(tmp_path) as (pool, port):
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for _ in range(12):
                    group.start_soon(drip)
        async with client(port) as honest:
            await honest.be_ready()
            await until(lambda: pool.load.num_workers == 1)


async def test_an_error_that_nobody_expected_costs_one_connection_and_not_the_run(tmp_path, monkeypatch, caplog):
    divide, calls = workers.divided_setup, []

    def divide_later(setup, count):
        calls.append(count)
        if len(calls) == 1:
            raise RuntimeError("unexpected")
        return divide(setup, count)

    monkeypatch.setattr(workers, "divided_setup", divide_later)
    with anyio.fail_after(90):
        async with listening(tmp_path) as (pool, port):
            async with client(port) as first:
                await first.join()
                assert isinstance(await first.hear(), DismissWorker)
            async with client(port) as second:
                await second.be_ready()
                await until(lambda: pool.load.num_workers == 1)
    assert "a worker's connection failed; the others go on" in caplog.messages


async def test_silent_strangers_keep_no_worker_out(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_MOST_STRANGERS", 4)
    async with listening(tmp_path) as (pool, port), AsyncExitStack() as stack:
        for _ in range(4):
            stranger = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
            await stranger.receive()  # the challenge
        async with client(port) as honest:
            await honest.be_ready()
            await until(lambda: pool.load.num_workers == 1)


# -- Workers that lie --------------------------------------------------------------------------------------------------


async def test_a_worker_with_another_environment_gets_no_rollout(tmp_path, caplog):
    async with listening(tmp_path) as (pool, port), client(port) as other:
        await other.be_ready("f" * 64)
        assert isinstance(await other.hear(), DismissWorker)
        assert pool.load.num_workers == 0
    assert any("another environment" in record.reason for record in caplog.records if hasattr(record, "reason"))


@asynccontextmanager
async def given_a_rollout(tmp_path, results: list):
    """A client that was told to take `short-0`; what the run gets for it is put in the list."""

    async def take() -> None:
        results.append(await pool.run(chores("short")[0], 7, run="r", blobs=MemoryBlobs(), sink=nothing))

    async with listening(tmp_path) as (pool, port), client(port) as worker:
        await worker.be_ready()
        async with anyio.create_task_group() as group:
            group.start_soon(take)
            order = await worker.hear()
            assert isinstance(order, TakeRollout)
            yield worker, order
            group.cancel_scope.cancel()


async def test_a_result_of_a_rollout_that_it_does_not_have_is_dropped(tmp_path):
    results = []
    async with given_a_rollout(tmp_path, results) as (worker, order):
        worker.say(finished(msgspec.structs.replace(order, number=order.number + 1)))
        worker.say(finished(order))
        await until(lambda: results)
    assert [trace.key for trace in results] == [("short-0", 7)]


async def test_a_result_that_comes_twice_counts_once(tmp_path):
    results = []
    async with given_a_rollout(tmp_path, results) as (worker, order):
        for reason in ("first", "second", "third"):
            worker.say(finished(order, outcome=Cancelled(reason)))
        await until(lambda: results)
        worker.say(finished(order, outcome=Cancelled("late")))
    assert [trace.outcome for trace in results] == [Cancelled("first")]


def turn(parent: int | None) -> Node:
    return Node(message=text_message(Role.USER, "x"), parent=parent)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"task": "short-1"}, "which it was not told to take"),
        ({"rollout": 8}, "which it was not told to take"),
        ({"run": "of another"}, "which it was not told to take"),
        ({"end": None}, "no end"),
        ({"outcome": None}, "no end"),
        ({"nodes": [turn(0)]}, "not a tree"),
        ({"nodes": [turn(None), turn(2), turn(1)]}, "not a tree"),
    ],
)
async def test_a_result_that_is_not_one_of_the_rollout_costs_the_worker_its_place(tmp_path, changed, why):
    results = []
    async with given_a_rollout(tmp_path, results) as (worker, order):
        worker.say(finished(order, **changed))
        await until(lambda: results)
        assert await worker.hear() is None, "it is not heard any more"
    (lost,) = results
    assert isinstance(lost, WorkerLost)
    assert why in lost.reason


async def test_an_event_of_another_rollout_costs_the_worker_its_place(tmp_path):
    results = []
    async with given_a_rollout(tmp_path, results) as (worker, order):
        event = ToolCalled(run=order.run, task="short-3", rollout=0, turn=1, name="work", seconds=0.0, error=False)
        worker.say(EventHappened(number=order.number, event=event))
        await until(lambda: results)
    assert "an event of rollout 0 of task `short-3`" in results[0].reason


async def test_a_message_that_is_too_large_costs_the_worker_its_place(tmp_path, monkeypatch):
    results = []
    monkeypatch.setattr(connections.WorkerConnection.messages, "__kwdefaults__", {"most_bytes": 100_000})
    async with given_a_rollout(tmp_path, results) as (worker, order):
        worker.say(finished(order, nodes=[Node(message=text_message(Role.USER, "x" * 200_000))]))
        await until(lambda: results)
    assert "where at most 100,000 are allowed" in results[0].reason


# -- Workers that are lost, and that leave -----------------------------------------------------------------------------


async def test_a_worker_that_is_silent_loses_its_rollouts_and_what_it_says_late_does_not_count(tmp_path, monkeypatch):
    """As behind a cut: the connection is open, and nothing comes."""
    monkeypatch.setattr(workers, "SILENCE_S", 0.5)
    monkeypatch.setattr(connections, "_LAST_LOOK_S", 0.1)
    monkeypatch.setattr(connections, "BEAT_S", 30.0)
    results = []
    async with given_a_rollout(tmp_path, results) as (worker, order):
        await until(lambda: results)
        worker.say(finished(order))
        await anyio.sleep(0.2)
    (lost,) = results
    assert isinstance(lost, WorkerLost)
    assert "was silent for 0.5 s" in lost.reason
    assert not lost.returned


async def test_beats_keep_a_worker_that_has_nothing_to_say(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "SILENCE_S", 0.5)
    monkeypatch.setattr(connections, "_LAST_LOOK_S", 0.1)
    monkeypatch.setattr(connections, "BEAT_S", 0.05)
    results = []
    async with given_a_rollout(tmp_path, results) as (worker, order):
        await anyio.sleep(2.0)
        worker.say(finished(order))
        await until(lambda: results)
    assert [trace.key for trace in results] == [("short-0", 7)]


async def test_a_worker_takes_no_more_than_it_asked_for_and_the_others_wait_in_order(tmp_path):
    order, ended = [], []

    async def take(number: int) -> None:
        ended.append(await pool.run(chores("short")[0], number, run="r", blobs=MemoryBlobs(), sink=nothing))

    async with listening(tmp_path) as (pool, port), client(port) as worker, anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(take, number)
            await anyio.wait_all_tasks_blocked()
        assert (pool.load.num_workers, pool.load.num_waiting) == (0, 5)
        await worker.be_ready()
        order = [await worker.hear(), await worker.hear()]
        assert (pool.load.num_workers, pool.load.num_waiting) == (1, 3)
        while len(order) < 5:
            worker.say(finished(order[len(order) - 2]))
            order.append(await worker.hear())
        for each in order[3:]:
            worker.say(finished(each))
        await until(lambda: len(ended) == 5)
        assert pool.load.num_waiting == 0
    assert [each.rollout for each in order] == [0, 1, 2, 3, 4]


async def test_what_a_leaving_worker_returns_goes_to_another_one_and_is_no_death(tmp_path):
    results = []

    async def take() -> None:
        results.append(await pool.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing))

    async with listening(tmp_path, stop=results.append) as (pool, port):
        for _ in range(20):  # more than may die one after the other
            async with client(port) as worker, anyio.create_task_group() as group:
                await worker.be_ready()
                group.start_soon(take)
                order = await worker.hear()
                worker.say(WorkerLeaving())
                worker.say(RolloutReturned(number=order.number))
                worker.say(WorkerGone())
                assert await worker.hear() is None
        assert [type(each) for each in results] == [WorkerLost] * 20
        assert all(each.returned for each in results)


async def test_a_leaving_worker_gets_no_more_rollouts(tmp_path):
    async with listening(tmp_path) as (pool, port), client(port) as leaving, client(port) as staying:
        await leaving.be_ready()
        await until(lambda: pool.load.num_workers == 1)
        leaving.say(WorkerLeaving())
        await staying.be_ready()
        await until(lambda: pool.load.num_workers == 2)
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(lambda n=number: pool.run(chores("short")[0], n, run="r", blobs=MemoryBlobs(), sink=nothing))
            orders = [await staying.hear(), await staying.hear()]
            assert pool.load.num_waiting == 1
            assert sorted(order.rollout for order in orders) == [0, 1]
            group.cancel_scope.cancel()
        assert isinstance(await staying.hear(), CancelRollout)


# -- Tokens and places -------------------------------------------------------------------------------------------------


async def test_beyond_this_machine_a_run_needs_a_token(tmp_path, monkeypatch):
    monkeypatch.delenv("SANDLOT_WORKER_TOKEN")
    with pytest.raises(ConfigError, match="so it needs a token: set `SANDLOT_WORKER_TOKEN`"):
        async with open_workers("0.0.0.0:0", plan_of(tmp_path)):
            pass


@pytest.mark.parametrize("token", ["short", "é" * 20, "with a\nline break in it"])
async def test_a_token_that_is_easy_to_guess_or_to_garble_is_refused(tmp_path, monkeypatch, token):
    monkeypatch.setenv("SANDLOT_WORKER_TOKEN", token)
    with pytest.raises(ConfigError, match="16 or more printable ASCII characters"):
        given_token()
    file = tmp_path / "token"
    file.write_text(token)
    with pytest.raises(ConfigError, match="16 or more printable ASCII characters"):
        given_token(file)


def test_a_token_of_its_own_is_for_this_user_and_this_machine_only(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    here, elsewhere = workers.Address("127.0.0.1", 7700), workers.Address("10.0.0.1", 7700)
    with own_token(here) as token:
        assert (found_token(here), found_token(elsewhere)) == (token, None)
        (file,) = (tmp_path / "sandlot" / "workers").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert found_token(here) is None


def test_runs_with_the_same_port_have_their_own_tokens(tmp_path, monkeypatch):
    """A home folder may be shared by machines, and one machine has many loopback addresses."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    here, beside = workers.Address("127.0.0.1", 7700), workers.Address("127.0.0.2", 7700)
    with own_token(here) as token, own_token(beside) as other:
        assert (found_token(here), found_token(beside)) == (token, other)
        assert found_token(workers.Address("localhost", 7700)) == token
        monkeypatch.setattr(socket, "gethostname", lambda: "another-machine")
        assert found_token(here) is None


async def test_the_command_for_workers_names_an_address_that_they_can_reach(tmp_path, caplog):
    async with open_workers("0.0.0.0:0", plan_of(tmp_path)):
        pass
    (start,) = (record.start for record in caplog.records if hasattr(record, "start"))
    assert start.startswith(f"sandlot worker --join {socket.gethostname()}:")


@pytest.mark.parametrize("given", ["host", "host:port", "127.0.0.1:99999", "1:2:x"])
async def test_a_place_that_is_none_is_refused(tmp_path, given):
    with pytest.raises(ConfigError, match="write PORT or HOST:PORT"):
        async with open_workers(given, plan_of(tmp_path)):
            pass


async def test_a_port_that_is_taken_is_named(tmp_path):
    async with listening(tmp_path) as (_, port):
        with pytest.raises(ConfigError, match=f"workers cannot join at 127.0.0.1:{port}"):
            async with open_workers(str(port), plan_of(tmp_path)):
                pass


async def test_a_run_that_does_not_have_the_token_gets_no_worker():
    """Otherwise whoever takes the port could make workers load what it likes."""
    said = []

    async def pretend(stream) -> None:
        async with open_connection(stream, beats=False) as connection:
            connection.say(JoinChallenge(nonce=bytes(32)))
            said.append(await anext(connection.messages(msgspec.msgpack.Decoder(JoinRequest))))
            connection.say(JoinAdmitted(proof=bytes(32)))
            await connection.wait_closed()

    async with pretending(pretend) as port:
        with pytest.raises(ConfigError, match="does not have the token"):
            await join_run(JoinOptions(at=f"127.0.0.1:{port}"))
    assert TOKEN.encode() not in msgspec.msgpack.encode(said)


@asynccontextmanager
async def pretending(serve):
    """The port of a listener that treats each connection as the function says."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        group.cancel_scope.cancel()


async def admit(connection) -> None:
    """Let a worker in, as a run with the token does."""
    nonce = secrets.token_bytes(32)
    connection.say(JoinChallenge(nonce=nonce))
    request = await anext(connection.messages(msgspec.msgpack.Decoder(JoinRequest)))
    connection.say(JoinAdmitted(proof=prove(TOKEN, "run", nonce, request)))


async def test_code_that_a_run_sends_is_not_run(tmp_path):
    mark = tmp_path / "ran"
    sent = SentFiles(source="/nowhere/e.py", entry="e.py", files={"e.py": f"open({str(mark)!r}, 'w')".encode()})

    async def pretend(stream) -> None:
        async with open_connection(stream, beats=False) as connection:
            await admit(connection)
            connection.say(SetUp(config=config_of(), fingerprint="x", cache="/nowhere/judge", pool=0, sent=sent))
            await connection.wait_closed()

    async with pretending(pretend) as port:
        with pytest.raises(ConfigError, match="which a worker that joins does not run"):
            await join_run(JoinOptions(at=f"127.0.0.1:{port}", env=str(CHORES)))
    assert not mark.exists()


async def test_without_a_run_there_is_an_error_after_the_wait():
    with pytest.raises(ConfigError, match=r"no run listens at 127\.0\.0\.1:\d+"):
        await join_run(JoinOptions(at=f"127.0.0.1:{free_port()}"))


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_worker_tries_again_while_whoever_listens_closes_before_the_challenge(tmp_path, monkeypatch, encrypted):
    monkeypatch.setattr(join, "_RETRY_S", 0.01)
    authority = certificate_of(tmp_path, "127.0.0.1") if encrypted else None
    num_closed = 0

    async def close(stream) -> None:
        nonlocal num_closed
        num_closed += 1
        await stream.aclose()

    async with pretending(close) as port:
        for wait_s in (0.0, 0.5):
            num_closed = 0
            with pytest.raises(ConfigError, match=f"no run listens at 127.0.0.1:{port}: whoever does closed its connection"):
                await join_run(JoinOptions(at=f"127.0.0.1:{port}", authority=authority, wait_s=wait_s))
            assert (num_closed > 1) is (wait_s > 0)


# -- The command -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def commanded(port: int, *more: object, cwd: Path, **variables: str):
    """`sandlot worker` as a person starts it."""
    command = joining(port, *more)
    async with await anyio.open_process(command, cwd=cwd, env=environ(SANDLOT_WORKER_TOKEN=TOKEN, **variables)) as process:
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()


async def output_of(process) -> tuple[int, str, str]:
    out, err = [], []

    async def read(stream, into) -> None:
        async for chunk in stream:
            into.append(chunk)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(read, process.stdout, out)
            group.start_soon(read, process.stderr, err)
        return await process.wait(), b"".join(out).decode(), b"".join(err).decode()


async def test_a_worker_with_other_files_refuses_and_names_them(tmp_path):
    home, away = tmp_path / "home", tmp_path / "away"
    for folder in (home, away):
        folder.mkdir()
        (folder / "chores.py").write_text(CHORES.read_text())
    (away / "chores.py").write_text(CHORES.read_text().replace("this chore", "that chore"))
    async with listening(tmp_path) as (pool, port):
        differs = r"differs from the one that the run began with \(`chores.py` differs\); use the same files everywhere"
        with pytest.raises(ConfigError, match=differs):
            await join_run(JoinOptions(at=f"127.0.0.1:{port}", env=str(away / "chores.py")))
        async with commanded(port, home / "chores.py", cwd=home):
            await until(lambda: pool.load.num_workers == 1)
            trace = await pool.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing)
            assert trace.reward == 1.0, "the same files at another path are the same environment"


async def test_a_worker_that_makes_other_tasks_refuses(tmp_path, monkeypatch):
    """The files are the same, and what they do is not: here because of a variable."""
    file = tmp_path / "chores.py"
    file.write_text(CHORES.read_text().replace("rng.randrange(1000)", "int(os.environ.get('MARKS_TOO') or rng.randrange(1000))"))
    config = config_of()
    plan = plan_of(tmp_path, msgspec.structs.replace(config, env=str(file)), env=load(file))
    port = free_port()
    async with open_workers(str(port), plan):
        monkeypatch.setenv("MARKS_TOO", "3")
        with pytest.raises(ConfigError, match="makes other tasks here than where the run began"):
            await join_run(JoinOptions(at=f"127.0.0.1:{port}"))


async def test_a_worker_that_is_too_slow_to_open_is_told_so_and_not_that_the_run_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_START_S", 0.0)
    async with listening(tmp_path) as (_, port), commanded(port, cwd=tmp_path) as process:
        code, out, err = await output_of(process)
    assert (code, out) == (2, "")
    assert "goes on without this worker: a worker was not ready after 0 s" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_that_is_asked_to_leave_finishes_what_it_can_and_returns_the_rest(tmp_path, monkeypatch, number):
    results = {}

    async def take(task) -> None:
        results[task.id] = await pool.run(task, 0, run="r", blobs=MemoryBlobs(), sink=nothing)

    async with (
        listening(tmp_path) as (pool, port),
        commanded(port, "--grace-s", 3, "--json", cwd=tmp_path, MARKS=str(tmp_path)) as process,
    ):
        await until(lambda: pool.load.num_workers == 1)
        async with anyio.create_task_group() as group:
            group.start_soon(take, chores("endless")[0])
            group.start_soon(take, chores("long")[0])
            await until(lambda: list(tmp_path.glob("began-*")))
            process.send_signal(number)
        code, out, _ = await output_of(process)
    assert results["long-0"].reward == 1.0
    assert results["endless-0"].returned
    assert len(list(tmp_path.glob("closed-*"))) == 1, "its world is closed"
    assert code == 0
    assert msgspec.json.decode(out) == {"how": "left", "reason": "left the run, as asked", "rollouts": 1}


async def test_a_worker_that_hangs_loses_its_rollout_and_finds_out_when_it_wakes(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "SILENCE_S", 8.0)  # the worker's own beats come every 5 s
    monkeypatch.setattr(connections, "_LAST_LOOK_S", 0.1)
    results = []

    async def take() -> None:
        results.append(await pool.run(chores("endless")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing))

    async with listening(tmp_path) as (pool, port), commanded(port, cwd=tmp_path, MARKS=str(tmp_path)) as process:
        await until(lambda: pool.load.num_workers == 1)
        async with anyio.create_task_group() as group:
            group.start_soon(take)
            await until(lambda: list(tmp_path.glob("began-*")))
            process.send_signal(signal.SIGSTOP)
        assert "was silent for 8 s" in results[0].reason
        assert not list(tmp_path.glob("closed-*"))
        process.send_signal(signal.SIGCONT)
        code, _, _ = await output_of(process)
    assert code == 3
    assert len(list(tmp_path.glob("closed-*"))) == 1


async def test_a_worker_whose_run_is_gone_closes_its_worlds_and_says_so(tmp_path):
    port = free_port()
    words = ["run", CHORES, "--model", "scripted:golden", "--task", "endless-0", "--on", f"workers:{port}"]
    command = [sys.executable, "-m", "sandlot", *map(str, words)]
    variables = environ(SANDLOT_WORKER_TOKEN=TOKEN)
    async with (
        await anyio.open_process(command, cwd=tmp_path, env=variables) as run,
        commanded(port, "--wait-s", 60, cwd=tmp_path, MARKS=str(tmp_path)) as process,
    ):
        await until(lambda: list(tmp_path.glob("began-*")))
        run.kill()
        code, out, _ = await output_of(process)
    assert code == 3
    assert "closed its connection; what was not finished is taken again elsewhere; 0 rollouts finished" in out
    assert len(list(tmp_path.glob("closed-*"))) == 1


def test_the_command_needs_a_run_and_a_token(sandlot, tmp_path):
    said = refused(sandlot("worker", "--join", f"127.0.0.1:{free_port()}", cwd=tmp_path))
    assert "no run listens at" in said
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = refused(
            sandlot("worker", "--join", f"127.0.0.1:{server.getsockname()[1]}", cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path))
        )
    assert "has no token" in said


# -- TLS ---------------------------------------------------------------------------------------------------------------


async def test_with_a_certificate_all_is_encrypted_and_only_a_trusted_run_is_joined(tmp_path, monkeypatch):
    mine, other = certificate_of(tmp_path, "127.0.0.1"), certificate_of(tmp_path, "other.example")
    monkeypatch.setenv("SANDLOT_WORKER_CERTIFICATE", str(mine))
    monkeypatch.setattr(join, "JOIN_S", 2.0)
    async with listening(tmp_path) as (pool, port):
        async with await anyio.connect_tcp("127.0.0.1", port) as stranger:
            await stranger.send(b"no TLS at all " * 100)
            await until_closed(stranger)
        async with commanded(port, "--ca", mine, cwd=tmp_path):
            await until(lambda: pool.load.num_workers == 1)
            trace = await pool.run(chores("short")[0], 0, run="r", blobs=MemoryBlobs(), sink=nothing)
            assert trace.reward == 1.0
        for authority, said in ((other, "is not accepted"), (None, "if the run uses TLS, name its certificate")):
            with pytest.raises(ConfigError, match=said):
                await join_run(JoinOptions(at=f"127.0.0.1:{port}", authority=authority))


async def test_a_wrong_byte_costs_the_worker_its_place_and_the_run_nothing(tmp_path, monkeypatch):
    certificate = certificate_of(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SANDLOT_WORKER_CERTIFICATE", str(certificate))
    results = []

    async def take() -> None:
        results.append(await pool.run(chores("short")[0], 7, run="r", blobs=MemoryBlobs(), sink=nothing))

    async with listening(tmp_path) as (pool, port):
        below = await anyio.connect_tcp("127.0.0.1", port)
        context = worker_context(certificate)
        stream = await TLSStream.wrap(below, hostname="127.0.0.1", ssl_context=context, standard_compatible=False)
        async with open_connection(stream, beats=False) as connection:
            worker = Client(connection)
            await worker.be_ready()
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    group.start_soon(take)
                    assert isinstance(await worker.hear(), TakeRollout)
                    await below.send(b"\x17\x03\x03\x00\x20" + bytes(32))  # a record that nobody has sealed
        assert isinstance(results[0], WorkerLost)
        assert pool.load.num_workers == 0


async def test_a_certificate_that_is_none_is_refused(tmp_path, monkeypatch):
    (tmp_path / "x.pem").write_text("no certificate")
    monkeypatch.setenv("SANDLOT_WORKER_CERTIFICATE", str(tmp_path / "x.pem"))
    with pytest.raises(ConfigError, match="is not a PEM file with a certificate and its key"):
        async with open_workers("0", plan_of(tmp_path)):
            pass
    with pytest.raises(ConfigError, match="is not a PEM file with a certificate"):
        await join_run(JoinOptions(at="127.0.0.1:1", authority=tmp_path / "x.pem"))


async def test_connections_to_the_model_follow_the_share_of_rollouts(tmp_path):
    config = config_of("openai:m@http://127.0.0.1:1/v1", at_once=8)
    whole = config.model.connections
    async with listening(tmp_path, config=config) as (_, port), client(port) as worker:
        setup = await worker.be_ready()  # it takes 2 of 8 at a time
        assert setup.config.model.connections == -(-whole // 4)
        assert os.environ["SANDLOT_WORKER_TOKEN"] not in repr(setup)
