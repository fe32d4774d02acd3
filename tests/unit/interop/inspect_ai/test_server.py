"""What the process that runs Inspect's samples may send: it holds foreign code."""

import json
import os
import socket
import subprocess
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest

from sandlot.core.errors import AuthorError
from sandlot.core.trace import ToolCall, ToolResult
from sandlot.core.types import Role
from sandlot.interop.inspect_ai import server
from sandlot.interop.inspect_ai.server import InspectJob, InspectMessage, question_of
from sandlot.interop.inspect_ai.world import _JOBS, PlayedSample, conversation_of, end_sample

MESSAGE = {"role": "user", "text": "Hello."}
QUESTION = {"messages": [MESSAGE], "tools": [], "role": "user"}


@pytest.fixture
def opened(tmp_path):
    """A job with a process that says these lines, one for each that it reads."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    listener.listen(1)
    listener.settimeout(20)
    runner = subprocess.Popen(["sleep", "60"])  # the process that is killed when the job is closed
    jobs = []

    processes = set()

    def start(*lines, pid=runner.pid, before=None):
        own = {"pid": pid}

        def serve():
            connection, _ = listener.accept()
            with suppress(OSError), connection, connection.makefile("rwb") as stream:
                stream.write(json.dumps(own).encode() + b"\n")
                stream.flush()
                for number, line in enumerate(lines):
                    if not stream.readline():
                        return
                    if number in (before or {}):
                        before[number]()
                    stream.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
                    stream.flush()
                stream.readline()

        threading.Thread(target=serve, daemon=True).start()
        job = InspectJob(str(tmp_path / "socket"), {"job": "play"}, os.getsid(0), processes)
        jobs.append(job)
        return job

    yield start
    for job in jobs:
        job.close()
    listener.close()
    runner.kill()
    runner.wait()


def test_a_question_to_a_role_is_read(opened):
    job = opened(QUESTION, {"done": True})
    assert (question_of(job.seen).role, job.done) == ("user", False)
    job.ask({"text": "Hi.", "calls": []})
    assert job.done


@pytest.mark.parametrize("pid", [-1, 0, 1, True, "7", None, 2**40, [], os.getsid(0)])
def test_a_process_that_the_server_did_not_start_is_never_killed(opened, pid, monkeypatch):
    killed = []
    monkeypatch.setattr(server.signal, "pidfd_send_signal", lambda *given: killed.append(given))
    with pytest.raises(AuthorError, match="no process of the server"):
        opened(pid=pid)
    assert killed == []


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"[]\n",
        b"not json\n",
        b"[" * 100_000 + b"\n",
        QUESTION | {"messages": "all"},
        QUESTION | {"messages": [{"role": "root", "text": "x"}]},
        QUESTION | {"messages": [{"role": "user", "text": 7}]},
        QUESTION | {"messages": [MESSAGE | {"calls": [{"id": "1", "name": "x", "arguments": "rm"}]}]},
        QUESTION | {"messages": [MESSAGE] * 50_001},
        QUESTION | {"tools": [{"name": "x"}]},
        QUESTION | {"tools": [{"name": "x", "description": "", "parameters": {}}] * 1_001},
        QUESTION | {"role": "x" * 101},
        QUESTION | {"role": "a\nb"},
        QUESTION | {"role": ["user"]},
    ],
)
def test_what_is_no_question_fails_on_the_environments_side(opened, line):
    with pytest.raises(AuthorError, match="Inspect"):
        opened(line)


def test_a_line_has_a_maximum_length(opened, monkeypatch):
    monkeypatch.setattr(server, "_MAX_LINE_BYTES", 1_000)
    with pytest.raises(AuthorError, match="more than 1,000 bytes"):
        opened(QUESTION | {"messages": [MESSAGE | {"text": "x" * 2_000}]})


def test_a_score_that_is_no_number_is_read(opened):
    assert opened(b'{"done": true, "scores": {"judge": {"value": NaN}}}\n').done


def test_a_process_of_another_job_is_never_killed(opened):
    first = opened(QUESTION, {"done": True})
    with pytest.raises(AuthorError, match="no process of the server"):
        opened()
    assert first.ask({"text": "Hi.", "calls": []})["done"]


def test_who_asks_next_waits_for_an_answer_under_way(opened):
    """A thread is left behind when the time of a tool is up; what it reads is what is asked now."""
    asked, go_on = threading.Event(), threading.Event()
    held = {1: lambda: (asked.set(), go_on.wait(20))}
    job = opened(QUESTION, {"messages": [MESSAGE], "tools": []}, {"done": True}, before=held)
    left_behind = threading.Thread(target=job.ask, args=({"text": "I am the customer.", "calls": []},))
    left_behind.start()
    assert asked.wait(20)
    assert "role" in job.seen
    threading.Timer(0.05, go_on.set).start()
    job.settle()
    assert "role" not in job.seen
    assert job.ask({"stop": True})["done"]
    left_behind.join()


def test_a_failure_that_nobody_heard_of_is_told_later(opened):
    job = opened(QUESTION, b"[]\n")
    with pytest.raises(AuthorError):
        job.ask({"text": "Hi.", "calls": []})
    with pytest.raises(AuthorError, match="in an earlier call"):
        job.settle()


def test_closing_wakes_a_thread_that_was_left_behind(opened):
    asked, go_on = threading.Event(), threading.Event()
    job = opened(QUESTION, {"done": True}, before={1: lambda: (asked.set(), go_on.wait(20))})
    failures = []

    def ask():
        try:
            job.ask({"text": "Hi.", "calls": []})
        except AuthorError as error:
            failures.append(error)

    left_behind = threading.Thread(target=ask)
    left_behind.start()
    assert asked.wait(20)
    job.close()
    left_behind.join()
    go_on.set()
    assert len(failures) == 1


def test_a_line_that_comes_byte_by_byte_has_the_time_of_one_answer(opened, monkeypatch):
    monkeypatch.setattr(server, "ANSWER_S", 0.2)
    ours, theirs = socket.socketpair()
    job = InspectJob.__new__(InspectJob)
    job._socket, job._received = ours, b""
    stop = threading.Event()

    def drip():
        while not stop.wait(0.01):
            theirs.send(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    with pytest.raises(AuthorError, match="did not answer within"):
        job._answer()
    stop.set()
    dripping.join()
    ours.close()
    theirs.close()


def test_a_conversation_of_a_role_is_ours_with_calls_and_results():
    told = conversation_of(
        [
            InspectMessage(Role.SYSTEM, "You are Ada."),
            InspectMessage(Role.USER, "Restart it."),
            InspectMessage(Role.ASSISTANT, "", calls=[server.InspectCall("a", "restart", {"hard": True})]),
            InspectMessage(Role.TOOL, "ok", call="a"),
            InspectMessage(Role.TOOL, "", call="b", error="no such tool"),
            InspectMessage(Role.USER, "half a pair: \ud800"),
        ]
    )
    assert [message.role for message in told] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]
    assert told[2].parts == (ToolCall("a", "restart", {"hard": True}),)
    assert told[3].results == (ToolResult("a", "ok"), ToolResult("b", "no such tool", error=True))
    assert told[4].text.encode()


async def test_a_sample_that_a_limit_ended_is_scored_by_inspect(opened, monkeypatch):
    job = opened(
        {"messages": [MESSAGE], "tools": []},
        {"done": True, "roles": [], "error": None, "scores": {"exact": {"value": 1}}, "scoring": False},
    )
    world = SimpleNamespace(state={"job": "limited"}, roles=None)
    monkeypatch.setitem(_JOBS, "limited", PlayedSample(job, world))
    await end_sample(world)
    assert job.done
    assert world.state == {"scores": {"exact": {"value": 1}}, "failed": None}
    await end_sample(world)
